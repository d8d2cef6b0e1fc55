"""What the documents claim: paths exist, commands exist, figures are those of the files they were taken from."""

import json
import re
import shutil
from pathlib import Path

import pytest

from models.checkpoints import read_info
from train.__main__ import main
from train.config import load_config
from train.export import write_card
from train.optim import learning_rate
from train.run_folder import deciding

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/log.md")]
# Each shipped model and the config that made it.
SHIPPED = {
    "clip-scenes": "clip_scenes",
    "diffclip-scenes": "diffclip_scenes",
    "diffclip-dynamic-scenes": "diffclip_star_scenes",
    "diffclip-vision-scenes": "diffclip_dagger_scenes",
}
COMMANDS = ("scenes", "check-data", "plan", "fit", "evaluate", "figures", "export", "report")


def evaluation(name: str) -> dict:
    return json.loads((ROOT / "assets/checkpoints" / name / "evaluation.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_in_a_document_exists(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    named = re.findall(r"`((?:models|studio|train|assets|tests|docs|benchmarks|\.ci)/[\w./*-]*)`", text)
    linked = re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
    missing = [path for path in named + linked if not list(ROOT.glob(path.rstrip("/")))]
    assert not missing


def told_files(tree: str) -> set[str]:
    """The Python files that the tree in ARCHITECTURE.md names, with their folders."""
    told, package, folder = set(), "", ""
    for line in tree.splitlines():
        if re.match(r"\w+/", line):
            package, folder = line.split()[0], ""
        elif re.match(r"  \S", line):
            head = line.split()[0]
            folder = head if head.endswith("/") else ""
        if package in ("models/", "studio/", "train/"):
            told |= {package + folder + name for name in re.findall(r"[\w/]+\.py\b", line)}
    return told


def test_the_tree_in_the_architecture_is_the_tree() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    tree = re.search(r"```\napp\.py +builds.*?```", text, re.S)
    assert tree
    files = {
        path.relative_to(ROOT).as_posix()
        for package in ("models", "studio", "train")
        for path in (ROOT / package).rglob("*.py")
        if path.name != "__init__.py"
    }
    assert told_files(tree.group()) == files


def test_the_commands_of_the_readme_are_two_one_liners_for_app_and_tests() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    set_up = [line for line in text.splitlines() if line.startswith("python3 -m venv")]
    assert [line.rpartition(" && ")[2] for line in set_up] == [
        ".venv/bin/python app.py",
        ".venv/bin/python -m pytest",
    ]
    assert set(re.findall(r"-m train ([\w-]+)", text)) <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_train_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([command, "--help"])
    assert left.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith(f"usage: python -m train {command}")
    assert f"-m train {command} " in said.partition("example")[2]


@pytest.mark.parametrize("name", SHIPPED)
def test_the_model_cards_are_what_the_evaluation_writes(name: str, tmp_path: Path) -> None:
    folder = ROOT / "assets/checkpoints" / name
    copy = tmp_path / name
    shutil.copytree(folder, copy)
    assert write_card(copy).read_text(encoding="utf-8") == (folder / "README.md").read_text(encoding="utf-8")


def test_the_shipped_models_are_accurate_enough_to_be_looked_at() -> None:
    accuracies = [evaluation(name)["top1"] for name in SHIPPED]
    assert max(accuracies) >= 0.9
    assert min(accuracies) >= 0.8
    assert {evaluation(name)["images"] for name in SHIPPED} == {500}


def test_shipped_files_are_small_enough_to_come_along() -> None:
    for name in SHIPPED:
        folder = ROOT / "assets/checkpoints" / name
        assert sum(path.stat().st_size for path in folder.iterdir() if path.is_file()) < 10e6
        assert sum(path.stat().st_size for path in folder.glob("steps/*/*")) < 40e6


def test_a_click_on_the_trajectory_of_diffclip_finds_weights_of_eight_steps() -> None:
    assert len(list((ROOT / "assets/checkpoints/diffclip-scenes/steps").iterdir())) == 8


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_log_is_whole_and_belongs_to_the_shipped_config(name: str) -> None:
    folder = ROOT / "assets/checkpoints" / name
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    stages = run["config"]["stages"]
    assert [line["step"] for line in lines] == list(range(1, len(lines) + 1))
    assert lines[-1]["samples"] == sum(stage["samples"] for stage in stages) >= 400_000
    config = load_config(ROOT / f"train/configs/{SHIPPED[name]}.toml")
    plain = deciding(config)
    for key in ("name", "title", "seed", "batch_size", "stages", "optim", "data", "model"):
        assert plain[key] == run["config"][key], key
    assert [line["lr"] for line in lines] == [learning_rate(*config.cosine_of(step)) for step in range(config.steps)]
    assert read_info(folder).model.vision.image_size == stages[-1]["image_size"]
    if name != "clip-scenes":
        assert all(len(line["lambda"]["vision"]) == 6 for line in lines)
        assert all(len(line["lambda"].get("text", ())) == (0 if "vision" in name else 3) for line in lines)
