"""Checkpoints and tokenizers in the layouts of other projects, tiny, for the tests."""

from pathlib import Path

import tokenizers
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer as Pieces

from models.build import build_clip
from models.config import model_config

GOLDEN = Path(__file__).parents[1] / "golden"
State = dict[str, torch.Tensor]


def golden(name: str) -> tuple[State, State]:
    """(weights under their published names, everything else) of a golden file."""
    with safe_open(GOLDEN / f"{name}.safetensors", "pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    prefix = "weights."
    return (
        {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)},
        {key: value for key, value in tensors.items() if not key.startswith(prefix)},
    )


def written(state: State, path: Path) -> Path:
    save_file({key: value.contiguous() for key, value in state.items()}, path)
    return path


def native(kind: str = "standard", image_size: int = 32) -> State:
    """A state dict of open_clip's own layout whose towers have heads of 64."""
    config = {
        "embed_dim": 24,
        "vision": {"layers": 2, "width": 128, "head_width": 64, "patch_size": 8, "image_size": image_size},
        "text": {"layers": 2, "width": 128, "heads": 2, "vocab_size": 40, "context_length": 12},
    }
    for tower in ("vision", "text"):
        config[tower]["attention"] = kind
    return {key: value.clone() for key, value in build_clip(model_config(config), 3).state_dict().items()}


def json_file(path: Path) -> Path:
    """A tokenizer.json that appends an end token, as SigLIP's does."""
    pieces = Pieces(tokenizers.models.WordLevel({"<unk>": 0, "</s>": 1, "a": 2, "cat": 3, "dog": 4}, "<unk>"))
    pieces.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    pieces.post_processor = tokenizers.processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 1)])
    pieces.enable_padding(length=3)
    pieces.save(str(path))
    return path


def transformers_names(state: State) -> State:
    """open_clip's state dict under the Transformers library's names."""
    renamed = {}
    pairs = [
        ("visual.class_embedding", "vision_model.embeddings.class_embedding"),
        ("visual.conv1.", "vision_model.embeddings.patch_embedding."),
        ("visual.positional_embedding", "vision_model.embeddings.position_embedding.weight"),
        ("visual.ln_pre.", "vision_model.pre_layrnorm."),
        ("visual.ln_post.", "vision_model.post_layernorm."),
        ("visual.transformer.resblocks.", "vision_model.encoder.layers."),
        ("transformer.resblocks.", "text_model.encoder.layers."),
        ("token_embedding.", "text_model.embeddings.token_embedding."),
        ("positional_embedding", "text_model.embeddings.position_embedding.weight"),
        ("ln_final.", "text_model.final_layer_norm."),
        (".attn.", ".self_attn."),
        (".ln_1.", ".layer_norm1."),
        (".ln_2.", ".layer_norm2."),
        (".c_fc.", ".fc1."),
        (".c_proj.", ".fc2."),
    ]
    for key, value in state.items():
        if key in ("visual.proj", "text_projection"):
            renamed["visual_projection.weight" if key == "visual.proj" else "text_projection.weight"] = value.T
            continue
        name = key
        for old, new in pairs:
            name = name.replace(old, new) if old.startswith(".") or name.startswith(old) else name
        if ".in_proj_" in name:
            for letter, part in zip("qkv", value.chunk(3), strict=True):
                renamed[name.replace(".in_proj_", f".{letter}_proj.")] = part
        else:
            renamed[name] = value
    return renamed
