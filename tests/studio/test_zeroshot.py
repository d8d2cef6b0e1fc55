"""Classes and templates as people write them; bars that say what they can and cannot tell."""

import pytest

from models import StudioError
from studio.service import Service
from studio.upload import Upload
from studio.zeroshot import MAX_PROMPTS, parse_prompts, score, scores_html


@pytest.mark.parametrize(
    ("classes", "labels"),
    [
        ("cat, dog ,cat", ["cat", "dog"]),
        ("a cat, sitting\n\n a dog \n", ["a cat, sitting", "a dog"]),
        ("cat", ["cat"]),
        ("cat,,", ["cat"]),
    ],
)
def test_classes_come_by_line_or_by_comma_and_each_once(classes: str, labels: list[str]) -> None:
    assert [prompt.label for prompt in parse_prompts(classes, "")] == labels


@pytest.mark.parametrize("classes", ["", "  \n ", ",,,"])
def test_an_empty_list_gets_a_sentence(classes: str) -> None:
    with pytest.raises(StudioError, match="list of classes is empty: write at least one"):
        parse_prompts(classes, "")


@pytest.mark.parametrize("template", ["photo", "a {colour}", "{0.__class__}", "{ }"])
def test_a_template_without_a_bare_slot_is_said(template: str) -> None:
    with pytest.raises(StudioError, match=r"has no \{\} where the class goes"):
        parse_prompts("cat", template)


def test_only_the_bare_slot_is_replaced_as_plain_text() -> None:
    assert parse_prompts("{0}", "a {colour} {} {}")[0].text == "a {colour} {0} {0}"


def test_too_many_and_too_long_classes_are_refused() -> None:
    with pytest.raises(StudioError, match="at most 200"):
        parse_prompts("\n".join(map(str, range(MAX_PROMPTS + 1))), "")
    with pytest.raises(StudioError, match="longer than 2000 characters"):
        parse_prompts("x" * 3000, "")


def test_a_template_that_would_multiply_the_classes_is_refused_before_it_is_filled() -> None:
    with pytest.raises(StudioError, match="alone or in the template, is longer than 2000 characters"):
        parse_prompts("x" * 1900, "{}" * 900)


def test_lone_surrogates_are_replaced_so_that_the_page_can_be_sent() -> None:
    prompt = parse_prompts("cat \ud800", "a {} \udfff")[0]
    assert (prompt.label, prompt.text) == ("cat ?", "a cat ? ?")


def test_scores_are_the_models_cosine_and_softmax(service: Service, scene: Upload) -> None:
    look = service.look("diffclip-scenes", scene.image)
    prompts = parse_prompts("cat, dog, apple", "a photo of a {}")
    scores = score(look, prompts)
    text = look.model.encode_text(look.model.tokenize([prompt.text for prompt in prompts]), normalize=True)
    cosine = text @ look.embedding[0]
    assert scores.cosine == pytest.approx(cosine.tolist(), abs=1e-6)
    assert scores.probability == pytest.approx((look.model.logit_scale * cosine).softmax(0).tolist(), abs=1e-5)


def test_one_class_shows_no_probability_and_says_why(service: Service, scene: Upload) -> None:
    look = service.look("clip-scenes", scene.image)
    prompts = parse_prompts("cat", "")
    page = scores_html(prompts, score(look, prompts), score(look, prompts))
    assert "One class alone cannot be ranked" in page
    assert "<b>" not in page
    assert "cos " in page


def test_what_a_person_wrote_is_escaped(service: Service, scene: Upload) -> None:
    look = service.look("clip-scenes", scene.image)
    prompts = parse_prompts('<img src=x onerror="alert(1)">\n"quoted"', "{} <b>")
    page = scores_html(prompts, score(look, prompts), score(look, prompts))
    assert "<img" not in page
    assert 'title="&quot;quoted&quot;' in page


def test_unknown_words_and_cut_text_are_said(service: Service, scene: Upload) -> None:
    look = service.look("clip-scenes", scene.image)
    prompts = parse_prompts("a cat\n" + "xylophone " * 30, "")
    page = scores_html(prompts, score(look, prompts), score(look, prompts))
    assert page.count("never seen in training: xylophone") == 1
    assert "too long for 16 positions, not read: “" in page


def test_classes_beyond_the_first_eight_are_folded(service: Service, scene: Upload) -> None:
    look = service.look("clip-scenes", scene.image)
    prompts = parse_prompts(",".join("abcdefghijk"), "")
    page = scores_html(prompts, score(look, prompts), score(look, prompts))
    assert "<summary>3 more classes</summary>" in page
    assert page.count("zs-row") == 11
