"""From a finished run to the folder that is shipped: checkpoint, step log, resolved config, model card."""

import json
import shutil
from pathlib import Path
from typing import Any

from models.checkpoints import CARD, load_checkpoint
from models.checkpoints import CONFIG as CHECKPOINT_CONFIG
from models.errors import CheckpointError, StudioError
from models.loaded import LoadedModel
from train.loop import CHECKPOINT, CONFIG, LOG, check_free

RUN_CONFIG, EVALUATION = "run.json", "evaluation.json"


def export_run(run: Path, out: Path) -> Path:
    """Copy a finished run's checkpoint, log and resolved config into `out`; the evaluation is added by `evaluate`.

    Raises:
        StudioError: the run is not finished, or `out` holds something already.
    """
    if not (run / CHECKPOINT).is_dir():
        raise StudioError(f"{run} holds no finished run: let `python -m train fit` come to its end first.")
    check_free(out, "choose another folder, or delete it")
    shutil.copytree(run / CHECKPOINT, out, dirs_exist_ok=True)
    shutil.copy2(run / LOG, out / LOG)
    shutil.copy2(run / CONFIG, out / RUN_CONFIG)
    write_card(out)
    return out


def check_exported(folder: Path) -> None:
    """A card needs the run beside the checkpoint.

    Raises:
        CheckpointError: config, run or log is missing.
    """
    missing = [name for name in (CHECKPOINT_CONFIG, RUN_CONFIG, LOG) if not (folder / name).is_file()]
    if missing:
        raise CheckpointError(
            f"{folder} is no exported checkpoint, it lacks {', '.join(missing)}: use `python -m train export` first."
        )


def write_card(folder: Path) -> Path:
    """Write the model card, README.md, from what lies in the folder: config, run, log, evaluation, if any.

    Raises:
        CheckpointError: the folder is no exported checkpoint.
    """
    check_exported(folder)
    model = load_checkpoint(folder)
    run = json.loads((folder / RUN_CONFIG).read_text(encoding="utf-8"))
    last = json.loads((folder / LOG).read_text(encoding="utf-8").splitlines()[-1])
    evaluation = folder / EVALUATION
    measured = json.loads(evaluation.read_text(encoding="utf-8")) if evaluation.exists() else None
    path = folder / CARD
    path.write_text(_card(model, run, last, measured), encoding="utf-8")
    return path


def _card(model: LoadedModel, run: dict[str, Any], last: dict[str, Any], measured: dict[str, Any] | None) -> str:
    config, settings = model.config, run["config"]
    stages = ", then ".join(f"{s['samples']:,} at {s['image_size']} pixels" for s in settings["stages"])
    size = sum(parameter.numel() for parameter in model.module.parameters())
    towers = [name for name, tower in (("vision", model.vision), ("text", model.text)) if tower.differential]
    kind = f"differential attention (A1 - lambda A2) in {' and '.join(towers)}" if towers else "standard attention"
    lines = [
        "---",
        "license: cc-by-sa-4.0",
        "library_name: open_clip",
        "---",
        f"# {model.title}",
        "",
        f"A small CLIP with {kind}, trained from scratch on generated OpenMoji scenes.",
        "It is a model to look at, not one to use on photographs: outside generated scenes its answers mean nothing.",
        "",
        "| | |",
        "|---|---|",
        f"| parameters | {size:,} |",
        f"| vision | {config.vision.layers} layers, width {config.vision.width}, {model.vision.heads} heads"
        f"{' (pairs)' if model.vision.differential else ''}, patch {config.vision.patch_size}, "
        f"{config.vision.image_size} x {config.vision.image_size} pixels |",
        f"| text | {config.text.layers} layers, width {config.text.width}, {model.text.heads} heads"
        f"{' (pairs)' if model.text.differential else ''}, {config.text.vocab_size} ids, context "
        f"{config.text.context_length} |",
        f"| samples | {stages}; batch {settings['batch_size']} |",
        f"| seeds | weights {settings['seed']}, scenes {settings['data']['seed']} |",
        f"| precision of training | {run['precision'].removeprefix('torch.')} |",
        f"| loss of the last step | {last['loss']:.3f} |",
        "",
        "Made by",
        "",
        f"    python -m train fit train/configs/{settings['name'].replace('-', '_')}.toml",
        f"    python -m train export runs/{settings['name']} assets/checkpoints/{settings['name']}",
        "    python -m train evaluate assets/checkpoints/clip-scenes assets/checkpoints/diffclip-scenes",
        "",
    ]
    if measured:
        lines += _measured(measured)
    lines += [
        "## Files",
        "",
        "`model.safetensors` (float16; lambda vectors, norms and logit scale float32), `config.json`,",
        "`tokenizer.json`, `log.jsonl` (one line a step), `run.json` (resolved config and package",
        "versions), `evaluation.json`.",
        "",
        "The pictures it was trained on are drawn from OpenMoji, https://openmoji.org, CC BY-SA 4.0;",
        "the weights are given under the same licence.",
        "",
    ]
    return "\n".join(lines)


def _measured(measured: dict[str, Any]) -> list[str]:
    low, high = measured["top1_interval"]
    lines = [
        "## Measured",
        "",
        f"Zero-shot classification of {measured['images']} unseen scenes with one object (seed {measured['seed']}), "
        f'over all {measured["classes"]} object names, prompt "{measured["template"]}":',
        "",
        "| | top-1 | 95 % interval | top-5 | chance |",
        "|---|---|---|---|---|",
        f"| this model | {measured['top1']:.1%} | {low:.1%} to {high:.1%} | {measured['top5']:.1%} | "
        f"{1 / measured['classes']:.1%} |",
    ]
    for other in measured.get("compared", []):
        low, high = other["top1_interval"]
        lines.append(
            f"| {other['model']} | {other['top1']:.1%} | {low:.1%} to {high:.1%} | {other['top5']:.1%} | "
            f"{1 / other['classes']:.1%} |"
        )
    return [*lines, "", "One seed each; a difference within the intervals is no finding.", ""]
