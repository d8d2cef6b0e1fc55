"""Dense features: each preset against its own formula in float64, in the space that the model reads CLS out into."""

import copy
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from tiny import tiny_config
from torch import Tensor, nn

from models import LoadedModel
from models.build import build_clip
from models.checkpoints import CheckpointInfo, wrap_model
from models.config import ModelConfig
from models.dense import dense_features, token_readout
from models.errors import StudioError, UnsupportedAttentionError
from models.intervention.edited_maps import neighbourhood_bonus
from models.intervention.edits import Neighbourhood, SetLambda, UseSource
from models.preprocess import Preprocess
from models.presets import PRESETS, Preset, find_preset
from models.tokenizer import DomainTokenizer

GRID, WIDTH, HEADS = 4, 8, 4


def timm_config(tokenizer: DomainTokenizer, attention: str = "standard") -> ModelConfig:
    config = tiny_config(attention, tokenizer.vocab_size)
    return replace(config, vision=replace(config.vision, trunk="timm"))


def wrapped(clip: nn.Module, config: ModelConfig, tokenizer: DomainTokenizer) -> LoadedModel:
    size = config.vision.image_size
    info = CheckpointInfo("tiny", "scenes", config, Preprocess(size, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)))
    return wrap_model(clip.eval().requires_grad_(False), info, tokenizer, "tiny", Path())  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def timm_clip(tokenizer: DomainTokenizer) -> LoadedModel:
    config = timm_config(tokenizer)
    return wrapped(build_clip(config, 4), config, tokenizer)


def gaussian(std: float) -> Tensor:
    """NACLIP's bonus (17, 17), entry by entry."""
    bonus = torch.zeros(1 + GRID**2, 1 + GRID**2, dtype=torch.float64)
    for i in range(GRID**2):
        for j in range(GRID**2):
            dy, dx = i // GRID - j // GRID, i % GRID - j % GRID
            bonus[1 + i, 1 + j] = math.exp(-(dy * dy + dx * dx) / (2 * std * std))
    return bonus


def literal_attention(q: Tensor, k: Tensor, v: Tensor, preset: str) -> Tensor:
    """The weighted values (17, D) of the last layer of each published method, head by head."""
    heads = []
    for head in range(HEADS):
        part = slice(head * WIDTH, (head + 1) * WIDTH)
        qq, kk = (x[:, part] @ x[:, part].T / math.sqrt(WIDTH) for x in (q, k))
        weights = {
            "clip": torch.softmax(q[:, part] @ k[:, part].T / math.sqrt(WIDTH), -1),
            "maskclip": torch.eye(len(q), dtype=q.dtype),
            "maskclip-attention": torch.eye(len(q), dtype=q.dtype),
            "sclip": torch.softmax(qq, -1) + torch.softmax(kk, -1),
            "clearclip": torch.softmax(qq, -1),
            "naclip": torch.softmax(kk + gaussian(5.0), -1),
        }[preset]
        heads.append(weights @ v[:, part])
    return torch.cat(heads, -1)


def literal_open_clip(model: LoadedModel, picture: Tensor, preset: str) -> Tensor:
    visual: Any = copy.deepcopy(model.module.visual).double()
    x = visual._embeds(picture[None].double())
    for block in visual.transformer.resblocks[:-1]:
        x = block(x)
    block, x = visual.transformer.resblocks[-1], x[0]
    q, k, v = F.linear(block.ln_1(x), block.attn.in_proj_weight, block.attn.in_proj_bias).chunk(3, -1)
    out = block.attn.out_proj(literal_attention(q, k, v, preset))
    if preset in ("clip", "maskclip", "sclip"):
        out = x + out
        out = out + block.mlp(block.ln_2(out))
    return F.normalize((visual.ln_post(out) @ visual.proj)[1:], dim=-1).view(GRID, GRID, -1)


def literal_timm(model: LoadedModel, picture: Tensor, preset: str) -> Tensor:
    visual: Any = copy.deepcopy(model.module.visual).double()
    trunk = visual.trunk
    x = trunk.norm_pre(trunk._pos_embed(trunk.patch_embed(picture[None].double())))
    for block in trunk.blocks[:-1]:
        x = block(x)
    block, x = trunk.blocks[-1], x[0]
    q, k, v = block.attn.qkv(block.norm1(x)).chunk(3, -1)
    out = block.attn.proj(literal_attention(q, k, v, preset))
    if preset in ("clip", "maskclip", "sclip"):
        out = x + out
        out = out + block.mlp(block.norm2(out))
    return F.normalize(visual.head.proj(trunk.norm(out))[1:], dim=-1).view(GRID, GRID, -1)


@pytest.mark.parametrize("preset", [preset.name for preset in PRESETS])
def test_every_preset_agrees_with_its_formula_written_out(
    clip: LoadedModel, timm_clip: LoadedModel, pixels: Tensor, preset: str
) -> None:
    for model, literal in ((clip, literal_open_clip), (timm_clip, literal_timm)):
        ours = dense_features(model, pixels, find_preset(preset))
        assert ours.shape == (2, GRID, GRID, 24)
        for picture in range(2):
            wanted = literal(model, pixels[picture], preset)
            torch.testing.assert_close(ours[picture].double(), wanted, atol=2e-6, rtol=1e-5)


def test_presets_give_different_features(clip: LoadedModel, pixels: Tensor) -> None:
    features = [dense_features(clip, pixels, preset) for preset in PRESETS]
    for i, one in enumerate(features):
        for other in features[i + 1 :]:
            assert float((one - other).abs().max()) > 1e-3


def test_the_readout_of_tokens_is_the_models_own_for_cls(
    model: LoadedModel, timm_clip: LoadedModel, pixels: Tensor
) -> None:
    for given in (model, timm_clip):
        readout, kept = token_readout(given), []
        handle = readout.trunk.register_forward_hook(lambda m, a, out, kept=kept: kept.append(out))
        embedded = given.encode_image(pixels)
        handle.remove()
        torch.testing.assert_close(readout.project(kept[0])[:, 0], embedded, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("preset", [preset.name for preset in PRESETS])
def test_features_have_length_one_and_the_model_is_left_as_it_was(
    model: LoadedModel, pixels: Tensor, preset: str
) -> None:
    before = model.encode_image(pixels)
    features = dense_features(model, pixels, find_preset(preset))
    torch.testing.assert_close(features.norm(dim=-1), torch.ones(2, GRID, GRID))
    assert sum(len(m._forward_hooks) for m in model.module.modules()) == 0
    assert torch.equal(model.encode_image(pixels), before)
    alone = dense_features(model, pixels[1:], find_preset(preset))
    torch.testing.assert_close(features[1:], alone, atol=1e-5, rtol=1e-5)


def test_a_sum_of_sources_is_a_mean_to_a_differential_head_but_not_to_clip(
    clip: LoadedModel, diffclip: LoadedModel, pixels: Tensor
) -> None:
    mean = Preset("mean", "Mean", "", (UseSource(("qq", "kk"), "mean", -1),))

    def apart(model: LoadedModel) -> float:
        summed = dense_features(model, pixels, find_preset("sclip"))
        return float((summed - dense_features(model, pixels, mean)).abs().max())

    assert apart(clip) > 0.05
    assert apart(diffclip) < 1e-3


def test_maskclip_of_a_differential_head_does_not_depend_on_lambda(diffclip: LoadedModel, pixels: Tensor) -> None:
    features = dense_features(diffclip, pixels, find_preset("maskclip-attention"))
    module: Any = copy.deepcopy(diffclip.module)
    last = module.visual.transformer.resblocks[-1].attn
    last.lambda_q1.data.fill_(0.9)
    last.lambda_k1.data.fill_(0.9)
    other = replace(diffclip, module=module, vision=wrapped(module, diffclip.config, diffclip.tokenizer).vision)  # type: ignore[arg-type]
    assert other.vision.lambdas()[-1] > 100  # type: ignore[index]
    assert torch.equal(dense_features(other, pixels, find_preset("maskclip-attention")), features)


def test_the_neighbourhood_spares_registers_and_knows_a_grid_that_is_not_square(tokenizer: DomainTokenizer) -> None:
    config = timm_config(tokenizer)
    config = replace(config, vision=replace(config.vision, image_size=(16, 32)))
    clip = build_clip(config, 0)
    clip.visual.trunk = VisionTransformer(
        img_size=(16, 32),
        patch_size=8,
        embed_dim=32,
        depth=2,
        num_heads=4,
        num_classes=0,
        global_pool="token",
        reg_tokens=2,
    )
    model = wrapped(clip, config, tokenizer)
    bonus = neighbourhood_bonus(model.vision.layout, 2.0)  # type: ignore[arg-type]
    assert bonus.shape == (3 + 8, 3 + 8)
    assert torch.equal(bonus[:3], torch.zeros(3, 11, dtype=torch.float64))
    assert torch.equal(bonus[:, :3], torch.zeros(11, 3, dtype=torch.float64))
    # From patch (0, 1) to patch (1, 3): one row and two columns away.
    assert float(bonus[3 + 1, 3 + 4 + 3]) == pytest.approx(math.exp(-5 / 8))
    assert float(bonus[3:, 3:].max()) == 1.0
    features = dense_features(model, torch.randn(1, 3, 16, 32), Preset("n", "N", "", (Neighbourhood(2.0, -1),)))
    assert features.shape == (1, 2, 4, 24)


def test_a_tower_that_pools_by_attention_is_refused(tokenizer: DomainTokenizer, pixels: Tensor) -> None:
    config = timm_config(tokenizer)
    clip = build_clip(config, 0)
    clip.visual.trunk = VisionTransformer(
        img_size=32,
        patch_size=8,
        embed_dim=32,
        depth=2,
        num_heads=4,
        num_classes=0,
        global_pool="map",
        class_token=False,
    )
    with pytest.raises(UnsupportedAttentionError, match="pools them by attention"):
        dense_features(wrapped(clip, config, tokenizer), pixels, find_preset("clearclip"))


def test_a_tower_that_averages_its_patches_is_projected_as_it_averages(
    tokenizer: DomainTokenizer, pixels: Tensor
) -> None:
    config = timm_config(tokenizer)
    clip = build_clip(config, 0)
    clip.visual.trunk = VisionTransformer(
        img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4, num_classes=0, global_pool="avg", fc_norm=False
    )
    model = wrapped(clip, config, tokenizer)
    readout, kept = token_readout(model), []
    handle = readout.trunk.register_forward_hook(lambda m, a, out: kept.append(out))
    embedded = model.encode_image(pixels)
    handle.remove()
    torch.testing.assert_close(readout.project(kept[0])[:, 1:].mean(1), embedded, atol=1e-6, rtol=1e-5)


def test_an_edit_that_does_not_fit_and_an_unknown_preset_are_told(clip: LoadedModel, pixels: Tensor) -> None:
    with pytest.raises(StudioError, match="has one map and no lambda"):
        dense_features(clip, pixels, Preset("mine", "Mine", "", (SetLambda(0.0),)))
    with pytest.raises(StudioError, match="did you mean 'clearclip'"):
        find_preset("clear-clip")


@pytest.mark.parametrize("preset", ["clip", "naclip"])
@pytest.mark.parametrize("shape", [(2, 3, 48, 48), (2, 3, 16, 64), (2, 3, 32, 24), (3, 32, 32)])
def test_pictures_of_another_size_are_told_before_anything_runs(
    clip: LoadedModel, timm_clip: LoadedModel, shape: tuple[int, ...], preset: str
) -> None:
    runs: list[nn.Module] = []
    for model in (clip, timm_clip):
        with (
            model.module.visual.register_forward_pre_hook(lambda module, args: runs.append(module)),
            pytest.raises(StudioError, match=r"do not fit the model's input, \(B, 3, 32, 32\)") as caught,
        ):
            dense_features(model, torch.randn(*shape), find_preset(preset))
        assert str(shape) in str(caught.value)
    assert not runs
