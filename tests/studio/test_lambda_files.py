"""λ over training taken away: the log's own numbers, drawn as the page shows them, drawn again by the log's content."""

import base64
import csv
import io
import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import numpy as np
import pytest
from PIL import Image

from models import StudioError
from studio.__main__ import main
from studio.export import written
from studio.lambda_again import taken_runs
from studio.lambda_figure import COLUMNS, DASHES, lambda_arrays, lambda_chart, layer_colour
from studio.lambda_recipe import LambdaStyle
from studio.lambdas import LambdaRuns, Run, runs_of
from studio.looked_at import choose_what_is_looked_at
from studio.public import Policy
from studio.redraw_tab import redraw_tab
from studio.runlog import read_log
from studio.service import Service
from studio.tab_recipe import TabRecipe, read_tab_recipe
from studio.tabs.trajectories import trajectories_tab
from studio.take_strip import take_strip_server

NAMES = ["clip-scenes", "diffclip-scenes"]
FILES = ["figure.png", "figure.svg", "arrays.npz", "numbers.csv", "recipe.json"]
RIGHT = {"axis": "steps", "terms": True, "layer": 1, "hidden": []}


def taken(service: Service, runs: tuple[Run, ...], **style: Any) -> dict[str, bytes]:
    """The files, as a page gets them that was given their token."""
    _, kept, settings = taken_runs(runs)
    token = service.results.keep("token", kept, None, settings)
    answer = take_strip_server(service)({"token": token, **style})
    assert answer.get("name") == "lambda.zip", answer
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(answer["data"]))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def recipe_in(files: dict[str, bytes]) -> TabRecipe:
    return read_tab_recipe(json.loads(files["recipe.json"]))


@pytest.fixture
def sources(folders: tuple[Path, Path]) -> dict[str, str]:
    return {folder.name: str(folder) for folder in folders}


@pytest.fixture
def uploaded(tmp_path: Path) -> Path:
    """A log of another run, longer and with λ of one tower alone."""
    path = tmp_path / "mine.jsonl"
    lines = [{"step": at, "samples": 512 * at, "lambda": {"vision": [0.2, 0.2 + 0.01 * at]}} for at in range(1, 9)]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return path


@pytest.fixture
def runs(service: Service, uploaded: Path) -> tuple[Run, ...]:
    return runs_of(service, NAMES, [uploaded], [])


@pytest.mark.parametrize("style", [{}, RIGHT, {"hidden": [1]}], ids=str)
def test_what_the_page_chose_is_in_the_recipe_and_draws_again_to_the_same_bytes(
    service: Service, runs: tuple[Run, ...], uploaded: Path, sources: dict[str, str], style: dict[str, Any]
) -> None:
    files = taken(service, runs, **style)
    assert list(files) == FILES
    recipe = recipe_in(files)
    assert (recipe.tab, recipe.picture) == ("lambda", None)
    assert recipe.style == LambdaStyle(**style | {"hidden": tuple(style.get("hidden", ()))})
    assert [found.name for found in recipe.models] == NAMES
    assert redraw_tab(recipe, (), {}, sources, logs=[uploaded]) == files
    assert Image.open(io.BytesIO(files["figure.png"])).width == round(510 / 72 * 300)
    assert str(uploaded.parent).encode() not in b"".join(files.values())


def test_arrays_and_numbers_are_the_logs_own(service: Service, runs: tuple[Run, ...]) -> None:
    files = taken(service, runs, hidden=[1], terms=True)
    log = runs[1].log
    assert log is not None
    lines = list(csv.DictReader(io.StringIO(files["numbers.csv"].decode())))
    assert tuple(lines[0]) == COLUMNS
    with np.load(io.BytesIO(files["arrays.npz"]), allow_pickle=False) as arrays:
        for tower, logged in log.towers.items():
            start = f"run1_{tower}"
            np.testing.assert_array_equal(arrays[f"{start}_lambda"], np.array(logged.lam))
            np.testing.assert_array_equal(arrays[f"{start}_steps"], np.array(logged.steps))
            np.testing.assert_array_equal(arrays[f"{start}_samples"], np.array(logged.samples))
            terms = arrays[f"{start}_term_one"] - arrays[f"{start}_term_two"] + arrays[f"{start}_lambda_init"]
            np.testing.assert_allclose(terms, np.array(logged.lam), atol=1e-3)
            own = [line for line in lines if (line["run"], line["tower"]) == ("1", tower)]
            assert len(own) == len(logged.steps) * logged.layers
            values = np.array([float(line["lambda"]) for line in own]).reshape(len(logged.steps), logged.layers)
            np.testing.assert_allclose(values, np.array(logged.lam), rtol=1e-6)
            assert [line["term_one"] for line in own[:1]] == [f"{logged.terms[0][0][0]:.7g}"]  # type: ignore[index]
    mine = [line for line in lines if line["title"] == "mine.jsonl"]
    assert {(line["tower"], line["term_one"], line["lambda_init"]) for line in mine} == {("vision", "", "")}
    assert not [line for line in lines if line["title"] == "CLIP, tiny"], "standard attention has no λ"


def test_the_chart_has_a_line_for_each_layer_and_run_in_the_runs_dashes(runs: tuple[Run, ...]) -> None:
    chart = lambda_chart(LambdaRuns(runs), LambdaStyle(terms=True))
    assert [(plot.title, plot.y.label) for plot in chart.plots] == [
        (f"{tower} tower", label) for label in ("λ", "exp(λq1·λk1)", "exp(λq2·λk2)") for tower in ("vision", "text")
    ]
    vision, text = chart.plots[:2]
    assert (vision.y.span, vision.x.span) == (text.y.span, text.x.span)
    assert vision.x.span == (0, 512 * 8)
    lines = [curve for curve in vision.curves if curve.end]
    assert [(curve.end, curve.dash) for curve in lines] == [(str(at), DASHES[0]) for at in range(3)] + [
        (str(at), DASHES[1]) for at in range(2)
    ]
    assert [curve.colour for curve in lines[:3]] == [layer_colour(at, 3) for at in range(3)]
    assert lines[2].y == pytest.approx([0.82, 0.84, 0.86, 0.88, 0.9])
    assert [curve.entry for curve in vision.curves if curve.entry] == ["DiffCLIP, tiny", "mine.jsonl", "λ_init"]
    assert [mark.sign for mark in vision.marks] == ["triangle"]
    one = lambda_chart(LambdaRuns(runs), LambdaStyle("steps", layer=1, hidden=(2,)))
    assert [plot.x.label for plot in one.plots] == ["optimiser steps"] * 2
    shown = [curve for curve in one.plots[0].curves if curve.end]
    assert (shown[0].x.tolist(), one.plots[0].x.span) == ([1, 2, 3, 4, 5], (0, 5))
    assert [curve.opacity for curve in shown] == [0.12, 1.0, 0.12]
    assert "Not drawn: mine.jsonl." in one.notes
    with pytest.raises(StudioError, match="No run with a λ is shown"):
        lambda_chart(LambdaRuns(runs), LambdaStyle(hidden=(1, 2)))


def test_without_a_log_the_last_values_are_dots_with_their_layers(folders: tuple[Path, Path], tmp_path: Path) -> None:
    bare = Path(shutil.copytree(folders[1], tmp_path / "bare", ignore=shutil.ignore_patterns("log.jsonl")))
    service = Service([bare], ())
    runs = runs_of(service, ["bare"], [], [])
    files = taken(service, runs)
    lam = service.model("bare").vision.lambdas()
    assert lam is not None
    np.testing.assert_array_equal(lambda_arrays(LambdaRuns(runs))["run0_vision_final"], lam)
    (plot, *_) = lambda_chart(LambdaRuns(runs), LambdaStyle()).plots
    assert [(mark.sign, mark.y) for mark in plot.marks] == [("dot", value) for value in lam]
    assert [curve.end for curve in plot.curves if curve.end] == ["0", "1", "2"]
    assert b"Only the final" in files["figure.svg"]
    assert redraw_tab(recipe_in(files), (), {}, {"bare": str(bare)}) == files
    lines = list(csv.DictReader(io.StringIO(files["numbers.csv"].decode())))
    assert {(line["step"], line["samples"]) for line in lines} == {("", "")}


def test_a_log_of_one_step_is_drawn_as_dots(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "short.jsonl"
    path.write_text('{"step": 3, "samples": 24, "lambda": {"vision": [0.8, 0.9]}}\n')
    (plot,) = lambda_chart(LambdaRuns(runs_of(service, [], [path], [])), LambdaStyle("steps")).plots
    assert [(mark.sign, mark.x, mark.y) for mark in plot.marks] == [("dot", 3, 0.8), ("dot", 3, 0.9)]


def test_a_log_that_is_missing_or_another_gets_a_sentence(
    service: Service, runs: tuple[Run, ...], uploaded: Path, sources: dict[str, str], tmp_path: Path
) -> None:
    files = taken(service, runs)
    recipe = recipe_in(files)
    with pytest.raises(StudioError, match=r"log of the recipe's run 'mine\.jsonl' .* is not here: give it with --log"):
        redraw_tab(recipe, (), {}, sources)
    other = tmp_path / "other.jsonl"
    other.write_text(uploaded.read_text("utf-8").replace("0.2,", "0.3,"), encoding="utf-8")
    with pytest.raises(StudioError, match=r"log of mine\.jsonl is not that of the recipe: other\.jsonl has sha256"):
        redraw_tab(recipe, (), {}, sources, logs=[other])
    with pytest.raises(StudioError, match=r"other\.jsonl is no log of the recipe"):
        redraw_tab(recipe, (), {}, sources, logs=[uploaded, other])
    anyway = redraw_tab(recipe, (), {}, sources, logs=[other], anyway=True)
    assert b"is not that of the recipe" in anyway["figure.svg"]
    now = recipe_in(anyway).settings.runs[2].log  # type: ignore[union-attr]
    assert now == read_log(other).sha256 != recipe.settings.runs[2].log  # type: ignore[union-attr]


def test_a_log_that_went_on_beside_its_model_is_told_and_the_earlier_one_can_be_given(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(folders[1], tmp_path / "running"))
    service = Service([folder], ())
    files = taken(service, runs_of(service, ["running"], [], []))
    earlier = Path(shutil.copy(folder / "log.jsonl", tmp_path / "earlier.jsonl"))
    with (folder / "log.jsonl").open("a", encoding="utf-8") as log:
        log.write('{"step": 6, "samples": 1536, "lambda": {"vision": [1, 1, 1], "text": [1, 1]}}\n')
    sources = {"running": str(folder)}
    with pytest.raises(StudioError, match="is not that of the recipe"):
        redraw_tab(recipe_in(files), (), {}, sources)
    assert redraw_tab(recipe_in(files), (), {}, sources, logs=[earlier]) == files


def test_a_run_by_its_folder_is_known_by_its_log_and_what_cannot_be_read_is_left_out(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    service = Service(folders, (), policy=Policy(False, roots=(tmp_path,)))
    folder = Path(shutil.copytree(folders[1], tmp_path / "of mine"))
    (tmp_path / "empty").mkdir()
    found = runs_of(service, ["nope"], [], ["empty", "of mine"])
    there, _, settings = taken_runs(found)
    assert there == [2]
    (run,) = settings.runs
    assert (run.title, run.model, run.log) == ("of mine", "", read_log(folder / "log.jsonl").sha256)
    files = taken(service, found)
    assert str(tmp_path).encode() not in b"".join(files.values())
    assert redraw_tab(recipe_in(files), (), {}, {}, logs=[folder / "log.jsonl"]) == files


def test_the_command_takes_logs_and_draws_the_same_bytes(
    service: Service, runs: tuple[Run, ...], uploaded: Path, sources: dict[str, str], tmp_path: Path, capsys
) -> None:
    files = taken(service, runs, **RIGHT)
    written(files, tmp_path / "first")
    command = ["render", str(tmp_path / "first/recipe.json"), str(tmp_path / "again")]
    command += [f"--model={name}={source}" for name, source in sources.items()]
    assert main(command) == 1
    assert "--log FILE" in capsys.readouterr().err
    assert main([*command, f"--log={uploaded}"]) == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()} == files


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"axis": "hours"}, "asked.axis = 'hours' is unknown"),
        ({"hidden": [-1]}, "are counted from 0"),
        ({"hidden": [1, 2]}, "No run with a λ is shown"),
        ({"layer": "all"}, "asked.layer"),
        ({"opacity": 1}, "no setting 'opacity'"),
    ],
    ids=str,
)
def test_wrong_choices_get_a_sentence(
    service: Service, runs: tuple[Run, ...], asked: dict[str, Any], said: str
) -> None:
    _, kept, settings = taken_runs(runs)
    token = service.results.keep("token", kept, None, settings)
    answer = take_strip_server(service)({"token": token, **asked})
    assert set(answer) == {"error"}
    assert said in answer["error"]


def test_the_page_gets_a_name_for_its_runs_and_none_where_nothing_has_a_lambda(
    service: Service, examples: tuple[Any, ...]
) -> None:
    with gr.Blocks(analytics_enabled=False) as demo, gr.Tabs(), gr.Tab("λ") as tab:
        trajectories_tab(choose_what_is_looked_at(service, examples), service, tab)
    draw = next(fn.fn for fn in demo.fns.values() if fn.name == "draw_lambdas" and fn.fn)
    value = draw(*NAMES, ["gone"], None, "")
    assert value["taken"] == [0, 1]
    kept = service.results.find(value["take"])
    assert [run.title for run in kept.result.runs] == ["CLIP, tiny", "DiffCLIP, tiny"]  # type: ignore[attr-defined]
    assert kept.result.nbytes > 5 * 5 * 8
    assert draw(NAMES[0], NAMES[0], [], None, "")["take"] == ""


def test_a_style_of_another_tab_is_refused(service: Service, runs: tuple[Run, ...]) -> None:
    recipe = recipe_in(taken(service, runs))
    with pytest.raises(StudioError, match="style does not fit the tab 'lambda'"):
        replace(recipe, style=None)
