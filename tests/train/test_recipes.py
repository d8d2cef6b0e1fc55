"""The recipes that come along: twins differ in what they are about, and the inherited one is as its source has it."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from models.build import build_clip
from models.config import LambdaConfig, ModelConfig
from models.errors import StudioError
from models.initialization import initial_clip
from train.config import RunConfig, load_config, resolved
from train.data.config import RandomCrop, TarData
from train.distributed import World
from train.loss import GATHERINGS
from train.optim import build_optimizer, learning_rate
from train.settings import Pictures
from train.step import MAX_LOGIT_SCALE

CONFIGS = Path(__file__).parents[2] / "train" / "configs"
NAMES = sorted(path.stem for path in CONFIGS.glob("*.toml"))
BIG = [name for name in NAMES if not name.endswith("_scenes")]
INHERITED = [name for name in BIG if name.endswith("_b16")]
FAMILIES = ("scenes", "cc3m_b16", "cc12m_b16", "cc12m_l14")
# (vision attention, text attention, lambda_init's rule)
KINDS = {
    "clip": ("standard", "standard", "constant"),
    "diffclip": ("differential", "differential", "constant"),
    "diffclip_star": ("differential", "differential", "depth"),
    "diffclip_dagger": ("differential", "standard", "constant"),
    "diffclip_v2": ("differential_v2", "differential_v2", "constant"),
}
LAMBDA_AND_NORM = 4 * 64 + 128
# Pairs that the paper had left of the two data sets, in samples: what its steps follow from.
PAIRS = {"cc3m": 2_300_000, "cc12m": 7_900_000}


def recipe(name: str) -> RunConfig:
    return load_config(CONFIGS / f"{name}.toml")


@pytest.mark.parametrize("family", FAMILIES)
def test_recipes_of_a_family_differ_in_name_and_attention_alone(family: str) -> None:
    plain = recipe(f"clip_{family}")
    members = [kind for kind in KINDS if f"{kind}_{family}" in NAMES]
    assert {"clip", "diffclip", "diffclip_star", "diffclip_dagger"} <= set(members)
    for kind in members:
        found = recipe(f"{kind}_{family}")
        vision, text, rule = KINDS[kind]
        assert (found.model.vision.attention, found.model.text.attention) == (vision, text)
        assert found.model.lambda_init == LambdaConfig(rule, 0.8)  # type: ignore[arg-type]
        assert found.name.endswith(family.replace("_", "-"))
        model = replace(
            found.model,
            vision=replace(found.model.vision, attention="standard"),
            text=replace(found.model.text, attention="standard"),
            lambda_init=plain.model.lambda_init,
        )
        assert replace(found, name=plain.name, title=plain.title, model=model) == plain


def test_every_recipe_belongs_to_a_family_and_has_a_title_of_its_own() -> None:
    assert set(NAMES) <= {f"{kind}_{family}" for kind in KINDS for family in FAMILIES}
    assert len({recipe(name).title for name in NAMES}) == len({recipe(name).name for name in NAMES}) == len(NAMES) >= 17


@pytest.mark.parametrize("name", INHERITED)
def test_the_inherited_recipe_has_its_sources_values(name: str) -> None:
    config = recipe(name)
    optim, vision, text = config.optim, config.model.vision, config.model.text
    assert config.batch_size == 16 * 256
    assert (optim.lr, optim.weight_decay, optim.start_lr, optim.final_lr) == (5e-4, 0.5, 1e-6, 1e-5)
    assert (optim.beta1, optim.beta2, optim.eps, optim.grad_clip) == (0.9, 0.98, 1e-8, math.inf)
    assert (optim.decay, optim.schedule) == ("published", "published")
    assert [(stage.epochs, stage.image_size) for stage in config.stages] == [(40, 224)]
    assert (vision.layers, vision.width, vision.raw_heads, vision.patch_size, vision.trunk) == (12, 768, 12, 16, "timm")
    assert (text.layers, text.width, text.heads, text.vocab_size, text.context_length) == (12, 512, 8, 49408, 77)
    assert (vision.activation, text.activation, config.model.embed_dim) == ("gelu", "quick_gelu", 512)
    assert vision.norm_eps == text.norm_eps == 1e-5  # the published CLIP alone has timm's 1e-6 in its vision tower
    assert (config.ema, config.patch_dropout, config.accumulation) == (0.0, 0.0, 1)
    assert isinstance(config.data, TarData)


@pytest.mark.parametrize("name", BIG)
def test_pictures_are_cropped_and_normalised_as_in_slip(name: str) -> None:
    config = recipe(name)
    assert config.augment == RandomCrop((0.5, 1.0), (3 / 4, 4 / 3), "bilinear")
    assert config.pictures == Pictures((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "bilinear")


@pytest.mark.parametrize("name", BIG)
def test_switches_stand_on_the_sound_choice_and_can_be_set_to_the_published_one(name: str) -> None:
    plain = recipe(name)
    assert (plain.initialization, plain.gathering) == ("matched", "full")
    published = load_config(CONFIGS / f"{name}.toml", ["initialization=published", "gathering=published"])
    assert (published.initialization, published.gathering) == ("published", "published")
    assert replace(published, initialization="matched", gathering="full") == plain
    drawn = initial_clip(shrunk(published.model), 0, published.initialization)
    matched = initial_clip(shrunk(plain.model), 0, plain.initialization)
    weights = {name: tensor.detach() for name, tensor in matched.named_parameters()}
    equal = {name for name, tensor in drawn.named_parameters() if torch.equal(tensor, weights[name])}
    # Biases that both draw as 0 tell the two apart: PyTorch's own are drawn in the published differential towers.
    assert "visual.head.proj.weight" not in equal
    for bias, tower in (("visual.trunk.blocks.0.mlp.fc1.bias", plain.model.vision), ("ln_final.bias", None)):
        assert (bias in equal) == (tower is None or tower.attention == "standard")
    with pytest.raises(StudioError, match="did you mean 'gathering'"):
        load_config(CONFIGS / f"{name}.toml", ["gatherin=published"])


def slips_schedule(per_epoch: int) -> np.ndarray:
    """The rates of 40 epochs, as arrays of numpy: linear over the first epoch, cosine over the other 39."""
    rise = np.linspace(1e-6, 5e-4, per_epoch)
    rest = np.arange(39 * per_epoch)
    return np.concatenate([rise, 1e-5 + 0.5 * (5e-4 - 1e-5) * (1 + np.cos(np.pi * rest / len(rest)))])


# step -> rate worked out by hand: a third of the way down the cosine is 3/4 of the fall from 5e-4 to 1e-5, two thirds
# 1/4 of it; the last step is 4.9e-4 (pi / 2n)^2 above 1e-5, n being the steps of the cosine.
@pytest.mark.parametrize(
    ("name", "per_epoch", "steps", "rates"),
    [
        (
            "diffclip_cc3m_b16",
            561,
            22_440,
            {0: 1e-6, 280: 2.505e-4, 560: 5e-4, 561: 5e-4, 7854: 3.775e-4, 15147: 1.325e-4, 22_439: 1.000000252571e-5},
        ),
        (
            "clip_cc12m_b16",
            1_928,
            77_120,
            {0: 1e-6, 1927: 5e-4, 1928: 5e-4, 26_992: 3.775e-4, 52_056: 1.325e-4, 77_119: 1.000000021384e-5},
        ),
    ],
)
def test_the_rate_at_named_steps_is_the_one_worked_out_by_hand(
    name: str, per_epoch: int, steps: int, rates: dict[int, float]
) -> None:
    config = resolved(recipe(name), PAIRS[name.split("_")[1]])
    assert config.steps == steps == 40 * per_epoch
    assert config.optim.warmup_steps == per_epoch
    found = [learning_rate(*config.cosine_of(step)) for step in range(0, steps, 7)]
    np.testing.assert_allclose(found, slips_schedule(per_epoch)[::7], rtol=1e-12)
    for step, rate in rates.items():
        assert learning_rate(*config.cosine_of(step)) == pytest.approx(rate, rel=1e-11)
    assert learning_rate(*config.cosine_of(steps - 1)) > 1e-5


def shrunk(config: ModelConfig) -> ModelConfig:
    """The same kinds of weights, few and small."""
    vision = replace(config.vision, layers=1, width=32, head_width=8, image_size=2 * config.vision.patch_size)
    text = replace(config.text, layers=1, width=24, heads=4, vocab_size=60, context_length=8)
    return replace(config, vision=vision, text=text, embed_dim=16)


SHARED_DECAYED = {
    "positional_embedding",
    "text_projection",
    "token_embedding.weight",
    "transformer.resblocks.0.mlp.c_fc.weight",
    "transformer.resblocks.0.mlp.c_proj.weight",
    "transformer.resblocks.0.attn.out_proj.weight",
    "visual.head.proj.weight",
    "visual.trunk.cls_token",
    "visual.trunk.pos_embed",
    "visual.trunk.patch_embed.proj.weight",
    "visual.trunk.blocks.0.mlp.fc1.weight",
    "visual.trunk.blocks.0.mlp.fc2.weight",
}
CLIP_DECAYED = SHARED_DECAYED | {
    "transformer.resblocks.0.attn.in_proj_weight",
    "visual.trunk.blocks.0.attn.qkv.weight",
    "visual.trunk.blocks.0.attn.proj.weight",
}
DIFFCLIP_DECAYED = (
    SHARED_DECAYED
    | {f"transformer.resblocks.0.attn.{part}_proj.weight" for part in ("q", "k", "v")}
    | {f"visual.trunk.blocks.0.attn.{part}_proj.weight" for part in ("q", "k", "v", "out")}
)


@pytest.mark.parametrize(
    ("name", "decayed"), [("clip_cc3m_b16", CLIP_DECAYED), ("diffclip_cc3m_b16", DIFFCLIP_DECAYED)]
)
def test_exactly_these_weights_decay_in_the_inherited_recipe(name: str, decayed: set[str]) -> None:
    config = recipe(name)
    clip = build_clip(shrunk(config.model))
    names = {parameter: name for name, parameter in clip.named_parameters()}
    groups = build_optimizer(clip, config.optim).param_groups
    by_decay = {group["weight_decay"]: {names[parameter] for parameter in group["params"]} for group in groups}
    assert set(by_decay) == {0.5, 0.0}
    assert by_decay[0.5] == decayed
    spared = by_decay[0.0]
    assert spared == set(names.values()) - decayed
    assert "logit_scale" in spared
    vectors = {name for name in names.values() if "lambda_" in name or "diff_norm" in name}
    assert vectors <= spared
    assert len(vectors) == (10 if name.startswith("diffclip") else 0)
    assert {tuple(group["betas"]) for group in groups} == {(0.9, 0.98)}


def test_the_loss_of_the_inherited_recipe_is_slips() -> None:
    """The mean of both cross-entropies of cosines times a scale, which begins at 1 / 0.07 and is 100 at most."""
    torch.manual_seed(0)
    image, text = (F.normalize(torch.randn(6, 8, dtype=torch.float64), dim=-1) for _ in range(2))
    scale = torch.tensor(math.log(1 / 0.07), dtype=torch.float64)
    logits, target = scale.exp() * image @ text.T, torch.arange(6)
    wanted = (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2
    world, valid = World(0, 1, torch.device("cpu")), torch.ones(6, dtype=torch.bool)
    for gathering in ("full", "published"):
        torch.testing.assert_close(GATHERINGS[gathering](world, image, text, scale, valid).share, wanted)
    clip = build_clip(shrunk(recipe("clip_cc3m_b16").model))
    assert float(clip.logit_scale.detach()) == pytest.approx(math.log(1 / 0.07))
    assert math.exp(MAX_LOGIT_SCALE) == pytest.approx(100.0)


# The published DiffCLIP ViT-B/16 has 149,629,185 weights; a standard layer lacks four lambda vectors and the head norm.
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("diffclip_cc3m_b16", 149_629_185),
        ("diffclip_star_cc12m_b16", 149_629_185),
        ("clip_cc3m_b16", 149_629_185 - 24 * LAMBDA_AND_NORM),
        ("diffclip_dagger_cc3m_b16", 149_629_185 - 12 * LAMBDA_AND_NORM),
    ],
)
def test_a_recipe_builds_a_model_of_the_published_size(name: str, parameters: int) -> None:
    with torch.device("meta"):
        clip = build_clip(recipe(name).model)
    assert sum(parameter.numel() for parameter in clip.parameters()) == parameters
