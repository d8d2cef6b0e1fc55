"""A duel of maps: whose order of patches says best what a model needs to see a text in a picture.

Insertion and deletion (Petsiuk, Das and Saenko, "RISE", BMVC 2018) of the cosine similarity. Deletion takes the patches
that a map ranks first out of the picture, insertion puts them into a bare one. A prettier map is not a better one, and
every area has to be compared with that of a random order, which knows nothing; and that of A1 − λA2 with the same
difference whose A2 was shuffled over the patches and so knows nothing of them. Each map is judged by its own model.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from models import Choice, StudioError, attention_maps, map_gradients
from models.layout import TokenGrid
from models.relevance import relevance
from studio.attribution import FORWARD, Steps
from studio.measures import shuffle_orders
from studio.service import Look
from studio.similarity import Baseline, Pair, bare_picture, of_pixels, pair_of, patch_size

Depth = Literal["last layer", "mean over layers"]
DEPTHS: tuple[Depth, ...] = ("last layer", "mean over layers")
FEWEST_POINTS, MOST_POINTS = 4, 40
SEEDS = 5
DIFFERENCE, SHUFFLED, RANDOM = "A1 − λA2", "A1 − λA2, A2 shuffled", "random order"
CONTROLS = (SHUFFLED, RANDOM)
# Orders that a model with one map is run with, and one with A1, A2: A, relevance; A1, A1 - lambda A2, relevance and
# A2 shuffled; both with random ones.
ORDERS = (2 + SEEDS, 3 + 2 * SEEDS)


@dataclass(frozen=True)
class Curves:
    """How the similarity goes while patches go or come in the order of one map, mean over several orders.

    Attributes:
        name: of the map.
        deletion, insertion: (K + 1,), at 0/K to K/K of the patches.
        deletion_sd, insertion_sd: (K + 1,), over the orders; 0 where there is one.
        areas: (deletion, insertion), mean similarity over the curve.
        areas_sd: their standard deviation over the orders.
    """

    name: str
    deletion: np.ndarray
    insertion: np.ndarray
    deletion_sd: np.ndarray
    insertion_sd: np.ndarray
    areas: tuple[float, float]
    areas_sd: tuple[float, float]


@dataclass(frozen=True)
class Side:
    """One model's part in a duel.

    Attributes:
        title: of the model.
        cosine: similarity of the whole picture and the text.
        bare: similarity of the bare picture.
        curves: one a map, after A1 − λA2 the same with A2 shuffled; the random orders last.
        skipped: maps that do not exist for this model, a sentence each.
        passes: pictures that the model read.
    """

    title: str
    cosine: float
    bare: float
    curves: tuple[Curves, ...]
    skipped: tuple[str, ...]
    passes: int


def orderings(pair: Pair, look: Look, depth: Depth) -> tuple[dict[str, np.ndarray], list[str]]:
    """The maps of a model that take part, by name, each (R * C,), and why some do not.

    Attention is that of the token which is read out (of all patches in a tower that averages them, of the query of a
    pooling head), the mean over heads, of the last layer or of all.

    Raises:
        StudioError: an unknown depth.
    """
    if depth not in DEPTHS:
        raise StudioError(f"{depth!r} is no choice of layers: choose {' or '.join(DEPTHS)}.")
    tower, skipped = look.model.vision, []
    maps: dict[str, np.ndarray] = {}
    if tower.layers == 0:
        return {}, [tower.reason]
    rows: dict[str, list[Tensor]] = {}
    for layer in _layers(look, depth):
        found = attention_maps(look.recording[layer])
        rows.setdefault("A1" if tower.differential else "A", []).append(_read_out(found.a1, look, found.pooling))
        if tower.differential:
            rows.setdefault(DIFFERENCE, []).append(_read_out(found.weights, look, found.pooling))
    maps |= {name: _array(torch.stack(values).mean(0)) for name, values in rows.items()}
    if not tower.differential:
        skipped.append(f"{look.model.title} has one map, A, so no A1 and no A1 − λA2.")
    back = tower.layers if depth == "mean over layers" else 1
    gradients = map_gradients(
        pair.model, pair.pixels, pair.ids, Choice(layers=tuple(range(-back, 0))), Choice(layers=())
    )
    if gradients.vision is not None:
        maps["relevance"] = _array(relevance(gradients.vision).patches[0].flatten())
    level = [name for name, values in maps.items() if np.ptp(values) == 0]
    skipped += [
        f"{look.model.title}: {name} is the same on every patch, so its order is a random one." for name in level
    ]
    return maps, skipped


def shuffled_orderings(look: Look, depth: Depth) -> list[np.ndarray]:
    """A1 − λA2 as `orderings` has it, each (R * C,), with A2 shuffled over the patches, in all layers alike.

    A pooling head has one map and nothing to shuffle. The shuffles are fixed, `SEEDS` of them.
    """
    orders = shuffle_orders(0, _patches(look), SEEDS)
    sums = torch.zeros(orders.shape)
    layers = _layers(look, depth)
    for layer in layers:
        found = attention_maps(look.recording[layer])
        first = _read_out(found.a1, look, found.pooling)
        if found.subtracted is None:
            sums += first
        else:
            # Reading out is linear and leaves the patches where they are, so its result can be shuffled.
            sums += first - _read_out(found.subtracted, look, found.pooling)[orders]
    return [_array(values) for values in sums / len(layers)]


def _layers(look: Look, depth: Depth) -> range:
    layers = look.model.vision.layers
    return range(layers) if depth == "mean over layers" else range(layers - 1, layers)


def duel(
    look: Look,
    pixels: Tensor,
    text: str,
    depth: Depth = "last layer",
    baseline: Baseline = "mean colour",
    points: int = 14,
) -> Steps[Side]:
    """The curves of one model's maps for a preprocessed picture (3, height, width) and a text.

    Args:
        look: the model, and what it did with the picture.
        pixels: the preprocessed picture.
        text: whose similarity is followed.
        depth: which layers the maps are of; relevance goes through the same ones.
        baseline: what stands where a patch is taken out.
        points: steps of a curve, K; each takes or gives the same share of the patches.

    Raises:
        StudioError: too few or too many points, or an unknown depth or baseline.
    """
    if not FEWEST_POINTS <= points <= MOST_POINTS:
        raise StudioError(
            f"A curve of {points} steps cannot be drawn: choose {FEWEST_POINTS} to {MOST_POINTS}; each step is two "
            f"passes for each map, and random orders take {SEEDS} maps' worth, as does A2 shuffled."
        )
    pair = pair_of(look.model, pixels, text, look.embedding)
    bare = bare_picture(pair, baseline)
    yield 1
    maps, skipped = orderings(pair, look, depth)
    yield 1
    with torch.no_grad():
        nothing = float(of_pixels(pair)(bare))
    yield 1
    made, curves = 3, []
    orders: dict[str, list[np.ndarray]] = {}
    for name, values in maps.items():
        orders[name] = [values]
        if name == DIFFERENCE:
            orders[SHUFFLED] = shuffled_orderings(look, depth)
    patches = _patches(look)
    orders[RANDOM] = [np.random.default_rng(seed).random(patches) for seed in range(SEEDS)]
    for name, values in orders.items():
        runs = []
        for order_map in values:
            run = yield from _curves(pair, bare, ranked(order_map), points, (pair.cosine, nothing))
            made += 2 * (points - 1)
            runs.append(run)
        curves.append(_summary(name, np.stack(runs)))
    return Side(look.model.title, pair.cosine, nothing, tuple(curves), tuple(skipped), made)


def passes_of_duel(orders: int, points: int) -> int:
    """Pictures that a model reads for so many orders of patches, those of the controls included."""
    return orders * 2 * (points - 1) + 3


def ranked(values: np.ndarray) -> np.ndarray:
    """Patches from the highest value to the lowest, signed; equal ones in random order, not from the top left."""
    mixed = np.random.default_rng(len(values)).permutation(len(values))
    return mixed[np.argsort(-values[mixed], kind="stable")]


def area(curve: np.ndarray) -> float:
    """Mean height of a curve (K + 1,) over the share of patches, by trapezoids."""
    return float(np.trapezoid(curve, dx=1 / (len(curve) - 1)))


def _curves(
    pair: Pair, bare: Tensor, order: np.ndarray, points: int, ends: tuple[float, float]
) -> Generator[int, None, np.ndarray]:
    """(2, K + 1): deletion and insertion in an order of patches. Their ends are the whole and the bare picture."""
    whole, nothing = ends
    function, counts = of_pixels(pair), [round(step * len(order) / points) for step in range(1, points)]
    inner = np.empty((2, points - 1))
    places = [(kind, at) for kind in (0, 1) for at in range(points - 1)]
    for start in range(0, len(places), FORWARD):
        batch = places[start : start + FORWARD]
        masks = [_patch_mask(pair, order[: counts[at]]) ^ bool(kind) for kind, at in batch]
        pictures = [torch.where(gone, bare[0], pair.pixels[0]) for gone in masks]
        with torch.no_grad():
            found = function(torch.stack(pictures)).tolist()
        for place, value in zip(batch, found, strict=True):
            inner[place] = value
        yield len(batch)
    return np.stack([[whole, *inner[0], nothing], [nothing, *inner[1], whole]])


def _patch_mask(pair: Pair, patches: np.ndarray) -> Tensor:
    """True (height, width) on these patches of the model's input."""
    grid = pair.model.vision.layout
    assert isinstance(grid, TokenGrid)
    flat = torch.zeros(grid.patches, dtype=torch.bool)
    flat[torch.from_numpy(np.ascontiguousarray(patches))] = True
    height, width = patch_size(pair)
    mask = flat.view(grid.rows, grid.cols).repeat_interleave(height, 0).repeat_interleave(width, 1)
    whole = torch.zeros(pair.pixels.shape[-2:], dtype=torch.bool)
    whole[: mask.shape[0], : mask.shape[1]] = mask
    return whole.to(pair.pixels.device)


def _summary(name: str, runs: np.ndarray) -> Curves:
    """Mean and spread of curves (S, 2, K + 1)."""
    areas = np.array([[area(curve) for curve in run] for run in runs])
    deletion, insertion = runs.mean(0)
    deletion_sd, insertion_sd = _spread(runs)
    return Curves(
        name,
        deletion,
        insertion,
        deletion_sd,
        insertion_sd,
        (float(areas[:, 0].mean()), float(areas[:, 1].mean())),
        (float(_spread(areas)[0]), float(_spread(areas)[1])),
    )


def _spread(runs: np.ndarray) -> np.ndarray:
    """The standard deviation over the first axis, 0 where there is one run."""
    return runs.std(0, ddof=1) if len(runs) > 1 else np.zeros(runs.shape[1:])


def _read_out(maps: Tensor, look: Look, pooling: bool) -> Tensor:
    """(1, H, Nq, Nk) -> (R * C,), the mean over heads of what is read out, on the patches."""
    grid = look.model.vision.layout
    assert isinstance(grid, TokenGrid)
    mean = maps[0].mean(0)[:, -grid.patches :]
    if pooling or grid.cls is None or grid.readout == "mean":
        return (mean if pooling else mean[-grid.patches :]).mean(0)
    return mean[grid.cls]


def _patches(look: Look) -> int:
    grid = look.model.vision.layout
    return grid.patches if isinstance(grid, TokenGrid) else 0


def _array(values: Tensor) -> np.ndarray:
    return values.detach().double().cpu().numpy()
