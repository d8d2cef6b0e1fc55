"""What is taken away draws again to the same bytes, is made without a run, and refuses what is not the recipe's."""

import base64
import csv
import io
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoint_folders import write_checkpoint
from PIL import Image

from models import LoadedModel, Normalizer, StudioError, attention_maps
from models.loaded import Origin
from models.tokenizer import DomainTokenizer
from studio.__main__ import main
from studio.bring import bring_named
from studio.examples import Example
from studio.export import take_away_server, written, zipped
from studio.provenance import source_of
from studio.public import Policy
from studio.recipe import read_recipe
from studio.redraw import redraw
from studio.service import Service
from studio.speaking import RelevanceAsked, RelevanceStore
from studio.upload import Upload

FILES = ["figure.png", "figure.svg", "arrays.npz", "numbers.csv", "recipe.json"]


def state(token: str, **settings: object) -> dict:
    panels = [
        {"model": "clip-scenes", "kind": "weights", "head": "mean"},
        {"model": "diffclip-scenes", "kind": "a1", "head": 0},
        {"model": "diffclip-scenes", "kind": "weights", "head": "mean"},
    ]
    return {"token": token, "panels": panels, "layer": 1, "alpha": 1.5, "query": [1, 2, "clip-scenes"]} | settings


def taken(service: Service, scene: Upload, *, controls: tuple[str, ...] = (), **settings: object) -> dict[str, bytes]:
    """What is taken away, with the relevance of both models known, and its control of some."""
    for name in service.names:
        service.look(name, scene.image)
    store = RelevanceStore(service)
    text = settings.get("text")
    if isinstance(text, str):
        for name in service.names:
            store.relevance(RelevanceAsked(name, scene.token, text, None), scene.image)
        for name in controls:
            store.control(RelevanceAsked(name, scene.token, text, None), scene.image)
    answer = take_away_server(service, lambda _: scene, store)(state(scene.token, **settings))
    assert "error" not in answer, answer
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(answer["data"]))) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def relevance_controls(files: dict[str, bytes]) -> dict[str, str]:
    lines = csv.DictReader(io.StringIO(files["numbers.csv"].decode()))
    return {line["measure"]: line["control_a2_shuffled"] for line in lines if line["panel"] == "1"}


def test_the_control_of_relevance_is_taken_away_where_it_was_worked_out_and_draws_again(
    service: Service, scene: Upload, folders: tuple[Path, Path], examples: tuple[Example, ...]
) -> None:
    name = "diffclip-scenes"
    panels = [{"model": name, "kind": "weights"}, {"model": name, "kind": "relevance", "control": True}]
    unknown = taken(service, scene, panels=panels, text="a cat")
    assert set(relevance_controls(unknown).values()) == {""}
    assert not read_recipe(unknown["recipe.json"]).view.panels[1].control
    files = taken(service, scene, controls=(name,), panels=panels, text="a cat")
    answer = RelevanceStore(service).control(RelevanceAsked(name, scene.token, "a cat", None), scene.image)
    for measure, value in relevance_controls(files).items():
        assert float(value) == pytest.approx(answer["control"][measure], rel=1e-5), measure
    assert "similarity" in relevance_controls(files)
    words = " ".join(re.sub(r"<[^>]+>", " ", files["figure.svg"].decode()).split())
    assert "in every layer, mean of 3 fixed shuffles" in words
    assert redraw(read_recipe(files["recipe.json"]), examples, sources=sources(folders)) == files
    asked_nothing = [panels[0], panels[1] | {"control": False}]
    left_out = taken(service, scene, controls=(name,), panels=asked_nothing, text="a cat")
    assert set(relevance_controls(left_out).values()) == {""}, "what is not shown is not taken"


def test_a_recipe_names_the_versions_of_the_project_and_of_what_its_numbers_depend_on(
    service: Service, scene: Upload
) -> None:
    packages = read_recipe(taken(service, scene)["recipe.json"]).packages
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert packages["diffclip-studio"] == project["version"]
    assert packages["captum"] == version("captum")
    assert "gradio" not in packages


def sources(folders: tuple[Path, Path]) -> dict[str, str]:
    return {folder.name: str(folder) for folder in folders}


def test_one_press_gives_five_files_whose_numbers_are_those_of_the_maps(service: Service, scene: Upload) -> None:
    files = taken(service, scene)
    assert list(files) == FILES
    recording = service.look("diffclip-scenes", scene.image).recording
    maps = attention_maps(recording[1], normalizer=Normalizer(1.5))
    with np.load(io.BytesIO(files["arrays.npz"]), allow_pickle=False) as arrays:
        assert arrays["model1_a1"] == pytest.approx(maps.a1[0].numpy())
        assert maps.a2 is not None
        assert arrays["model1_a2"] == pytest.approx(maps.a2[0].numpy())
        assert arrays["panel2_map"] == pytest.approx(maps.weights[0].mean(0).numpy(), abs=1e-7)
        assert arrays["panel2_row"] == pytest.approx(arrays["panel2_map"][1 + 4 + 2])
        assert arrays["panel2_drawn"].shape == (4, 4)
        assert arrays["model0_top_left_bottom_right"][0, 0] == pytest.approx([0, 0, 16, 16])
    lines = list(csv.DictReader(io.StringIO(files["numbers.csv"].decode())))
    line = next(line for line in lines if line["panel"] == "2" and line["measure"] == "negative")
    assert line["query"] == "patch (1, 2)"
    assert 0 <= float(line["value"]) <= 1
    assert 0 <= float(line["control_a2_shuffled"]) <= 1
    recipe = read_recipe(files["recipe.json"])
    assert recipe.view.alpha == 1.5
    assert recipe.picture.name == "scene.png"
    assert [len(found.sha256) for found in recipe.models] == [64, 64]
    lam = recipe.found("diffclip-scenes").lam
    assert lam is not None
    assert len(lam) == 3


def test_a_recipe_draws_again_to_the_same_bytes(
    service: Service, scene: Upload, folders: tuple[Path, Path], examples: tuple[Example, ...]
) -> None:
    for settings in ({}, {"panels": [{"model": "clip-scenes", "kind": "relevance"}] * 2, "text": "a cat"}):
        files = taken(service, scene, **settings)
        assert zipped(files) == zipped(taken(service, scene, **settings))
        recipe = read_recipe(files["recipe.json"])
        given = {name: source for name, source in sources(folders).items() if name in recipe.view.models}
        assert redraw(recipe, examples, sources=given) == files
        assert redraw(recipe, (), examples[0].picture, given)["arrays.npz"] == files["arrays.npz"]


def test_another_process_draws_the_same_bytes_and_arrays(
    scene: Upload, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    # Elsewhere nobody knows the masks of this test's scene.
    files = taken(Service(folders, ()), scene)
    written(files, tmp_path / "first")
    models = [f"--model={name}={source}" for name, source in sources(folders).items()]
    threads = torch.get_num_threads()
    code = f"import torch, sys; torch.set_num_threads({threads}); from studio.__main__ import main; sys.exit(main())"
    places = [str(tmp_path / "first/recipe.json"), str(tmp_path / "second")]
    done = subprocess.run(
        [sys.executable, "-c", code, "render", *places, f"--picture={scene.file}", *models],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {name: (tmp_path / "second" / name).read_bytes() == files[name] for name in FILES} == dict.fromkeys(
        FILES, True
    )
    with np.load(tmp_path / "second/arrays.npz") as again, np.load(io.BytesIO(files["arrays.npz"])) as first:
        for name in first.files:
            assert again[name] == pytest.approx(first[name], abs=1e-5)


def test_another_picture_or_another_checkpoint_is_refused_unless_it_is_said(
    service: Service,
    scene: Upload,
    folders: tuple[Path, Path],
    tmp_path: Path,
    diffclip: LoadedModel,
    tokenizer: DomainTokenizer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    written(taken(service, scene), tmp_path / "first")
    given = [f"--model={name}={source}" for name, source in sources(folders).items()]
    command = ["render", str(tmp_path / "first/recipe.json"), str(tmp_path / "out.svg")]
    other = tmp_path / "other.png"
    Image.new("RGB", (64, 64), "red").save(other)
    assert main([*command, *given, f"--picture={other}"]) == 1
    assert "The picture is not that of the recipe" in capsys.readouterr().err
    assert not (tmp_path / "out.svg").exists()

    changed = write_checkpoint(tmp_path / "changed", diffclip, "Another", tokenizer)
    weights = (changed / "model.safetensors").read_bytes()
    (changed / "model.safetensors").write_bytes(weights[:-2] + bytes([weights[-2] ^ 1, weights[-1]]))
    assert main([*command, given[0], f"--model=diffclip-scenes={changed}", f"--picture={scene.file}"]) == 1
    assert "The weights of DiffCLIP, tiny are not those of the recipe" in capsys.readouterr().err

    assert main([*command, *given, f"--picture={other}", "--anyway"]) == 0
    assert "The picture is not that of the recipe" in (tmp_path / "out.svg").read_text(encoding="utf-8")


def test_a_model_that_was_brought_with_settings_draws_again_to_the_same_bytes(
    scene: Upload, folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Elsewhere nobody knows the masks of this test's scene.
    service = Service(folders, (), policy=Policy(False, roots=(folders[0].parent,)))
    *_, last = bring_named(service, str(folders[1]), "lambda_init = 0.25; resize = squash; mean = 0.4, 0.5, 0.6")
    service.look(last.name, scene.image)
    panels = [{"model": name, "kind": "weights", "head": "mean"} for name in ("clip-scenes", last.name)]
    files = taken(service, scene, panels=panels)
    recipe = read_recipe(files["recipe.json"])
    found = recipe.found(last.name)
    assert found.overrides.settings() == {"lambda_init": 0.25, "resize": "squash", "mean": (0.4, 0.5, 0.6)}
    assert "lambda_init = 0.25" in found.title
    written(files, tmp_path / "first")
    command = ["render", str(tmp_path / "first/recipe.json"), str(tmp_path / "again"), f"--picture={scene.file}"]
    command += [f"--model=clip-scenes={folders[0]}", f"--model={last.name}={folders[1]}"]
    assert main(command) == 0
    assert {name: (tmp_path / "again" / name).read_bytes() == files[name] for name in FILES} == dict.fromkeys(
        FILES, True
    )
    assert main(command[:-1]) == 1
    assert f"--model '{last.name}=FILE'" in capsys.readouterr().err

    # A recipe from before the settings were kept is read; what it does not say is not guessed.
    older = json.loads(files["recipe.json"])
    for model in older["models"]:
        del model["overrides"]
    (tmp_path / "first/recipe.json").write_text(json.dumps(older), encoding="utf-8")
    assert main(command) == 1
    assert "was loaded with other settings: lambda_init = 0.25; " in capsys.readouterr().err
    assert main([*command, "--anyway"]) == 0
    again = read_recipe((tmp_path / "again/recipe.json").read_bytes()).found(last.name)
    assert again.lam != found.lam
    assert "0.25" not in again.title, "maps with other settings do not go by the name of the recipe's"


@pytest.mark.parametrize(
    ("asked", "source"),
    [
        ("open_clip:ViT-B-32/laion2b_s34b_b79k", "open_clip:ViT-B-32/laion2b_s34b_b79k"),
        ("hf-hub:laion/CLIP", "hf-hub:laion/CLIP@0a1b2c"),
        ("open_clip:ViT-B-32//home/me/models--laion--CLIP/snapshots/0a1b2c/w.bin", "hf-hub:laion/CLIP@0a1b2c"),
    ],
)
def test_a_model_of_the_hub_is_found_again_by_what_it_was_asked_for_under_any_name(
    diffclip: LoadedModel, asked: str, source: str
) -> None:
    path = Path("/home/me/models--laion--CLIP/snapshots/0a1b2c/w.bin")
    for name in ("CLIP", f"{asked} resize=squash"):
        model = replace(diffclip, name=name, origin=Origin("open_clip", path, source=asked))
        assert source_of(model) == source


def test_what_is_lacking_is_asked_for_in_a_sentence(
    service: Service, scene: Upload, folders: tuple[Path, Path], examples: tuple[Example, ...], tmp_path: Path
) -> None:
    recipe = read_recipe(taken(service, scene)["recipe.json"])
    with pytest.raises(StudioError, match="--picture FILE"):
        redraw(recipe, ())
    with pytest.raises(StudioError, match="--model clip-scenes=FILE"):
        redraw(recipe, examples)
    with pytest.raises(StudioError, match="has no model 'x'"):
        redraw(recipe, examples, sources={"x": "y"})
    assert main(["render", str(tmp_path / "none.json"), str(tmp_path)]) == 1
    assert main(["render", str(scene.file), str(tmp_path)]) == 1


def test_taking_away_runs_no_model_and_says_what_was_let_go(service: Service, scene: Upload) -> None:
    take_away = take_away_server(service, lambda _: scene, RelevanceStore(service))
    assert "choose the picture again" in take_away(state(scene.token))["error"]
    for name in service.names:
        service.look(name, scene.image)
    runs: list[str] = []
    handles = [
        service.model(name).module.visual.register_forward_hook(lambda *_: runs.append("ran")) for name in service.names
    ]
    try:
        assert "data" in take_away(state(scene.token))
        for panel in state(scene.token)["panels"]:
            relevance = {**panel, "kind": "relevance", "head": "mean"}
            assert "not at hand" in take_away(state(scene.token, panels=[relevance] * 2, text="cat"))["error"]
    finally:
        for handle in handles:
            handle.remove()
    assert runs == []
    gone = take_away_server(service, lambda _: None, RelevanceStore(service))
    assert "data" in gone(state(scene.token)), "an example scene is always at hand"


@pytest.mark.parametrize(
    "change",
    [
        {"token": "0" * 32},
        {"panels": [{"model": "../../etc", "kind": "weights"}] * 2},
        {"panels": [{"model": "clip-scenes", "kind": "subtracted"}] * 2},
        {"panels": [{"model": "clip-scenes", "kind": "weights", "head": 99}] * 2},
        {"layer": 99},
        {"query": [99, 0, "clip-scenes"]},
        {"query": [0, 0, "nobody"]},
        {"alpha": 3},
        {"panels": [{"model": "clip-scenes", "kind": "relevance"}] * 2, "text": " "},
    ],
    ids=str,
)
def test_wrong_requests_get_a_sentence(service: Service, scene: Upload, change: dict) -> None:
    for name in service.names:
        service.look(name, scene.image)
    answer = take_away_server(service, lambda _: scene, RelevanceStore(service))(state(scene.token) | change)
    assert set(answer) == {"error"}
    assert answer["error"].endswith(".")


def test_no_path_of_this_machine_is_in_what_is_taken_away(service: Service, scene: Upload, tmp_path: Path) -> None:
    files = taken(service, scene)
    for part in (str(scene.file.parent), str(service.folder("clip-scenes"))):
        assert not any(part.encode() in data for data in files.values())
    assert json.loads(files["recipe.json"])["models"][0]["source"] == ""
    assert written(files, tmp_path / "a.zip") == [tmp_path / "a.zip"]
    assert zipfile.ZipFile(tmp_path / "a.zip").namelist() == FILES
