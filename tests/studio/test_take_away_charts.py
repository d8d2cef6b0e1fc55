"""Curves taken away: five files, drawn again to the same bytes; numbers with their controls; settings that are kept."""

import csv
import html
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from taken_strips import CHARTS, NAMES, SET, dueled, over_alpha, over_lambda, read, taken

from models import StudioError
from studio.chart_files import table_csv
from studio.chart_recipe import DuelSettings
from studio.duel import DIFFERENCE, RANDOM, SHUFFLED
from studio.examples import Example
from studio.recipe import Picture
from studio.redraw_tab import redraw_tab
from studio.render.chart_figure import chart_figure
from studio.render.shapes import Clip
from studio.result_store import new_token
from studio.service import Service
from studio.sweeping import lambda_asked
from studio.tab_recipe import Settings, read_tab_recipe
from studio.tab_settings import alpha_sweep_settings, lambda_sweep_settings, picture_of
from studio.take_strip import tab_recipe, take_strip_server
from studio.upload import Upload

FILES = ["figure.png", "figure.svg", "arrays.npz", "numbers.csv", "recipe.json"]


@pytest.fixture
def sources(folders: tuple[Path, Path]) -> dict[str, str]:
    return {folder.name: str(folder) for folder in folders}


def lines_of(files: dict[str, bytes]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(files["numbers.csv"].decode())))


@pytest.mark.parametrize("tab", CHARTS)
def test_a_press_gives_five_files_that_are_drawn_again_to_the_same_bytes(
    service: Service, scene: Upload, examples: tuple[Example, ...], sources: dict[str, str], tab: str
) -> None:
    chart, settings = CHARTS[tab](service, scene)
    files = taken(service, scene, (chart, settings))
    assert list(files) == FILES
    recipe = read(files)
    assert (recipe.tab, recipe.settings, recipe.style) == (tab, settings, None)
    used = {found.name: sources[found.name] for found in recipe.models}
    assert redraw_tab(recipe, examples, {}, used) == files
    with np.load(io.BytesIO(files["arrays.npz"]), allow_pickle=False) as arrays:
        assert set(arrays.files) == set(chart.arrays)
        assert all(np.array_equal(arrays[name], chart.arrays[name], equal_nan=True) for name in arrays.files)
    svg = files["figure.svg"].decode()
    for plot in chart.plots:
        for curve in plot.curves:
            assert (curve.entry == "") or html.escape(curve.entry) in svg
    assert "<script" not in svg
    assert Image.open(io.BytesIO(files["figure.png"])).width == round(510 / 72 * 300)


def test_areas_of_a_duel_stand_beside_those_of_random_orders_and_of_a2_shuffled(
    service: Service, scene: Upload
) -> None:
    files = taken(service, scene, dueled(service, scene))
    lines = lines_of(files)
    maps = ["A", "relevance", RANDOM, "A1", DIFFERENCE, SHUFFLED, "relevance", RANDOM]
    assert [line["map"] for line in lines[::2]] == maps
    of_each = {(line["model"], line["map"], line["test"]): line for line in lines}
    for (model, name, test), line in of_each.items():
        random = of_each[model, RANDOM, test]
        beside = {"random": random["area"], "random_sd": random["area_sd"]}
        if name == DIFFERENCE:
            shuffled = of_each[model, SHUFFLED, test]
            beside |= {"a2_shuffled": shuffled["area"], "a2_shuffled_sd": shuffled["area_sd"]}
        wanted = {} if name in (RANDOM, SHUFFLED) else beside
        assert {key: line[key] for key in ("random", "random_sd", "a2_shuffled", "a2_shuffled_sd") if line[key]} == (
            wanted
        )
    with np.load(io.BytesIO(files["arrays.npz"])) as arrays:
        at = int(of_each["1", DIFFERENCE, "deletion"]["row"])
        curve = arrays["model1_deletion"][at]
        assert np.trapezoid(curve, arrays["share"]) == pytest.approx(
            float(of_each["1", DIFFERENCE, "deletion"]["area"]), rel=1e-5
        )
        spread = arrays["model1_deletion_sd"][[line["map"] for line in lines[6::2]].index(RANDOM)]
        assert (spread[1:-1] > 0).all()


def test_numbers_of_a_sweep_stand_beside_those_of_its_control(service: Service, scene: Upload) -> None:
    chart, settings = over_lambda(service, scene)
    assert settings.models == (NAMES[1],), "the model without λ has no part in it"
    files = taken(service, scene, (chart, settings))
    *lines, without = lines_of(files)
    (unswept,) = read(files).settings.unswept  # type: ignore[union-attr]
    assert unswept.model == NAMES[0]
    assert unswept.why.startswith("CLIP, tiny has no λ to sweep in its vision tower")
    assert {key: text for key, text in without.items() if text} == {
        "tower": "vision",
        "measure": f"not swept: {unswept.why}",
    }
    assert "CLIP, tiny has no λ to sweep" in files["figure.svg"].decode()
    with_class = [line for line in lines if line["class"] == "<b>dog" and line["measure"] == "probability"]
    assert [line["lambda"] for line in with_class[:3]] == ["learned", "0", "0.1"]
    assert [float(line["value"]) for line in with_class[1:]] == pytest.approx(
        chart.arrays["model0_probability"][:, 1], rel=1e-5
    )
    assert [float(line["control"]) for line in with_class[1:]] == pytest.approx(
        chart.arrays["model0_control_probability"][:, 1], rel=1e-5
    )
    assert {line["control_is"] for line in with_class[1:]} == {"A2 shuffled over the patches"}
    inside = [line for line in lines if line["measure"].startswith("mass in object")]
    assert {line["uniform_map"] for line in inside} == {"0.25"}


def test_the_only_plot_of_a_sweep_takes_the_width_of_the_figure(service: Service, tmp_path: Path) -> None:
    noise = np.random.default_rng(3).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    upload = Upload(Image.fromarray(noise), tmp_path / "noise.png")
    chart, settings = over_lambda(service, upload)
    assert len(chart.plots) == 1, "there is no mask"
    drawn = chart_figure(chart, tab_recipe(service, picture_of(upload), settings, None))
    (curves,) = [shape.place for shape in drawn.shapes if isinstance(shape, Clip)]
    assert curves.w > 0.85 * drawn.width


def test_each_alpha_stands_beside_all_it_is_held_against(service: Service, scene: Upload) -> None:
    chart, settings = over_alpha(service, scene)
    lines = lines_of(taken(service, scene, (chart, settings)))
    assert list(lines[0])[5:] == ["entmax", "top-k", "matched entropy", "random keys", "A2 shuffled"]
    assert len(lines) == 2 * 3 * 4
    support = [line for line in lines if line["model"] == "1" and line["measure"].startswith("support")]
    for rule in ("top-k", "A2 shuffled"):
        name = f"model1_{rule.replace(' ', '_').replace('-', '_')}_support"
        assert [float(line[rule]) for line in support] == pytest.approx(chart.arrays[name], rel=1e-6)
    assert all(line["A2 shuffled"] == "" for line in lines if line["model"] == "0")


def test_edits_classes_and_another_picture_are_in_the_recipe_of_a_sweep(
    service: Service, scene: Upload, examples: tuple[Example, ...], sources: dict[str, str], tmp_path: Path
) -> None:
    noise = np.random.default_rng(3).integers(0, 256, (80, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    other = Upload(Image.fromarray(noise), tmp_path / "noise.png")
    files = taken(service, scene, over_lambda(service, scene, "other", other, "cat"))
    settings = read(files).settings
    assert settings.other == Picture(other.token, 64, 80, "noise.png")  # type: ignore[union-attr]
    (kept,) = settings.kept  # type: ignore[union-attr]
    assert (kept.vision.a2, kept.vision.off, kept.text.lam) == ("other", ((1, 1),), (0.0,))
    used = {NAMES[1]: sources[NAMES[1]]}
    assert redraw_tab(read(files), examples, {"other": other.file}, used) == files
    with pytest.raises(StudioError, match="give it with --other FILE"):
        redraw_tab(read(files), examples, {}, used)
    assert over_lambda(service, scene, "uniform", other)[1].other is None  # type: ignore[union-attr]


def test_a_mask_of_ones_own_is_asked_for_where_curves_over_alpha_were_measured_against_it(
    service: Service, scene: Upload, examples: tuple[Example, ...], sources: dict[str, str], tmp_path: Path
) -> None:
    mask = np.zeros((64, 64), np.uint8)
    mask[40:, 40:] = 255
    Image.fromarray(mask).save(tmp_path / "mask.png")
    own = replace(SET, mask=Upload(Image.fromarray(mask).convert("RGB"), tmp_path / "mask.png"))
    files = taken(service, scene, over_alpha(service, scene, own))
    assert files["numbers.csv"] != taken(service, scene, over_alpha(service, scene))["numbers.csv"]
    with pytest.raises(StudioError, match="give it with --mask FILE"):
        redraw_tab(read(files), examples, {}, sources)
    assert redraw_tab(read(files), examples, {"mask": tmp_path / "mask.png"}, sources) == files


def recipes(service: Service, scene: Upload) -> dict[str, Settings]:
    """Settings of each kind of curves."""
    asked = lambda_asked("cat", "a {}", 2, "mean", "weights", None, "vision", False)
    return {
        "alpha-sweep": alpha_sweep_settings(scene, NAMES, SET, (1.0, 2.0)),
        "lambda-sweep": lambda_sweep_settings(service, [], [], [], asked),
        "duel": DuelSettings("a cat", NAMES, "last layer", "black", 4),
    }


@pytest.mark.parametrize(
    ("tab", "change", "said"),
    [
        ("alpha-sweep", {"settings.alphas": []}, "name at least one α"),
        ("alpha-sweep", {"style": {"drawing": "smooth"}}, "style does not fit"),
        ("lambda-sweep", {"settings.tower": "both"}, "choose vision or text"),
        ("duel", {"settings.points": 3}, "choose 4 to 40"),
        ("duel", {"settings.depth": "first"}, "choose last layer or mean over layers"),
        ("duel", {"picture": None}, "names no picture"),
    ],
    ids=str,
)
def test_a_recipe_of_curves_that_was_changed_is_refused_in_a_sentence(
    service: Service,
    scene: Upload,
    examples: tuple[Example, ...],
    sources: dict[str, str],
    tab: str,
    change: dict[str, Any],
    said: str,
) -> None:
    data = json.loads(tab_recipe(service, picture_of(scene), recipes(service, scene)[tab], None).text())
    for path, value in change.items():
        *outer, key = path.split(".")
        (data[outer[0]] if outer else data)[key] = value
    used = {found["name"]: sources[found["name"]] for found in data["models"]}
    with pytest.raises(StudioError, match=re.escape(said)):
        redraw_tab(read_tab_recipe(data), examples, {}, used)


def test_of_curves_nothing_can_be_chosen_and_it_is_said(service: Service, scene: Upload) -> None:
    chart, settings = over_alpha(service, scene)
    token = service.results.keep(new_token(), chart, picture_of(scene), settings)
    answer = take_strip_server(service)({"token": token, "opacity": 0.5})
    assert "'opacity': of this figure nothing can be chosen" in answer["error"]


def test_curves_are_kept_within_the_bytes_of_the_store(service: Service, scene: Upload) -> None:
    chart, _ = dueled(service, scene)
    assert chart.nbytes >= sum(values.nbytes for values in chart.arrays.values())


def test_a_table_has_seven_digits_and_leaves_out_what_is_no_number(service: Service, scene: Upload) -> None:
    chart, _ = over_alpha(service, scene)
    table = replace(chart.numbers, columns=("a", "b"), rows=((1 / 3, None), (float("nan"), 2), ("x, y", 1e-9)))
    assert table_csv(table) == 'a,b\n0.3333333,\n,2\n"x, y",1e-09\n'
