"""Copies of the weights that a run keeps on its way: whole, openable, never those of a future that was given up."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from stopping import stopping_at

from models import load_model
from models.errors import StudioError
from studio.lambdas import run_of_model
from studio.service import Service
from train.checkpointing import load_state
from train.config import load_config
from train.export import export_run
from train.kept import kept_steps
from train.loop import fit

QUIET = ["log.probe_every=0", "log.norms_every=0"]


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def test_every_so_many_steps_the_weights_are_kept_at_the_picture_size_of_that_step(
    config_file: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    fit(load_config(config_file, [*QUIET, "keep_every=2", "save_steps=1"]), run)
    assert list(kept_steps(run)) == [2, 4, 6]  # those of step 8, the last, are the checkpoint
    assert len(list(run.glob("state-*"))) == 2
    sizes = [load_model(folder).preprocess_settings.size for folder in kept_steps(run).values()]
    assert sizes == [16, 16, 32]
    files = {path.name for path in (run / "checkpoint").iterdir()}
    assert all({path.name for path in folder.iterdir()} == files for folder in kept_steps(run).values())


def test_what_is_kept_are_the_averages_of_that_step_where_there_are_any(config_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    fit(load_config(config_file, [*QUIET, "keep_every=3", "ema=0.9", "stop_after=3"]), run)
    state, kept = load_state(run), weights_of(run / "steps" / "3")
    assert state is not None
    assert torch.equal(kept["visual.proj"], state.ema["visual.proj"].half())
    assert not torch.equal(kept["visual.proj"], state.model["visual.proj"].half())


def test_a_run_that_goes_on_from_an_earlier_step_writes_the_later_ones_again(config_file: Path, tmp_path: Path) -> None:
    run, whole, settings = tmp_path / "run", tmp_path / "whole", [*QUIET, "keep_every=1", "save_steps=2"]

    def falls(step: int) -> None:
        if step == 4:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fit(load_config(config_file, settings), run, after_step=falls)
    assert list(kept_steps(run)) == [1, 2, 3]
    before = (run / "steps" / "2" / "model.safetensors").stat().st_mtime_ns
    (run / "steps" / "7").mkdir()
    (run / "steps" / "5.tmp").mkdir()
    (run / "steps" / "notes.txt").write_text("mine")
    assert fit(load_config(config_file, [*settings, "stop_after=2"]), run) == run
    assert sorted(path.name for path in (run / "steps").iterdir()) == ["1", "2", "notes.txt"]
    fit(load_config(config_file, settings), run)
    fit(load_config(config_file, settings), whole)
    assert (run / "steps" / "2" / "model.safetensors").stat().st_mtime_ns == before
    assert list(kept_steps(run)) == list(kept_steps(whole)) == [1, 2, 3, 4, 5, 6, 7]
    for step, folder in kept_steps(run).items():
        ours, theirs = weights_of(folder), weights_of(kept_steps(whole)[step])
        assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())


def test_a_stopped_run_may_be_told_to_keep_weights_from_there_on(config_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    fit(load_config(config_file, QUIET), run, after_step=stopping_at(3, 15))
    assert kept_steps(run) == {}
    fit(load_config(config_file, [*QUIET, "keep_every=2"]), run)
    assert list(kept_steps(run)) == [4, 6]


def test_weights_that_cannot_be_kept_end_the_run_with_a_sentence_and_its_state(
    config_file: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    fit(load_config(config_file, [*QUIET, "stop_after=1"]), run)
    (run / "steps").write_text("a file where a folder is to be")
    with pytest.raises(StudioError, match=r"steps.2 cannot be written"):
        fit(load_config(config_file, [*QUIET, "keep_every=2"]), run)
    state = load_state(run)
    assert state is not None
    assert state.facts.step == 1


def test_the_page_finds_the_kept_steps_of_an_exported_run(config_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    fit(load_config(config_file, [*QUIET, "keep_every=3"]), run)
    out = export_run(run, tmp_path / "mine")
    kept = run_of_model(Service([out], []), "mine").kept
    assert [one.step for one in kept] == [3, 6, 8]
    folders = [one.folder for one in kept[:-1]]
    assert folders == [out / "steps" / "3", out / "steps" / "6"]
    for step, folder in kept_steps(run).items():
        ours, theirs = weights_of(out / "steps" / str(step)), weights_of(folder)
        assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())
        assert load_model(out / "steps" / str(step)).title == "Tiny DiffCLIP"


def test_keep_every_cannot_be_below_zero(config_file: Path) -> None:
    with pytest.raises(StudioError, match="keep_every"):
        load_config(config_file, ["keep_every=-1"])
