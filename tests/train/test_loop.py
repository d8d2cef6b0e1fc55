"""Training: it learns, and it resumes as if nothing had happened."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from same_runs import assert_same, lines_of, state_of
from stopping import Signalling, signal_at_first_measured_batch, stopping_at
from tiny import tiny_config

from models import load_model
from models.build import build_clip
from models.errors import StudioError
from models.tokenizer import DomainTokenizer
from train.checkpointing import POINTER
from train.config import RunConfig, load_config
from train.data.batch import normalised
from train.data.open import open_source
from train.data.scenes import MEAN, STD
from train.feed import Data, tokenizer_of
from train.logbook import WALL_CLOCK, read_log
from train.loop import fit
from train.loss import contrastive_loss
from train.optim import build_optimizer
from train.scenes import describe_scene, render_scene
from train.scenes.shards import write_shards
from train.settings import OptimConfig
from train.signals import STOPPING

ROOT = Path(__file__).parents[2]

# Programs of their own, called with config, run, step and settings.
HEAD = """
import os, signal, sys
from pathlib import Path
from train.config import load_config
from train.loop import fit

config, run, wanted = load_config(Path(sys.argv[1]), sys.argv[4:]), Path(sys.argv[2]), int(sys.argv[3])
"""
KILLED = HEAD + "fit(config, run, after_step=lambda step: step == wanted and os.kill(os.getpid(), signal.SIGKILL))"
FAILING = HEAD + "fit(config, run, after_step=lambda step: 1 / (wanted - step))"
MEASURING = (
    HEAD
    + """
from stopping import signal_at_first_measured_batch
with signal_at_first_measured_batch(signal.SIGTERM, os.getpgid(0)):
    fit(config, run)
"""
)


def run_script(script: str, config: Path, run: Path, step: int, *settings: str) -> subprocess.CompletedProcess[bytes]:
    """A program in a process group of its own; it must end by itself."""
    command = [sys.executable, "-c", script, str(config), str(run), str(step), *settings]
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests" / "support")))
    environment = {**os.environ, "PYTHONPATH": paths}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, timeout=100, start_new_session=True, check=False
    )


def test_both_kinds_of_attention_learn_sixteen_pairs_by_heart(tokenizer: DomainTokenizer) -> None:
    scenes = [describe_scene(1, index) for index in range(16)]
    drawn = torch.from_numpy(np.stack([render_scene(scene, 32)[0] for scene in scenes])).permute(0, 3, 1, 2)
    pixels = normalised(drawn, MEAN, STD)
    tokens = tokenizer([f"{i} {s.caption}" for i, s in enumerate(scenes)])
    for attention in ("standard", "differential"):
        clip = build_clip(tiny_config(attention, tokenizer.vocab_size))
        optimizer = build_optimizer(clip, OptimConfig(lr=3e-3, warmup_steps=1))
        for _ in range(120):
            loss = contrastive_loss(clip.encode_image(pixels, True), clip.encode_text(tokens, True), clip.logit_scale)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert float(loss.detach()) < 0.1, attention


def test_a_run_that_stopped_and_resumed_equals_one_that_did_not_bit_for_bit(config_file: Path, tmp_path: Path) -> None:
    # Everything that a state holds: average, scaler, random patch dropout, measurements in between and at the end.
    settings = ["ema=0.9", "precision=float16", "patch_dropout=0.25", "accumulation=2"]
    settings += ["evaluation={of=[{scenes=4}], every=3}", "log.norms_every=2", "log.probe_every=3"]
    whole = tmp_path / "whole"
    assert fit(load_config(config_file, settings), whole) == whole / "checkpoint"
    after = torch.get_rng_state()
    parts = tmp_path / "parts"
    for stop in (3, 5, 6):  # inside the first stage, at its end, inside the second
        assert fit(load_config(config_file, [*settings, f"stop_after={stop}", "workers=1"]), parts) == parts
    fit(load_config(config_file, settings), parts)
    assert_same(whole, parts)
    assert torch.equal(torch.get_rng_state(), after)
    assert [line["step"] for line in lines_of(whole, "evaluation.jsonl")] == [3, 6, 8]
    assert state_of(whole).facts.ema_updates > 0
    assert state_of(whole).facts.scaler["scale"] != 2.0**16  # float16 overflowed, and the scaler went on from there


def test_a_stage_in_a_precision_of_its_own_is_that_of_a_run_in_that_precision(
    config_file: Path, tmp_path: Path
) -> None:
    stages = "stages=[{samples=24, image_size=16, precision='float32'}, {samples=16, image_size=16}]"
    parts = [stages, "precision=bfloat16"]
    mixed, full, half = tmp_path / "mixed", tmp_path / "full", tmp_path / "half"
    assert fit(load_config(config_file, [*parts, "stop_after=4"]), mixed) == mixed
    fit(load_config(config_file, parts), mixed)
    for precision, run in (("float32", full), ("bfloat16", half)):
        fit(load_config(config_file, [stages.replace(", precision='float32'", ""), f"precision={precision}"]), run)
    found, wide, narrow = ([line["loss"] for line in lines_of(run)] for run in (mixed, full, half))
    assert found[:3] == wide[:3] != narrow[:3]
    assert found[3] != wide[3], "the second stage computes as the run does"
    assert json.loads((mixed / "config.json").read_text())["precision"] == "torch.bfloat16"
    with pytest.raises(StudioError, match="stages"):
        fit(load_config(config_file, [stages.replace("float32", "bfloat16"), "precision=bfloat16"]), mixed)


def test_tars_are_gone_on_with_in_the_middle_of_an_epoch(config_file: Path, tmp_path: Path) -> None:
    shards = write_shards(tmp_path / "tars", 22, 5, 32, per_shard=9)
    tars = f'data={{tars="{tmp_path / "tars"}"}}'
    settings = [tars, "model.text.vocab_size=49408", "augment={scale=[0.5, 1.0]}", "skip={share=0.5}"]
    settings += ["stages=[{epochs=3, image_size=16}]", "optim.warmup_steps=0", "optim.warmup_epochs=0.5"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    fit(load_config(config_file, settings), whole)
    fit(load_config(config_file, [*settings, "stop_after=3", "workers=1"]), parts)
    fit(load_config(config_file, settings), parts)
    assert_same(whole, parts)
    assert [line["step"] for line in lines_of(whole)] == [1, 2, 3, 4, 5, 6]  # 22 samples are 2 batches of 8
    assert load_model(whole / "checkpoint").tokenizer.rule.kind == "clip"
    shards[-1].unlink()
    with pytest.raises(StudioError, match=r"other data|other settings"):
        fit(load_config(config_file, settings), parts)


def test_a_program_may_bring_its_own_data_and_is_told_each_step(config_file: Path, tmp_path: Path) -> None:
    write_shards(tmp_path / "tars", 16, 5, 16)
    # No config reads tars with the words of scenes.
    config = load_config(config_file, [f'data={{tars="{tmp_path / "tars"}"}}', "stages=[{samples=24, image_size=16}]"])
    words = tokenizer_of(load_config(config_file))
    told: list[tuple[int, int]] = []

    def opened(config: RunConfig, cache: Path | None) -> Data:
        return Data(config, words, open_source(config.data, 16, cache))  # type: ignore[arg-type]

    run = tmp_path / "run"
    fit(config, run, opened, lambda step: told.append((step, len(read_log(run / "log.jsonl")))))
    assert told == [(1, 1), (2, 2), (3, 3)]
    assert load_model(run / "checkpoint").tokenizer.vocab_size == 320


def test_a_run_that_is_stopped_at_a_random_step_equals_one_that_was_not(config_file: Path, tmp_path: Path) -> None:
    settings = ["patch_dropout=0.25", "ema=0.9", "evaluation={of=[{scenes=4}], every=2}"]
    wanted, stopped, whole = random.Random(7).randint(1, 7), tmp_path / "stopped", tmp_path / "whole"
    config = load_config(config_file, [*settings, "workers=1"])
    assert fit(config, stopped, after_step=stopping_at(wanted, signal.SIGTERM)) == stopped
    assert state_of(stopped).facts.step == lines_of(stopped)[-1]["step"] == wanted
    fit(load_config(config_file, settings), stopped)
    fit(load_config(config_file, settings), whole)
    assert_same(whole, stopped)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_that_is_killed_at_a_random_step_goes_on_from_its_last_state(
    config_file: Path, tmp_path: Path, workers: int
) -> None:
    settings = ["save_steps=2", "log.probe_every=5"]
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    wanted = random.Random(workers).randint(3, 7)
    process = run_script(KILLED, config_file, killed, wanted, *settings, f"workers={workers}")
    assert process.returncode == -signal.SIGKILL
    assert lines_of(killed)[-1]["step"] == wanted
    # It dies before the state of that step is saved; one is at the end of the first stage as well.
    assert state_of(killed).facts.step == max(step for step in (2, 4, 5, 6) if step < wanted)
    fit(load_config(config_file, settings), killed)
    fit(load_config(config_file, settings), whole)
    assert_same(whole, killed)


@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_saves_and_ends_the_run_which_then_goes_on(
    config_file: Path, tmp_path: Path, number: signal.Signals
) -> None:
    run, before = tmp_path / "run", signal.getsignal(number)
    assert fit(load_config(config_file), run, after_step=stopping_at(2, number)) == run
    assert state_of(run).facts.step == lines_of(run)[-1]["step"] == 2
    assert signal.getsignal(number) is before
    assert fit(load_config(config_file, ["stop_after=3"]), run) == run
    assert [line["step"] for line in lines_of(run)] == [1, 2, 3]


def test_a_signal_during_the_first_batch_ends_the_run_after_its_step(config_file: Path, tmp_path: Path) -> None:
    write_shards(tmp_path / "tars", 16, 5, 16)
    settings = [f'data={{tars="{tmp_path / "tars"}"}}', "stages=[{samples=64, image_size=16}]", "log.probe_every=0"]
    words = tokenizer_of(load_config(config_file))

    def opened(config: RunConfig, cache: Path | None) -> Data:
        source = open_source(config.data, 16, cache)  # type: ignore[arg-type]
        return Data(config, words, Signalling(source, signal.SIGTERM))  # type: ignore[arg-type]

    run = tmp_path / "run"
    assert fit(load_config(config_file, settings), run, opened) == run
    assert state_of(run).facts.step == lines_of(run)[-1]["step"] == 1


def test_a_signal_during_a_measurement_drops_it_and_the_next_start_makes_it(config_file: Path, tmp_path: Path) -> None:
    settings = ["evaluation={of=[{scenes=120}], every=2}", "log.probe_every=0"]
    stopped, whole = tmp_path / "stopped", tmp_path / "whole"
    with signal_at_first_measured_batch(signal.SIGTERM) as batches:
        assert fit(load_config(config_file, settings), stopped) == stopped
    assert len(batches) == 1  # of three
    assert state_of(stopped).facts.step == lines_of(stopped)[-1]["step"] == 2
    assert lines_of(stopped, "evaluation.jsonl") == []
    fit(load_config(config_file, settings), stopped)
    fit(load_config(config_file, settings), whole)
    assert_same(whole, stopped)


def test_a_second_ctrl_c_ends_at_once(config_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"

    def twice(step: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)  # the terminal's and torchrun's are one
        time.sleep(1.2)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fit(load_config(config_file), run, after_step=twice)
    assert [line["step"] for line in lines_of(run)] == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_of_any_kind_ends_a_run_with_workers(config_file: Path, tmp_path: Path) -> None:
    process = run_script(FAILING, config_file, tmp_path / "run", 2, "workers=1")
    assert process.returncode == 1
    assert b"ZeroDivisionError" in process.stderr


def test_a_signal_to_the_whole_group_during_a_measurement_with_workers_ends_well(
    config_file: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    settings = ["evaluation={of=[{scenes=200}], every=2}", "log.probe_every=0", "workers=1"]
    process = run_script(MEASURING, config_file, run, 0, *settings)
    assert process.returncode == 0, process.stderr
    assert state_of(run).facts.step == 2
    assert not (run / "evaluation.jsonl").read_text()


def test_what_cannot_be_written_ends_the_run_with_a_sentence_and_the_state_before(
    config_file: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    config = load_config(config_file, ["save_steps=2", "log.probe_every=0"])
    fit(load_config(config_file, ["stop_after=1"]), run)
    (run / "state-000000004").write_text("a file where a folder is to be")
    with pytest.raises(StudioError, match=r"state-000000004 cannot be written \(File exists\)"):
        fit(config, run)
    assert state_of(run).facts.step == 2
    assert lines_of(run)[-1]["step"] == 4
    (run / "state-000000004").unlink()

    def disk_full(step: int) -> None:
        if step == 3:
            size = (run / "log.jsonl").stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, resource.RLIM_INFINITY))

    try:
        with pytest.raises(StudioError, match=r"log\.jsonl cannot be written \(File too large\)"):
            fit(config, run, after_step=disk_full)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert state_of(run).facts.step == 2
    fit(config, run)
    assert [line["step"] for line in lines_of(run)] == list(range(1, 9))


def test_a_gpu_with_too_little_memory_is_told(config_file: Path, tmp_path: Path) -> None:
    def full(step: int) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    with pytest.raises(StudioError, match=r"cpu has too little memory for 8 samples a process in 1 part: raise accum"):
        fit(load_config(config_file), tmp_path / "run", after_step=full)


def test_the_index_of_tars_lies_beside_the_run_wherever_that_is(
    config_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_shards(tmp_path / "tars", 16, 5, 16)
    settings = [f'data={{tars="{tmp_path / "tars"}"}}', "model.text.vocab_size=49408"]
    settings += ["stages=[{samples=8, image_size=16}]", "optim.warmup_steps=0"]
    (tmp_path / "runs" / "here").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "runs" / "here")
    fit(load_config(config_file, settings), Path())
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["data-index", "here"]
    assert not Path("data-index").exists()


def test_the_log_has_one_line_a_step_with_lambda_of_both_towers(config_file: Path, tmp_path: Path) -> None:
    checkpoint = fit(load_config(config_file, ["log.norms_every=4", "log.rate_seconds=0.01"]), tmp_path / "run")
    lines = read_log(tmp_path / "run" / "log.jsonl")
    assert [line["step"] for line in lines] == list(range(1, 9))
    assert [line["samples"] for line in lines] == list(range(8, 65, 8))
    assert [line["image_size"] for line in lines] == [16] * 5 + [32] * 3
    assert [line["step"] for line in lines if "norms" in line] == [1, 4, 8]
    assert [line["step"] for line in lines if "probe" in line] == [1]
    for line in lines:
        assert {"loss", "lr", "logit_scale", "grad_norm", "lambda", "lambda_terms", *WALL_CLOCK} <= line.keys()
        assert [len(line["lambda"][tower]) for tower in ("vision", "text")] == [2, 1]
        for tower, values in line["lambda"].items():
            for value, (first, second) in zip(values, line["lambda_terms"][tower], strict=True):
                assert value == pytest.approx(first - second + 0.8, abs=2e-6)
    model = load_model(checkpoint)
    assert model.vision.lambdas() == pytest.approx(lines[-1]["lambda"]["vision"], abs=1e-6)
    assert model.preprocess_settings.size == 32


@pytest.mark.parametrize("trunk", ["open_clip", "timm"])
def test_activations_that_are_computed_twice_change_nothing(config_file: Path, tmp_path: Path, trunk: str) -> None:
    settings = [f"model.vision.trunk={trunk}", "patch_dropout=0.25", "stop_after=6", "log.probe_every=0"]
    fit(load_config(config_file, settings), tmp_path / "plain")
    fit(load_config(config_file, [*settings, "grad_checkpointing=true"]), tmp_path / "twice")
    assert lines_of(tmp_path / "plain") == lines_of(tmp_path / "twice")


def test_the_checkpoint_holds_the_average_where_there_is_one(config_file: Path, tmp_path: Path) -> None:
    checkpoint = fit(load_config(config_file, ["ema=0.9"]), tmp_path / "run")
    state, saved = state_of(tmp_path / "run"), load_file(checkpoint / "model.safetensors")
    name = "visual.proj"
    assert torch.equal(saved[name], state.ema[name].half())
    assert not torch.equal(saved[name], state.model[name].half())


def test_a_vocabulary_that_the_captions_cannot_fill_is_told(config_file: Path, tmp_path: Path) -> None:
    with pytest.raises(StudioError, match="but the captions give"):
        fit(load_config(config_file, ["model.text.vocab_size=5000"]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_not_finite_stops_with_the_step_or_is_left_out(config_file: Path, tmp_path: Path) -> None:
    wild = ["optim.lr=1e30", "optim.grad_clip=inf"]
    with pytest.raises(StudioError, match="loss of step"):
        fit(load_config(config_file, wild), tmp_path / "run")
    with pytest.raises(StudioError, match="after 3 skipped in a row"):
        fit(load_config(config_file, [*wild, "skip_non_finite=3"]), tmp_path / "skips")
    skipped = [line["skipped"] for line in lines_of(tmp_path / "skips") if "skipped" in line]
    assert len(skipped) == 3
    assert all("is not finite" in text for text in skipped)


def test_a_state_is_saved_at_the_end_of_a_stage_before_the_picture_size_changes(
    config_file: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    fit(load_config(config_file, ["log.probe_every=0"]), run)
    assert sorted(path.name for path in run.glob("state-*")) == ["state-000000005", "state-000000008"]


def test_a_finished_run_is_finished_again_without_a_step(config_file: Path, tmp_path: Path) -> None:
    config, run = load_config(config_file), tmp_path / "run"
    checkpoint = fit(config, run)
    before = {path: path.read_bytes() for path in (run / "log.jsonl", run / POINTER, checkpoint / "model.safetensors")}
    assert fit(config, run) == checkpoint
    assert {path: path.read_bytes() for path in before} == before


def test_a_measurement_that_is_missing_is_made_by_the_next_start(config_file: Path, tmp_path: Path) -> None:
    settings = ["evaluation={of=[{scenes=4}], every=2}", "stop_after=4"]
    run = tmp_path / "run"
    fit(load_config(config_file, settings), run)
    (run / "evaluation.jsonl").write_text("".join((run / "evaluation.jsonl").read_text().splitlines(True)[:1]))
    fit(load_config(config_file, settings), run)
    measured: list[dict[str, Any]] = lines_of(run, "evaluation.jsonl")
    assert [line["step"] for line in measured] == [2, 4]
    assert lines_of(run)[-1]["step"] == 4
