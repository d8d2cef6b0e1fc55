"""Which map a panel shows, and which row or column of it."""

import pytest
import torch

from models import LoadedModel, StudioError
from models.layout import TokenGrid
from studio.panels import MOST, Panel, checked_panel, default_panels, kinds_of, looked_at, part_of, slot_map, with_mean

GRID = TokenGrid(1, 2, 3)
MAP = torch.arange(49.0).reshape(7, 7)


def known(name: object) -> bool:
    return name in ("one", "two")


def test_two_models_fill_the_bench_and_never_more(clip: LoadedModel, diffclip: LoadedModel) -> None:
    kinds = [(panel.model, panel.kind) for panel in default_panels(clip, diffclip)]
    assert kinds == [(clip.name, "weights"), *((diffclip.name, kind) for kind in ("a1", "subtracted", "weights"))]
    assert [panel.kind for panel in default_panels(diffclip, diffclip)] == ["a1", "weights", "a1", "weights"]
    assert len(default_panels(clip, clip)) == 2
    assert len(default_panels(diffclip, diffclip)) <= MOST


def test_a_model_with_one_map_has_no_signs_and_nothing_subtracted() -> None:
    assert set(kinds_of(False)) == {"weights", "relevance", "value"}
    assert set(kinds_of(True)) > set(kinds_of(False))


def test_the_mean_comes_first_and_heads_follow() -> None:
    heads = torch.randn(3, 4, 5)
    assert torch.equal(with_mean(heads)[0], slot_map(heads, None))
    assert torch.equal(with_mean(heads)[2], slot_map(heads, 1))
    with pytest.raises(StudioError, match="Head 3 does not exist: choose 0-2"):
        slot_map(heads, 3)


def test_positive_and_negative_part_make_the_whole() -> None:
    values = torch.randn(50)
    assert torch.equal(part_of(values, "positive") - part_of(values, "negative"), values)


def test_reads_is_the_row_and_read_by_the_column() -> None:
    assert torch.equal(looked_at(MAP, 4, "reads", GRID), MAP[4])
    assert torch.equal(looked_at(MAP, 4, "read by", GRID), MAP[:, 4])
    assert torch.equal(looked_at(MAP, None, "reads", GRID), MAP[0])
    assert torch.equal(looked_at(MAP, None, "read by", GRID), MAP[:, 0])


def test_without_cls_the_mean_over_patches_is_read_out_and_nobody_reads_it() -> None:
    registers = TokenGrid(2, 1, 5, registers=2, readout="mean")
    assert torch.equal(looked_at(MAP, None, "reads", registers), MAP[2:].mean(0))
    with pytest.raises(StudioError, match="no CLS token"):
        looked_at(MAP, None, "read by", registers)


def test_a_pooling_head_has_one_learned_query() -> None:
    pool = torch.rand(1, 6)
    assert torch.equal(looked_at(pool, 3, "reads", GRID), pool[0])
    with pytest.raises(StudioError, match="one learned query"):
        looked_at(pool, None, "read by", GRID)


@pytest.mark.parametrize("query", [-1, 7])
def test_a_token_that_does_not_exist_is_refused(query: int) -> None:
    with pytest.raises(StudioError, match="choose 0-6"):
        looked_at(MAP, query, "reads", GRID)


def test_a_panel_survives_the_browser() -> None:
    for panel in (Panel("one", "a1"), Panel("two", "value", 3), Panel("one", "weights", 0, own=True)):
        assert checked_panel(panel.plain(), known) == panel


@pytest.mark.parametrize(
    "asked",
    [
        None,
        {"model": "three", "kind": "a1", "head": "mean"},
        {"model": "one", "kind": "a2", "head": "mean"},
        {"model": "one", "kind": "a1", "head": -1},
        {"model": "one", "kind": "a1", "head": True},
        {"model": "one", "kind": ["a1"], "head": 0},
    ],
)
def test_what_is_no_panel_is_refused(asked: object) -> None:
    with pytest.raises(StudioError):
        checked_panel(asked, known)
