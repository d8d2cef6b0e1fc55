"""Models of open_clip's own zoo: their architectures built without weights, and where their weights lie.

open_clip describes a model by a small JSON config; a Hub repository for open_clip holds the same config with the
picture's transform in open_clip_config.json. Weights are read by `models.files.weights`, never by open_clip's loader.
"""

import difflib
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import open_clip
import torch
from open_clip.coca_model import CoCa
from open_clip.convert import convert_state_dict
from open_clip.model import CLIP, CustomTextCLIP, convert_to_custom_text_state_dict
from open_clip.pretrained import get_pretrained_cfg, list_pretrained_tags_by_model
from open_clip.transform import PreprocessCfg, merge_preprocess_dict
from torch import Tensor, nn

from models.build import ClipModule, set_activation, set_norm_eps, text_blocks, vision_blocks
from models.config import OpenClipConfig
from models.errors import CheckpointError, StudioError
from models.plain import nearest
from models.preprocess import Preprocess
from models.vocabulary import CLIP_VOCABULARY, TokenizerRule

CONFIG = "open_clip_config.json"
WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors", "open_clip_pytorch_model.bin")
TOKENIZER = "tokenizer.json"


@dataclass(frozen=True)
class Pretrained:
    """A tag of open_clip's list: where its weights lie on the Hub and how it wants pictures.

    Attributes:
        repository: "org/name", or "" where open_clip knows only an address.
        files: names to look for, the safest first.
        url: the address, where there is no repository.
        preprocess: the transform's settings as open_clip names them.
        quick_gelu: whether the tag was trained with QuickGELU.
    """

    repository: str
    files: tuple[str, ...]
    url: str
    preprocess: dict[str, Any]
    quick_gelu: bool


def architecture(name: str) -> OpenClipConfig:
    """The config of an architecture in open_clip's list.

    Raises:
        CheckpointError: no such architecture; the nearest is named.
    """
    clean = name.replace("/", "-")
    known = open_clip.list_models()
    if clean not in known:
        raise CheckpointError(
            f"open_clip has no architecture {name!r}{nearest(clean, known)}: "
            "`python -c 'import open_clip; print(open_clip.list_models())'` lists them."
        )
    config = open_clip.get_model_config(clean)
    assert config is not None
    return OpenClipConfig(deepcopy(config), clean)


def pretrained(config: OpenClipConfig, tag: str) -> Pretrained:
    """Where the weights of a tag lie.

    Raises:
        CheckpointError: the architecture has no such tag; those it has are named.
    """
    found = get_pretrained_cfg(config.architecture, tag)
    if not found:
        tags = list_pretrained_tags_by_model(config.architecture)
        alike = difflib.get_close_matches(tag, tags, n=1, cutoff=0.5)
        hint = f", did you mean {alike[0]!r}?" if alike else ""
        raise CheckpointError(
            f"open_clip has no weights {tag!r} for {config.architecture}{hint} nor is there a file of that name: "
            f"choose {', '.join(tags) or 'a file'}."
        )
    organisation, _, name = str(found.get("hf_hub", "")).partition("/")
    name, _, file = name.partition("/")
    files = WEIGHTS if not file else (str(Path(file).with_suffix(".safetensors")), file)
    settings = merge_preprocess_dict(PreprocessCfg(), found)
    return Pretrained(
        f"{organisation}/{name}" if name else "",
        tuple(dict.fromkeys(files)),
        str(found.get("url", "")),
        settings,
        bool(found.get("quick_gelu", False)),
    )


def preprocess_of(settings: dict[str, Any], size: int | tuple[int, int]) -> Preprocess:
    """open_clip's transform settings as ours, at the model's own input size.

    Raises:
        CheckpointError: a way to resize or interpolate that we do not draw.
    """
    merged = merge_preprocess_dict(PreprocessCfg(), settings)
    try:
        return Preprocess(
            size,
            tuple(map(float, merged["mean"])),  # type: ignore[arg-type]
            tuple(map(float, merged["std"])),  # type: ignore[arg-type]
            mode=merged["resize_mode"] or "shortest",
            interpolation=merged["interpolation"] if merged["interpolation"] != "random" else "bicubic",
        )
    except (StudioError, TypeError, ValueError) as error:
        raise CheckpointError(f"The picture transform of this checkpoint is not covered: {error}") from error


def tokenizer_rule(config: OpenClipConfig) -> TokenizerRule:
    """Which vocabulary a config names: CLIP's own where sizes agree, the tokenizer.json of a repository, or none."""
    text = config.open_clip.get("text_cfg", {})
    settings = text.get("tokenizer_kwargs", {})
    if not (text.get("hf_tokenizer_name") or text.get("hf_model_name")):
        return TokenizerRule("clip" if text.get("vocab_size", CLIP_VOCABULARY) == CLIP_VOCABULARY else "none")
    if settings.get("strip_sep_token") or text.get("tokenizer_mode"):
        return TokenizerRule("none")
    return TokenizerRule("json", clean=settings.get("clean", "whitespace"))


def build_open_clip(config: OpenClipConfig) -> ClipModule:
    """The architecture without weights.

    Raises:
        CheckpointError: open_clip cannot build it here, for example for want of a package.
    """
    plain = deepcopy(config.open_clip)
    vision, text = plain.get("vision_cfg"), plain.get("text_cfg")
    if not isinstance(vision, dict) or not isinstance(text, dict):
        raise CheckpointError(
            "The open_clip config lacks vision_cfg or text_cfg: use the one that came with the weights."
        )
    if vision.get("timm_model_name"):
        vision["timm_model_pretrained"] = False
    if text.get("hf_model_name"):
        text["hf_model_pretrained"] = False
    custom = plain.pop("custom_text", False) or "hf_model_name" in text
    kind: type[nn.Module] = CoCa if "multimodal_cfg" in plain else CustomTextCLIP if custom else CLIP
    try:
        with torch.random.fork_rng(devices=[]):
            module: Any = kind(**plain)
    except Exception as error:  # open_clip and timm raise whatever their builders come across
        raise CheckpointError(
            f"open_clip cannot build {config.architecture or 'this architecture'} here "
            f"({type(error).__name__}: {error}): choose an architecture with open_clip's own text transformer."
        ) from error
    _fit_trunk(module, vision.get("image_size"))
    for index, blocks in enumerate((vision_blocks(module), text_blocks(module))):
        if config.activation is not None:
            set_activation(blocks, config.activation[index])
        if config.norm_eps is not None:
            set_norm_eps(blocks, config.norm_eps[index])
    return module


def _fit_trunk(module: Any, image_size: Any) -> None:
    """Set a timm trunk to the config's input size; open_clip leaves it at the size of timm's own name."""
    embed = getattr(getattr(module.visual, "trunk", None), "patch_embed", None)
    own = getattr(embed, "img_size", None)
    if own is None or image_size is None or not hasattr(module.visual.trunk, "set_input_size"):
        return
    size = (image_size, image_size) if isinstance(image_size, int) else tuple(image_size)
    if tuple(own) != size:
        module.visual.set_input_size(size)


def fitted_names(module: ClipModule, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """A state dict under the names of a built model: text tower with or without its prefix, scalars' shapes."""
    converted: dict[str, Tensor] = convert_state_dict(module, dict(state))
    for name in ("input_resolution", "context_length", "vocab_size", "attn_mask"):
        converted.pop(name, None)  # what OpenAI's files hold beside weights, and a mask that is made anew
    custom = not isinstance(module, CLIP)
    if custom and "positional_embedding" in converted:
        converted = convert_to_custom_text_state_dict(converted)
    elif not custom and any(key.startswith("text.") for key in converted):
        converted = {key.removeprefix("text."): value for key, value in converted.items()}
    for name in ("logit_scale", "logit_bias"):
        own = getattr(module, name, None)
        if name in converted and own is not None and own.numel() == converted[name].numel():
            converted[name] = converted[name].reshape(own.shape)
    converted.pop("text.transformer.embeddings.position_ids", None)
    return converted
