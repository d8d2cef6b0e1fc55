"""What happens when a loss or a gradient is not finite: found out together, named, and skipped or stopped by rule.

A rank that decided alone would leave the others waiting in the next collective for ever.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from models.build import ClipModule, text_blocks, vision_blocks
from models.errors import StudioError
from train.distributed import World, from_all

HEADS = frozenset({"proj", "ln_post", "head", "norm", "fc_norm", "attn_pool", "text_projection", "ln_final"})


class NonFiniteError(StudioError):
    """Training cannot go on: a loss or gradient is not finite; raised on all ranks with the same message."""


@dataclass(frozen=True)
class Stop:
    """The first step that is not finite ends the run."""


@dataclass(frozen=True)
class Skip:
    """Steps that are not finite leave the model as it is; more than `at_most` in a row end the run.

    Raises:
        StudioError: `at_most` below 1.
    """

    at_most: int = 10

    def __post_init__(self) -> None:
        if self.at_most < 1:
            raise StudioError(f"Skipping at most {self.at_most} steps in a row skips none: use 1 or more, or stop.")


NonFiniteRule = Stop | Skip


def skipped_in_a_row(rule: NonFiniteRule, before: int, cause: str) -> int:
    """How many steps in a row are skipped now, after `before` of them, where the rule lets the run go on.

    Raises:
        NonFiniteError: it does not; the message begins with the cause.
    """
    if isinstance(rule, Skip) and before < rule.at_most:
        return before + 1
    after = f" after {before} skipped in a row" if before else ""
    raise NonFiniteError(
        f"{cause}{after}: go on from the last saved state with skip_non_finite = {2 * before or 10}, or with --anyway "
        "and a lower optim.lr or a smaller optim.grad_clip."
    )


def layer_of(clip: ClipModule) -> Callable[[str], str]:
    """Parameter or module name -> its layer: "vision block 3", "text embedding", "vision head", "logit scale".

    An embedding is what comes before the first block, a head what comes after the last.
    """
    prefixes = {
        f"{name}.": f"{tower} block {layer}"
        for tower, blocks in (("vision", vision_blocks(clip)), ("text", text_blocks(clip)))
        for layer, block in enumerate(blocks)
        for name, module in clip.named_modules()
        if module is block
    }

    def layer(name: str) -> str:
        for prefix, label in prefixes.items():
            if f"{name}.".startswith(prefix):
                return label
        if name.startswith("logit_"):
            return name.replace("_", " ")
        tower = "vision" if name.split(".")[0] == "visual" else "text"
        # A tower computes its projection itself, so its own output is the head's.
        part = next((part for part in name.split(".") if part not in ("visual", "trunk", "text")), "head")
        return f"{tower} {'head' if part in HEADS else 'embedding'}"

    return layer


@dataclass(frozen=True)
class GradientNorms:
    """L2 norms of gradients, in float64: of all, of every layer, and the parameters where it is not finite.

    Float64 holds the square of every float32, so that a norm is finite exactly where all its elements are.
    """

    total: float
    layers: Mapping[str, float]
    non_finite: tuple[str, ...]


def gradient_norms(clip: ClipModule) -> GradientNorms:
    """The norms of the gradients that the parameters hold; one copy from the device."""
    named = [(name, p.grad) for name, p in clip.named_parameters() if p.grad is not None]
    if not named:
        return GradientNorms(0.0, {}, ())
    norms = torch.stack([torch.linalg.vector_norm(grad, dtype=torch.float64) for _, grad in named]).tolist()
    layer = layer_of(clip)
    squares: dict[str, float] = defaultdict(float)
    for (name, _), norm in zip(named, norms, strict=True):
        squares[layer(name)] += norm**2
    broken = tuple(name for (name, _), norm in zip(named, norms, strict=True) if not math.isfinite(norm))
    layers = {label: math.sqrt(square) for label, square in squares.items()}
    return GradientNorms(math.sqrt(sum(squares.values())), layers, broken)


def first_broken_gradient(clip: ClipModule, names: Iterable[str]) -> str:
    """Of parameters with broken gradients, the one nearest to the loss, where backward met it first."""
    layer = layer_of(clip)

    def distance(name: str) -> tuple[int, int]:
        kind = layer(name).split()
        if kind[1] == "block":
            return 1, -int(kind[2])
        return (0 if kind[1] in ("head", "scale", "bias") else 2), 0

    return min(names, key=distance)


def first_broken_part(clip: ClipModule, pixels: Tensor, run: Callable[[], tuple[Tensor, Tensor, Tensor]]) -> str:
    """Where a forward pass first leaves the finite numbers: a weight, the pixels, or the output of a module; or "".

    `run` is the forward pass of the CLIP on the model input `pixels` (B, 3, height, width), to image and text
    embeddings and the logit scale; it is called once, without a graph and uncompiled, with a look at every module.
    """
    layer = layer_of(clip)
    for name, parameter in clip.named_parameters():
        if not _finite(parameter):
            return f"the weights {name} ({layer(name)}) are not finite"
    if not _finite(pixels):
        return "the pixels of the batch are not finite"
    with _watched(clip) as broken, torch.no_grad(), torch.compiler.set_stance("force_eager"):
        image, text, _ = run()
    if broken:
        return f"the output of {broken[0]} ({layer(broken[0])}) is not finite"
    found = [name for name, tensor in (("image", image), ("text", text)) if not _finite(tensor)]
    return f"the {found[0]} embeddings are not finite" if found else ""


@contextmanager
def _watched(clip: ClipModule) -> Iterator[list[str]]:
    """The names of modules in the order in which their outputs were not finite, innermost first."""
    broken: list[str] = []

    def watch(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            tensors = output if isinstance(output, tuple) else (output,)
            if any(isinstance(tensor, Tensor) and not _finite(tensor) for tensor in tensors):
                broken.append(name)

        return hook

    handles = [module.register_forward_hook(watch(name)) for name, module in clip.named_modules() if name]
    try:
        yield broken
    finally:
        for handle in handles:
            handle.remove()


def _finite(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(tensor.isfinite().all())


def agreed_finding(world: World, finding: str) -> str:
    """What the lowest rank that found something found, with its rank, the same on all ranks: a collective."""
    findings = from_all(world, finding)
    for rank, found in enumerate(findings):
        if found:
            return found if world.size == 1 else f"{found} on rank {rank}"
    return ""
