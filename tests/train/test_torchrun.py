"""The real launcher, and what ends it: a run under torchrun that was stopped goes on as if nothing had happened."""

import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from run_toml import TOML
from same_runs import assert_same, lines_of, state_of
from torchrun import Launcher, torchrun

from models import load_model
from train.scenes.shards import write_shards

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are looked up in Linux's /proc"),
]

# What depends on the random numbers of each rank, on the average, on workers' order and on a change of picture size.
SETTINGS = ["stages=[{samples=320, image_size=16}, {samples=32, image_size=32}]", "workers=1", "log.probe_every=0"]
SETTINGS += ["patch_dropout=0.25", "ema=0.9"]
STEPS = 44
# From the signal to the launcher's end: a step, a save, and the end of the interpreters on a busy machine.
SOON = 60.0
WHOLE = 240.0

HEAD = """
import os, sys
from pathlib import Path
rank, folder = int(os.environ["RANK"]), Path(sys.argv[1])
"""


def fit_command(config: Path, run: Path, *more: str) -> list[str]:
    return ["-m", "train", "fit", str(config), "--out", str(run), *SETTINGS, *more]


def trained(folder: Path, config: Path, run: Path, *more: str) -> str:
    """Let the same command come to its end; returns what was printed."""
    with torchrun(folder, *fit_command(config, run, *more)) as launcher:
        assert launcher.end(WHOLE) == 0, launcher.told()
        return launcher.told()


def ended(folder: Path, config: Path, run: Path, act: Callable[[Launcher], object], *more: str) -> tuple[int, str]:
    """Start the command and act at a random step of its first stage; the exit status, and what was printed."""
    with torchrun(folder, *fit_command(config, run, *more)) as launcher:
        launcher.wait_for_step(run, random.Random(str(run.name)).randint(3, 25))
        act(launcher)
        status = launcher.end(SOON)
        # Torchrun's word for a rank that it had to kill, 30 seconds after it was told to end.
        assert "Unable to shutdown process" not in launcher.told()
        return status, launcher.told()


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("torchrun") / "tiny.toml"
    path.write_text(TOML)
    return path


@pytest.fixture(scope="module")
def whole(config: Path) -> Path:
    """The run that nobody stopped."""
    run = config.parent / "whole"
    told = trained(config.parent, config, run)
    assert told.splitlines()[-1] == str(run / "checkpoint")
    assert told.count(str(run / "checkpoint")) == 1  # by rank 0 alone
    return run


def test_two_ranks_under_torchrun_leave_one_whole_run(whole: Path) -> None:
    assert [line["step"] for line in lines_of(whole)] == list(range(1, STEPS + 1))
    assert all(line["valid"] == 8 for line in lines_of(whole))
    assert state_of(whole).facts.step == STEPS
    model = load_model(whole / "checkpoint")
    assert model.preprocess_settings.size == 32
    assert model.vision.lambdas() == pytest.approx(lines_of(whole)[-1]["lambda"]["vision"], abs=1e-2)  # the average's


def test_sigusr1_to_one_rank_ends_torchrun_with_0_and_the_run_goes_on_bit_for_bit(
    whole: Path, config: Path, tmp_path: Path
) -> None:
    run = tmp_path / "asked"

    def ask_one(launcher: Launcher) -> None:
        ranks = launcher.ranks()
        assert ranks.keys() == {0, 1}
        os.kill(ranks[1], signal.SIGUSR1)

    status, told = ended(tmp_path, config, run, ask_one)
    assert status == 0, told
    assert told.splitlines()[-1] == str(run)
    step = state_of(run).facts.step
    assert [line["step"] for line in lines_of(run)] == list(range(1, step + 1))
    assert [path.name for path in run.glob("state-*")] == [f"state-{step:09d}"]  # saved once
    trained(tmp_path, config, run)
    assert_same(whole, run)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_torchrun_passes_on_saves_the_run_which_goes_on_bit_for_bit(
    whole: Path, config: Path, tmp_path: Path, number: signal.Signals
) -> None:
    run = tmp_path / number.name
    status, told = ended(tmp_path, config, run, lambda launcher: launcher.process.send_signal(number))
    assert status == 1, told
    step = state_of(run).facts.step
    assert [line["step"] for line in lines_of(run)] == list(range(1, step + 1))
    trained(tmp_path, config, run)
    assert_same(whole, run)


def test_sigusr1_to_torchrun_ends_it_alone_and_the_run_comes_to_its_end(
    whole: Path, config: Path, tmp_path: Path
) -> None:
    run = tmp_path / "alone"
    with torchrun(tmp_path, *fit_command(config, run)) as launcher:
        launcher.wait_for_step(run, 3)
        launcher.process.send_signal(signal.SIGUSR1)
        assert launcher.process.wait(SOON) == -signal.SIGUSR1
        assert launcher.left()
        launcher.end(WHOLE)
    assert_same(whole, run)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_killed_ends_torchrun_and_the_run_goes_on_from_its_last_state_bit_for_bit(
    whole: Path, config: Path, tmp_path: Path, rank: int
) -> None:
    run = tmp_path / f"killed {rank}"
    status, told = ended(
        tmp_path, config, run, lambda launcher: os.kill(launcher.ranks()[rank], signal.SIGKILL), "save_steps=3"
    )
    assert status == 1, told
    assert state_of(run).facts.step % 3 == 0
    trained(tmp_path, config, run)
    assert_same(whole, run)


READING = (
    HEAD
    + """
from dataclasses import dataclass, replace
from train.config import load_config
from train.feed import open_data
from train.loop import fit

@dataclass(frozen=True)
class Told:
    whole: object

    def __len__(self):
        return len(self.whole)

    def __getattr__(self, name):
        return getattr(self.whole, name)

    def read(self, index, least_side=0):
        read = self.whole.read(index, least_side)
        with (folder / f"{rank}.txt").open("a") as told:
            told.write(f"{index} {type(read).__name__}\\n")
        return read

def opened(config, cache):
    data = open_data(config, cache)
    return replace(data, source=Told(data.source))

fit(load_config(Path(sys.argv[2]), sys.argv[3:]), folder / "run", opened)
"""
)


def test_two_ranks_read_every_sample_of_one_shard_once_an_epoch(config: Path, tmp_path: Path) -> None:
    (shard,) = write_shards(tmp_path / "tars", 16, 5, 16)
    spoiled = bytearray(shard.read_bytes())
    at = spoiled.index(b"000000005.png") + 512
    spoiled[at : at + 64] = bytes(64)  # no picture any more
    shard.write_bytes(spoiled)
    program = tmp_path / "reading.py"
    program.write_text(READING)
    settings = [f'data={{tars="{tmp_path / "tars"}"}}', "model.text.vocab_size=49408", "skip={share=0.1}"]
    settings += ["stages=[{epochs=3, image_size=16}]", "log.probe_every=0", "workers=1"]
    with torchrun(tmp_path, str(program), str(tmp_path), str(config), *settings) as launcher:
        assert launcher.end(WHOLE) == 0, launcher.told()
    reads = [(tmp_path / f"{rank}.txt").read_text().splitlines() for rank in (0, 1)]
    assert [len(lines) for lines in reads] == [24, 24]
    for epoch in range(3):
        own = [line for lines in reads for line in lines[8 * epoch : 8 * epoch + 8]]
        assert sorted(int(line.split()[0]) for line in own) == list(range(16))
        assert Counter(line.split()[1] for line in own) == {"Sample": 15, "Skip": 1}
    lines = lines_of(tmp_path / "run")
    assert [lines[step]["valid"] + lines[step + 1]["valid"] for step in (0, 2, 4)] == [15, 15, 15]


BREAKING = (
    HEAD
    + """
import math
from open_clip.transformer import VisionTransformer
from torch.nn.modules.module import register_module_forward_hook
from train.__main__ import main

passes = []

def break_fifth(module, given, output):
    if isinstance(module, VisionTransformer) and rank == 1:
        passes.append(module)
        if len(passes) >= 5:
            return output * math.nan

register_module_forward_hook(break_fifth)
status = main(["fit", *sys.argv[2:]])
(folder / f"{rank}.status").write_text(str(status))
sys.exit(status)
"""
)


def test_a_number_that_is_not_finite_on_one_rank_ends_both_with_status_2_and_loses_nothing(
    whole: Path, config: Path, tmp_path: Path
) -> None:
    program, run = tmp_path / "breaking.py", tmp_path / "broken"
    program.write_text(BREAKING)
    command = [str(program), str(tmp_path), str(config), "--out", str(run), *SETTINGS, "save_steps=2"]
    with torchrun(tmp_path, *command) as launcher:
        assert launcher.end(WHOLE) == 1, launcher.told()
        told = launcher.told()
    assert [(tmp_path / f"{rank}.status").read_text() for rank in (0, 1)] == ["2", "2"]
    assert told.count("error: The loss of step 5 is nan") == 2
    assert told.count("is not finite on rank 1") == 2
    assert state_of(run).facts.step == lines_of(run)[-1]["step"] == 4
    trained(tmp_path, config, run)
    assert_same(whole, run)
