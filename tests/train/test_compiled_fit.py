"""Compiled training end to end: over two picture sizes, stopped in both, gone on with, and exported."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from same_runs import assert_same, lines_of, state_of
from stopping import stopping_at

from models import load_model
from train.config import load_config
from train.export import export_run
from train.loop import fit

# The average and autocast touch what is compiled; random patch dropout stays outside of it.
SETTINGS = ["compile=true", "patch_dropout=0.25", "ema=0.9", "precision=bfloat16"]
SETTINGS += ["log.probe_every=0", "log.norms_every=0"]


@pytest.fixture
def fresh() -> Iterator[None]:
    """Nothing that was compiled before is taken for what is compiled here."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def started_again(config: list[str], file: Path, run: Path, stop: int = 0) -> Path:
    """One start of the run, as a new process has it: nothing is compiled yet."""
    torch._dynamo.reset()
    if not stop:
        return fit(load_config(file, config), run)
    return fit(load_config(file, config), run, after_step=stopping_at(stop, signal.SIGTERM))


@pytest.mark.slow
@pytest.mark.usefixtures("fresh")
def test_a_compiled_run_that_is_stopped_in_both_stages_equals_one_that_was_not(
    config_file: Path, tmp_path: Path
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert started_again(SETTINGS, config_file, whole) == whole / "checkpoint"
    for stop in (3, 7):  # of five steps at 16 pixels and three at 32
        assert started_again(SETTINGS, config_file, parts, stop) == parts
        assert state_of(parts).facts.step == stop
    assert started_again(SETTINGS, config_file, parts) == parts / "checkpoint"
    assert [line["step"] for line in lines_of(parts)] == list(range(1, 9))
    assert_same(whole, parts)

    exported = export_run(parts, tmp_path / "exported")
    names = load_file(exported / "model.safetensors").keys()
    assert names == state_of(parts).model.keys()
    assert not any("_orig_mod" in name for name in names)
    assert load_model(exported).module.state_dict().keys() == names
