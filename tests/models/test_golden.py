"""Our parts against tensors that the published DiffCLIP and SLIP code computed on tiny models.

`tests/golden/*.safetensors` hold weights under their published names, inputs, the output of every attention
module, and the maps A1, A2 and lambda. The vision trunk is timm's ViT, as published; the text tower is open_clip's.
"""

from functools import partial
from pathlib import Path

import pytest
import timm
import torch
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg
from safetensors import safe_open
from torch import nn

from models.build import text_blocks
from models.diff_attention import DifferentialAttention, DifferentialMultiheadAttention
from models.layout import TokenGrid, TokenSequence
from models.loaded import Tower
from models.maps import attention_maps
from models.recorder import record

GOLDEN = Path(__file__).parents[1] / "golden"


class Golden:
    """A golden file and the model it describes, built from our attention and the libraries' blocks."""

    def __init__(self, name: str) -> None:
        with safe_open(GOLDEN / f"{name}.safetensors", "pt") as file:
            self.meta = file.metadata()
            self.tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        self.differential = "lambda_init" in self.meta
        self.clip = self._build().eval()

    def number(self, key: str) -> int:
        return int(self.meta[key])

    def _build(self) -> CLIP:
        trunk = timm.create_model(
            "vit_tiny_patch16_224",
            num_classes=0,
            img_size=self.number("image_size"),
            patch_size=self.number("patch"),
            embed_dim=self.number("vision_width"),
            depth=self.number("vision_depth"),
            num_heads=self.number("vision_heads"),
            norm_layer=partial(nn.LayerNorm, eps=float(self.meta["layernorm_eps_vision"])),
        )
        clip = CLIP(
            embed_dim=self.number("embed"),
            vision_cfg=CLIPVisionCfg(timm_model_name="test_vit", timm_pool="token", timm_proj="linear"),
            text_cfg=CLIPTextCfg(
                context_length=self.number("context"),
                vocab_size=self.number("vocab"),
                width=self.number("text_width"),
                heads=self.number("text_heads"),
                layers=self.number("text_depth"),
            ),
            quick_gelu=self.meta["text_activation"] == "quick_gelu",
        )
        clip.visual.trunk = trunk
        clip.visual.head.proj = nn.Linear(trunk.num_features, self.number("embed"), bias=False)
        if self.differential:
            init = float(self.meta["lambda_init"])
            for block in trunk.blocks:
                block.attn = DifferentialAttention(self.number("vision_width"), self.number("vision_heads"), init)
            for block in text_blocks(clip):
                block.attn = DifferentialMultiheadAttention(self.number("text_width"), self.number("text_heads"), init)
        state = {}
        for key, tensor in self.tensors.items():
            if key.startswith("weights."):
                name = key.removeprefix("weights.")
                if name == "image_projection":
                    state["visual.head.proj.weight"] = tensor.T
                else:
                    state[name.replace("visual.", "visual.trunk.", 1)] = tensor
        clip.load_state_dict(state, strict=True)
        return clip

    def tower(self, name: str) -> Tower:
        vision = name == "vision"
        blocks = list(self.clip.visual.trunk.blocks) if vision else text_blocks(self.clip)
        side = self.number("image_size") // self.number("patch")
        layout = TokenGrid(1, side, side) if vision else TokenSequence(self.number("context"))
        init = (float(self.meta["lambda_init"]),) * len(blocks) if self.differential else None
        return Tower(name, tuple(block.attn for block in blocks), self.number(f"{name}_heads"), layout, init)


@pytest.fixture(scope="module", params=["diffclip_published_tiny", "clip_slip_tiny"])
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(request.param)


PREFIX = {"vision": "visual.blocks", "text": "transformer.resblocks"}


def encode(golden: Golden, tower: str) -> torch.Tensor:
    with torch.no_grad():
        if tower == "vision":
            return golden.clip.encode_image(golden.tensors["in.image"])
        return golden.clip.encode_text(golden.tensors["in.text"])


def test_embeddings_and_logit_scale_equal_the_published_ones(golden: Golden) -> None:
    torch.testing.assert_close(encode(golden, "vision"), golden.tensors["out.image_embed"], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(encode(golden, "text"), golden.tensors["out.text_embed"], rtol=1e-4, atol=1e-5)
    scale = golden.tensors["out.logit_scale"]
    logit_scale = golden.clip.logit_scale.detach()
    assert torch.isclose(logit_scale, scale) or torch.isclose(logit_scale.exp(), scale)


@pytest.mark.parametrize("name", ["vision", "text"])
def test_maps_lambda_and_attention_outputs_equal_the_published_ones(golden: Golden, name: str) -> None:
    tower = golden.tower(name)
    with record(tower) as recording:
        encode(golden, name)
    for layer in range(tower.layers):
        key = f"{PREFIX[name]}.{layer}.attn"
        maps = attention_maps(recording[layer])
        torch.testing.assert_close(maps.a1, golden.tensors[f"maps.{key}.a1"], rtol=1e-4, atol=1e-6)
        output = recording._layers[layer].output
        torch.testing.assert_close(output, golden.tensors[f"attn.{key}.out"], rtol=1e-4, atol=1e-5)
        if golden.differential:
            assert maps.a2 is not None
            assert maps.lam is not None
            torch.testing.assert_close(maps.a2, golden.tensors[f"maps.{key}.a2"], rtol=1e-4, atol=1e-6)
            torch.testing.assert_close(maps.lam.flatten()[0], golden.tensors[f"maps.{key}.lam"])
        else:
            assert maps.a2 is None
