"""The step log: cut back to where a run goes on, never half a line, always JSON."""

import json
import math
from pathlib import Path

import pytest
import torch
from tiny import tiny_config

from models.build import build_clip
from models.diff_attention import DifferentialAttention
from models.errors import StudioError
from train.logbook import Logbook, lambda_entries, read_log, weight_norms


def test_the_logbook_drops_lines_after_the_resumed_step_and_a_torn_last_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps({"step": i}) + "\n" for i in range(1, 6)) + '{"step": 6, "lo')
    book = Logbook(path, 3)
    assert book.last == {"step": 3}
    book.write({"step": 4, "new": True})
    assert read_log(path) == [{"step": 1}, {"step": 2}, {"step": 3}, {"step": 4, "new": True}]
    book.close()


def test_a_broken_line_in_the_middle_is_told_and_costs_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.jsonl"
    lines = [json.dumps({"step": step}) for step in range(1, 6)]
    lines[2] = '{"step": 3, \0\0\0'
    path.write_text("\n".join(lines) + "\n")
    assert [line["step"] for line in read_log(path)] == [1, 2, 4, 5]
    book = Logbook(path, 4)
    assert f"line 3 of {path} cannot be read" in capsys.readouterr().err
    book.close()
    assert [line["step"] for line in read_log(path)] == [1, 2, 4]


def test_a_log_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(StudioError, match="cannot be written"):
        Logbook(tmp_path / "gone" / "log.jsonl", 0)


def test_a_number_that_is_not_finite_is_null(tmp_path: Path) -> None:
    book = Logbook(tmp_path / "log.jsonl", 0)
    book.write({"step": 1, "loss": math.nan, "norms": {"a": [math.inf, 1.0]}})
    book.sync()
    book.close()
    assert read_log(tmp_path / "log.jsonl") == [{"step": 1, "loss": None, "norms": {"a": [None, 1.0]}}]


def test_clip_logs_no_lambda() -> None:
    assert lambda_entries(build_clip(tiny_config("standard", 290))) == {}
    clip = build_clip(tiny_config("differential", 290))
    attention = clip.transformer.resblocks[1].attn
    assert isinstance(attention, DifferentialAttention)
    assert lambda_entries(clip)["lambda"]["text"][1] == pytest.approx(float(attention.lam().detach()), abs=1e-6)


def test_the_norms_of_layers_make_up_the_norm_of_the_model_and_of_its_update() -> None:
    clip = build_clip(tiny_config("differential", 290))
    before = {name: p.detach().clone() for name, p in clip.named_parameters()}
    with torch.no_grad():
        for parameter in clip.visual.transformer.resblocks[1].parameters():  # type: ignore[union-attr]
            parameter.add_(0.5)
    update = weight_norms(clip, before)
    moved = sum(p.numel() for p in clip.visual.transformer.resblocks[1].parameters())  # type: ignore[union-attr]
    assert update["vision block 1"] == pytest.approx(0.5 * moved**0.5, rel=1e-4)
    assert sum(norm > 0 for norm in update.values()) == 1
    total = math.sqrt(sum(norm**2 for norm in weight_norms(clip).values()))
    assert total == pytest.approx(math.sqrt(sum(float((p.detach() ** 2).sum()) for p in clip.parameters())), rel=1e-4)
