"""Checkpoints as folders that run no code: safetensors weights, a JSON config, a tokenizer, a card.

model.safetensors   weights; from training in float16 with lambda vectors, norms and logit scale in float32
config.json         model, preprocessing, tokenizer's rule, what was assumed, domain, title
tokenizer.json      see models/tokenizer.py; only where the vocabulary is the checkpoint's own
README.md           model card
"""

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models.build import ClipModule, build_clip, keep_in_float32
from models.claims import check_claim
from models.config import ModelConfig, OpenClipConfig
from models.errors import CheckpointError, StudioError
from models.files.safetensors_files import write_safetensors
from models.files.state_keys import fit_report
from models.files.weights import read_weights
from models.formats import detected_in, summary
from models.layout import TokenGrid
from models.loaded import LoadedModel, Origin
from models.open_clip_zoo import build_open_clip
from models.overrides import Overrides, as_float32, grid_of_state, of_config, of_preprocess, resize_state
from models.plain import from_plain
from models.preprocess import Preprocess
from models.tokenizer import load_tokenizer
from models.towers import text_tower, vision_tower
from models.vocabulary import ClipTokenizer, NoTokenizer, Tokenizer, TokenizerRule, json_tokenizer

WEIGHTS, CONFIG, TOKENIZER, CARD = "model.safetensors", "config.json", "tokenizer.json", "README.md"
FORMAT = 2
# In the metadata of the weights: they are nothing without the config beside them.
MARK = "diffclip-studio.format"


@dataclass(frozen=True)
class CheckpointInfo:
    """What config.json says: the model, how it wants pictures and texts, and what a person should know of it.

    Attributes:
        title: how a person reads it.
        domain: the kind of picture it was trained on.
        model: widths, depths, attention kinds; or an architecture of open_clip's.
        preprocess: its transform.
        tokenizer: which vocabulary, and what becomes of too long a text.
        family: which layout its weights came in.
        assumed: what that layout did not say, a sentence each.
        format: version of this layout.
    """

    title: str
    domain: str
    model: ModelConfig | OpenClipConfig
    preprocess: Preprocess
    tokenizer: TokenizerRule = field(default_factory=TokenizerRule)
    family: str = "DiffCLIP Studio"
    assumed: tuple[str, ...] = ()
    format: int = FORMAT


def save_checkpoint(folder: Path, clip: ClipModule, info: CheckpointInfo, tokenizer: Tokenizer) -> None:
    """Write weights, config and tokenizer into a folder; weights in half precision but for the sensitive few."""
    state = {
        name: tensor.detach().float() if keep_in_float32(name) else tensor.detach().half()
        for name, tensor in clip.state_dict().items()
    }
    _write(folder, state, info, tokenizer)


def export_checkpoint(model: LoadedModel, folder: str | Path) -> Path:
    """Write any loaded model as such a folder, bit-equal: each tensor in half precision where that loses nothing.

    Raises:
        CheckpointError: the folder holds something already, or cannot be written.
    """
    folder = free_folder(folder)
    info = CheckpointInfo(
        model.title,
        model.domain,
        model.config,
        model.preprocess_settings,
        model.tokenizer.rule,
        model.origin.family,
        model.origin.assumed,
    )
    state = {name: _narrowest(tensor.detach()) for name, tensor in model.module.state_dict().items()}
    try:
        _write(folder, state, info, model.tokenizer)
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be written ({error}): choose another place.") from error
    return folder


def free_folder(folder: str | Path) -> Path:
    """The folder, if a checkpoint can be written there.

    Raises:
        CheckpointError: it holds something already.
    """
    path = Path(folder).expanduser()
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise CheckpointError(f"{path} holds something already: choose a new folder to export to.")
    return path


def load_checkpoint(folder: Path, name: str | None = None, overrides: Overrides | None = None) -> LoadedModel:
    """Load a checkpoint folder, strictly, for inference in float32.

    Raises:
        CheckpointError: a file is missing or broken, or the weights do not fit the config.
    """
    info, overrides = read_info(folder), overrides or Overrides()
    if not (folder / WEIGHTS).exists():
        raise CheckpointError(f"{folder} holds no {WEIGHTS}: copy the weights there.")
    weights = read_weights(folder / WEIGHTS)
    origin = Origin(info.family, folder, (), info.assumed, overrides)
    return assemble(weights.state, info, origin, name or folder.name, overrides, folder / TOKENIZER)


def assemble(
    state: dict[str, Tensor],
    info: CheckpointInfo,
    origin: Origin,
    name: str,
    overrides: Overrides,
    tokenizer_file: Path | None = None,
) -> LoadedModel:
    """Weights under our names and what is known of them -> a model, strictly, for inference in float32.

    Raises:
        CheckpointError: the weights do not fit or are no finite numbers, or the tokenizer or the picture transform does
            not fit.
    """
    patch = _patch(info) if overrides.grid else (1, 1)
    config = of_config(info.model, overrides, patch)
    check_claim(config, state, origin.path)
    clip = build_clip(config) if isinstance(config, ModelConfig) else build_open_clip(config)
    layout = vision_tower(clip).layout
    assert isinstance(layout, TokenGrid)
    if layout.patches:
        own = info.model.vision.grid if isinstance(info.model, ModelConfig) else grid_of_state(state, layout)
        new = (layout.rows, layout.cols)
        state = resize_state(state, own, new, layout.prefix)
        if own != new and not overrides.grid:
            note = f"positions resampled from {own} to {new} patches, the input size that the config names"
            origin = replace(origin, assumed=(*origin.assumed, note))
    _check_fit(clip, state, config, origin.path)
    clip.load_state_dict(as_float32(state), strict=True)
    _check_finite(clip, origin.path)
    clip.eval().requires_grad_(False)
    preprocess = of_preprocess(info.preprocess, overrides, patch)
    _check_size(clip, preprocess, origin.path)
    rule = replace(info.tokenizer, truncation=overrides.truncation or info.tokenizer.truncation)
    tokenizer = _tokenizer(rule, clip, tokenizer_file, origin.path)
    known = replace(info, model=config, preprocess=preprocess)
    return wrap_model(clip, known, tokenizer, name, origin.path, origin)


def _check_fit(clip: ClipModule, state: dict[str, Tensor], config: ModelConfig | OpenClipConfig, path: Path) -> None:
    """Refuse weights that are missing, unknown, of another shape, or integers where the model computes.

    Raises:
        CheckpointError: says what the file holds, what was asked for, and where they differ.
    """
    model = clip.state_dict()
    wanted, found = ({key: tuple(tensor.shape) for key, tensor in side.items()} for side in (model, state))
    if problem := fit_report(wanted, found):
        built = summary(config) if isinstance(config, ModelConfig) else config.architecture or "its open_clip config"
        detected = detected_in(state)
        holds = f" It holds {detected}." if detected else ""
        raise CheckpointError(
            f"The weights of {path} do not fit a model with {built}: {problem}{holds} "
            "Use the config or architecture that belongs to them."
        )
    for key, tensor in state.items():
        if model[key].is_floating_point() and not tensor.is_floating_point():
            raise CheckpointError(
                f"{key} of {path} holds whole numbers ({tensor.dtype}): the weights are quantised, use those in "
                "float32, float16 or bfloat16."
            )


def _check_finite(clip: ClipModule, path: Path) -> None:
    """Refuse weights that are no numbers to compute with, which would show as maps and similarities of nothing.

    Raises:
        CheckpointError: names the first of them.
    """
    broken = [name for name, weight in clip.named_parameters() if not bool(weight.isfinite().all())]
    if broken:
        many = f"{broken[0]} and {len(broken) - 1:,} more weights" if len(broken) > 1 else broken[0]
        raise CheckpointError(
            f"{path} holds values that are infinite or no numbers, in {many}: the training diverged or the file is "
            "damaged, use earlier weights."
        )


def _check_size(clip: ClipModule, preprocess: Preprocess, path: Path) -> None:
    """Refuse a transform whose pictures the model cannot take.

    Raises:
        CheckpointError: its size is not the model's input size.
    """
    visual: Any = clip.visual
    size = visual.image_size
    wanted = (size, size) if isinstance(size, int) else tuple(map(int, size))
    if preprocess.input_size != wanted:
        raise CheckpointError(
            f"{path}: pictures are scaled to {preprocess.input_size} pixels, the model takes {wanted}: set the size of "
            "its transform to that."
        )


def wrap_model(
    clip: ClipModule,
    info: CheckpointInfo,
    tokenizer: Tokenizer,
    name: str,
    folder: Path,
    origin: Origin | None = None,
) -> LoadedModel:
    """A built CLIP with its towers, tokenizer and preprocessing as one `LoadedModel`."""
    return LoadedModel(
        name,
        info.title,
        info.domain,
        folder,
        info.model,
        origin or Origin(info.family, folder, (), info.assumed),
        clip,
        vision_tower(clip),
        text_tower(clip),
        info.preprocess,
        tokenizer,
    )


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
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not readable JSON ({error}): export the checkpoint again.") from error
    if isinstance(data, dict) and data.get("format") != FORMAT:
        raise CheckpointError(f"{path} has format {data.get('format')}, this version reads {FORMAT}: export it again.")
    try:
        return from_plain(CheckpointInfo, data, CONFIG)
    except StudioError as error:
        raise CheckpointError(f"{path}: {error}") from error


def _write(folder: Path, state: dict[str, Tensor], info: CheckpointInfo, tokenizer: Tokenizer) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(state, folder / WEIGHTS, {MARK: str(info.format)})
    plain = {
        "format": info.format,
        "title": info.title,
        "domain": info.domain,
        "family": info.family,
        "assumed": list(info.assumed),
        "preprocess": info.preprocess.to_dict(),
        "tokenizer": asdict(info.tokenizer),
        "model": info.model.to_dict(),
    }
    (folder / CONFIG).write_text(json.dumps(plain, indent=2) + "\n", encoding="utf-8")
    tokenizer.save(folder / TOKENIZER)


def _patch(info: CheckpointInfo) -> tuple[int, int]:
    """(height, width) of a patch in pixels."""
    if isinstance(info.model, ModelConfig):
        return info.model.vision.patch_size, info.model.vision.patch_size
    visual: Any = build_open_clip(info.model)
    layout = vision_tower(visual).layout
    assert isinstance(layout, TokenGrid)
    if not layout.patches:
        raise CheckpointError("grid cannot be set: this vision tower has no patches of its own.")
    height, width = info.preprocess.input_size
    return height // layout.rows, width // layout.cols


def _tokenizer(rule: TokenizerRule, clip: ClipModule, file: Path | None, path: Path) -> Tokenizer:
    """The tokenizer that a rule names, checked against the model it is for."""
    tower: Any = clip if hasattr(clip, "token_embedding") else clip.text
    vocabulary = int(getattr(tower, "vocab_size", 0))
    context = int(getattr(tower, "context_length", None) or 77)
    if rule.kind == "none" or (file is None and rule.kind != "clip"):
        return NoTokenizer(vocabulary, context)
    if rule.kind == "clip":
        tokenizer: Tokenizer = ClipTokenizer(context, rule)
    elif rule.kind == "json":
        assert file is not None
        tokenizer = json_tokenizer(file, context, rule)
    else:
        assert file is not None
        tokenizer = load_tokenizer(file)
    fits = tokenizer.vocab_size <= vocabulary if rule.kind == "json" else tokenizer.vocab_size == vocabulary
    if not fits or tokenizer.context != context:
        raise CheckpointError(
            f"{path}: the tokenizer has {tokenizer.vocab_size} ids and context {tokenizer.context}, the model "
            f"{vocabulary} and {context}: use the tokenizer it was trained with."
        )
    return tokenizer


def _narrowest(tensor: Tensor) -> Tensor:
    """The tensor in half precision where every value survives, else as it is."""
    if tensor.dtype != torch.float32:
        return tensor
    half = tensor.half()
    return half if torch.equal(half.float(), tensor) else tensor
