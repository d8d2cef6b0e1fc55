"""Every head of every layer: the numbers are those of the models package, the control beside them, progress told."""

import inspect
import re

import pytest
import torch

from models import StudioError, statistics
from models.contributions import key_contributions
from models.heads import match_heads
from models.projections import reconstruct
from studio import overview_statistics
from studio.asked import Readout
from studio.overview import Over, described, overview_steps, rows_of
from studio.overview_statistics import STATISTICS
from studio.reading import MapReader
from studio.service import Service
from studio.upload import Upload

LEFT, RIGHT = "clip-scenes", "diffclip-scenes"


@pytest.fixture
def reader(service: Service, scene: Upload) -> MapReader:
    for name in service.names:
        service.look(name, scene.image)
    return MapReader(service)


def overview(reader: MapReader, scene: Upload, over: Over = "readout", models: tuple[str, ...] = (LEFT, RIGHT)) -> list:
    return list(overview_steps(reader, models, scene.token, over, 1.0, "qk"))


def test_progress_goes_up_to_the_end(reader: MapReader, scene: Upload) -> None:
    steps = overview(reader, scene)
    assert [step["done"] for step in steps] == [0, 1, 2, 3, 4, 5, 6, 6]
    assert {step["of"] for step in steps} == {6}
    assert [("layers" in step) for step in steps] == [False] * 7 + [True]


@pytest.mark.parametrize("over", ["readout", "all"])
def test_cells_are_statistics_of_their_head(reader: MapReader, scene: Upload, over: Over) -> None:
    layers = overview(reader, scene, over)[-1]["layers"][RIGHT]
    read = reader.layer(Readout(RIGHT, scene.token, 2))
    assert read is not None
    maps = read.maps.weights[0]
    rows = maps[1] if over == "all" else maps[1, :1]
    values = layers[2]["values"]
    assert len(values["negative"]) == 3
    assert values["negative"][2] == pytest.approx(float(statistics.negative_mass(rows).mean()), abs=1e-5)
    mean = maps.mean(0) if over == "all" else maps.mean(0)[:1]
    expected = float(statistics.entropy(statistics.positive_part(mean)).mean())
    assert values["entropy"][0] == pytest.approx(expected, abs=1e-5)


def test_what_suggests_cleaning_has_its_control_and_nothing_else_has_one(reader: MapReader, scene: Upload) -> None:
    layers = overview(reader, scene)[-1]["layers"]
    cleaning = {each.name for each in STATISTICS if each.cleaning}
    control = layers[RIGHT][0]["control"]
    assert {"negative", "inside", "auroc", "cancelled", "entropy", "support", "zeros"} <= set(control) <= cleaning
    assert control["negative"] != layers[RIGHT][0]["values"]["negative"]
    assert layers[LEFT][0]["control"] == {}


def test_support_and_zeros_of_sparse_maps_stand_beside_those_with_a2_shuffled(reader: MapReader, scene: Upload) -> None:
    layers = list(overview_steps(reader, (RIGHT,), scene.token, "all", 2.0, "qk"))[-1]["layers"][RIGHT]
    read = reader.layer(Readout(RIGHT, scene.token, 2, 2.0))
    assert read is not None
    assert read.maps.subtracted is not None
    (shuffled,) = statistics.shuffled_differences(read.maps.a1, read.maps.subtracted, read.grid.prefix, 1)
    kept = statistics.support(shuffled)[0].float().mean(-1).tolist()
    assert layers[2]["control"]["support"][1:] == pytest.approx(kept, abs=1e-5)
    assert layers[2]["control"]["zeros"][1:] == pytest.approx([1 - one / shuffled.shape[-1] for one in kept], abs=1e-5)
    assert layers[2]["control"]["support"] != layers[2]["values"]["support"]


def test_a_statistic_of_whole_maps_needs_all_rows(reader: MapReader, scene: Upload) -> None:
    one, all_rows = (overview(reader, scene, over)[-1]["layers"][LEFT][1]["values"] for over in ("readout", "all"))
    whole = {each.name for each in STATISTICS if each.whole}
    assert not whole & set(one)
    assert whole <= set(all_rows)
    assert "cosine" not in all_rows, "a model with one map has no pair"


# They make rows or controls; what `sinks` marks, `sink_share` counts.
HELPERS = ["by_mass", "positive_part", "patch_distances", "received", "sinks", "shuffled_differences", "patch_order"]


def test_the_overview_shows_every_statistic_of_rows() -> None:
    found = inspect.getmembers(statistics, inspect.isfunction)
    public = {name for name, each in found if each.__module__ == statistics.__name__ and not name.startswith("_")}
    shown = set(re.findall(r"\bstatistics\.(\w+)", inspect.getsource(overview_statistics)))
    assert public - shown - set(HELPERS) == set()
    assert len(public) > 20


def test_row_sums_are_those_of_the_maps(reader: MapReader, scene: Upload) -> None:
    layers = overview(reader, scene)[-1]["layers"]
    lam = reader.service.model(RIGHT).vision.lambdas()
    assert lam is not None
    for layer in range(3):
        assert layers[LEFT][layer]["values"]["sum"] == pytest.approx([1.0] * 5, abs=1e-5)
        assert layers[RIGHT][layer]["values"]["sum"] == pytest.approx([1 - lam[layer]] * 3, abs=1e-4)


@pytest.mark.parametrize("name", [LEFT, RIGHT])
def test_tokens_of_outlying_norm_are_counted_in_what_attention_adds(
    reader: MapReader, scene: Upload, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[torch.Tensor] = []
    real = statistics.norm_outliers
    monkeypatch.setattr(statistics, "norm_outliers", lambda norms: (seen.append(norms), real(norms, 1.0))[1])
    values = overview(reader, scene, "all", (name,))[-1]["layers"][name]
    read = reader.layer(Readout(name, scene.token, 0))
    assert read is not None
    maps = read.maps.weights
    answer = reconstruct(read.projections, maps)[0]
    norms = seen[1 if name == RIGHT else 0]  # the control is worked out first
    together, parts = norms[0], norms[1:]
    torch.testing.assert_close(together, answer.norm(dim=-1), rtol=1e-4, atol=1e-5)
    query = 5
    vectors, _ = key_contributions(read.projections, maps, query)
    torch.testing.assert_close(parts[:, query], vectors.sum(2)[0].norm(dim=-1), rtol=1e-4, atol=1e-5)
    assert values[0]["values"]["outliers"][0] == int(real(answer.norm(dim=-1), 1.0).sum()) > 0
    assert ("outliers" in values[0]["control"]) == (name == RIGHT)


def test_partners_are_those_of_match_heads(reader: MapReader, scene: Upload) -> None:
    matches = overview(reader, scene)[-1]["matches"]
    left, right = (reader.layer(Readout(name, scene.token, 0)) for name in (LEFT, RIGHT))
    assert left is not None
    assert right is not None
    expected = match_heads(left.maps.weights[0], right.maps.weights[0])
    assert matches[0]["partner"] == expected.partner.tolist()
    assert matches[0]["cosine"] == pytest.approx(expected.cosine.tolist(), abs=1e-3)
    assert overview(reader, scene, models=(LEFT,))[-1]["matches"] == []


def test_a_run_that_was_let_go_is_said(reader: MapReader) -> None:
    with pytest.raises(StudioError, match="let go"):
        list(overview_steps(reader, [LEFT], "0" * 32, "readout", 1.0, "qk"))


def test_a_source_that_one_model_lacks_leaves_the_other(reader: MapReader, scene: Upload) -> None:
    last = list(overview_steps(reader, (LEFT, RIGHT), scene.token, "readout", 1.0, "vv"))[-1]
    assert "values" in last["layers"][LEFT][0]
    assert "undefined for a differential head" in last["layers"][RIGHT][0]["error"]
    assert "no such layer" in last["matches"][0]["error"] or "partners" in last["matches"][0]["error"]


def test_only_what_exists_can_be_chosen() -> None:
    names = {each["name"] for each in described(differential=False, mask=False)}
    assert not names & {"inside", "auroc", "cosine", "cancelled"}
    assert {each["name"] for each in described(differential=True, mask=True)} == {each.name for each in STATISTICS}


def test_rows_without_cls_are_the_mean_over_patches(reader: MapReader, scene: Upload) -> None:
    read = reader.layer(Readout(LEFT, scene.token, 0))
    assert read is not None
    grid = type(read.grid)(1, 4, 4, registers=1, readout="mean")
    rows = rows_of(read.maps, read.projections, grid, None, "readout")
    torch.testing.assert_close(rows.weights[1, 0], read.maps.a1[0, 0, 1:].mean(0))
