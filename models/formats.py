"""Foreign state dicts, recognised by what is in them: whose layout it is, and what its shapes say of the model.

Published DiffCLIP and SLIP   timm's ViT under `visual.`, bare `image_projection` and `text_projection`; published at
                              github.com/hammoudhasan/DiffCLIP and github.com/facebookresearch/SLIP
open_clip, OpenAI             `visual.conv1`, `visual.transformer.resblocks`; OpenAI's files also hold three numbers
Transformers' CLIP            `vision_model.encoder.layers`, separate q_proj, k_proj, v_proj
timm trunk in open_clip       `visual.trunk.blocks`, a plain ViT
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch

from models.config import ModelConfig, TextConfig, VisionConfig
from models.errors import CheckpointError, StudioError
from models.overrides import Overrides, lambda_rule
from models.preprocess import Preprocess
from models.shapes import Assumed, State, depth, mlp_ratio_of, own_grid, raw_heads, side_of, text_attention

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
OPENAI_MEAN, OPENAI_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
_OPENAI_NUMBERS = ("input_resolution", "context_length", "vocab_size")
_OPENAI_PICTURE = (
    ("mean", "OpenAI's mean of the channels"),
    ("std", "OpenAI's std of the channels"),
    ("resize", "short side to the input size and centre crop"),
    ("interpolation", "bicubic"),
)


@dataclass(frozen=True)
class Recognised:
    """A foreign checkpoint in our terms.

    Attributes:
        family: whose layout it is, for people.
        config: what its shapes, and where they are silent its origin, say.
        state: its weights under the names of `models.build.build_clip`'s model.
        preprocess: its transform.
        assumed: what neither the file nor the caller says.
        grid: (rows, cols) of the file's own position embeddings.
    """

    family: str
    config: ModelConfig
    state: State
    preprocess: Preprocess
    assumed: tuple[str, ...]
    grid: tuple[int, int]


def recognise(state: State, overrides: Overrides, where: str) -> Recognised:
    """Say what a state dict is.

    Raises:
        CheckpointError: it is none of the known layouts, or its shapes contradict each other.
    """
    try:
        for test, read in _LAYOUTS:
            if test(state):
                return read(state, overrides)
    except StudioError:
        raise
    except KeyError as error:
        raise CheckpointError(
            f"{where} begins like a CLIP but lacks {error}: it is not whole; fetch or export it again."
        ) from error
    except (IndexError, ValueError, RuntimeError) as error:
        raise CheckpointError(
            f"{where} begins like a CLIP but has tensors of other shapes than a CLIP's ({error}): choose others."
        ) from error
    if any(key.startswith("visual.layer1.") for key in state):
        raise CheckpointError(
            f"{where} holds a CLIP with a ResNet, whose architecture its weights alone do not tell: "
            f"load it as open_clip:RN50/{where}, with the architecture's name."
        )
    if any(key.startswith("visual.trunk.") for key in state):
        raise CheckpointError(
            f"{where} holds an open_clip model with a timm trunk that is no plain ViT: "
            f"load it as open_clip:ARCH/{where}, with the architecture's name."
        )
    raise CheckpointError(
        f"{where} is no CLIP of a known layout: among its {len(state)} tensors are "
        f"{', '.join(list(state)[:4]) or 'none'}; open_clip, OpenAI, SLIP, DiffCLIP and Transformers' CLIP are known."
    )


def summary(config: ModelConfig) -> str:
    """One line on a config for people: kind, widths, depths, patch, grid, vocabulary."""
    vision, text = config.vision, config.text
    rows, cols = vision.grid
    return (
        f"vision {vision.attention}, width {vision.width}, {vision.layers} layers, {vision.raw_heads} raw heads, "
        f"patch {vision.patch_size}, grid {rows} x {cols}; text {text.attention}, width {text.width}, {text.layers} "
        f"layers, {text.heads} raw heads, context {text.context_length}, vocabulary {text.vocab_size:,}; "
        f"embedding {config.embed_dim}"
    )


def detected_in(state: State) -> str:
    """`summary` of what the shapes of a state dict say, "" where they say nothing."""
    try:
        return summary(recognise(state, Overrides(), "the file").config)
    except StudioError:
        return ""


def _published(state: State, overrides: Overrides) -> Recognised:
    """timm's ViT under `visual.`, the projections bare: SLIP's CLIP, and DiffCLIP made from it."""
    differential = "visual.blocks.0.attn.q_proj.weight" in state or text_attention(state) == "differential"
    renamed = {
        key.replace("visual.", "visual.trunk.", 1) if key.startswith("visual.") else key: value
        for key, value in state.items()
        if key != "image_projection"
    }
    renamed["visual.head.proj.weight"] = state["image_projection"].T
    code = "DiffCLIP's code" if differential else "SLIP's code"
    eps = (1e-5, 1e-5) if differential else (1e-6, 1e-5)
    assumed = (
        ("norm_eps", f"LayerNorm epsilon {eps[0]:g} (vision) and {eps[1]:g} (text), as {code} has them"),
        ("activation", f"GELU (vision) and QuickGELU (text), as {code} has them"),
        ("mean", "ImageNet's mean, as SLIP's evaluation takes"),
        ("std", "ImageNet's std, as SLIP's evaluation takes"),
        (
            "resize",
            "short side to the input size and centre crop, as SLIP's evaluation does; DiffCLIP's demo squashes instead "
            "(resize='squash')",
        ),
        ("interpolation", "bilinear, as SLIP's evaluation does"),
        ("truncation", "too long a text keeps its end token; to cut it off as in training, truncation='cut_end'"),
    )
    family = "DiffCLIP, published layout" if differential else "CLIP, SLIP's layout"
    preprocess = Preprocess(1, IMAGENET_MEAN, IMAGENET_STD, "shortest", "bilinear")
    return _of_trunk(renamed, overrides, family, ("gelu", "quick_gelu"), eps, preprocess, assumed)


def _open_clip_trunk(state: State, overrides: Overrides) -> Recognised:
    """open_clip's CLIP around timm's plain ViT."""
    named = {key.removeprefix("text."): value for key, value in state.items()}
    assumed = (
        ("norm_eps", "LayerNorm epsilon 1e-06 (vision) and 1e-05 (text), timm's and open_clip's defaults"),
        ("activation", "GELU in both towers, open_clip's default"),
        *_OPENAI_PICTURE,
    )
    preprocess = Preprocess(1, OPENAI_MEAN, OPENAI_STD)
    return _of_trunk(named, overrides, "open_clip with a timm ViT", ("gelu", "gelu"), (1e-6, 1e-5), preprocess, assumed)


def _of_trunk(
    state: State,
    overrides: Overrides,
    family: str,
    activation: tuple[Literal["gelu", "quick_gelu"], Literal["gelu", "quick_gelu"]],
    eps: tuple[float, float],
    preprocess: Preprocess,
    assumed: Assumed,
) -> Recognised:
    patch = state["visual.trunk.patch_embed.proj.weight"]
    width, side = patch.shape[0], patch.shape[-1]
    grid, square = own_grid(state["visual.trunk.pos_embed"].shape[-2], overrides, "visual.pos_embed")
    prefix = "visual.trunk.blocks.0.attn"
    heads, notes = raw_heads(state, overrides, 0, prefix, width, (width, 0))
    vision = VisionConfig(
        layers=depth(state, "visual.trunk.blocks"),
        width=width,
        head_width=width // heads,
        patch_size=side,
        image_size=side_of(grid, side),
        mlp_ratio=mlp_ratio_of(state["visual.trunk.blocks.0.mlp.fc1.weight"].shape[0], width),
        attention="differential" if f"{prefix}.q_proj.weight" in state else "standard",
        trunk="timm",
        activation=activation[0],
        norm_eps=eps[0],
    )
    embed = state["visual.head.proj.weight"].shape[0]
    return _finished(
        state, overrides, family, embed, vision, activation[1], eps[1], preprocess, assumed + square + notes, grid
    )


def _native(state: State, overrides: Overrides) -> Recognised:
    """open_clip's own ViT, which has the names of OpenAI's."""
    openai = all(name in state for name in _OPENAI_NUMBERS)
    named = {key.removeprefix("text."): value for key, value in state.items() if key not in _OPENAI_NUMBERS}
    named.pop("attn_mask", None)
    kind: Literal["gelu", "quick_gelu"] = "quick_gelu" if openai else "gelu"
    assumed = (
        (
            "activation",
            "QuickGELU in both towers, as OpenAI trained"
            if openai
            else "GELU in both towers, open_clip's default; OpenAI's weights and those trained on from them need "
            "activation=('quick_gelu', 'quick_gelu')",
        ),
        ("norm_eps", "LayerNorm epsilon 1e-05 in both towers"),
        *_OPENAI_PICTURE,
    )
    return _of_native(named, overrides, "CLIP, OpenAI's file" if openai else "open_clip", kind, assumed)


def _of_native(
    state: State, overrides: Overrides, family: str, kind: Literal["gelu", "quick_gelu"], assumed: Assumed
) -> Recognised:
    patch = state["visual.conv1.weight"]
    width, side = patch.shape[0], patch.shape[-1]
    grid, square = own_grid(state["visual.positional_embedding"].shape[0], overrides, "visual.positional_embedding")
    layers, prefix = depth(state, "visual.transformer.resblocks"), "visual.transformer.resblocks.0.attn"
    heads, notes = raw_heads(state, overrides, 0, prefix, width, (width, layers))
    vision = VisionConfig(
        layers=layers,
        width=width,
        head_width=width // heads,
        patch_size=side,
        image_size=side_of(grid, side),
        mlp_ratio=mlp_ratio_of(state["visual.transformer.resblocks.0.mlp.c_fc.weight"].shape[0], width),
        attention="differential" if f"{prefix}.q_proj.weight" in state else "standard",
        activation=kind,
    )
    embed = state["visual.proj"].shape[1]
    preprocess = Preprocess(1, OPENAI_MEAN, OPENAI_STD)
    return _finished(state, overrides, family, embed, vision, kind, 1e-5, preprocess, assumed + square + notes, grid)


def _transformers(state: State, overrides: Overrides) -> Recognised:
    """CLIP as the Transformers library names it: renamed, and Q, K, V joined."""
    named: State = {}
    for key, value in state.items():
        name = key
        for pattern, replacement in _TRANSFORMERS_NAMES:
            name = re.sub(pattern, replacement, name)
        if not name.endswith("position_ids"):
            named[name] = value
    for name in [key for key in named if ".attn.q_proj." in key]:
        parts = [named.pop(name.replace(".q_proj.", f".{part}_proj.")) for part in "qkv"]
        named[re.sub(r"\.q_proj\.(\w+)$", r".in_proj_\1", name)] = torch.cat(parts)
    for name in ("visual.proj", "text_projection"):
        named[name] = named[name].T
    assumed = (
        (
            "activation",
            "QuickGELU in both towers, as OpenAI's models have; OpenCLIP's conversions need "
            "activation=('gelu', 'gelu')",
        ),
        ("norm_eps", "LayerNorm epsilon 1e-05 in both towers"),
        *_OPENAI_PICTURE,
    )
    return _of_native(named, overrides, "CLIP, Transformers' names", "quick_gelu", assumed)


_TRANSFORMERS_NAMES = (
    (r"^vision_model\.embeddings\.class_embedding$", "visual.class_embedding"),
    (r"^vision_model\.embeddings\.patch_embedding\.", "visual.conv1."),
    (r"^vision_model\.embeddings\.position_embedding\.weight$", "visual.positional_embedding"),
    (r"^vision_model\.pre_layrnorm\.", "visual.ln_pre."),
    (r"^vision_model\.post_layernorm\.", "visual.ln_post."),
    (r"^vision_model\.encoder\.layers\.", "visual.transformer.resblocks."),
    (r"^text_model\.embeddings\.token_embedding\.", "token_embedding."),
    (r"^text_model\.embeddings\.position_embedding\.weight$", "positional_embedding"),
    (r"^text_model\.final_layer_norm\.", "ln_final."),
    (r"^text_model\.encoder\.layers\.", "transformer.resblocks."),
    (r"^visual_projection\.weight$", "visual.proj"),
    (r"^text_projection\.weight$", "text_projection"),
    (r"\.self_attn\.", ".attn."),
    (r"\.layer_norm([12])\.", r".ln_\1."),
    (r"\.mlp\.fc1\.", ".mlp.c_fc."),
    (r"\.mlp\.fc2\.", ".mlp.c_proj."),
)


def _finished(
    state: State,
    overrides: Overrides,
    family: str,
    embed: int,
    vision: VisionConfig,
    activation: Literal["gelu", "quick_gelu"],
    eps: float,
    preprocess: Preprocess,
    assumed: Assumed,
    grid: tuple[int, int],
) -> Recognised:
    """The text tower, which all layouts name alike, and the whole."""
    width = state["ln_final.weight"].shape[0]
    heads, notes = raw_heads(state, overrides, 1, "transformer.resblocks.0.attn", width, (width, 0))
    vocabulary, context = state["token_embedding.weight"].shape[0], state["positional_embedding"].shape[0]
    text = TextConfig(
        layers=depth(state, "transformer.resblocks"),
        width=width,
        heads=heads,
        vocab_size=vocabulary,
        context_length=context,
        mlp_ratio=mlp_ratio_of(state["transformer.resblocks.0.mlp.c_fc.weight"].shape[0], width),
        attention=text_attention(state),
        activation=activation,
        norm_eps=eps,
    )
    differential = "differential" in (vision.attention, text.attention)
    rule = lambda_rule(0.8 if overrides.lambda_init is None else overrides.lambda_init)
    if differential:
        sentence = (
            "lambda_init 0.8 in every layer, as DiffCLIP has it; DiffCLIP* needs lambda_init='depth'; it is in no "
            "weight and scales lambda and the output"
        )
        notes += (("lambda_init", sentence),)
    elif overrides.lambda_init is not None:
        raise CheckpointError(
            f"lambda_init = {overrides.lambda_init} was given, but neither tower has one: leave it out."
        )
    told = tuple(sentence for name, sentence in assumed + notes if getattr(overrides, name) is None)
    size = side_of(grid, vision.patch_size)
    config = ModelConfig(embed, vision, text, rule)
    sized = Preprocess(size, preprocess.mean, preprocess.std, preprocess.mode, preprocess.interpolation)
    return Recognised(family, config, state, sized, told, grid)


_LAYOUTS: tuple[tuple[Callable[[State], bool], Callable[[State, Overrides], Recognised]], ...] = (
    (lambda state: "image_projection" in state and "visual.patch_embed.proj.weight" in state, _published),
    (
        lambda state: (
            "visual.conv1.weight" in state
            and "visual.positional_embedding" in state
            and "visual.layer1.0.conv1.weight" not in state
        ),
        _native,
    ),
    (lambda state: "vision_model.embeddings.class_embedding" in state, _transformers),
    (
        lambda state: (
            "visual.trunk.blocks.0.mlp.fc1.weight" in state
            and "visual.trunk.cls_token" in state
            and "visual.head.proj.weight" in state
            and "visual.trunk.reg_token" not in state
        ),
        _open_clip_trunk,
    ),
)
