"""Checkpoints as folders that run no code: safetensors weights, a JSON config, a tokenizer, a card.

model.safetensors   weights, float16 with lambda vectors, norms and logit scale in float32
config.json         model, preprocessing, domain, title
tokenizer.json      see models/tokenizer.py
README.md           model card
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from open_clip.model import CLIP
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from models.build import build_clip, keep_in_float32, text_blocks, vision_blocks
from models.config import ModelConfig
from models.errors import CheckpointError, StudioError
from models.layout import TokenGrid, TokenSequence
from models.loaded import LoadedModel, Tower
from models.plain import from_plain
from models.preprocess import Preprocess
from models.tokenizer import DomainTokenizer, load_tokenizer

WEIGHTS, CONFIG, TOKENIZER, CARD = "model.safetensors", "config.json", "tokenizer.json", "README.md"
FORMAT = 1


@dataclass(frozen=True)
class CheckpointInfo:
    """What config.json says: the model, how it wants pictures, and what a person should know of it.

    Attributes:
        title: how a person reads it.
        domain: the kind of picture it was trained on.
        model: widths, depths, attention kinds.
        preprocess: its transform.
        format: version of this layout.
    """

    title: str
    domain: str
    model: ModelConfig
    preprocess: Preprocess
    format: int = FORMAT


def save_checkpoint(folder: Path, clip: CLIP, info: CheckpointInfo, tokenizer: DomainTokenizer) -> None:
    """Write weights, config and tokenizer into a folder; weights in half precision but for the sensitive few."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        name: tensor.detach().float() if keep_in_float32(name) else tensor.detach().half()
        for name, tensor in clip.state_dict().items()
    }
    save_file({name: tensor.contiguous() for name, tensor in state.items()}, folder / WEIGHTS)
    plain = {
        "format": info.format,
        "title": info.title,
        "domain": info.domain,
        "preprocess": info.preprocess.to_dict(),
        "model": info.model.to_dict(),
    }
    (folder / CONFIG).write_text(json.dumps(plain, indent=2) + "\n", encoding="utf-8")
    tokenizer.save(folder / TOKENIZER)


def load_checkpoint(folder: Path, name: str | None = None) -> LoadedModel:
    """Load a checkpoint folder, strictly, for inference in float32.

    Raises:
        CheckpointError: a file is missing or broken, or the weights do not fit the config.
    """
    info = read_info(folder)
    clip = build_clip(info.model)
    state = _read_weights(folder / WEIGHTS)
    _check_fit(folder, clip, state)
    clip.load_state_dict({key: tensor.float() for key, tensor in state.items()}, strict=True)
    clip.eval().requires_grad_(False)
    tokenizer = load_tokenizer(folder / TOKENIZER)
    if tokenizer.vocab_size != info.model.text.vocab_size or tokenizer.context != info.model.text.context_length:
        raise CheckpointError(
            f"{folder}: the tokenizer has {tokenizer.vocab_size} ids and context {tokenizer.context}, the model "
            f"{info.model.text.vocab_size} and {info.model.text.context_length}: use the tokenizer it was trained with."
        )
    return wrap_model(clip, info, tokenizer, name or folder.name, folder)


def wrap_model(clip: CLIP, info: CheckpointInfo, tokenizer: DomainTokenizer, name: str, folder: Path) -> LoadedModel:
    """A built CLIP with its towers, tokenizer and preprocessing as one `LoadedModel`."""
    config = info.model
    rule = config.lambda_init.of_layer()

    def lambda_inits(kind: str, layers: int) -> tuple[float, ...] | None:
        return tuple(map(rule, range(layers))) if kind == "differential" else None

    def heads(kind: str, raw: int) -> int:
        return raw // 2 if kind == "differential" else raw

    vision = Tower(
        "vision",
        tuple(block.attn for block in vision_blocks(clip)),  # type: ignore[misc]
        heads(config.vision.attention, config.vision.raw_heads),
        TokenGrid(1, config.vision.grid, config.vision.grid),
        lambda_inits(config.vision.attention, config.vision.layers),
    )
    text = Tower(
        "text",
        tuple(block.attn for block in text_blocks(clip)),  # type: ignore[misc]
        heads(config.text.attention, config.text.heads),
        TokenSequence(config.text.context_length),
        lambda_inits(config.text.attention, config.text.layers),
    )
    return LoadedModel(name, info.title, info.domain, folder, config, clip, vision, text, info.preprocess, tokenizer)


def read_info(folder: Path) -> CheckpointInfo:
    """Read config.json of a checkpoint folder, without the weights.

    Raises:
        CheckpointError: it is missing, is not JSON, or has wrong settings.
    """
    path = folder / CONFIG
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"{folder} is not a checkpoint folder: it holds no {CONFIG}.") from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} is not readable JSON ({error}): export the checkpoint again.") from error
    try:
        info = from_plain(CheckpointInfo, data, CONFIG)
    except StudioError as error:
        raise CheckpointError(f"{path}: {error}") from error
    if info.format != FORMAT:
        raise CheckpointError(f"{path} has format {info.format}, this version reads {FORMAT}: export it again.")
    return info


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(path)
    except FileNotFoundError as error:
        raise CheckpointError(f"{path.parent} holds no {path.name}: copy the weights there.") from error
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is not a whole safetensors file ({error}): fetch or export it again.") from error


def _check_fit(folder: Path, clip: CLIP, state: dict[str, torch.Tensor]) -> None:
    """Name what is missing, unknown or of another shape, before anything is loaded."""
    wanted = {key: tuple(tensor.shape) for key, tensor in clip.state_dict().items()}
    found = {key: tuple(tensor.shape) for key, tensor in state.items()}
    problems = [f"{key} is missing" for key in wanted if key not in found]
    problems += [f"{key} is unknown" for key in found if key not in wanted]
    problems += [
        f"{key} is {found[key]}, not {wanted[key]}" for key in wanted if found.get(key, wanted[key]) != wanted[key]
    ]
    if problems:
        raise CheckpointError(
            f"The weights in {folder} do not fit its {CONFIG} in {len(problems)} places, first: "
            f"{'; '.join(problems[:3])}. Use the config that belongs to them."
        )
