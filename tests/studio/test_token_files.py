"""Token × token maps taken away: the towers' own numbers, as the page shows them, drawn again to the same bytes."""

import base64
import csv
import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import numpy as np
import pytest
from PIL import Image

from models import StudioError, attention_maps, record
from models.vocabulary import NoTokenizer
from studio.looked_at import choose_what_is_looked_at
from studio.redraw_tab import redraw_tab
from studio.service import Service
from studio.tab_recipe import TabRecipe, read_tab_recipe
from studio.tabs.text import text_tab
from studio.take_strip import take_strip_server
from studio.text_maps import run_or_why, token_maps
from studio.text_recipe import TextSettings, TokenStyle
from studio.token_files import CSV_COLUMNS, token_files
from studio.token_maps import NOTHING, TokenMaps

NAMES = ("clip-scenes", "diffclip-scenes")
PROMPTS = ("a photo of a cat", "<script> & a zorb")
FILES = ["figure.png", "figure.svg", "arrays.npz", "numbers.csv", "recipe.json"]


def read(service: Service, prompts: tuple[str, ...] = PROMPTS, layer: int = 1) -> tuple[TokenMaps, TextSettings]:
    maps = token_maps([run_or_why(service.model(name), prompts) for name in NAMES], prompts, layer)
    return maps, TextSettings(prompts, NAMES, layer)


def taken(service: Service, made: tuple[TokenMaps, TextSettings], **style: Any) -> dict[str, bytes]:
    """The files, as a page gets them that was given their token."""
    token = service.results.keep("token", made[0], None, made[1])
    answer = take_strip_server(service)({"token": token, **style})
    assert answer.get("name") == "text.zip", answer
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(answer["data"]))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def recipe_in(files: dict[str, bytes]) -> TabRecipe:
    return read_tab_recipe(json.loads(files["recipe.json"]))


@pytest.mark.parametrize(
    "style",
    [
        {},
        {"which": "first", "heads": [2, 1], "scale": "raw", "ramp": "linear"},
        {"which": "subtracted", "heads": [0, 99], "start": "aside"},
    ],
    ids=str,
)
def test_what_the_page_chose_is_in_the_recipe_and_draws_again_to_the_same_bytes(
    service: Service, folders: tuple[Path, Path], style: dict[str, Any]
) -> None:
    files = taken(service, read(service), **style)
    assert list(files) == FILES
    recipe = recipe_in(files)
    assert (recipe.tab, recipe.picture, recipe.settings) == ("text", None, TextSettings(PROMPTS, NAMES, 1))
    chosen = style | {"heads": tuple(style.get("heads", ()))}
    assert recipe.style == TokenStyle(**chosen)
    sources = {folder.name: str(folder) for folder in folders}
    assert redraw_tab(recipe, (), {}, sources) == files
    assert Image.open(io.BytesIO(files["figure.png"])).width == round(510 / 72 * 300)
    assert b"<script" not in files["figure.svg"]


def test_arrays_are_the_maps_of_all_heads_and_what_is_drawn(service: Service) -> None:
    files = taken(service, read(service), heads=[1, 0], scale="uniform")
    with np.load(io.BytesIO(files["arrays.npz"]), allow_pickle=False) as arrays:
        for at, name in enumerate((NAMES[0], NAMES[0], NAMES[1], NAMES[1])):
            model, n = service.model(name), len(arrays[f"panel{at}_tokens"])
            with record(model.text) as recording:
                model.encode_text(model.tokenize([PROMPTS[at % 2]]))
            maps = attention_maps(recording[1])
            assert arrays[f"panel{at}_tokens"][-1] == "<end>"
            assert int(arrays[f"panel{at}_readout"]) == n - 1
            np.testing.assert_allclose(arrays[f"panel{at}_a1"], maps.a1[0, :, :n, :n], atol=1e-6)
            assert (f"panel{at}_subtracted" in arrays) is (name == NAMES[1])
            if maps.subtracted is not None:
                np.testing.assert_allclose(arrays[f"panel{at}_subtracted"], maps.subtracted[0, :, :n, :n], atol=1e-6)
            shown = maps.weights[0, 0] if name == NAMES[0] else maps.weights[0].mean(0)
            keys = np.arange(1, n + 1)[:, None]
            expected = np.where(arrays[f"panel{at}_masked"], np.nan, shown[:n, :n].numpy() * keys)
            np.testing.assert_allclose(arrays[f"panel{at}_drawn"], expected, atol=1e-5)


def test_numbers_are_the_row_that_is_read_out_of_every_map_and_head(service: Service) -> None:
    lines = list(csv.DictReader(io.StringIO(taken(service, read(service))["numbers.csv"].decode())))
    assert tuple(lines[0]) == CSV_COLUMNS
    assert {line["map"] for line in lines if line["model"] == "CLIP, tiny"} == {"A"}
    own = [line for line in lines if line["model"] == "DiffCLIP, tiny" and line["text"] == PROMPTS[0]]
    assert list(dict.fromkeys(line["map"] for line in own)) == ["A1 − λA2", "A1", "λA2"]
    heads = ["mean", *map(str, range(service.model(NAMES[1]).text.heads))]
    assert list(dict.fromkeys(line["head"] for line in own)) == heads
    for head in heads:
        weights = {
            name: np.array([float(line["weight"]) for line in own if (line["map"], line["head"]) == (name, head)])
            for name in ("A1 − λA2", "A1", "λA2")
        }
        assert weights["A1"].sum() == pytest.approx(1, abs=1e-5)
        np.testing.assert_allclose(weights["A1"] - weights["λA2"], weights["A1 − λA2"], atol=1e-6)
    assert {(line["query_token"], line["masked"]) for line in own} == {("<end>", "0")}
    assert all(
        float(line["times_uniform"]) == pytest.approx(float(line["weight"]) * len(weights["A1"])) for line in own
    )


def test_a_model_without_a_tokenizer_keeps_its_sentence_and_one_without_any_map_is_refused(service: Service) -> None:
    maps, settings = read(service)
    one = replace(service.model(NAMES[0]), tokenizer=NoTokenizer(290, 16))
    silent = token_maps([run_or_why(one, PROMPTS)], PROMPTS, 1).rows
    files = taken(service, (replace(maps, rows=(*silent, maps.rows[1])), settings))
    assert b"no tokenizer here" in files["figure.svg"]
    recipe = recipe_in(files)
    with pytest.raises(StudioError, match="no tokenizer here"):
        token_files(replace(maps, rows=silent), recipe)
    subtracted = replace(recipe, style=TokenStyle("subtracted"))
    with pytest.raises(StudioError, match=NOTHING):
        token_files(replace(maps, rows=maps.rows[:1]), subtracted)
    assert not replace(maps, rows=silent).drawable
    with pytest.raises(StudioError, match="read a prompt first"):
        token_files(replace(maps, rows=()), recipe)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"which": "a3"}, "asked.which = 'a3' is unknown"),
        ({"heads": [-1]}, r"must hold 0, the mean"),
        ({"heads": 3}, "asked.heads = 3 must be a list"),
        ({"drawing": "smooth"}, "no setting 'drawing'"),
        ({"scale": ["raw"]}, "asked.scale"),
    ],
    ids=str,
)
def test_wrong_choices_get_a_sentence(service: Service, asked: dict[str, Any], said: str) -> None:
    maps, settings = read(service)
    token = service.results.keep("token", maps, None, settings)
    answer = take_strip_server(service)({"token": token, **asked})
    assert set(answer) == {"error"}
    assert said in answer["error"]


def test_settings_and_styles_of_other_tabs_are_refused(service: Service) -> None:
    data = json.loads(taken(service, read(service))["recipe.json"])
    for change, said in (
        ({"style": {"drawing": "smooth"}}, "style does not fit the tab 'text'"),
        ({"tab": "explain"}, "with settings of 'text'"),
        ({"settings": data["settings"] | {"layer": -1}}, "Layer -1 does not exist"),
    ):
        with pytest.raises(StudioError, match=said):
            read_tab_recipe(data | change)


def test_the_page_gets_a_name_for_what_it_shows_and_none_where_there_is_no_map(
    service: Service, examples: tuple[Any, ...]
) -> None:
    with gr.Blocks(analytics_enabled=False) as demo, gr.Tabs(), gr.Tab("Text") as tab:
        text_tab(choose_what_is_looked_at(service, examples), service, tab)
    reads = [fn.fn for fn in demo.fns.values() if fn.name == "read" and fn.fn]
    _, value = reads[0](*NAMES, "a cat\na dog", 1)
    assert value["taken"] == [0, 1]
    kept = service.results.find(value["take"])
    assert (kept.picture, kept.settings) == (None, TextSettings(("a cat", "a dog"), NAMES, 1))
    _, other = reads[0](NAMES[0], "gone", "a cat", 0)
    assert other["taken"] == [0]
    assert service.results.find(other["take"]).settings.models == NAMES[:1]
    assert len(other["rows"]) == 2, "the page still says why the other has none"
    assert reads[0]("gone", "gone", "a cat", 0)[1]["take"] == ""
