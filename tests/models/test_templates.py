"""Template sets: as many as published, each with one slot for plain replacement."""

import pytest

from models.errors import StudioError
from models.templates import TEMPLATE_SETS, TemplateSet, template_set


def test_the_published_sets_have_eighty_and_seven_different_templates() -> None:
    for name, count in (("openai-80", 80), ("openai-7", 7)):
        texts = template_set(name).texts
        assert len(texts) == len(set(texts)) == count
    assert template_set("openai-7").texts[0] == "itap of a {}."
    assert "a bad photo of a {}." in template_set("openai-80").texts
    assert set(template_set("openai-7").texts) < set(template_set("openai-80").texts)


@pytest.mark.parametrize("name", sorted(TEMPLATE_SETS))
def test_every_template_holds_one_slot_and_no_other_brace(name: str) -> None:
    found = template_set(name)
    assert found.name == name
    for text in found.texts:
        assert text.count("{}") == 1
        assert not set("{}") & set(text.replace("{}", ""))


def test_a_template_that_is_written_out_is_a_set_of_one() -> None:
    assert template_set("a scan of a {}") == TemplateSet("a scan of a {}", ("a scan of a {}",))


@pytest.mark.parametrize("template", ["a {colour} {}", "{}{}", "{0.__class__}", "{"])
def test_a_template_without_exactly_one_bare_slot_is_refused(template: str) -> None:
    with pytest.raises(StudioError, match=r"one bare \{\} where the class goes"):
        template_set(template)


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    with pytest.raises(StudioError, match="'openai80' is no set of templates, did you mean 'openai-80'"):
        template_set("openai80")
    with pytest.raises(StudioError, match="is empty"):
        TemplateSet("none", ())
