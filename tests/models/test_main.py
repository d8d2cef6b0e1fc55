"""python -m models: describe, check and export, as a person types them."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from foreign import golden, native, written

from models import LoadedModel, describe, load_model
from models.__main__ import _parser, main
from models.check import check_reconstruction
from models.checkpoints import export_checkpoint
from models.diff_attention import DifferentialMultiheadAttention


def test_describe_says_what_was_found_assumed_and_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"state_dict": golden("diffclip_published_tiny")[0]}, tmp_path / "best.pt")
    assert main(["describe", str(tmp_path / "best.pt"), "--resize", "squash", "--lambda-init", "0.5"]) == 0
    printed = capsys.readouterr().out
    for part in ("DiffCLIP, published layout", "both sides scaled", "given", "resize = squash", "0.5, 0.5, 0.5"):
        assert part in printed
    assert "short side" not in printed
    assert "lambda_init 0.8" not in printed


def test_export_writes_a_folder_that_loads_back_bit_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(native("differential"), tmp_path / "model.safetensors")
    assert main(["export", str(path), str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "out")
    before, after = load_model(path).module.state_dict(), load_model(tmp_path / "out").module.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert load_model(tmp_path / "out").origin.assumed == load_model(path).origin.assumed
    assert main(["export", str(path), str(tmp_path / "out")]) == 2
    assert "choose a new folder" in capsys.readouterr().err


class OnePercentOff(DifferentialMultiheadAttention):
    """Attention that does not do what its projections say."""

    def attend(self, x: torch.Tensor, attn_mask: torch.Tensor | None = None) -> torch.Tensor:
        return super().attend(x, attn_mask) * 1.01


def test_check_prints_one_line_a_layer_and_fails_where_a_map_is_not_true(
    diffclip: LoadedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = export_checkpoint(diffclip, tmp_path / "mine")
    assert main(["check", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("layer" in line for line in lines) == diffclip.vision.layers + diffclip.text.layers
    assert sum("entmax" in line for line in lines) == 5
    assert all(line.startswith("ok") for line in lines)
    model = load_model(folder)
    model.vision.attention[1].__class__ = OnePercentOff
    lines = list(check_reconstruction(model))
    assert [line.what for line in lines if not line.passed] == ["vision layer 1"]


@pytest.mark.parametrize("command", ["describe", "check", "export"])
def test_the_example_of_each_command_is_one_that_the_command_line_takes(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit, match=r"^0$"):
        main([command, "--help"])
    examples = re.findall(r"^example: python -m models (.+)$", capsys.readouterr().out, re.MULTILINE)
    assert [shlex.split(example)[0] for example in examples] == [command]
    taken = _parser().parse_args(shlex.split(examples[0]))
    assert taken.run is _parser().parse_args([command, "x", *(["y"] if command == "export" else [])]).run
    assert taken.source in examples[0].split()


def test_the_command_line_is_a_module_with_examples_and_one_sentence_errors() -> None:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    run = [sys.executable, "-m", "models"]
    for command in ("describe", "check", "export"):
        shown = subprocess.run([*run, command, "--help"], capture_output=True, text=True, check=True, env=environment)
        assert "example: python -m models" in shown.stdout
    failed = subprocess.run([*run, "describe", "no-such"], capture_output=True, text=True, env=environment)
    assert failed.returncode == 2
    assert failed.stderr.startswith("error: ")
    assert "Traceback" not in failed.stderr
    assert len(failed.stderr.strip().splitlines()) == 1


def test_describe_aligns_its_columns_and_answers_by_label(clip: LoadedModel) -> None:
    shown = describe(clip)
    assert shown["name"] == clip.name
    starts = {line.index("  ") for line in str(shown).splitlines()}
    assert max(starts) <= max(len(label) for label, _ in shown.rows)


def test_every_public_name_is_there_and_no_module_hides_one() -> None:
    code = (
        "import models, pkgutil\n"
        "assert not set(models.__all__) & {module.name for module in pkgutil.iter_modules(models.__path__)}\n"
        "assert all(getattr(models, name) is not None for name in models.__all__)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
