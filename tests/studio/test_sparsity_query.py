"""The query of the Sparsity tab stays on its pixels when the left model is replaced by one of another grid."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from studio.examples import Example
from studio.fields import MOST_LAYERS
from studio.looked_at import choose_what_is_looked_at
from studio.service import Service
from studio.tabs.sparsity import sparsity_tab
from studio.uploads import Upload

# 14 x 14 patches; the tiny model has 4 x 4.
FINE, COARSE = "diffclip-vision-scenes", "clip-scenes"


def bounds_of(service: Service, examples: tuple[Example, ...], name: str = "bounds") -> Callable[..., Any]:
    """What brings the tab's fields to the models that are chosen."""
    with gr.Blocks(analytics_enabled=False) as demo:
        looked_at = choose_what_is_looked_at(service, examples)
        with gr.Tab("Sparsity") as tab:
            sparsity_tab(looked_at, service, tab, examples)
    return next(fn.fn for fn in demo.fns.values() if fn.name == name and fn.fn)


@pytest.fixture
def moved(folders: tuple[Path, Path], examples: tuple[Example, ...], scene: Upload) -> Callable[..., tuple[Any, Any]]:
    """Of a query, the model that it was chosen for and the one that is chosen now: the query's field, and its model."""
    service = Service((FINE, folders[0]), examples)
    bounds = bounds_of(service, examples)

    def move(query: str, before: str, now: str, picture: Upload | None = scene) -> tuple[Any, Any]:
        *_, field, model = bounds(picture, now, COARSE, 0, query, before)
        return field, model

    return move


@pytest.mark.parametrize(
    ("query", "before", "now", "wanted"),
    [("13, 13", FINE, COARSE, "3, 3"), ("0, 7", FINE, COARSE, "0, 2"), ("(3, 0)", COARSE, FINE, "12, 1")],
)
def test_a_patch_moves_to_the_one_on_the_same_pixels(
    moved: Callable[..., tuple[Any, Any]], query: str, before: str, now: str, wanted: str
) -> None:
    assert moved(query, before, now) == (wanted, now)


@pytest.mark.parametrize(("query", "before"), [("CLS", FINE), ("", FINE), ("no patch", FINE), ("3, 3", COARSE)])
def test_what_is_no_patch_of_a_replaced_model_stays(
    moved: Callable[..., tuple[Any, Any]], query: str, before: str
) -> None:
    assert moved(query, before, COARSE) == (gr.skip(), COARSE)
    assert moved("13, 13", FINE, COARSE, picture=None) == (gr.skip(), COARSE)


def test_a_patch_that_its_model_does_not_have_becomes_cls_with_a_word(
    moved: Callable[..., tuple[Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(gr, "Info", said.append)
    assert moved("99, 0", FINE, COARSE) == ("CLS", COARSE)
    assert len(said) == 1
    assert said[0].startswith("The query is CLS again.")


def test_the_first_view_is_of_the_last_layer_that_both_models_have(
    folders: tuple[Path, Path], examples: tuple[Example, ...]
) -> None:
    service = Service((FINE, folders[0]), examples)
    bounds = bounds_of(service, examples)
    deep, flat = (service.model(name).vision.layers for name in (FINE, COARSE))
    assert deep > flat
    for names in ((FINE, COARSE), (COARSE, FINE)):
        layers = {at: bounds(None, *names, at, "CLS", names[0])[0] for at in (64, deep - 1, 0)}
        assert {at: slider.value for at, slider in layers.items()} == {64: flat - 1, deep - 1: deep - 1, 0: 0}
        assert {slider.maximum for slider in layers.values()} == {deep - 1}


def test_a_tab_that_was_not_opened_yet_is_not_filled_when_a_model_is_chosen(
    folders: tuple[Path, Path], examples: tuple[Example, ...]
) -> None:
    """The answer would come after what the address sets meanwhile, and take its place."""
    service = Service((FINE, folders[0]), examples)
    other_bounds = bounds_of(service, examples, "other_bounds")
    assert other_bounds(None, FINE, COARSE, MOST_LAYERS, "CLS", FINE) == (gr.skip(),) * 5
    assert other_bounds(None, FINE, COARSE, 1, "CLS", FINE)[0].value == 1
