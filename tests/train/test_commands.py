"""The commands end to end on a tiny run: train, export, evaluate; wrong input is one sentence and loses nothing."""

import json
from pathlib import Path

import numpy as np
import pytest
from scene_accuracy import scene_accuracy

from models import LoadedModel, load_model
from train.__main__ import main
from train.evaluation.zero_shot import bootstrap_interval, class_embeddings


@pytest.fixture
def run(config_file: Path, tmp_path: Path) -> Path:
    assert main(["fit", str(config_file), "--out", str(tmp_path / "run")]) == 0
    return tmp_path / "run"


def test_a_run_is_trained_exported_evaluated_and_described(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "tiny"
    assert main(["export", str(run), str(out)]) == 0
    assert "Measured" not in (out / "README.md").read_text()
    assert main(["evaluate", str(out), "--images", "12"]) == 0
    assert "tiny: top-1" in capsys.readouterr().out
    measured = json.loads((out / "evaluation.json").read_text())
    assert (measured["images"], measured["classes"]) == (12, 108)
    again = scene_accuracy(load_model(out), 12)
    assert (measured["top1"], tuple(measured["top1_interval"]), measured["top5"]) == (
        again.top1,
        again.top1_interval,
        again.top5,
    )
    card = (out / "README.md").read_text()
    assert f"{measured['top1']:.1%}" in card
    assert "40 at 16 pixels, then 24 at 32 pixels" in card
    assert (out / "log.jsonl").read_text().count("\n") == 8
    assert load_model(out).title == "Tiny DiffCLIP"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fit", "nowhere.toml"], "There is no config"),
        (["export", "nowhere", "out"], "holds no finished run"),
        (["evaluate", "nowhere"], "is neither a shipped model nor a file or folder"),
        (["report", "nowhere"], "holds no log.jsonl"),
        (["plan", "nowhere.toml"], "There is no config"),
        (["scenes", "{tmp}/new", "--count", "0"], "a data set holds at least 1"),
        (["scenes", "/proc/x", "--count", "1"], "/proc/x cannot be written"),
        (["fit", "{tmp}/tiny.toml", "--out", "/proc/x/y"], "/proc/x/y cannot be written"),
        (["fit", "{tmp}/tiny.toml", "--out", "{tmp}/tiny.toml/run"], "cannot be written"),
        (["fit", "{tmp}/tiny.toml", "device=mps"], "use auto, cpu or cuda"),
        (["fit", "{tmp}/tiny.toml", "--out", "{tmp}/run", "seed"], "unrecognized arguments: seed"),
        (["evaluate", "clip-scenes", "--out", "{tmp}/out", "seed=3"], "unrecognized arguments: seed=3"),
        (["fit"], "the following arguments are required: CONFIG"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_status_two(
    arguments: list[str], sentence: str, config_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of([part.replace("{tmp}", str(tmp_path)) for part in arguments]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "error: " in error
    assert sentence in error


def status_of(arguments: list[str]) -> int:
    """What the command ends with; argparse leaves by itself."""
    try:
        return main(arguments)
    except SystemExit as end:
        return int(end.code or 0)


def test_help_of_fit_says_how_it_is_stopped_and_what_torchrun_needs_on_windows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert status_of(["fit", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "On Windows, torchrun needs USE_LIBUV=0 in the environment." in told
    assert "While the data are opened, SIGTERM and SIGUSR1 leave that at once with status 0" in told


def test_settings_may_stand_before_and_after_options(config_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert main(["fit", str(config_file), "save_steps=1", "--out", str(run), "stop_after=2", "log.probe_every=0"]) == 0
    assert sorted(path.name for path in run.glob("state-*")) == ["state-000000001", "state-000000002"]
    assert main(["fit", str(config_file), "optim.lr=1e-4", "--out", str(run)]) == 2
    assert main(["fit", str(config_file), "optim.lr=1e-4", "--out", str(run), "--anyway", "stop_after=3"]) == 0


def test_a_run_is_planned_before_and_reported_after(
    config_file: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(config_file), "--speed", "4"]) == 0
    told = capsys.readouterr().out
    assert "8 of 8 samples" in told
    assert "16 s at 4 samples a second" in told
    assert main(["plan", str(config_file), "--speed", "0"]) == 2
    assert main(["report", str(run), "--out", str(tmp_path / "page.html")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert main(["report", str(run), "--out", str(tmp_path / "no" / "page.html")]) == 2


def test_a_folder_that_holds_something_is_not_exported_into(run: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    assert main(["export", str(run), str(tmp_path / "full")]) == 2
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.txt"]


def test_an_untrained_model_is_not_far_above_chance(clip: LoadedModel) -> None:
    result = scene_accuracy(clip, 60)
    assert result.top1 <= 0.1
    assert result.top1 <= result.top5
    assert scene_accuracy(clip, 60) == result


def test_prompts_have_the_right_article(clip: LoadedModel) -> None:
    embeddings = class_embeddings(clip, ["apple", "cat"])
    wanted = clip.encode_text(clip.tokenize(["a photo of an apple", "a photo of a cat"]), normalize=True)
    assert bool((embeddings == wanted).all())


def test_the_bootstrap_interval_narrows_with_more_images_and_holds_the_mean() -> None:
    few, many = (bootstrap_interval(np.arange(n) % 4 == 0) for n in (40, 4000))
    assert few[0] < 0.25 < few[1]
    assert many[0] < 0.25 < many[1]
    assert many[1] - many[0] < (few[1] - few[0]) / 5
