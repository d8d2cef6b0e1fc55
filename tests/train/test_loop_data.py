"""What a run does about its data: while they are opened, and when they are broken or lost."""

import os
import signal
import time
from pathlib import Path

import pytest

from models.errors import StudioError
from train.checkpointing import load_state
from train.config import RunConfig, load_config
from train.feed import Data
from train.loop import fit
from train.scenes.shards import write_shards
from train.signals import ORDERLY


def saved_step(run: Path) -> int:
    state = load_state(run)
    assert state is not None
    return state.facts.step


def test_data_that_are_lost_late_in_a_run_stop_it_within_that_epoch(config_file: Path, tmp_path: Path) -> None:
    shards = write_shards(tmp_path / "tars", 64, 5, 16, per_shard=40)
    settings = [f'data={{tars="{tmp_path / "tars"}"}}', "model.text.vocab_size=49408", "skip={share=0.3, after=8}"]
    settings += ["stages=[{epochs=6, image_size=16}]", "log.probe_every=0"]
    config, run = load_config(config_file, settings), tmp_path / "run"

    def lost(step: int) -> None:
        if step == 24:
            for shard in shards:
                shard.rename(shard.with_suffix(".away"))

    with pytest.raises(StudioError, match=r"24 of the 24 samples of this epoch could not be used \(24 unreadable file"):
        fit(config, run, after_step=lost)
    # The share of all samples so far, 24 of 216, would have let it go on.
    assert saved_step(run) == 26
    for shard in shards:
        shard.with_suffix(".away").rename(shard)
    fit(config, run)
    assert saved_step(run) == 48


@pytest.mark.parametrize("number", ORDERLY)
def test_another_signal_while_data_are_opened_ends_that_at_once_and_in_good_order(
    config_file: Path, tmp_path: Path, number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    before, run = signal.getsignal(number), tmp_path / "run"

    def opened(config: RunConfig, cache: Path | None) -> Data:
        try:
            os.kill(os.getpid(), number)
            time.sleep(5)
        except Exception as error:
            raise AssertionError("It was kept.") from error
        raise AssertionError("It went on.")

    assert fit(load_config(config_file), run, opened) == run
    assert "stopped before the first step, while the data were opened" in capsys.readouterr().err
    assert not run.exists()
    assert signal.getsignal(number) is before
    assert fit(load_config(config_file, ["stop_after=1"]), run) == run


def test_ctrl_c_ends_at_once_while_data_are_opened(config_file: Path, tmp_path: Path) -> None:
    def opened(config: RunConfig, cache: Path | None) -> Data:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
        raise AssertionError("It went on.")

    with pytest.raises(KeyboardInterrupt):
        fit(load_config(config_file), tmp_path / "run", opened)


def test_what_is_left_out_of_the_data_is_told_before_a_run(
    config_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, _ = write_shards(tmp_path / "tars", 40, 5, 16, per_shard=20)
    first.write_bytes(first.read_bytes()[: first.stat().st_size // 2])
    settings = [f'data={{tars="{tmp_path / "tars"}"}}', "model.text.vocab_size=49408", "stop_after=1"]
    settings += ["stages=[{epochs=1, image_size=16}]", "log.probe_every=0"]
    with pytest.raises(StudioError, match=r"samples could not be used \(\d+ tar cut\)"):
        fit(load_config(config_file, settings), tmp_path / "run")
    fit(load_config(config_file, [*settings, "skip={share=0.5}"]), tmp_path / "run")
    assert "warning: 1 tar shard of 2 ended early" in capsys.readouterr().err
