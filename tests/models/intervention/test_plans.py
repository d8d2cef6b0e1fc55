"""Plans: what does not fit a tower is refused in one sentence, before anything runs."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from families import family_of
from hooked import hooks_of
from tiny import tiny_config
from torch import Tensor

from models import LoadedModel, record
from models.build import build_clip
from models.checkpoints import CheckpointInfo, wrap_model
from models.errors import StudioError, UndefinedMapError
from models.intervention.edits import (
    HIGHEST_SEED,
    AblateHeads,
    DropFFN,
    DropResidual,
    Edit,
    Identity,
    MatchedEntropy,
    Neighbourhood,
    OtherA2,
    RandomMask,
    SetLambda,
    ShuffledA2,
    SupportOf,
    TopK,
    UniformA2,
    UseNormalizer,
    UseSource,
)
from models.intervention.plans import plan_edits, resolve_layers
from models.intervention.run import edited_maps, intervene
from models.preprocess import Preprocess
from models.tokenizer import DomainTokenizer

TEXTS = ["a photo of a cat and two dogs", "keys"]


def test_layers_are_counted_from_either_end_each_once_in_order(clip: LoadedModel) -> None:
    assert resolve_layers(clip.vision, None) == (0, 1, 2)
    assert resolve_layers(clip.vision, -1) == (2,)
    assert resolve_layers(clip.vision, (2, 0, -1, -3)) == (0, 2)
    assert resolve_layers(clip.vision, ()) == ()


def test_a_plan_names_only_edited_layers_and_what_they_touch(diffclip: LoadedModel) -> None:
    plans = plan_edits(diffclip.vision, [DropFFN(-1), SetLambda(0.0, (1,))])
    assert sorted(plans) == [1, 2]
    assert (plans[1].attention, plans[1].block) == (True, False)
    assert (plans[2].attention, plans[2].block) == (False, True)


@pytest.mark.parametrize("name", ["timm SigLIP", "open_clip CoCa pooling head"])
def test_a_pooling_head_has_no_block_no_neighbours_and_no_identity(name: str) -> None:
    tower = family_of(name).tower
    for edit in (DropResidual(), DropFFN(-1), Identity(), Neighbourhood()):
        with pytest.raises(StudioError, match="layer 2, which is a pooling head"), intervene(tower, [edit]):
            pass
    with pytest.raises(UndefinedMapError, match="layer 2, a pooling head"), intervene(tower, [UseSource("kk")]):
        pass


def test_a_tower_without_attention_says_why(clip: LoadedModel) -> None:
    empty = replace(clip.vision, attention=(), blocks=(), reason="A ResNet has no attention: choose a ViT.")
    with pytest.raises(StudioError, match="A ResNet has no attention"), intervene(empty, [TopK(3)]):
        pass


def test_edits_that_do_not_fit_clip_are_refused(clip: LoadedModel, diffclip: LoadedModel, pixels: Tensor) -> None:
    with record(diffclip.vision) as recording:
        diffclip.encode_image(pixels)
    for edit in (SetLambda(0.5), ShuffledA2(), UniformA2(), OtherA2(recording)):
        with pytest.raises(StudioError, match="has one map and no lambda"), intervene(clip.vision, [edit]):
            pass


@pytest.mark.parametrize(
    ("edits", "sentence"),
    [
        ([TopK(3, layers=3)], "Layer 3 does not exist in the vision tower: choose 0-2"),
        ([TopK(3, layers=(0, -4))], "Layer -4 does not exist"),
        ([AblateHeads((2,))], r"Head 2 does not exist in layer 0, whose heads are 0-1 \(pairs of 4\)"),
        ([SetLambda(0.1, heads=(-1,))], "Head -1 does not exist"),
        ([SetLambda((0.1, 0.2, 0.3))], "3 values of lambda do not fit the 2 heads of layer 0"),
        ([UseSource("vv", layers=1)], "'vv' is undefined in layer 1"),
        ([UseSource(("qq", "kq"))], "'kq' is unknown"),
        ([TopK(3, -1), RandomMask(3, layers=2)], "Layer 2 is given both TopK and RandomMask"),
        ([SetLambda(0.1), SetLambda(0.2, layers=1)], "Layer 1 is given both SetLambda and SetLambda"),
        ([ShuffledA2(), UniformA2(1)], "both ShuffledA2 and UniformA2"),
        ([Identity(1), SetLambda(0.0)], "SetLambda would have no effect in layer 1"),
        ([UseSource("qq"), Identity()], "UseSource would have no effect"),
        (["lambda=0"], "is not an edit"),
        ([TopK(3, layers="last")], "Layers 'last' cannot be found: give a whole number"),  # type: ignore[arg-type]
        ([TopK(3, layers=("0", 1))], r"Layers \('0', 1\) cannot be found"),  # type: ignore[arg-type]
        ([TopK(3, layers=1.0)], "Layers 1.0 cannot be found"),  # type: ignore[arg-type]
        ([TopK(3, layers=True)], "Layers True cannot be found"),
        (SetLambda(0.0), r"SetLambda\(value=0.0.* is no list of edits: put edits in a list"),
        (None, "None is no list of edits"),
    ],
)
def test_edits_that_do_not_fit_diffclip_are_refused(diffclip: LoadedModel, edits: list[Edit], sentence: str) -> None:
    with pytest.raises(StudioError, match=sentence) as caught, intervene(diffclip.vision, edits):
        pass
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_edits_of_patches_are_refused_in_a_text_tower(diffclip: LoadedModel) -> None:
    for edit in (ShuffledA2(), Neighbourhood()):
        with pytest.raises(StudioError, match="text tower, which has no patches"), intervene(diffclip.text, [edit]):
            pass


@pytest.mark.parametrize(
    ("kind", "values", "sentence"),
    [
        (SetLambda, (math.nan,), "lambda = nan is impossible"),
        (SetLambda, ((),), r"lambda = \(\) is impossible"),
        (SetLambda, ([0.5, 0.5],), r"lambda = \[0.5, 0.5\] is impossible: .* a tuple of one for each head"),
        (SetLambda, ("0.5",), "lambda = '0.5' is impossible: give a finite number"),
        (SetLambda, (("0.5", 0.5),), "is impossible"),
        (SetLambda, (True,), "lambda = True is impossible"),
        (SetLambda, ((0.1, 0.2), None, (0,)), "2 values of lambda do not fit 1 heads"),
        (SetLambda, (0.1, None, 0), "Heads 0 are impossible: give a tuple"),
        (Neighbourhood, (0.0,), "std 0.0 patches is impossible"),
        (Neighbourhood, ("5",), "std '5' patches is impossible"),
        (TopK, (0,), "Keeping 0 keys is impossible"),
        (TopK, (3.5,), "Keeping 3.5 keys is impossible: give a whole number of at least 1"),
        (TopK, ("3",), "Keeping '3' keys is impossible"),
        (RandomMask, (-1,), "Keeping -1 keys is impossible"),
        (RandomMask, (3, -1), "Seed -1 is impossible"),
        (RandomMask, (3, 2**60), r"Seed 1152921504606846976 is impossible: .* from 0 to 2\*\*48"),
        (ShuffledA2, (-2,), "Seed -2 is impossible"),
        (ShuffledA2, (0.5,), "Seed 0.5 is impossible"),
        (AblateHeads, ((),), r"Heads \(\) are impossible"),
        (AblateHeads, ((1, 1),), "each once"),
        (AblateHeads, (1,), "Heads 1 are impossible"),
        (AblateHeads, ((0.5,),), "at least one whole number"),
        (UseSource, ((),), "make no map"),
        (UseSource, (3,), "Sources 3 combined by 'sum' make no map"),
        (UseSource, ("qk", "product"), "'product' make no map"),
        (UseNormalizer, (1.5,), r"1.5 is no normaliser: give Normalizer\(alpha\)"),
        (MatchedEntropy, ("entmax",), "'entmax' is no normaliser"),
        (SupportOf, (1.5,), "1.5 is no normaliser"),
        (OtherA2, (torch.zeros(1),), "A Tensor is no recording"),
    ],
)
def test_impossible_values_are_refused_when_the_edit_is_made(
    kind: Callable[..., object], values: tuple[object, ...], sentence: str
) -> None:
    with pytest.raises(StudioError, match=sentence) as caught:
        kind(*values)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_the_highest_seed_and_whole_numbers_of_other_types_are_taken(diffclip: LoadedModel, pixels: Tensor) -> None:
    two: Any = np.int64(2)
    edits = [RandomMask(two + 1, HIGHEST_SEED, layers=(two,)), ShuffledA2(HIGHEST_SEED, layers=(two - 2, two - 1))]
    with intervene(diffclip.vision, edits):
        changed = diffclip.encode_image(pixels)
    with intervene(diffclip.vision, [RandomMask(3, HIGHEST_SEED, -1), ShuffledA2(HIGHEST_SEED, (0, 1))]):
        assert torch.equal(diffclip.encode_image(pixels), changed)


def test_a_neighbourhood_over_another_grid_than_the_towers_is_refused(tokenizer: DomainTokenizer) -> None:
    small, large = (
        wrap_model(
            build_clip(config := tiny_config("standard", tokenizer.vocab_size, image_size=side), 0).eval(),
            CheckpointInfo(f"{side}", "scenes", config, Preprocess(side, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))),
            tokenizer,
            f"{side}",
            Path(),
        )
        for side in (32, 48)
    )
    with record(large.vision) as recording:
        large.encode_image(torch.randn(1, 3, 48, 48))
    assert edited_maps(large.vision, [Neighbourhood()], 1, recording[1]).weights.shape[-1] == 37
    with pytest.raises(StudioError, match="laid over 17 tokens and layer 1 was run with 37: give pictures of the size"):
        edited_maps(small.vision, [Neighbourhood()], 1, recording[1])


def test_another_pictures_a2_must_fit_in_batch_grid_and_tower(
    diffclip: LoadedModel, clip: LoadedModel, pixels: Tensor, tokenizer: DomainTokenizer
) -> None:
    with record(diffclip.vision) as three:
        diffclip.encode_image(pixels[[0, 0, 1]])
    with (
        pytest.raises(StudioError, match="record one picture, or as many"),
        intervene(diffclip.vision, [OtherA2(three)]),
    ):
        diffclip.encode_image(pixels)
    assert hooks_of(diffclip.module) == 0
    config = tiny_config("differential", tokenizer.vocab_size, image_size=48)
    info = CheckpointInfo("large", "scenes", config, Preprocess(48, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)))
    large = wrap_model(build_clip(config, 0).eval(), info, tokenizer, "large", Path())
    with record(large.vision) as wide:
        large.encode_image(torch.randn(1, 3, 48, 48))
    with pytest.raises(StudioError, match="on the same grid"), intervene(diffclip.vision, [OtherA2(wide)]):
        diffclip.encode_image(pixels)
    with record(clip.vision) as plain, record(diffclip.text) as text:
        clip.encode_image(pixels)
        diffclip.encode_text(diffclip.tokenize(TEXTS))
    for recording in (plain, text):
        with (
            pytest.raises(StudioError, match="record another picture"),
            intervene(diffclip.vision, [OtherA2(recording)]),
        ):
            pass
