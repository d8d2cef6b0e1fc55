"""A panel's row is the row of the map that the model made, whatever the model."""

from dataclasses import replace

import pytest
import torch
from drawn_figures import look_of, picture, view_of, with_tower
from families import family_of
from torch.testing import assert_close

from models import LoadedModel, Normalizer, StudioError, attention_maps, statistics
from models.contributions import value_weighted
from studio.recipe import Panel, View
from studio.render.numbers import numbers_of
from studio.render.readings import Spoken, readings_of


def test_rows_are_those_of_the_maps(clip: LoadedModel, diffclip: LoadedModel) -> None:
    looks = {"a": look_of(clip, picture()), "b": look_of(diffclip, picture())}
    kinds = ("weights", "a1", "subtracted", "positive", "negative", "value")
    for query, token in ((None, 0), ((2, 1, "b"), 1 + 2 * 4 + 1)):
        for direction in ("reads", "read by"):
            settings = {"query": query, "direction": direction, "alpha": 1.5}
            readings = [readings_of(view_of(("b", kind), ("a", "weights"), **settings), looks, {}) for kind in kinds]
            projections = looks["b"].recording[1]
            maps = attention_maps(projections, normalizer=Normalizer(1.5))
            assert maps.subtracted is not None
            a1, second = maps.a1[0].mean(0), maps.subtracted[0].mean(0)
            weighted = value_weighted(projections, maps.weights)[0].mean(0)
            wanted = (a1 - second, a1, second, (a1 - second).clamp(min=0), (second - a1).clamp(min=0), weighted)
            for (reading, other), full in zip(readings, wanted, strict=True):
                assert_close(reading.row, full[token] if direction == "reads" else full[:, token])
                assert_close(reading.patches.flatten(), reading.row[1:])
                assert reading.message == ""
                mine = attention_maps(looks["a"].recording[1], normalizer=Normalizer(1.5)).a1[0].mean(0)
                assert_close(other.row, mine[token] if direction == "reads" else mine[:, token])
    assert readings[0][0].signed
    assert not readings[0][1].signed


def test_one_head_and_another_source_are_read(diffclip: LoadedModel) -> None:
    looks = {"b": look_of(diffclip, picture())}
    view = View((Panel("b", "weights", 1),), 2, source="qq+kk")
    reading = readings_of(view, looks, {})[0]
    assert_close(reading.row, attention_maps(looks["b"].recording[2], ("qq", "kk")).weights[0, 1, 0])


def test_numbers_that_suggest_cleaning_have_their_control(diffclip: LoadedModel) -> None:
    looks = {"b": look_of(diffclip, picture(), objects=True)}
    reading = readings_of(view_of(("b", "weights")), looks, {})[0]
    numbers = {number.measure: number for number in numbers_of(reading)}
    maps = attention_maps(looks["b"].recording[1])
    assert maps.subtracted is not None
    a1, second = maps.a1[0].mean(0), maps.subtracted[0].mean(0)
    shuffles = [rows[0] for rows in statistics.shuffled_differences(a1, second, 1)]
    expected = torch.stack([statistics.negative_mass(row) for row in shuffles]).mean()
    assert numbers["negative"].control == pytest.approx(float(expected), rel=1e-5)
    assert numbers["negative"].value == pytest.approx(float(statistics.negative_mass(reading.row)))
    assert all(numbers[name].controlled for name in ("inside", "auroc", "entropy"))
    plain = readings_of(view_of(("b", "a1")), looks, {})[0]
    assert not any(number.controlled for number in numbers_of(plain))


def test_a_query_outside_of_what_a_model_saw_is_said_and_not_guessed(clip: LoadedModel, diffclip: LoadedModel) -> None:
    image = picture(40, 120)
    squashed = replace(clip, preprocess_settings=replace(clip.preprocess_settings, mode="squash"))
    looks = {"a": look_of(squashed, image), "b": look_of(diffclip, image)}
    readings = readings_of(view_of(("a", "weights"), ("b", "a1"), query=(0, 0, "a")), looks, {})
    assert readings[0].message == ""
    assert "outside of what this model saw" in readings[1].message
    inner = readings_of(view_of(("a", "weights"), ("b", "a1"), query=(1, 1, "a")), looks, {})
    assert inner[1].patch == (1, 0)


def test_relevance_is_what_was_worked_out_or_a_sentence(clip: LoadedModel) -> None:
    looks = {"a": look_of(clip, picture())}
    known = torch.rand(16, generator=torch.Generator().manual_seed(0))
    reading = readings_of(view_of(("a", "relevance"), text="a cat"), looks, {"a": Spoken(known)})[0]
    assert_close(reading.patches.flatten(), known)
    assert reading.full.numel() == 0
    assert readings_of(view_of(("a", "relevance")), looks, {})[0].message


def test_relevance_has_its_control_where_it_was_asked_for(diffclip: LoadedModel) -> None:
    looks = {"a": look_of(diffclip, picture(), objects=True)}
    spoken = Spoken(torch.rand(16, generator=torch.Generator().manual_seed(0)), {"inside": 0.25, "similarity": 0.1})
    view = View((Panel("a", "relevance", control=True), Panel("a", "relevance")), layer=1, text="a cat")
    asked, plain = readings_of(view, looks, {"a": spoken})
    assert asked.control == {"inside": 0.25}, "what is no number of the panel is left out"
    assert plain.control == {}
    assert asked.measures == plain.measures
    (number,) = [number for number in numbers_of(asked) if number.measure == "inside"]
    assert number.control_written == "25 %"


def test_the_cosine_of_relevance_stands_first_with_its_control_as_on_the_page(diffclip: LoadedModel) -> None:
    looks = {"a": look_of(diffclip, picture(), objects=True)}
    spoken = Spoken(torch.rand(16, generator=torch.Generator().manual_seed(0)), {"similarity": -0.104}, 0.216)
    view = View((Panel("a", "relevance", control=True), Panel("a", "relevance")), layer=1, text="a cat")
    asked, plain = readings_of(view, looks, {"a": spoken})
    first = numbers_of(asked)[0]
    assert (first.measure, first.label, first.written, first.control_written) == (
        "similarity",
        "cosine",
        "0.22",
        "−0.10",
    )
    assert first.value == 0.216
    assert not numbers_of(plain)[0].controlled


def test_what_a_model_does_not_have_is_refused(clip: LoadedModel, diffclip: LoadedModel) -> None:
    looks = {"a": look_of(clip, picture()), "b": look_of(diffclip, picture())}
    for kind in ("a1", "subtracted", "positive", "negative"):
        with pytest.raises(StudioError, match="subtracts nothing"):
            readings_of(view_of(("a", kind)), looks, {})
    with pytest.raises(StudioError, match="Head 2 does not exist"):
        readings_of(View((Panel("b", "weights", 2),), 0), looks, {})
    assert "choose 0-2" in readings_of(view_of(("b", "weights"), layer=3), looks, {})[0].message
    assert "'vv' is undefined" in readings_of(view_of(("b", "weights"), source="vv"), looks, {})[0].message


@pytest.mark.parametrize(
    ("name", "layer", "query"),
    [
        ("timm SigLIP", 1, "the mean of all patches"),
        ("timm SigLIP", 2, "the pooling query"),
        ("timm pooling of patches alone", 2, "the pooling query"),
        ("timm ViT with registers", 1, "CLS"),
        ("ours, DIFF V2", 1, "CLS"),
        ("timm ViT, differential", 1, "CLS"),
        ("open_clip CoCa pooling head", 1, "CLS"),
    ],
)
def test_towers_of_other_kinds_are_read(clip: LoadedModel, name: str, layer: int, query: str) -> None:
    look = with_tower(clip, family_of(name), picture())
    reading = readings_of(view_of(("x", "weights"), layer=layer), {"x": look}, {})[0]
    assert reading.message == ""
    assert reading.query == query
    assert reading.patches.shape == (4, 4)
    lam = look.recording[layer].lam
    if lam is None:
        assert_close(float(reading.row.sum()), 1.0, rtol=1e-4, atol=1e-4)
    else:
        assert reading.signed
