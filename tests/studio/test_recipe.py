"""A recipe says every choice, goes through JSON unchanged, and refuses what it does not know."""

import json
import math
from dataclasses import replace
from typing import get_args

import pytest

from models import StudioError
from models.preprocess import Preprocess
from studio.panels import SOURCES
from studio.recipe import Found, MapSource, Panel, Picture, Recipe, View, read_recipe, view_of_state

TOKEN = "0123456789abcdef" * 2
PREPROCESS = Preprocess((32, 48), (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))


def recipe() -> Recipe:
    view = View((Panel("a", "weights"), Panel("b", "a1", 1, own=True)), 2, (1, 3, "a"), "read by", 1.5, "qq+kk", "row")
    found = tuple(Found(name, f"Model {name} “λ”", "", "ours", "ab" * 32, PREPROCESS, (0.8, 0.7)) for name in "ab")
    return Recipe(1, Picture(TOKEN, 40, 30, "cat.png"), view, found, {"torch": "2"})


STATE = {
    "token": TOKEN,
    "panels": [{"model": "a", "kind": "weights", "head": "mean"}, {"model": "b", "kind": "a1", "head": 0}],
    "layer": 1,
    "query": None,
    "direction": "reads",
    "alpha": 1,
    "source": "qk",
    "scale": "uniform",
    "ramp": "root",
    "drawing": "patches",
    "set_aside": "prefix",
    "text": "",
    "from_layer": None,
}


def test_a_recipe_goes_through_json_unchanged() -> None:
    assert read_recipe(recipe().text()) == recipe()
    assert read_recipe(recipe().text().encode()) == recipe()


def test_a_recipe_knows_the_sources_of_the_page() -> None:
    assert get_args(MapSource) == tuple(SOURCES)


def test_the_state_of_the_page_is_a_view() -> None:
    token, view = view_of_state(STATE)
    assert token == TOKEN
    assert view == View((Panel("a", "weights"), Panel("b", "a1", 0)), 1)
    assert view.opacity == 0.75
    state = STATE | {"query": [1, 2, "a"], "text": "lone \ud800 surrogate", "from_layer": 1, "opacity": 0.4}
    _, view = view_of_state(state)
    assert view.opacity == 0.4
    assert view.query == (1, 2, "a")
    assert view.from_layer == 1
    assert view.text.encode("utf-8")


def test_the_model_of_the_query_belongs_to_the_recipe_also_where_no_panel_shows_it() -> None:
    assert replace(recipe().view, query=(0, 0, "c")).models == ("a", "b", "c")


@pytest.mark.parametrize(
    "change",
    [
        {"token": "short"},
        {"token": None},
        {"token": "Z" * 32},
        {"panels": []},
        {"panels": [STATE["panels"][0]] * 5},
        {"panels": "ab"},
        {"panels": [{"model": "a", "kind": "heat", "head": 0}]},
        {"panels": [{"model": "a", "kind": "a1", "head": -1}]},
        {"panels": [{"model": "a", "kind": "a1", "head": True}]},
        {"panels": [{"model": "a", "kind": "a1", "head": 0, "colour": "jet"}]},
        {"panels": [{"model": 3, "kind": "a1"}]},
        {"layer": -1},
        {"layer": 1.5},
        {"layer": True},
        {"query": [0, 0]},
        {"query": [-1, 0, "a"]},
        {"query": [0, 0, 1]},
        {"query": "CLS"},
        {"alpha": 0.9},
        {"alpha": math.nan},
        {"alpha": math.inf},
        {"alpha": "1"},
        {"source": "qv"},
        {"direction": "writes"},
        {"scale": "minmax"},
        {"ramp": "jet"},
        {"drawing": "blur"},
        {"set_aside": "CLS"},
        {"text": "x" * 2001},
        {"text": None},
        {"from_layer": -2},
        {"opacity": -0.1},
        {"opacity": 1.1},
        {"opacity": math.nan},
        {"opacity": "1"},
        {"unknown": 1},
    ],
    ids=str,
)
def test_what_the_page_does_not_send_is_refused_in_a_sentence(change: dict) -> None:
    with pytest.raises(StudioError) as caught:
        view_of_state(STATE | change)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("state", [None, [], "x", 3, {}])
def test_what_is_no_state_at_all_is_refused(state: object) -> None:
    with pytest.raises(StudioError):
        view_of_state(state)


def test_a_wrong_key_is_named_with_the_nearest_one() -> None:
    with pytest.raises(StudioError, match="'scael', did you mean 'scale'"):
        view_of_state(STATE | {"scael": "raw"})
    data = json.loads(recipe().text())
    data["view"]["layr"] = data["view"].pop("layer")
    with pytest.raises(StudioError, match=r"recipe\.view has no setting 'layr', did you mean 'layer'"):
        read_recipe(json.dumps(data))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("version",), 2),
        (("picture", "sha256"), "../../etc/passwd"),
        (("models",), []),
        (("packages",), {"torch": 2}),
        (("models", 0, "preprocess", "mode"), "crop"),
        (("models", 0, "lam"), "none"),
        (("models", 1, "name"), "a"),
    ],
)
def test_a_recipe_that_was_tampered_with_is_refused(path: tuple, value: object) -> None:
    data = json.loads(recipe().text())
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(StudioError):
        read_recipe(json.dumps(data))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, b"\xff\xfe"])
def test_what_is_no_recipe_is_refused(text: str | bytes) -> None:
    with pytest.raises(StudioError):
        read_recipe(text)
