"""How models begin: matched pairs are equal, published ones have the published distributions."""

import math
from dataclasses import replace

import pytest
import torch
from tiny import tiny_config
from torch import Tensor, nn

from models.build import build_clip
from models.config import AttentionKind, ModelConfig
from models.errors import StudioError
from models.initialization import initial_clip

WIDTH, TEXT_WIDTH, LAYERS = 96, 80, 2


def config(attention: AttentionKind, trunk: str = "timm") -> ModelConfig:
    plain = tiny_config(attention, 300)
    vision = replace(plain.vision, trunk=trunk, width=WIDTH, head_width=16, layers=LAYERS)
    return replace(plain, vision=vision, text=replace(plain.text, width=TEXT_WIDTH, layers=LAYERS))


def weights(attention: AttentionKind, rule: str, seed: int = 0) -> dict[str, Tensor]:
    return dict(initial_clip(config(attention), seed, rule).state_dict())  # type: ignore[arg-type]


def assert_std(tensor: Tensor, std: float) -> None:
    """Within five standard errors of the standard deviation that a normal of this size has; uniform ones err less."""
    assert float(tensor.std()) == pytest.approx(std, rel=5 / math.sqrt(2 * tensor.numel()))
    assert abs(float(tensor.mean())) < 5 * std / math.sqrt(tensor.numel())


def assert_uniform(tensor: Tensor, inputs: int) -> None:
    bound = inputs**-0.5
    assert float(tensor.abs().max()) <= bound
    assert float(tensor.abs().max()) > 0.9 * bound
    assert_std(tensor, bound / math.sqrt(3))


def test_a_matched_pair_begins_with_the_same_projections() -> None:
    plain, twin = weights("standard", "matched"), weights("differential", "matched")
    for block, whole in (
        ("visual.trunk.blocks.1.attn", "qkv.weight"),
        ("transformer.resblocks.1.attn", "in_proj_weight"),
    ):
        parts = [twin[f"{block}.{name}_proj.weight"] for name in "qkv"]
        assert torch.equal(torch.cat(parts), plain[f"{block}.{whole}"])
    assert all(torch.equal(twin[name], plain[name]) for name in plain if ".attn." not in name)
    built = build_clip(config("differential"), 0).state_dict()
    assert all(torch.equal(twin[name], built[name]) for name in built)


@pytest.mark.parametrize("attention", ["standard", "differential"])
def test_the_published_text_tower_has_slips_standard_deviations(attention: AttentionKind) -> None:
    drawn = weights(attention, "published")
    inner, outer = TEXT_WIDTH**-0.5, TEXT_WIDTH**-0.5 * (2 * LAYERS) ** -0.5
    assert_std(drawn["token_embedding.weight"], 0.02)
    assert_std(drawn["positional_embedding"], 0.01)
    assert_std(drawn["text_projection"], inner)
    assert float(drawn["logit_scale"]) == pytest.approx(math.log(1 / 0.07))
    for layer in range(LAYERS):
        block = f"transformer.resblocks.{layer}"
        names = ["in_proj_weight"] if attention == "standard" else [f"{name}_proj.weight" for name in "qkv"]
        for name in names:
            assert_std(drawn[f"{block}.attn.{name}"], inner)
        assert_std(drawn[f"{block}.attn.out_proj.weight"], outer)
        assert_std(drawn[f"{block}.mlp.c_fc.weight"], (2 * TEXT_WIDTH) ** -0.5)
        assert_std(drawn[f"{block}.mlp.c_proj.weight"], outer)


def test_the_published_clip_has_timms_vision_tower_and_the_published_diffclip_pytorchs_blocks() -> None:
    plain, twin = weights("standard", "published"), weights("differential", "published")
    for drawn in (plain, twin):
        assert_std(drawn["visual.head.proj.weight"], WIDTH**-0.5)
        assert_std(drawn["visual.trunk.pos_embed"], 0.02)
        assert float(drawn["visual.trunk.cls_token"].abs().max()) < 1e-5
    block = "visual.trunk.blocks.1"
    for name in ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"):
        assert_std(plain[f"{block}.{name}.weight"], 0.02)
        assert not plain[f"{block}.{name}.bias"].any()
    for name in ("attn.q_proj", "attn.k_proj", "attn.v_proj", "attn.out_proj", "mlp.fc1"):
        assert_uniform(twin[f"{block}.{name}.weight"], WIDTH)
        assert_uniform(twin[f"{block}.{name}.bias"], WIDTH)
    assert_uniform(twin[f"{block}.mlp.fc2.weight"], 4 * WIDTH)
    lambdas = torch.cat([tensor for name, tensor in twin.items() if "lambda_" in name])
    assert_std(lambdas, 0.1)


def test_biases_of_a_published_differential_text_tower_are_drawn_and_those_of_clip_are_zero() -> None:
    plain, twin = weights("standard", "published"), weights("differential", "published")
    block = "transformer.resblocks.0.attn"
    assert not plain[f"{block}.in_proj_bias"].any()
    assert not plain[f"{block}.out_proj.bias"].any()
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        assert_uniform(twin[f"{block}.{name}.bias"], TEXT_WIDTH)


def test_the_image_projection_is_where_a_plain_clip_differs_between_the_rules() -> None:
    matched, published = weights("standard", "matched"), weights("standard", "published")
    assert_uniform(matched["visual.head.proj.weight"], WIDTH)
    for name in matched:
        if name == "visual.head.proj.weight" or matched[name].ndim < 2 or "cls_token" in name:
            continue
        assert float(matched[name].std()) == pytest.approx(float(published[name].std()), rel=0.15), name


@pytest.mark.parametrize("attention", ["standard", "differential"])
def test_published_weights_are_a_function_of_the_seed_and_leave_the_generator_alone(attention: AttentionKind) -> None:
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first, again, other = (weights(attention, "published", seed) for seed in (3, 3, 4))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    drawn = [name for name in first if first[name].ndim >= 2 and "attn_mask" not in name]
    assert drawn
    assert not any(torch.equal(first[name], other[name]) for name in drawn)


def test_a_vision_tower_alone_may_be_differential() -> None:
    dagger = replace(config("differential"), text=config("standard").text)
    clip = initial_clip(dagger, 0, "published")
    assert isinstance(clip.transformer.resblocks[0].attn, nn.MultiheadAttention)
    assert_uniform(clip.visual.trunk.blocks[0].mlp.fc1.bias.detach(), WIDTH)  # type: ignore[union-attr]


def test_what_was_not_published_is_refused() -> None:
    with pytest.raises(StudioError, match='trunk = "open_clip"'):
        initial_clip(config("standard", "open_clip"), 0, "published")
    with pytest.raises(StudioError, match='"differential_v2" was published'):
        initial_clip(config("differential_v2"), 0, "published")
    assert initial_clip(config("differential_v2"), 0, "matched") is not None
