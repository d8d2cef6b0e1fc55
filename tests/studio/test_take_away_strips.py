"""The maps of Sparsity, Explain and Intervene taken away: five files, no run, drawn again to the same bytes."""

import base64
import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from taken_strips import NAMES, SET, TABS, edits, explained, intervened, read, segmentation, sparsity, taken

from models import StudioError
from studio.__main__ import main
from studio.bring import bring_named
from studio.examples import Example
from studio.export import written, zipped
from studio.intervened_maps import MapChoice, maps_strip
from studio.intervening import changed_model
from studio.public import Policy
from studio.recipe import Picture
from studio.redraw import recipe_file
from studio.redraw_tab import redraw_tab
from studio.result_store import ResultStore, new_token
from studio.service import Service
from studio.strip_files import CSV_COLUMNS, cell_boxes
from studio.tab_recipe import TabRecipe
from studio.tab_settings import (
    intervene_settings,
    picture_of,
)
from studio.take_strip import take_strip_server
from studio.upload import Upload

FILES = ["figure.png", "figure.svg", "arrays.npz", "numbers.csv", "recipe.json"]
# Words of texts, and tables by layer and head, are files of their own.
FURTHER = {"explain": ["words.csv"], "sparsity": ["grids.csv"], "intervene": ["ranks.csv"]}


@pytest.fixture
def sources(folders: tuple[Path, Path]) -> dict[str, str]:
    return {folder.name: str(folder) for folder in folders}


def used(recipe: TabRecipe, sources: dict[str, str]) -> dict[str, str]:
    return {found.name: sources[found.name] for found in recipe.models}


@pytest.mark.parametrize("tab", TABS)
def test_a_press_gives_five_files_that_draw_again_to_the_same_bytes(
    service: Service, scene: Upload, examples: tuple[Example, ...], sources: dict[str, str], tab: str
) -> None:
    made = TABS[tab](service, scene)
    files = taken(service, scene, made, drawing="smooth", ramp="linear", opacity=0.5)
    assert list(files) == [*FILES[:4], *FURTHER.get(tab, ()), FILES[4]]
    assert zipped(files) == zipped(taken(service, scene, made, drawing="smooth", ramp="linear", opacity=0.5))
    recipe = read(files)
    assert (recipe.tab, recipe.picture.name) == (tab, "scene.png")
    assert recipe.settings == made[1]
    assert all(len(found.sha256) == 64 for found in recipe.models)
    assert redraw_tab(recipe, examples, {}, used(recipe, sources)) == files
    again = redraw_tab(recipe, (), {"picture": examples[0].picture}, used(recipe, sources))
    # A segmentation also shows the mask itself, which nobody knows here.
    assert (again["arrays.npz"] == files["arrays.npz"]) is (tab != "segmentation")


@pytest.mark.parametrize("tab", TABS)
def test_arrays_are_the_values_of_the_panels_and_numbers_those_below_them(
    service: Service, scene: Upload, tab: str
) -> None:
    strip, settings = TABS[tab](service, scene)
    files = taken(service, scene, (strip, settings))
    with np.load(io.BytesIO(files["arrays.npz"]), allow_pickle=False) as arrays:
        assert len(arrays.files) == 2 * len(strip.panels) + len(strip.texts)
        for at, panel in enumerate(strip.panels):
            assert arrays[f"panel{at}"].dtype == np.float32
            assert np.array_equal(arrays[f"panel{at}"], panel.values.astype(np.float32), equal_nan=True)
            boxes = arrays[f"panel{at}_top_left_bottom_right"]
            assert boxes.shape == (*panel.values.shape, 4)
            assert boxes[-1, -1, 2:] == pytest.approx([64, 64])
    lines = list(csv.DictReader(io.StringIO(files["numbers.csv"].decode())))
    assert tuple(lines[0]) == CSV_COLUMNS
    for at, panel in enumerate(strip.panels):
        own = [line for line in lines if line["panel"] == str(at)]
        assert list(dict.fromkeys(line["measure"] for line in own)) == [fact.label for fact in panel.facts]
        for fact in panel.facts:
            found = [line for line in own if line["measure"] == fact.label]
            if fact.number is not None and fact.number == fact.number:
                assert float(found[0]["value"]) == pytest.approx(fact.number, rel=1e-6)
            known = dict(zip(panel.controls, fact.numbers, strict=False))
            wanted = {name: number for name, number in known.items() if number is not None and number == number}
            assert {line["control_is"]: float(line["control"]) for line in found if line["control"]} == pytest.approx(
                wanted, rel=1e-6
            )
    ElementTree.fromstring(files["figure.svg"].decode())
    assert b"<script" not in files["figure.svg"]
    assert Image.open(io.BytesIO(files["figure.png"])).width == round(510 / 72 * 300)


def test_cells_lie_where_the_patches_do(service: Service, scene: Upload) -> None:
    look = service.look("clip-scenes", scene.image)
    boxes = cell_boxes(look.geometry, 4, 4)
    for row, col in ((0, 0), (1, 2), (3, 3)):
        wanted = look.geometry.patch_box(row, col, look.model.vision.layout)  # type: ignore[arg-type]
        assert boxes[row, col] == pytest.approx(wanted)


def test_what_was_ready_when_a_run_was_stopped_draws_again(
    service: Service, scene: Upload, examples: tuple[Example, ...], sources: dict[str, str]
) -> None:
    halves = [
        segmentation(service, scene, ready=1, side=0),
        segmentation(service, scene, ready=3, side=0),
        # The page sends whole numbers without a point.
        segmentation(service, scene, ready=3, side=0, background=0),
        explained(service, scene, ready=(1, 0)),
        explained(service, scene, "ig", ready=(3, 0)),
        explained(service, scene, ready=(4, 1)),
    ]
    assert [len(strip.panels) for strip, _ in halves] == [2, 3, 3, 1, 3, 4]
    for made in halves:
        files = taken(service, scene, made)
        assert redraw_tab(read(files), examples, {}, sources) == files
    with np.load(io.BytesIO(files["arrays.npz"]), allow_pickle=False) as arrays:
        assert [name for name in arrays.files if "shuffled" in name] == ["panel1_a2_shuffled"]
        maps = arrays["panel1_a2_shuffled"]
    assert maps.shape == (3, 4, 4)
    assert len(np.unique(maps, axis=0)) == 3, "each shuffle has a map of its own"


def test_what_models_say_when_they_are_run_so_is_taken_away_as_far_as_it_was_there(
    service: Service, scene: Upload, examples: tuple[Example, ...], sources: dict[str, str]
) -> None:
    asked = replace(SET, mode="intervention", classes="cat, dog")
    found = {}
    for tables, answers in ((False, 0), (True, 12), (True, 7)):
        files = taken(service, scene, sparsity(service, scene, asked, tables, answers))
        further = [*(["grids.csv"] if tables else []), *(["answers.csv"] if answers else [])]
        assert list(files) == [*FILES[:4], *further, FILES[4]]
        if answers < 12:
            assert redraw_tab(read(files), examples, {}, sources) == files
        found[answers] = list(csv.DictReader(io.StringIO(files.get("answers.csv", b"").decode())))
    assert [len(found[answers]) for answers in (0, 7, 12)] == [0, 14, 24]
    assert found[12][:14] == found[7]
    assert {row["model"] for row in found[7]} == {"CLIP, tiny", "DiffCLIP, tiny"}
    assert [row["run"] for row in found[12][:4]] == ["as it is", "as it is", "entmax", "entmax"]
    lines = list(csv.DictReader(io.StringIO(files["grids.csv"].decode())))
    assert {(line["map"], line["control_is"]) for line in lines} == {
        ("A", ""), ("A1", ""), ("A2", ""), ("A1 − λA2", "A2 shuffled"),
    }  # fmt: skip
    more = read(files)
    with pytest.raises(StudioError, match="its settings give fewer"):
        redraw_tab(replace(more, settings=replace(more.settings, answers=13)), examples, {}, sources)  # type: ignore[call-arg]
    for wrong in ({"answers": -1}, {"mode": "readout"}):
        with pytest.raises(StudioError, match="cannot be: of an intervention it is 0 or more"):
            replace(more.settings, **wrong)


def test_a_model_that_could_not_be_run_is_left_out_of_the_recipe(
    service: Service, scene: Upload, examples: tuple[Example, ...], sources: dict[str, str]
) -> None:
    asked = [{"name": NAMES[0], "chosen": {"vision": {"lam": [0.5]}}}, edits()[1]]
    outcomes = [changed_model(service, name, scene, each, [], None) for name, each in zip(NAMES, asked, strict=True)]
    strip = maps_strip(scene, outcomes, MapChoice(0))
    assert strip is not None
    settings = intervene_settings(service, NAMES, asked, outcomes, MapChoice(0), None)
    assert settings.models == (NAMES[1],)
    files = taken(service, scene, (strip, settings))
    assert redraw_tab(read(files), examples, {}, {NAMES[1]: sources[NAMES[1]]}) == files


def test_a_model_that_was_brought_with_settings_draws_again(
    scene: Upload, examples: tuple[Example, ...], folders: tuple[Path, Path], sources: dict[str, str]
) -> None:
    service = Service(folders, examples, policy=Policy(False, roots=(folders[0].parent,)))
    *_, last = bring_named(service, str(folders[1]), "lambda_init = 0.25")
    names = (NAMES[0], last.name)
    asked = [None, {"name": last.name, "chosen": {"vision": {"lam": [None, 0.5]}}}]
    outcomes = [changed_model(service, name, scene, each, [], None) for name, each in zip(names, asked, strict=True)]
    strip = maps_strip(scene, outcomes, MapChoice(1))
    assert strip is not None
    files = taken(service, scene, (strip, intervene_settings(service, names, asked, outcomes, MapChoice(1), None)))
    assert read(files).models[1].overrides.lambda_init == 0.25
    given = {NAMES[0]: sources[NAMES[0]], last.name: str(folders[1])}
    assert redraw_tab(read(files), examples, {}, given) == files


def painted(scene: Upload, mask: np.ndarray) -> dict[str, str]:
    stream = io.BytesIO()
    Image.fromarray(mask).save(stream, "PNG")
    return {"token": scene.token, "mask": "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()}


def test_a_painted_mask_is_in_the_recipe_and_an_uploaded_one_is_asked_for(
    service: Service, scene: Upload, examples: tuple[Example, ...], sources: dict[str, str], tmp_path: Path
) -> None:
    mask = np.zeros((64, 64), np.uint8)
    mask[40:, 40:] = 255
    Image.fromarray(mask).save(tmp_path / "mask.png")
    Image.fromarray(mask.T[::-1]).save(tmp_path / "another.png")
    uploaded = Upload(Image.fromarray(mask).convert("RGB"), tmp_path / "mask.png")
    by_hand = {"a": replace(SET, painted=painted(scene, mask)), "b": replace(SET, mask=uploaded)}
    for make in (sparsity, segmentation):
        bare = taken(service, scene, make(service, scene))["numbers.csv"]
        files = {name: taken(service, scene, make(service, scene, controls)) for name, controls in by_hand.items()}
        assert files["a"]["numbers.csv"] == files["b"]["numbers.csv"] != bare
        assert redraw_tab(read(files["a"]), examples, {}, sources) == files["a"]
        recipe = read(files["b"])
        with pytest.raises(StudioError, match="give it with --mask FILE"):
            redraw_tab(recipe, examples, {}, sources)
        assert redraw_tab(recipe, examples, {"mask": tmp_path / "mask.png"}, sources) == files["b"]
        with pytest.raises(StudioError, match="The mask is not that of the recipe"):
            redraw_tab(recipe, examples, {"mask": tmp_path / "another.png"}, sources)
        anyway = redraw_tab(recipe, examples, {"mask": tmp_path / "another.png"}, sources, anyway=True)
        assert b"The mask is not that of the recipe" in anyway["figure.svg"]
        assert read(anyway).settings.mask not in ("", recipe.settings.mask)  # type: ignore[union-attr]


def test_the_other_picture_whose_a2_was_put_in_is_asked_for_where_it_is_needed(
    service: Service, scene: Upload, examples: tuple[Example, ...], sources: dict[str, str], tmp_path: Path
) -> None:
    noise = np.random.default_rng(3).integers(0, 256, (80, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    other = Upload(Image.fromarray(noise), tmp_path / "noise.png")
    assert intervened(service, scene, "shuffled", other)[1].other is None  # type: ignore[union-attr]
    files = taken(service, scene, intervened(service, scene, "other", other))
    recipe = read(files)
    assert recipe.settings.other == Picture(other.token, 64, 80, "noise.png")  # type: ignore[union-attr]
    with pytest.raises(
        StudioError, match=r"other noise\.png does not come with the project: give it with --other FILE"
    ):
        redraw_tab(recipe, examples, {}, sources)
    assert redraw_tab(recipe, examples, {"other": other.file}, sources) == files
    of_a_scene = taken(service, scene, intervened(service, scene, "other", scene))
    assert redraw_tab(read(of_a_scene), examples, {}, sources) == of_a_scene


def test_the_command_draws_a_recipe_of_a_tab_and_refuses_what_is_not_its_own(
    folders: tuple[Path, Path], scene: Upload, sources: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    # The command knows no masks of this test's scene.
    elsewhere = Service(folders, ())
    files = taken(elsewhere, scene, explained(elsewhere, scene))
    written(files, tmp_path / "first")
    given = [f"--model={name}={source}" for name, source in sources.items()]
    command = ["render", str(tmp_path / "first/recipe.json"), str(tmp_path / "again"), *given]
    assert main([*command, f"--picture={scene.file}"]) == 0
    assert {name: (tmp_path / "again" / name).read_bytes() == files[name] for name in FILES} == dict.fromkeys(
        FILES, True
    )
    Image.new("RGB", (64, 64), "red").save(tmp_path / "red.png")
    assert main([*command, f"--picture={tmp_path / 'red.png'}"]) == 1
    assert "The picture is not that of the recipe" in capsys.readouterr().err
    assert main(command) == 1
    assert "give it with --picture FILE" in capsys.readouterr().err
    assert main([*command[:3], f"--picture={scene.file}"]) == 1
    assert "--model clip-scenes=FILE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tab": "intervene"}, "one of the tab 'intervene' with settings of 'explain'"),
        ({"tab": "compare"}, "recipe.tab = 'compare' is unknown"),
        ({"version": 2}, "has version 2"),
        ({"models": []}, "each must be described once"),
        ({"settings.ready": 0}, "ready must be 1 or more"),
        ({"settings.promts": []}, "did you mean 'prompts'"),
        ({"settings.models": ["clip-scenes"]}, "must have 2 entries"),
        ({"settings.prompts": "a cat"}, "recipe.settings.prompts = 'a cat' must be a list"),
        ({"style.opacity": 2}, "opacity = 2.0 must be"),
    ],
    ids=str,
)
def test_a_recipe_that_was_changed_is_refused_with_the_key(
    service: Service, scene: Upload, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    data = json.loads(taken(service, scene, explained(service, scene))["recipe.json"])
    for path, value in change.items():
        *outer, key = path.split(".")
        (data[outer[0]] if outer else data)[key] = value
    (tmp_path / "recipe.json").write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(StudioError, match=re.escape(said)):
        recipe_file(tmp_path / "recipe.json")


def test_a_recipe_with_more_maps_than_its_settings_give_is_told(
    service: Service, scene: Upload, examples: tuple[Example, ...], sources: dict[str, str]
) -> None:
    for make in (explained, segmentation):
        recipe = read(taken(service, scene, make(service, scene)))
        more = replace(recipe, settings=replace(recipe.settings, ready=99))  # type: ignore[call-arg]
        with pytest.raises(StudioError, match="its settings give fewer"):
            redraw_tab(more, examples, {}, sources)


@pytest.mark.parametrize(
    "asked",
    [
        None,
        [],
        "token",
        {},
        {"token": None},
        {"token": ["x"]},
        {"token": {"a": 1}},
        {"token": "0" * 32},
        {"token": 7, "opacity": 0.5},
        {"opacity": "much"},
        {"opacity": float("nan")},
        {"opacity": 2},
        {"drawing": "wild"},
        {"ramp": ["root"]},
        {"path": "/etc/passwd"},
    ],
    ids=str,
)
def test_wrong_tokens_and_types_get_a_sentence(service: Service, scene: Upload, asked: Any) -> None:
    made = sparsity(service, scene)
    service.results.value("right", made[0], picture_of(scene), made[1])
    if isinstance(asked, dict) and asked and "token" not in asked:
        asked = {"token": "right", **asked}
    answer = take_strip_server(service)(asked)
    assert set(answer) == {"error"}
    assert answer["error"].endswith(".")
    assert "/etc" not in answer["error"] or "path" in answer["error"]


def test_a_strip_is_had_by_its_own_token_alone_and_may_be_let_go(service: Service, scene: Upload) -> None:
    made, other = sparsity(service, scene), intervened(service, scene)
    assert len({new_token() for _ in range(50)}) == 50
    for token, (strip, settings) in (("a", made), ("b", other)):
        service.results.value(token, strip, picture_of(scene), settings)
    assert service.results.find("a").result is made[0]
    assert service.results.find("b").result is other[0]
    service.results.value("a", other[0], picture_of(scene), other[1])
    assert service.results.find("a").result is other[0], "a run's later maps take the place of its earlier ones"
    small = ResultStore(made[0].nbytes + 20_000)
    small.value("a", made[0], picture_of(scene), made[1])
    small.value("b", made[0], picture_of(scene), made[1])
    assert small.find("b").result is made[0]
    with pytest.raises(StudioError, match="let go of what was shown here to save memory"):
        small.find("a")


def test_where_no_panel_has_a_map_the_reason_is_the_answer(service: Service, scene: Upload) -> None:
    strip, settings = sparsity(service, scene, replace(SET, layer=9))
    service.results.value("none", strip, picture_of(scene), settings)
    assert "has no layer 9" in take_strip_server(service)({"token": "none"})["error"]


def test_taking_away_runs_no_model(service: Service, scene: Upload) -> None:
    made = [make(service, scene) for make in TABS.values()]
    runs: list[str] = []
    handles = [
        module.register_forward_hook(lambda *_: runs.append("ran"))
        for name in NAMES
        for module in service.model(name).module.modules()
    ]
    try:
        for each in made:
            assert set(taken(service, scene, each)) >= set(FILES)
    finally:
        for handle in handles:
            handle.remove()
    assert runs == []


def test_no_path_of_this_machine_and_no_broken_text_is_in_what_is_taken_away(
    service: Service, scene: Upload, examples: tuple[Example, ...], sources: dict[str, str]
) -> None:
    strip, settings = sparsity(service, scene, replace(SET, classes="cat \ud800", named="\udfff"))
    files = taken(service, scene, (replace(strip, note="broken \ud800"), settings))
    for part in (str(scene.file.parent), str(service.folder("clip-scenes"))):
        assert not any(part.encode() in data for data in files.values())
    assert redraw_tab(read(files), examples, {}, sources)["arrays.npz"] == files["arrays.npz"]
