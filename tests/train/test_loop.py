"""Training: it learns, it resumes as if nothing had happened, it never overwrites another run."""

import json
import os
import signal
import threading
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from tiny import tiny_config

from models import load_model
from models.build import build_clip
from models.diff_attention import DifferentialAttention
from models.errors import StudioError
from models.tokenizer import DomainTokenizer
from train.config import OptimConfig, load_config
from train.data import scenes_batch, scenes_preprocess, scenes_tokenizer, to_pixels
from train.logbook import Logbook, lambda_entries, read_log
from train.loop import fit, train_step
from train.loss import contrastive_loss
from train.optim import build_optimizer
from train.resolution import at_resolution
from train.scenes import SceneOptions, describe_scene, render_scene

TIMING = "samples_per_second"


def lines_of(run: Path) -> list[dict]:
    return [{k: v for k, v in line.items() if k != TIMING} for line in read_log(run / "log.jsonl")]


def test_both_kinds_of_attention_learn_sixteen_pairs_by_heart(tokenizer: DomainTokenizer) -> None:
    scenes = [describe_scene(1, index) for index in range(16)]
    pixels = to_pixels(torch.stack([torch.from_numpy(render_scene(s, 32)[0]) for s in scenes]).numpy())
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
    whole = fit(load_config(config_file), tmp_path / "whole")
    for stop in (3, 5, 6):  # inside the first stage, at its end, inside the second
        assert fit(load_config(config_file, [f"stop_after={stop}"]), tmp_path / "parts") == tmp_path / "parts"
    parts = fit(load_config(config_file), tmp_path / "parts")
    assert lines_of(tmp_path / "whole") == lines_of(tmp_path / "parts")
    one, other = load_file(whole / "model.safetensors"), load_file(parts / "model.safetensors")
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_the_log_has_one_line_a_step_with_lambda_of_both_towers(config_file: Path, tmp_path: Path) -> None:
    checkpoint = fit(load_config(config_file), tmp_path / "run")
    lines = lines_of(tmp_path / "run")
    assert [line["step"] for line in lines] == list(range(1, 9))
    assert [line["samples"] for line in lines] == list(range(8, 65, 8))
    assert [line["image_size"] for line in lines] == [16] * 5 + [32] * 3
    for line in lines:
        assert {"loss", "lr", "logit_scale", "grad_norm", "lambda", "lambda_terms"} <= line.keys()
        assert [len(line["lambda"][tower]) for tower in ("vision", "text")] == [2, 1]
        for tower, values in line["lambda"].items():
            for value, (first, second) in zip(values, line["lambda_terms"][tower], strict=True):
                assert value == pytest.approx(first - second + 0.8, abs=2e-6)
    model = load_model(checkpoint)
    assert model.vision.lambdas() == pytest.approx(lines[-1]["lambda"]["vision"], abs=1e-6)
    assert model.preprocess_settings.size == 32


def test_a_signal_saves_and_ends_the_run_which_then_goes_on(config_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = load_config(config_file, ["stages=[{samples=4000, image_size=16}]", "batch_size=8"])
    threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
    assert fit(config, run) == run
    taken = lines_of(run)[-1]["step"]
    assert 1 <= taken < 500
    assert torch.load(run / "state.pt", weights_only=True)["step"] == taken
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_folder_with_another_run_or_other_files_is_left_alone(config_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    fit(load_config(config_file, ["stop_after=1"]), run)
    before = (run / "log.jsonl").read_bytes()
    with pytest.raises(StudioError, match="already holds another run"):
        fit(load_config(config_file, ["optim.lr=0.1"]), run)
    assert (run / "log.jsonl").read_bytes() == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    with pytest.raises(StudioError, match="is not empty: it holds no run to go on with"):
        fit(load_config(config_file), tmp_path / "other")
    with pytest.raises(StudioError, match="is a file"):
        fit(load_config(config_file), tmp_path / "other" / "thesis.txt")


def test_a_run_of_other_package_versions_is_not_gone_on_with(config_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    fit(load_config(config_file, ["stop_after=1"]), run)
    resolved = json.loads((run / "config.json").read_text())
    resolved["packages"]["tokenizers"] = "0.0.1"
    (run / "config.json").write_text(json.dumps(resolved))
    with pytest.raises(StudioError, match=r"tokenizers 0\.0\.1 -> "):
        fit(load_config(config_file), run)
    (run / "config.json").write_text("{")
    with pytest.raises(StudioError, match="cannot be read"):
        fit(load_config(config_file), run)


def test_a_gradient_that_is_not_finite_changes_no_weight(config_file: Path) -> None:
    config = load_config(config_file)
    tokenizer = scenes_tokenizer(config.data, 320, 16)
    clip = build_clip(config.stage_model(config.stages[0]))
    clip.visual.proj.register_hook(lambda gradient: gradient * float("inf"))
    before = {name: tensor.clone() for name, tensor in clip.state_dict().items()}
    with pytest.raises(StudioError, match="gradient norm of step 1"):
        train_step(clip, build_optimizer(clip, config.optim), config, tokenizer, 0, torch.float32)
    assert all(torch.equal(tensor, before[name]) for name, tensor in clip.state_dict().items())


def test_a_vocabulary_that_the_captions_cannot_fill_is_told(config_file: Path, tmp_path: Path) -> None:
    with pytest.raises(StudioError, match="but the captions give"):
        fit(load_config(config_file, ["model.text.vocab_size=5000"]), tmp_path / "run")


def test_a_loss_that_is_not_finite_stops_with_the_step(config_file: Path, tmp_path: Path) -> None:
    with pytest.raises(StudioError, match="loss of step"):
        fit(load_config(config_file, ["optim.lr=1e30", "optim.grad_clip=1e30"]), tmp_path / "run")


def test_a_broken_state_is_told_and_not_replaced(config_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    fit(load_config(config_file, ["stop_after=1"]), run)
    (run / "state.pt").write_bytes(b"half a file")
    with pytest.raises(StudioError, match="delete it to start the run again"):
        fit(load_config(config_file), run)
    assert (run / "state.pt").read_bytes() == b"half a file"


def test_a_batch_is_a_function_of_config_and_step(config_file: Path) -> None:
    config = load_config(config_file)
    tokenizer = scenes_tokenizer(config.data, 320, 16)
    first, again, next_ = (scenes_batch(config, tokenizer, step) for step in (0, 0, 1))
    assert torch.equal(first.pixels, again.pixels)
    assert torch.equal(first.tokens, again.tokens)
    assert not torch.equal(first.pixels, next_.pixels)
    assert first.pixels.shape == (8, 3, 16, 16)
    assert scenes_batch(config, tokenizer, 5).pixels.shape == (8, 3, 32, 32)


def test_a_stage_may_draw_larger_and_with_other_counts(config_file: Path) -> None:
    settings = "stages=[{samples=40, image_size=16}, {samples=24, image_size=16, drawn=64, weights=[1, 0, 0, 0]}]"
    config = load_config(config_file, [settings])
    tokenizer = scenes_tokenizer(config.data, 320, 16)
    scene = describe_scene(config.data.seed, 40, SceneOptions(weights=(1, 0, 0, 0)))
    picture = Image.fromarray(render_scene(scene, 64)[0])
    assert len(scene.objects) == 1
    assert torch.equal(scenes_batch(config, tokenizer, 5).pixels[0], scenes_preprocess(16)(picture)[0])


def test_a_new_resolution_keeps_weights_and_moments_but_those_of_positions() -> None:
    small, large = (tiny_config("differential", 290, size) for size in (16, 32))
    clip, optim = build_clip(small), OptimConfig(1e-3, 1)
    optimizer = build_optimizer(clip, optim)
    clip.encode_image(torch.randn(2, 3, 16, 16)).sum().backward()
    optimizer.step()
    grown, grown_optimizer = at_resolution(clip, optimizer, large, optim)
    assert grown.visual.positional_embedding.shape[0] == 17
    old, new = dict(clip.named_parameters()), dict(grown.named_parameters())
    for name, parameter in new.items():
        if name == "visual.positional_embedding":
            assert parameter not in grown_optimizer.state
        else:
            assert torch.equal(parameter, old[name])
            assert (parameter in grown_optimizer.state) == (old[name] in optimizer.state)
    assert at_resolution(clip, optimizer, small, optim) == (clip, optimizer)


def test_the_logbook_drops_lines_after_the_resumed_step_and_a_torn_last_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps({"step": i}) + "\n" for i in range(1, 6)) + '{"step": 6, "lo')
    book = Logbook(path, 3)
    book.write({"step": 4, "new": True})
    book.close()
    assert read_log(path) == [{"step": 1}, {"step": 2}, {"step": 3}, {"step": 4, "new": True}]


def test_clip_logs_no_lambda() -> None:
    assert lambda_entries(build_clip(tiny_config("standard", 290))) == {}
    clip = build_clip(tiny_config("differential", 290))
    attention = clip.transformer.resblocks[1].attn
    assert isinstance(attention, DifferentialAttention)
    assert lambda_entries(clip)["lambda"]["text"][1] == pytest.approx(float(attention.lam().detach()), abs=1e-6)
