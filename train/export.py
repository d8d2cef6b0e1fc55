"""From a finished run to the folder that is shipped: checkpoint, step log, resolved config, model card."""

import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from models.checkpoints import CARD, TOKENIZER, WEIGHTS, load_checkpoint
from models.checkpoints import CONFIG as CHECKPOINT_CONFIG
from models.config import ModelConfig
from models.errors import CheckpointError, StudioError
from models.loaded import LoadedModel
from train.config import CONFIGS, load_config, resolved
from train.durable import place_folder, write_whole, writing
from train.evaluation.quoting import quotes
from train.evaluation.zero_shot import ZeroShotResult
from train.kept import kept_steps
from train.run_folder import CHECKPOINT, CONFIG, LOG, STEPS, check_free, deciding, settings_of
from train.run_folder import EVALUATION as MEASURED

RUN_CONFIG, EVALUATION = "run.json", "evaluation.json"
_FOR_LOOKING = (
    "It is a model to look at, not one to use on photographs: outside generated scenes its answers mean nothing."
)


def export_run(run: Path, out: Path) -> Path:
    """Copy a finished run's checkpoint, the weights it kept on its way, its log and its resolved config into `out`.

    The folder is made beside `out` and gets its name when it is whole, so that a cut leaves none that is half there.
    What `python -m train evaluate` finds is added by it later.

    Raises:
        StudioError: the run is not finished, `out` holds something already, or cannot be written.
    """
    if not all((run / name).exists() for name in (CHECKPOINT, LOG, CONFIG)):
        raise StudioError(f"{run} holds no finished run: let `python -m train fit` come to its end first.")
    check_free(out, "choose another folder, or delete it")
    with writing(out):
        place = Path(os.path.abspath(out))
        place.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{place.name}-", dir=place.parent) as beside:
            partial = Path(beside) / place.name
            _copy(run, partial)
            write_card(partial)
            place_folder(partial, place)
    return out


def _copy(run: Path, out: Path) -> None:
    _copy_folder(run / CHECKPOINT, out)
    for step, folder in kept_steps(run).items():
        _copy_folder(folder, out / STEPS / str(step))
    shutil.copyfile(run / LOG, out / LOG)
    shutil.copyfile(run / CONFIG, out / RUN_CONFIG)
    if (run / MEASURED).exists():
        shutil.copyfile(run / MEASURED, out / MEASURED)


def _copy_folder(folder: Path, out: Path) -> None:
    """A folder with all that is in it; what cannot be written ends it at once, with the system's own error."""
    out.mkdir(parents=True)
    for path in folder.iterdir():
        (_copy_folder if path.is_dir() else shutil.copyfile)(path, out / path.name)


def check_exported(folder: Path) -> None:
    """A card needs the run beside the checkpoint.

    Raises:
        CheckpointError: config, run or log is missing.
    """
    missing = _missing(folder)
    if missing:
        raise CheckpointError(
            f"{folder} is no exported checkpoint, it lacks {', '.join(missing)}: use `python -m train export` first."
        )


def is_exported(folder: Path) -> bool:
    """Whether the run lies beside the checkpoint, so that the folder has a card of ours."""
    return not _missing(folder)


def _missing(folder: Path) -> list[str]:
    return [name for name in (CHECKPOINT_CONFIG, RUN_CONFIG, LOG) if not (folder / name).is_file()]


def write_evaluation(folder: Path, result: ZeroShotResult, compared: Sequence[ZeroShotResult] = ()) -> Path:
    """Write what an exported checkpoint scores on scenes, beside others that were measured with it, and its card.

    Raises:
        CheckpointError: the folder is no exported checkpoint.
    """
    check_exported(folder)
    plain: dict[str, Any] = {**asdict(result), "compared": [asdict(other) for other in compared]}
    write_whole(folder / EVALUATION, json.dumps(plain, indent=2) + "\n")
    return write_card(folder)


def write_card(folder: Path) -> Path:
    """Write the model card, README.md, from what lies in the folder: config, run, log, evaluation, if any.

    A section of the card that quotes a study (`train.evaluation.quoting`) stays as it is.

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
    write_whole(path, _card(folder, model, run, last, measured, _quoting(path)))
    return path


def _quoting(card: Path) -> list[str]:
    """The sections of a card, if there is one, that quote a study, heading and all."""
    sections = card.read_text(encoding="utf-8").split("\n## ")[1:] if card.is_file() else []
    return [line for section in sections if quotes(section) for line in [f"## {section.strip()}", ""]]


def _card(
    folder: Path,
    model: LoadedModel,
    run: dict[str, Any],
    last: dict[str, Any],
    measured: dict[str, Any] | None,
    quoting: Sequence[str],
) -> str:
    config, settings = model.config, run["config"]
    assert isinstance(config, ModelConfig)  # a run trains no other
    stages = ", then ".join(
        (f"{s['samples']:,}" if s.get("samples") else f"{s.get('epochs')} epochs") + f" at {s['image_size']} pixels"
        for s in settings["stages"]
    )
    loss = "none, it was left out" if last["loss"] is None else f"{last['loss']:.3f}"
    scenes = any(key in settings["data"] for key in ("seed", "scenes"))
    source = _source(settings["data"])
    size = sum(parameter.numel() for parameter in model.module.parameters())
    towers = [name for name, tower in (("vision", model.vision), ("text", model.text)) if tower.differential]
    kind = f"differential attention (A1 - lambda A2) in {' and '.join(towers)}" if towers else "standard attention"
    lines = [
        "---",
        *(["license: cc-by-sa-4.0"] if scenes else []),
        "library_name: open_clip",
        "---",
        f"# {model.title}",
        "",
        f"A {'small ' if scenes else ''}CLIP with {kind}, trained from scratch on {source}.",
        *([_FOR_LOOKING] if scenes else []),
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
        f"| seeds | weights {settings['seed']}{_scenes_seed(settings['data'])} |",
        f"| precision of training | {_precision(run)} |",
        f"| loss of the last step | {loss} |",
        "",
        *_made_by(run),
        "",
    ]
    if measured:
        lines += _measured(folder.name, measured)
    lines += [*quoting, "## Files", "", *_files(folder), ""]
    if scenes:
        lines += [
            "The pictures it was trained on are drawn from OpenMoji, https://openmoji.org, CC BY-SA 4.0;",
            "the weights are given under the same licence.",
            "",
        ]
    return "\n".join(lines)


def _source(data: dict[str, Any]) -> str:
    """What a run was trained on, for people, from the table of its config; each kind is known by its first key."""
    if "tars" in data:
        return f"the captioned pictures of {data['tars']}"
    if "csv" in data:
        return f"the captioned pictures of {data['csv']}"
    return "generated OpenMoji scenes"


def _scenes_seed(data: dict[str, Any]) -> str:
    seed = data.get("seed", data.get("scenes"))
    return "" if seed is None else f", scenes {seed}"


def _precision(run: dict[str, Any]) -> str:
    """What the stages computed in, in their order."""
    own = run["precision"].removeprefix("torch.")
    return ", then ".join(dict.fromkeys(stage.get("precision") or own for stage in run["config"]["stages"]))


def _made_by(run: dict[str, Any]) -> list[str]:
    """The command that trains such a model, where a config of this project's has its settings."""
    settings, samples = settings_of(run), (run.get("data") or {}).get("samples", 0)
    for path in sorted(CONFIGS.glob("*.toml")):
        config = load_config(path)
        with suppress(StudioError):  # a config for more data than these
            if deciding(config if config.is_resolved else resolved(config, samples)) == settings:
                return ["Made by", "", f"    python -m train fit train/configs/{path.name}"]
    return [f"Made by `python -m train fit` with the settings in `{RUN_CONFIG}`."]


def _files(folder: Path) -> list[str]:
    """The files of the folder that belong to the model, a line each."""
    kept = kept_steps(folder)
    told = {
        WEIGHTS: "float16; lambda vectors, norms and logit scale float32",
        CHECKPOINT_CONFIG: "model, preprocessing, tokenizer's rule",
        TOKENIZER: "the vocabulary",
        LOG: "one line a step",
        MEASURED: "what was measured while it trained, a line each",
        RUN_CONFIG: "resolved config and package versions",
        EVALUATION: "what is told above",
        f"{STEPS}/": f"the weights after step {', '.join(f'{step:,}' for step in kept)}" if kept else "",
    }
    return [f"- `{name}`: {what}" for name, what in told.items() if what and (folder / name).exists()]


def _measured(name: str, measured: dict[str, Any]) -> list[str]:
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
    return [
        *lines,
        "",
        "One seed each; a difference within the intervals is no finding. Measured again, where this folder lies, by",
        "",
        f"    python -m train evaluate {name} --images {measured['images']}",
        "",
    ]
