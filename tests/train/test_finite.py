"""Names of layers, and where a number first stops being finite."""

import math

import pytest
import torch
from pairs import Trunk, random_samples, wide_clip

from models.errors import StudioError
from train.finite import Skip, first_broken_gradient, first_broken_part, gradient_norms, layer_of


@pytest.mark.parametrize(
    ("trunk", "names"),
    [
        (
            "open_clip",
            {
                "visual.conv1.weight": "vision embedding",
                "visual.positional_embedding": "vision embedding",
                "visual.transformer.resblocks.2.attn.lambda_q1": "vision block 2",
                "visual.ln_post.bias": "vision head",
                "visual.proj": "vision head",
                "token_embedding.weight": "text embedding",
                "transformer.resblocks.1.mlp.c_fc.weight": "text block 1",
                "ln_final.weight": "text head",
                "text_projection": "text head",
                "logit_scale": "logit scale",
            },
        ),
        (
            "timm",
            {
                "visual.trunk.patch_embed.proj.weight": "vision embedding",
                "visual.trunk.cls_token": "vision embedding",
                "visual.trunk.blocks.0.norm1.weight": "vision block 0",
                "visual.trunk.norm.weight": "vision head",
                "visual.head.proj.weight": "vision head",
            },
        ),
    ],
)
def test_every_parameter_belongs_to_a_layer(trunk: Trunk, names: dict[str, str]) -> None:
    clip = wide_clip(trunk=trunk)
    layer = layer_of(clip)
    assert {name: layer(name) for name in names} == names
    assert names.keys() <= dict(clip.named_parameters()).keys()
    assert all(len(layer(name).split()) in (2, 3) for name, _ in clip.named_parameters())


def test_of_broken_gradients_the_one_nearest_to_the_loss_is_named() -> None:
    clip = wide_clip()
    below = ["visual.conv1.weight", "visual.transformer.resblocks.0.ln_1.weight"]
    assert first_broken_gradient(clip, [*below, "visual.transformer.resblocks.2.mlp.c_fc.bias"]).endswith("c_fc.bias")
    assert first_broken_gradient(clip, [*below, "visual.proj"]) == "visual.proj"
    assert first_broken_gradient(clip, below) == below[1]


def test_norms_are_finite_exactly_where_the_gradients_are() -> None:
    clip = wide_clip().float()
    for parameter in clip.parameters():
        parameter.grad = torch.full_like(parameter, 3e37)
    norms = gradient_norms(clip)
    assert norms.non_finite == ()
    count = sum(p.numel() for p in clip.parameters())
    assert norms.total == pytest.approx(3e37 * math.sqrt(count))
    clip.get_parameter("transformer.resblocks.1.ln_2.weight").grad[3] = math.nan  # type: ignore[index]
    assert gradient_norms(clip).non_finite == ("transformer.resblocks.1.ln_2.weight",)
    clip.zero_grad(set_to_none=True)
    assert gradient_norms(clip).total == 0.0


def test_the_innermost_module_whose_output_breaks_first_is_named_and_no_hook_stays() -> None:
    clip, samples = wide_clip(), random_samples(2)

    def run() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        image, text = clip.encode_image(samples.pixels), clip.encode_text(samples.tokens)
        return image, text, clip.logit_scale

    assert first_broken_part(clip, samples.pixels, run) == ""
    # Its normalised input times this exceeds float64, while the weight itself is finite.
    with torch.no_grad():
        clip.get_parameter("visual.transformer.resblocks.1.mlp.c_fc.weight").fill_(1e308)
    found = first_broken_part(clip, samples.pixels, run)
    assert found == "the output of visual.transformer.resblocks.1.mlp.c_fc (vision block 1) is not finite"
    assert not any(module._forward_hooks for module in clip.modules())
    healthy = wide_clip()
    with torch.no_grad():
        healthy.text_projection.fill_(1e308)  # type: ignore[union-attr]

    def text_only() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return healthy.encode_image(samples.pixels), healthy.encode_text(samples.tokens), healthy.logit_scale

    assert first_broken_part(healthy, samples.pixels, text_only) == "the text embeddings are not finite"


def test_skipping_no_step_at_all_is_refused() -> None:
    with pytest.raises(StudioError, match="skips none"):
        Skip(0)
