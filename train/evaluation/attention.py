"""Where attention lies on unseen scenes, against exact masks, with the controls that a claim of cleaning needs.

The protocol was fixed before any model was trained for it. The CLS row over patch keys, averaged over heads and only
then turned into a positive part; a patch counts as object where an object covers at least half of it and as ground
below a tenth, and patches between are left out of everything; a picture without either is left out and counted. Every
layer is measured, and the headline is the mean over layers, taken picture by picture before the interval is drawn.

Beside A of a CLIP, A1, A2, A1 - lambda A2 and its positive part stand the controls: the same difference with A2
shuffled over the patches, with a uniform A2, with the A2 of another picture; the model run with lambda = 0; and A1
sharpened by a temperature, row by row, until its entropy is that of the positive part. What a control reaches too is
not what the learned second map knows of the picture.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from models.errors import StudioError
from models.intervention import SetLambda, intervene
from models.intervention.controls import matched_entropy_weights
from models.layout import TokenGrid
from models.loaded import LoadedModel
from models.localisation import GROUND_COVERAGE, OBJECT_COVERAGE, auroc, lift, mass_inside, patch_coverage
from models.maps import AttentionMaps, attention_maps
from models.recorder import record
from models.statistics import entropy_nats, patch_order, positive_part
from train.evaluation.metrics import Measured, bootstrap_interval
from train.scenes import describe_scene, render_scene

_AT_ONCE = 25
_SHUFFLES = 5
# Which maps are signed: of these the rank alone means something, since a share of a signed sum does not.
DIFFERENCE = "A1 - lambda A2"
SHUFFLED, UNIFORM, OTHER = (f"{DIFFERENCE}, A2 {how}" for how in ("shuffled", "uniform", "of another picture"))
SIGNED = (DIFFERENCE, SHUFFLED, UNIFORM, OTHER)
POSITIVE = "positive part of "
METRICS = ("mass", "lift", "auroc")


@dataclass(frozen=True)
class Place:
    """One number of one map: in each layer, and the mean over layers, with intervals over pictures.

    Attributes:
        layers: of each layer.
        mean: over layers.
    """

    layers: tuple[Measured, ...]
    mean: Measured


@dataclass(frozen=True)
class AttentionToObjects:
    """What was measured.

    Attributes:
        pictures: that were measured.
        left_out: pictures without a patch of object or without one of ground.
        object_share: mean share of object patches among object and ground patches: the mass of a uniform row.
        maps: map -> "mass" (share on object patches), "lift" (mass by `object_share` of the picture), "auroc".
            Signed maps have the last alone.
        gains: what the positive part has more than each control, by picture and mean over layers: control -> metric.
    """

    pictures: int
    left_out: int
    object_share: float
    maps: dict[str, dict[str, Place]]
    gains: dict[str, dict[str, Measured]]


def attention_to_objects(model: LoadedModel, seed: int, count: int) -> AttentionToObjects:
    """Measure a model on scenes 0 to `count` - 1 of a seed, drawn at twice its size and preprocessed by it.

    Raises:
        StudioError: fewer than two scenes, no grid of patches with a CLS token, or no picture has object and ground.
    """
    layout = model.vision.layout
    if not isinstance(layout, TokenGrid) or layout.cls is None:
        raise StudioError(f"{model.title} has no CLS token over a grid of patches, whose row this measures.")
    if count < 2:
        raise StudioError(f"{count} scenes measure nothing: give 2 or more.")
    kept: dict[str, list[NDArray[np.float64]]] = {}
    shares, left_out = [], 0
    for numbers in batches(count):
        pixels, inside, outside = _pictures(model, layout, seed, numbers)
        rows = _rows(model, layout, pixels, numbers.start)
        for at in range(len(numbers)):
            if not bool(inside[at].any()) or not bool(outside[at].any()):
                left_out += 1
                continue
            counted = inside[at] | outside[at]
            object_patches, ground = inside[at][counted], outside[at][counted]
            shares.append(float(object_patches.double().mean()))
            for name, maps in rows.items():
                row = maps[:, at][:, counted]
                kept.setdefault(name, []).append(_numbers(row, object_patches, ground, name))
    if not shares:
        raise StudioError("No scene has both object and ground patches: take a model with smaller patches.")
    values = {name: np.stack(parts) for name, parts in kept.items()}
    return AttentionToObjects(len(shares), left_out, float(np.mean(shares)), _places(values), _gains(values))


def batches(count: int) -> list[range]:
    """The scenes 0 to `count` - 1 in parts of two or more: alone a scene would be its own other picture."""
    starts = [start for start in range(0, count, _AT_ONCE) if start == 0 or count - start > 1]
    return [range(start, end) for start, end in zip(starts, [*starts[1:], count], strict=True)]


def _pictures(model: LoadedModel, layout: TokenGrid, seed: int, numbers: range) -> tuple[Tensor, Tensor, Tensor]:
    """Pixels (B, 3, height, width), and which patches are object and ground (B, R * C)."""
    side = 2 * max(model.preprocess_settings.input_size)
    pixels, coverage = [], []
    for number in numbers:
        picture, instances = render_scene(describe_scene(seed, number), side)
        tensor, geometry = model.preprocess(Image.fromarray(picture))
        pixels.append(tensor)
        coverage.append(torch.from_numpy(patch_coverage(instances > 0, geometry, layout).reshape(-1)))
    covered = torch.stack(coverage)
    return torch.stack(pixels), covered >= OBJECT_COVERAGE, covered < GROUND_COVERAGE


def _rows(model: LoadedModel, layout: TokenGrid, pixels: Tensor, start: int) -> dict[str, Tensor]:
    """CLS rows over patch keys (L, B, R * C) of every map and control, mean over heads."""
    found: dict[str, list[Tensor]] = {}
    for name, row in _run(model, layout, pixels, start):
        found.setdefault(name, []).append(row)
    if model.vision.lambda_init is not None:
        with intervene(model.vision, [SetLambda(0.0)]), record(model.vision) as recording:
            model.encode_image(pixels.to(model.module.logit_scale.device))
        for layer in range(model.vision.layers):
            found.setdefault("A1, run with lambda = 0", []).append(
                _cls_row(attention_maps(recording[layer], "qk").a1, layout)
            )
    return {name: torch.stack(layers) for name, layers in found.items()}


def _run(model: LoadedModel, layout: TokenGrid, pixels: Tensor, start: int) -> Iterator[tuple[str, Tensor]]:
    with record(model.vision) as recording:
        model.encode_image(pixels.to(model.module.logit_scale.device))
    for layer in range(model.vision.layers):
        maps = attention_maps(recording[layer])
        if maps.subtracted is None:
            yield "A", _cls_row(maps.a1, layout)
        else:
            yield from _differential(maps, maps.subtracted, layout, start)


def _differential(
    maps: AttentionMaps, subtracted: Tensor, layout: TokenGrid, start: int
) -> Iterator[tuple[str, Tensor]]:
    first, second = _cls_row(maps.a1, layout), _cls_row(subtracted, layout)
    assert maps.a2 is not None
    yield "A1", first
    yield "A2", _cls_row(maps.a2, layout)
    difference = first - second
    yield from _both(DIFFERENCE, difference)
    positive = positive_part(difference)
    matched = matched_entropy_weights(first.log(), entropy_nats(positive))
    yield "A1 sharpened to that entropy", matched
    generator = torch.Generator().manual_seed(start)
    orders = [patch_order(0, layout.patches, generator) for _ in range(_SHUFFLES)]
    shuffled = torch.stack([first - second[:, order] for order in orders])
    # The mean of maps would average the control away, so each shuffle is kept, as one more axis at the end.
    yield from _both(SHUFFLED, shuffled.movedim(0, -1))
    keys = maps.a1.shape[-1]
    share = subtracted[:, :, 0].sum(-1).mean(1, keepdim=True) / keys
    yield from _both(UNIFORM, first - share)
    yield from _both(OTHER, first - second.roll(1, 0))


def _both(name: str, difference: Tensor) -> Iterator[tuple[str, Tensor]]:
    yield name, difference
    yield POSITIVE + name, positive_part(difference)


def _cls_row(maps: Tensor, layout: TokenGrid) -> Tensor:
    """(B, H, N, N) -> the CLS row over patches, mean over heads (B, R * C)."""
    return maps[:, :, 0, layout.prefix :].mean(1).cpu()


def _numbers(row: Tensor, inside: Tensor, ground: Tensor, name: str) -> NDArray[np.float64]:
    """mass, lift and AUROC (L, 3) of rows (L, keys), or of several drawn controls (L, keys, draws): their mean."""
    if row.dim() == 3:
        draws = [_numbers(row[..., at], inside, ground, name) for at in range(row.shape[-1])]
        return np.mean(draws, axis=0)
    nothing = torch.full((len(row),), torch.nan)
    mass = nothing if name in SIGNED else mass_inside(row, inside)
    times = nothing if name in SIGNED else lift(row, inside)
    return torch.stack([mass, times, auroc(row, inside, ground)], dim=1).double().numpy()


def _places(values: dict[str, NDArray[np.float64]]) -> dict[str, dict[str, Place]]:
    """(pictures, L, 3) of each map -> its numbers; a row without positive mass counts in no mean."""
    found: dict[str, dict[str, Place]] = {}
    for name, parts in values.items():
        found[name] = {
            metric: Place(
                tuple(_measured(parts[:, layer, at]) for layer in range(parts.shape[1])),
                _measured(np.nanmean(parts[..., at], axis=1)),
            )
            for at, metric in enumerate(METRICS)
            if name not in SIGNED or metric == "auroc"
        }
    return found


def _gains(values: dict[str, NDArray[np.float64]]) -> dict[str, dict[str, Measured]]:
    own = values.get(POSITIVE + DIFFERENCE)
    if own is None:
        return {}
    gains = {}
    for name in values:
        if name in (*SIGNED, "A2", POSITIVE + DIFFERENCE):
            continue
        differences = np.nanmean(own - values[name], axis=1)
        gains[name] = {metric: _measured(differences[:, at]) for at, metric in enumerate(METRICS)}
    return gains


def _measured(numbers: NDArray[np.float64]) -> Measured:
    """The mean over pictures and its interval; pictures without the number are left out."""
    defined = numbers[~np.isnan(numbers)]
    return Measured(float(defined.mean()), *bootstrap_interval(defined))
