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
from train.evaluation.spread import ALONE, Ranks
from train.scenes import describe_scene, render_scene

_AT_ONCE = 25
_SHUFFLES = 5
# Which maps are signed: of these the rank alone means something, since a share of a signed sum does not.
DIFFERENCE = "A1 - lambda A2"
SHUFFLED, UNIFORM, OTHER = (f"{DIFFERENCE}, A2 {how}" for how in ("shuffled", "uniform", "of another picture"))
SIGNED = (DIFFERENCE, SHUFFLED, UNIFORM, OTHER)
POSITIVE = "positive part of "
METRICS = ("mass", "lift", "auroc")
# In the order in which they are read: what is claimed, then what it must be held against.
READING_ORDER = (
    "A", "A1", "A2", DIFFERENCE, SHUFFLED, UNIFORM, OTHER, POSITIVE + DIFFERENCE, POSITIVE + SHUFFLED,
    POSITIVE + UNIFORM, POSITIVE + OTHER, "A1 sharpened to that entropy", "A1, run with lambda = 0",
)  # fmt: skip


def readable(name: str) -> str:
    """The name of a map as people write it."""
    return name.replace("A1 - lambda A2", "A1 − λA2").replace("lambda", "λ")


@dataclass(frozen=True)
class Place:
    """One number of one map: in each layer, and the mean over layers, with intervals over pictures.

    Attributes:
        layers: of each layer; None where no picture has it, as the mass of a positive part that is zero everywhere.
        mean: over the layers that have it.
    """

    layers: tuple[Measured | None, ...]
    mean: Measured | None


@dataclass(frozen=True)
class AttentionToObjects:
    """What was measured.

    Attributes:
        pictures: that were measured.
        left_out: pictures without a patch of object or without one of ground.
        object_share: mean share of object patches among object and ground patches: the mass of a uniform row.
        maps: map -> "mass" (share on object patches), "lift" (mass by `object_share` of the picture), "auroc".
            Signed maps have the last alone.
        gains: what the difference and its positive part have more than each control, over the same pictures and mean
            over layers: map -> control -> metric. The signed difference stands against signed controls and has AUROC
            alone; a uniform A2 and a temperature leave the order of A1, and with it A1's AUROC.
    """

    pictures: int
    left_out: int
    object_share: float
    maps: dict[str, dict[str, Place]]
    gains: dict[str, dict[str, dict[str, Measured | None]]]


@dataclass(frozen=True, eq=False)
class AttentionValues:
    """The same of each scene.

    Attributes:
        shares: (scenes,), object patches among object and ground patches; NaN for scenes that are left out.
        maps: map -> (scenes, L, 3), its mass, lift and AUROC; NaN where undefined.
    """

    shares: NDArray[np.float64]
    maps: dict[str, NDArray[np.float64]]

    def of_each(self) -> dict[str, NDArray[np.float64]]:
        """ "MAP: METRIC" -> the mean over layers (scenes,); NaN for scenes that are left out."""
        kept = ~np.isnan(self.shares)
        found = {}
        for name, values in self.maps.items():
            for at, metric in enumerate(METRICS):
                if name not in SIGNED or metric == "auroc":
                    found[f"{name}: {metric}"] = np.full(len(kept), np.nan)
                    found[f"{name}: {metric}"][kept] = _over_layers(values[kept, :, at])
        return found


def attention_to_objects(model: LoadedModel, seed: int, count: int, ranks: Ranks = ALONE) -> AttentionToObjects:
    """Measure a model on scenes 0 to `count` - 1 of a seed, drawn at twice its size and preprocessed by it.

    Raises:
        StudioError: fewer than two scenes, no grid of patches with a CLS token, or no picture has object and ground.
        Stopped: somebody asked for it.
    """
    return summary(attention_values(model, seed, count, ranks))


def summary(values: AttentionValues) -> AttentionToObjects:
    """Means over the scenes that are not left out, with their intervals."""
    kept = ~np.isnan(values.shares)
    maps = {name: numbers[kept] for name, numbers in values.maps.items()}
    left_out, share = int((~kept).sum()), float(values.shares[kept].mean())
    return AttentionToObjects(int(kept.sum()), left_out, share, _places(maps), _gains(maps))


def attention_values(model: LoadedModel, seed: int, count: int, ranks: Ranks = ALONE) -> AttentionValues:
    """What `attention_to_objects` sums up, scene by scene; every rank measures all of them."""
    layout = model.vision.layout
    if not isinstance(layout, TokenGrid) or layout.cls is None:
        raise StudioError(f"{model.title} has no CLS token over a grid of patches, whose row this measures.")
    if count < 2:
        raise StudioError(f"{count} scenes measure nothing: give 2 or more.")
    shares, found = np.full(count, np.nan), dict[str, NDArray[np.float64]]()
    for numbers in batches(count):
        ranks.go_on()
        pixels, inside, outside = _pictures(model, layout, seed, numbers)
        rows = _rows(model, layout, pixels, numbers.start)
        for at, number in enumerate(numbers):
            if not bool(inside[at].any()) or not bool(outside[at].any()):
                continue
            counted = inside[at] | outside[at]
            object_patches, ground = inside[at][counted], outside[at][counted]
            shares[number] = float(object_patches.double().mean())
            for name, maps in rows.items():
                measured = _numbers(maps[:, at][:, counted], object_patches, ground, name)
                found.setdefault(name, np.full((count, *measured.shape), np.nan))[number] = measured
    if not found:
        raise StudioError("No scene has both object and ground patches: take a model with smaller patches.")
    return AttentionValues(shares, found)


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
                _measured(_over_layers(parts[..., at])),
            )
            for at, metric in enumerate(METRICS)
            if name not in SIGNED or metric == "auroc"
        }
    return found


def _gains(values: dict[str, NDArray[np.float64]]) -> dict[str, dict[str, dict[str, Measured | None]]]:
    """Paired: the mean over scenes of what a map has more than a control, not the difference of two means."""
    if DIFFERENCE not in values:
        return {}
    both = [name for name in values if name.startswith("A1") and name not in SIGNED]
    against = {
        DIFFERENCE: [*both, *SIGNED[1:]],
        POSITIVE + DIFFERENCE: [*both, *(POSITIVE + name for name in SIGNED[1:])],
    }
    gains: dict[str, dict[str, dict[str, Measured | None]]] = {}
    for own, controls in against.items():
        metrics = [(at, metric) for at, metric in enumerate(METRICS) if own not in SIGNED or metric == "auroc"]
        gains[own] = {
            control: {
                metric: _measured(_over_layers(values[own][..., at] - values[control][..., at]))
                for at, metric in metrics
            }
            for control in controls
        }
    return gains


def _over_layers(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """(pictures, L) -> the mean (pictures,) over the layers where there is a number; NaN where there is none."""
    counts = (~np.isnan(numbers)).sum(axis=1)
    return np.where(counts > 0, np.nansum(numbers, axis=1) / np.maximum(counts, 1), np.nan)


def _measured(numbers: NDArray[np.float64]) -> Measured | None:
    """The mean over pictures and its interval; pictures without the number are left out, None if all are."""
    defined = numbers[~np.isnan(numbers)]
    if not len(defined):
        return None
    return Measured(float(defined.mean()), *bootstrap_interval(defined))
