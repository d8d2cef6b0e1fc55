"""Before and after in words: every text of a person escaped, ranks and numbers those of the two runs."""

import re

import torch

from studio.changes import Change, TowerChange
from studio.intervening import Outcome, Refused, run_changed
from studio.outcome import outcome_html, probabilities, rank, ranks_table
from studio.service import Service
from studio.upload import Upload
from studio.zeroshot import parse_prompts

LAMBDA_0 = Change(TowerChange({0: 0.0, 1: 0.0, 2: 0.0}))


def outcomes(service: Service, scene: Upload, classes: str) -> tuple[list, list[Outcome]]:
    prompts = parse_prompts(classes, "")
    looks = [service.look(name, scene.image) for name in service.names]
    return prompts, [
        run_changed(looks[0], scene.image, prompts, Change()),
        run_changed(looks[1], scene.image, prompts, LAMBDA_0),
    ]


def test_cards_name_the_edits_and_say_intervention_only_where_there_is_one(service: Service, scene: Upload) -> None:
    prompts, both = outcomes(service, scene, "cat, dog")
    page = outcome_html(prompts, both)
    left, right = page.split("<section")[1:]
    assert "after is before" in left
    assert "Intervention" not in left
    assert "<b>Intervention</b> λ = 0.00 in all layers" in right
    assert f"{both[1].moved:.3f}".replace("-", "−") in right


def test_every_class_has_its_probabilities_before_and_after(service: Service, scene: Upload) -> None:
    prompts, both = outcomes(service, scene, "cat, dog, apple")
    card = outcome_html(prompts, both).split("<section")[2]
    before, after = probabilities(both[1])
    for index, prompt in enumerate(prompts):
        row = re.search(rf"<tr><th[^>]*>{prompt.label}</th>.*?</tr>", card)
        assert row is not None
        shown = re.sub(r"<[^>]*>", "", row.group(0))
        assert f"{100 * before[index]:.0f} % → {100 * after[index]:.0f} %" in shown
    assert sum(before) > 0.999


def test_both_cards_list_the_classes_in_one_order(service: Service, scene: Upload) -> None:
    prompts, both = outcomes(service, scene, ",".join("abcdefghijk"))
    page = outcome_html(prompts, both)
    orders = [re.findall(r'<th scope="row"[^>]*>(.)</th>', card) for card in page.split("<section")[1:]]
    assert orders[0] == orders[1]
    assert sorted(orders[0]) == list("abcdefghijk")
    assert "<summary>3 more classes</summary>" in page


def test_what_a_person_wrote_is_escaped(service: Service, scene: Upload) -> None:
    prompts, both = outcomes(service, scene, '<img src=x onerror="alert(1)">\n"quoted"')
    page = outcome_html(prompts, [both[0], Refused("<i>title", "<script>no")], "<u>problem")
    assert not re.search(r"<img|<script|<i>title|<u>", page)


def test_one_class_is_not_ranked(service: Service, scene: Upload) -> None:
    prompts, both = outcomes(service, scene, "cat")
    page = outcome_html(prompts, both)
    assert "One class alone cannot be ranked" in page
    assert " % →" not in page


def test_the_ranks_that_are_taken_away_are_those_of_the_cards(service: Service, scene: Upload) -> None:
    prompts, both = outcomes(service, scene, "cat, dog, apple")
    table = ranks_table(prompts, both)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [row["class"] for row in rows] == ["cat", "dog", "apple"] * 2
    for row, prompt, outcome in zip(rows, prompts * 2, [both[0]] * 3 + [both[1]] * 3, strict=True):
        at, pair = prompts.index(prompt), probabilities(outcome)
        assert (row["model"], row["title"], row["text"]) == (both.index(outcome), outcome.model.title, prompt.text)
        # One model on both sides is told apart by what was changed.
        assert row["edits"] == ("; ".join(outcome.words) or "no edit")
        assert (row["probability_before"], row["probability_after"]) == (pair[0][at], pair[1][at])
        assert row["cosine_after"] == float(outcome.after.cosine[at])
        assert row["rank_after"] == 1 + sum(chance > pair[1][at] for chance in pair[1])
        assert row["picture_before_after"] == outcome.moved
    assert rows[5]["cosine_before"] != rows[5]["cosine_after"]
    alone = ranks_table(*outcomes(service, scene, "cat")).rows
    assert [row[7:11] for row in alone] == [(None,) * 4] * 2


def test_texts_that_a_model_reads_alike_have_the_same_rank() -> None:
    cosine = torch.tensor([0.2, 0.2 + 6e-8, 0.1, 0.3, 0.2 - 6e-8])
    assert [rank(cosine, index) for index in range(5)] == [2, 2, 5, 1, 2]
    assert rank(torch.tensor([0.2, 0.2 + 1e-5]), 0) == 2


def test_without_classes_the_edits_are_told_all_the_same(service: Service, scene: Upload) -> None:
    look = service.look("diffclip-scenes", scene.image)
    outcome = run_changed(look, scene.image, [], LAMBDA_0)
    page = outcome_html([], [outcome, outcome], "The list of classes is empty: write one.")
    assert "λ = 0.00" in page
    assert "The list of classes is empty" in page
    assert "<table" not in page
