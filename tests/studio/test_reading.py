"""Maps and numbers as the browser asks for them: right, beside their control, and never by running a model."""

import gc
import math
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from models import AttentionMaps, attention_maps, localisation, statistics
from models.contributions import key_contributions
from models.projections import Projections
from studio import reading, value_control
from studio.asked import Readout, rows_asked
from studio.examples import Example
from studio.measures import SHUFFLES, shuffled_measures
from studio.panels import SOURCES
from studio.reading import MapReader, ReadLayer, layer_server, numbers_server, row_values
from studio.service import Service
from studio.upload import Upload

LEFT, RIGHT = "clip-scenes", "diffclip-scenes"


@pytest.fixture
def reader(service: Service, scene: Upload) -> MapReader:
    for name in service.names:
        service.look(name, scene.image)
    return MapReader(service)


def layer_request(scene: Upload, model: str, **changed: Any) -> dict[str, Any]:
    asked = {"token": scene.token, "model": model, "layer": 1, "alpha": 1, "source": "qk"}
    return asked | {"kinds": ["weights"], "heads": ["mean"]} | changed


def numbers_request(scene: Upload, *panels: tuple[str, str, str | int, int | None], **changed: Any) -> dict[str, Any]:
    rows = [{"model": model, "kind": kind, "head": head, "query": query} for model, kind, head, query in panels]
    asked = {"token": scene.token, "layer": 1, "alpha": 1, "source": "qk", "direction": "reads", "panels": rows}
    return asked | changed


def read(reader: MapReader, scene: Upload, model: str) -> ReadLayer:
    layer = reader.layer(Readout(model, scene.token, 1))
    assert layer is not None
    return layer


def test_numbers_are_statistics_of_the_row_that_is_shown(reader: MapReader, scene: Upload) -> None:
    asked = numbers_request(scene, (LEFT, "weights", 2, 5), (RIGHT, "weights", "mean", None))
    left, right = numbers_server(reader)(asked)["panels"]
    row = read(reader, scene, LEFT).maps.a1[0, 2, 5]
    assert left["measures"]["entropy"] == pytest.approx(float(statistics.entropy(row)), rel=1e-5)
    assert left["measures"]["cls"] == pytest.approx(float(row[0]), rel=1e-5)
    assert left["control"] == {}
    layer = read(reader, scene, RIGHT)
    difference = layer.maps.weights[0].mean(0)[0]
    assert right["measures"]["negative"] == pytest.approx(float(statistics.negative_mass(difference)), rel=1e-4)
    objects = layer.look.objects
    assert objects is not None
    inside = localisation.mass_inside(statistics.positive_part(difference)[1:], objects.inside)
    assert right["measures"]["inside"] == pytest.approx(float(inside), rel=1e-4)


def test_the_control_of_a_row_is_that_of_the_whole_map(reader: MapReader, scene: Upload) -> None:
    layer = read(reader, scene, RIGHT)
    assert layer.maps.subtracted is not None
    whole = shuffled_measures(layer.maps.a1[0], layer.maps.subtracted[0], 1, layer.look.objects, SHUFFLES)
    (answer,) = numbers_server(reader)(numbers_request(scene, (RIGHT, "weights", 1, 7)))["panels"]
    for name in ("negative", "entropy", "inside", "auroc"):
        assert answer["control"][name] == pytest.approx(float(whole[name][1, 7]), rel=1e-4)
    assert "sum" not in answer["control"]


def test_the_column_has_numbers_and_a_control_of_its_own(reader: MapReader, scene: Upload) -> None:
    asked = numbers_request(scene, (RIGHT, "weights", 0, 3), direction="read by")
    (answer,) = numbers_server(reader)(asked)["panels"]
    layer = read(reader, scene, RIGHT)
    column = layer.maps.weights[0, 0, :, 3]
    assert answer["measures"]["sum"] == pytest.approx(float(column.sum()), rel=1e-4)
    orders = [layer.maps.subtracted[0, 0][:, order] for order in _orders(layer)]  # type: ignore[index]
    shuffled = torch.stack([layer.maps.a1[0, 0, :, 3] - order[:, 3] for order in orders])
    expected = float(statistics.negative_mass(shuffled).mean())
    assert answer["control"]["negative"] == pytest.approx(expected, rel=1e-4)


def test_the_control_of_who_reads_cls_permutes_the_readers_since_its_column_would_stay(
    reader: MapReader, scene: Upload
) -> None:
    (answer,) = numbers_server(reader)(numbers_request(scene, (RIGHT, "weights", 0, None), direction="read by"))[
        "panels"
    ]
    layer = read(reader, scene, RIGHT)
    subtracted = layer.maps.subtracted[0, 0, :, 0]  # type: ignore[index]
    shuffled = layer.maps.a1[0, 0, :, 0] - subtracted[_orders(layer)]
    expected = float(statistics.entropy(statistics.positive_part(shuffled)).mean())
    assert answer["control"]["entropy"] == pytest.approx(expected, rel=1e-4)
    assert answer["control"]["entropy"] != pytest.approx(answer["measures"]["entropy"], rel=1e-6)


@pytest.mark.parametrize(
    ("head", "query", "direction"),
    [(1, 7, "reads"), ("mean", None, "reads"), (0, 3, "read by"), (0, None, "read by")],
)
def test_the_control_of_a_value_weighted_panel_weighs_the_shuffled_map_anew(
    reader: MapReader, scene: Upload, head: int | str, query: int | None, direction: str
) -> None:
    layer = read(reader, scene, RIGHT)
    assert layer.maps.subtracted is not None
    assert layer.look.objects is not None
    (answer,) = numbers_server(reader)(numbers_request(scene, (RIGHT, "value", head, query), direction=direction))[
        "panels"
    ]
    rows = []
    for order in _orders(layer):
        readers = direction == "read by" and query is None
        moved = layer.maps.subtracted[:, :, order] if readers else layer.maps.subtracted[..., order]
        parts = _sizes(layer.projections, layer.maps.a1 - moved)
        whole = parts.mean(0) if head == "mean" else parts[int(head)]
        rows.append(whole[query or 0] if direction == "reads" else whole[:, query or 0])
    expected = {
        "sum": statistics.row_sum(torch.stack(rows)),
        "entropy": statistics.entropy(torch.stack(rows)),
        "inside": localisation.mass_inside(torch.stack(rows)[:, 1:], layer.look.objects.inside),
    }
    for name, values in expected.items():
        assert answer["control"][name] == pytest.approx(float(values.mean()), rel=1e-4), name
        assert answer["control"][name] != pytest.approx(answer["measures"][name], rel=1e-4), name
    assert set(answer["control"]) == set(answer["measures"])


def _sizes(projections: Projections, weights: torch.Tensor) -> torch.Tensor:
    """The size (H, Nq, Nk) of what every key puts into every query, vector by vector."""
    queries = range(weights.shape[-2])
    return torch.stack([key_contributions(projections, weights, at)[0][0].norm(dim=-1) for at in queries], 1)


def test_a_value_weighted_panel_of_a_single_map_has_no_control(reader: MapReader, scene: Upload) -> None:
    (answer,) = numbers_server(reader)(numbers_request(scene, (LEFT, "value", "mean", None)))["panels"]
    assert answer["control"] == {}
    assert answer["measures"]


def test_shuffles_of_many_tokens_are_worked_out_in_parts(
    reader: MapReader, scene: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = numbers_request(scene, (RIGHT, "value", "mean", 2), direction="read by")
    (whole,) = numbers_server(reader)(asked)["panels"]
    monkeypatch.setattr(value_control, "_ENTRIES", 3 * 2 * 17 * 17)
    (parts,) = numbers_server(reader)(asked)["panels"]
    assert parts["control"] == pytest.approx(whole["control"], rel=1e-5)


def _orders(layer: ReadLayer) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.stack([statistics.patch_order(1, layer.grid.tokens, generator) for _ in range(SHUFFLES)])


@pytest.mark.parametrize("kind", ["weights", "a1", "subtracted", "positive", "negative", "value"])
@pytest.mark.parametrize("direction", ["reads", "read by"])
def test_every_kind_has_values_and_numbers(reader: MapReader, scene: Upload, kind: str, direction: str) -> None:
    asked = numbers_request(scene, (RIGHT, kind, "mean", 4), direction=direction)
    (answer,) = numbers_server(reader)(asked)["panels"]
    (row,) = rows_asked(asked, reader.service.knows)
    values = row_values(read(reader, scene, RIGHT), row)
    assert answer["measures"]["sum"] == pytest.approx(float(values.sum()), rel=1e-4, abs=1e-5)
    assert all(value is None or math.isfinite(value) for value in answer["measures"].values())


def test_one_wrong_panel_does_not_empty_the_others(reader: MapReader, scene: Upload) -> None:
    asked = numbers_request(scene, (LEFT, "subtracted", "mean", None), (LEFT, "weights", 99, None), (RIGHT, "a1", 0, 2))
    wrong, head, right = numbers_server(reader)(asked)["panels"]
    assert "one map" in wrong["error"]
    assert "Head 99 does not exist" in head["error"]
    assert right["measures"]


def test_a_layer_is_what_the_maps_are(reader: MapReader, scene: Upload) -> None:
    answer = layer_server(reader)(layer_request(scene, RIGHT, kinds=["positive", "a1"], heads=[0]))
    assert set(answer["maps"]) == {"weights", "a1"}, "a part is read off the map it is a part of"
    assert answer["keys"] == 17


def test_another_source_is_another_map_and_what_it_does_not_have_is_said(reader: MapReader, scene: Upload) -> None:
    get_layer = layer_server(reader)
    answers = [get_layer(layer_request(scene, LEFT, source=source)) for source in SOURCES]
    assert len({answer["maps"]["weights"]["steps"] for answer in answers}) == len(SOURCES) == 6
    for source in ("vv", "qq+kk+vv"):
        answer = get_layer(layer_request(scene, RIGHT, source=source))
        assert "'vv' is undefined for a differential head" in answer["error"]


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_with_a_plus_is_the_sum_of_its_maps(reader: MapReader, scene: Upload, source: str) -> None:
    def weights(name: str) -> torch.Tensor:
        read = reader.layer(Readout(LEFT, scene.token, 1, 1.5, name))
        assert read is not None
        return read.maps.weights

    names = source.split("+")
    torch.testing.assert_close(weights(source), sum(weights(name) for name in names))
    torch.testing.assert_close(statistics.row_sum(weights(source)), torch.full((1, 4, 17), float(len(names))))


def test_reading_never_runs_a_model(reader: MapReader, scene: Upload) -> None:
    runs: list[str] = []
    handle = reader.service.model(RIGHT).module.visual.register_forward_hook(lambda *_: runs.append("ran"))
    try:
        for layer in range(3):
            assert "maps" in layer_server(reader)(layer_request(scene, RIGHT, layer=layer, alpha=1.5))
        gone = layer_request(scene, RIGHT, token="0" * 32)
        assert layer_server(reader)(gone) == {"evicted": True}
        asked = numbers_request(scene, (RIGHT, "weights", 0, 3), token="0" * 32)
        assert numbers_server(reader)(asked)["panels"] == [{"evicted": True}]
    finally:
        handle.remove()
    assert runs == []


def test_maps_that_are_kept_stay_within_their_bytes(service: Service, scene: Upload) -> None:
    service.look(LEFT, scene.image)
    reader = MapReader(service, capacity=12_000)
    for alpha in np.linspace(1, 2, 21):
        layer_server(reader)(layer_request(scene, LEFT, alpha=float(alpha)))
        assert 0 < reader.layers.used <= 12_000


def test_a_model_that_is_let_go_takes_its_maps_along(reader: MapReader, scene: Upload) -> None:
    for name in (LEFT, RIGHT):
        layer_server(reader)(layer_request(scene, name))
    reader.service._forget(RIGHT)
    assert len(reader.layers) == 1
    assert layer_server(reader)(layer_request(scene, RIGHT)) == {"evicted": True}


def test_maps_go_with_the_look_that_they_were_read_from(
    folders: tuple[Path, Path], examples: tuple[Example, ...], scene: Upload
) -> None:
    one = Service(folders, examples).look(LEFT, scene.image).recording.nbytes
    service = Service(folders, examples, recording_bytes=int(one * 2.5 * 1.5))
    reader = MapReader(service)
    held = weakref.ref(service.look(LEFT, scene.image))
    layer_server(reader)(layer_request(scene, LEFT))
    assert len(reader.layers) == 1
    service.look(LEFT, scene.image.rotate(1))
    assert len(reader.layers) == 0
    gc.collect()
    assert held() is None, "a look that was let go is still in memory"


def test_maps_of_a_look_that_goes_while_they_are_made_are_not_kept(
    reader: MapReader, scene: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    def let_go_and_make(*given: Any) -> AttentionMaps:
        reader.service._forget(LEFT)
        return attention_maps(*given)

    monkeypatch.setattr(reading, "attention_maps", let_go_and_make)
    assert "maps" in layer_server(reader)(layer_request(scene, LEFT))
    assert len(reader.layers) == 0


def test_alpha_is_taken_in_steps_so_that_answers_are_few(reader: MapReader, scene: Upload) -> None:
    for i in range(20):
        layer_server(reader)(layer_request(scene, LEFT, alpha=1.5 + i * 1e-4))
    assert len(reader.layers) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"model": "../../etc"},
        {"model": ["clip-scenes"]},
        {"token": "x"},
        {"layer": "0"},
        {"layer": True},
        {"layer": 3},
        {"layer": -1},
        {"alpha": float("nan")},
        {"alpha": 10**400},
        {"alpha": 7},
        {"alpha": "1"},
        {"source": "qv"},
        {"source": ["qk"]},
        {"kinds": []},
        {"kinds": ["a2"]},
        {"kinds": ["weights"] * 5},
        {"kinds": ["relevance"]},
        {"heads": [-1]},
        {"heads": 0},
    ],
)
def test_a_malformed_request_is_answered_with_a_sentence(reader: MapReader, scene: Upload, changed: dict) -> None:
    answer = layer_server(reader)(layer_request(scene, LEFT) | changed)
    assert list(answer) == ["error"]
    assert answer["error"].endswith(".")


@pytest.mark.parametrize("asked", [None, [], "layer", {}, {"panels": [None], "direction": "reads"}, {"panels": []}])
def test_nonsense_is_answered_with_a_sentence(reader: MapReader, asked: object) -> None:
    for serve in (layer_server(reader), numbers_server(reader)):
        assert serve(asked)["error"].endswith(".")
