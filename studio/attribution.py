"""Attributions of a function of one input, by captum, in batches that can be stopped between.

Every method is a generator: it yields the number of passes that it has made since it last yielded, and returns its
result. Whoever stops asking has stopped it, so nothing runs on for a person who has left. Batches are bounded here and
not left to captum, which expands a picture by all steps at once, or has no bound at all (GradientSHAP).
"""

import math
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from studio.similarity import Similarity

T = TypeVar("T")
Steps = Generator[int, None, T]
# Passes at once: with gradients some 170 MB each for a ViT-B/16, without them few.
WITH_GRADIENT, FORWARD = 4, 16


def drained(steps: Steps[T], results: list[T]) -> Iterator[int]:
    """The steps as a plain iterator; their result is added to `results` when they end."""
    results.append((yield from steps))


@dataclass(frozen=True)
class Attribution:
    """What each entry of the input contributes to the function.

    Attributes:
        values: of the input's shape, batch of one.
        start: the function where nothing is there (the mean of several baselines).
        end: the function of the input.
    """

    values: Tensor
    start: float
    end: float

    @property
    def gap(self) -> float:
        """What is missing from completeness: the sum of the values less (end - start); 0 for an exact path integral."""
        return float(self.values.double().sum()) - (self.end - self.start)


def integrated_gradients(function: Similarity, x: Tensor, baseline: Tensor, steps: int) -> Steps[Attribution]:
    """Integrated Gradients (Sundararajan et al., ICML 2017) along the straight line from the baseline to x.

    The line is taken in pieces of WITH_GRADIENT steps, each by Gauss-Legendre; the attributions of pieces of a straight
    line add up to those of the line. `steps` is rounded up to whole pieces.
    """
    from captum.attr import IntegratedGradients

    method, parts = IntegratedGradients(function), math.ceil(steps / WITH_GRADIENT)
    total, way = torch.zeros_like(x, dtype=torch.float32), x - baseline
    for part in range(parts):
        near, far = baseline + way * (part / parts), baseline + way * ((part + 1) / parts)
        found: Any = method.attribute(
            far, baselines=near, n_steps=WITH_GRADIENT, internal_batch_size=WITH_GRADIENT, method="gausslegendre"
        )
        total += found.detach()
        yield WITH_GRADIENT
    return (yield from _with_ends(function, total, x, baseline))


def gradient_shap(
    function: Similarity, x: Tensor, baselines: Tensor, samples: int, seed: int = 0
) -> Steps[Attribution]:
    """GradientSHAP (Lundberg and Lee, NeurIPS 2017): gradients at random points between x and random baselines.

    Args:
        function: what is explained.
        x: the input, batch of one.
        baselines: (K, ...), which stand for nothing being there.
        samples: number of random points.
        seed: of the points and baselines; the same seed gives the same values.
    """
    from captum.attr import GradientShap

    method, total, made = GradientShap(function), torch.zeros_like(x, dtype=torch.float32), 0
    while made < samples:
        count = min(WITH_GRADIENT, samples - made)
        with _seeded(seed + made):
            found: Any = method.attribute(x, baselines=baselines, n_samples=count, stdevs=0.0)
        total += found.detach() * count
        made += count
        yield count
    return (yield from _with_ends(function, total / samples, x, baselines))


def occlusion(
    function: Similarity, x: Tensor, baseline: Tensor, window: tuple[int, int], regions: list[tuple[slice, slice]]
) -> Steps[Attribution]:
    """Occlusion (Zeiler and Fergus, ECCV 2014): how much the function falls where a window of x becomes the baseline.

    The values are repeated over their window, so read one of each; they need not add up to anything.

    Args:
        function: what is explained.
        x: (1, ..., height, width), the input; windows cover all of the axes between.
        baseline: of the shape of x.
        window: (height, width); it is moved by its own size.
        regions: parts of x by their last two axes, in windows; one captum run each.
    """
    from captum.attr import Occlusion

    values, shape = torch.zeros_like(x, dtype=torch.float32), (*x.shape[1:-2], *window)
    for region in regions:
        place = (..., *region)

        def inside(part: Tensor, place: Any = place) -> Tensor:
            whole = x.expand(len(part), *x.shape[1:]).clone()
            whole[place] = part
            return function(whole)

        with torch.no_grad():
            values[place] = Occlusion(inside).attribute(
                x[place],
                baselines=baseline[place],
                sliding_window_shapes=shape,
                strides=shape,
                perturbations_per_eval=FORWARD,
            )
        heights, widths = (int(size) for size in values[place].shape[-2:])
        yield 1 + math.ceil(heights / window[0]) * math.ceil(widths / window[1])
    return (yield from _with_ends(function, values, x, baseline))


def grad_cam(function: Similarity, tokens: Tensor, counted: slice) -> Steps[Tensor]:
    """Grad-CAM (Selvaraju et al., ICCV 2017) of the tokens (1, N, D) that enter a layer -> (n,) for the counted ones.

    The gradient is averaged over the counted tokens, one weight a channel, and each token's channels are summed under
    these weights. The values are signed; the ReLU of the paper is left out.
    """
    from captum.attr import LayerGradCam

    def of_channels(channels: Tensor) -> Tensor:
        whole = tokens.expand(len(channels), -1, -1).clone()
        whole[:, counted] = channels.transpose(1, 2)
        return function(whole)

    # captum takes the second axis for channels, which in a transformer is that of tokens.
    model = _Tapped(of_channels)
    channels = tokens[:, counted].transpose(1, 2).contiguous().requires_grad_()
    found: Any = LayerGradCam(model, model.tap).attribute(channels)
    yield 1
    return found.detach()[0, 0].float()


class _Tapped(nn.Module):
    """A function with a module in front of it, for methods that ask for a layer."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.tap = nn.Identity()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.tap(x))


def _with_ends(function: Similarity, values: Tensor, x: Tensor, baselines: Tensor) -> Steps[Attribution]:
    with torch.no_grad():
        start, end = float(function(baselines).mean()), float(function(x))
    yield 1 + len(baselines)
    return Attribution(values, start, end)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """captum draws from the generators of the whole process: they are set here, and put back."""
    before = np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        np.random.seed(seed)
        torch.manual_seed(seed)
        try:
            yield
        finally:
            np.random.set_state(before)
