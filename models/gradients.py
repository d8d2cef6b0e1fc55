"""Gradients of the similarity of a picture and a text with respect to attention maps, over the whole model.

The model is run as it is, but each chosen layer makes its output from a map that is in the graph: a leaf of zeros is
added to the map, so that its value stays the model's own and its gradient is that of the map. Parameters stay frozen.
A vision tower that is changed by edits is run and differentiated as changed.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from models.diff_attention import widen
from models.errors import RecordingError, StudioError, UndefinedMapError
from models.intervention.edited_maps import maps_by_plan
from models.intervention.edits import Edit
from models.intervention.plans import plan_edits
from models.intervention.run import intervene
from models.layout import TokenGrid, TokenSequence
from models.loaded import LoadedModel, Tower
from models.maps import attention_maps
from models.projections import Projections, reconstruct
from models.replacing import replacing

MapPart = Literal["weights", "a1", "a2"]
_WEIGHTS: MapPart = "weights"


@dataclass(frozen=True)
class Choice:
    """Which maps of a tower are differentiated.

    Attributes:
        part: "weights" (A of CLIP; the difference A1 - lambda A2 of DiffCLIP), "a1" or "a2".
        layers: numbers from 0, or from -1 backwards; None for all; () leaves the tower out. The default is the last
            layer alone, as the published CLIP explanations have it: over all layers of a ViT-B/16, patches light up
            that hold nothing (Chefer et al.'s code, issue 8), so earlier layers are a choice to be seen. A pooling
            head always belongs to the chosen layers, because the picture is read out through it.
    """

    part: MapPart = "weights"
    layers: tuple[int, ...] | None = (-1,)


@dataclass(frozen=True)
class LayerGradient:
    """A map of one layer and the gradient of the similarity with respect to it, both (B, H, Nq, Nk)."""

    map: Tensor
    gradient: Tensor
    pooling: bool


@dataclass(frozen=True)
class TowerGradients:
    """The chosen layers of one tower.

    Attributes:
        tower: whose they are.
        part: which map.
        layers: layer -> map and gradient, in order.
        tokens: number of tokens, N.
        readout: position (B,) of the token that is read out, or None where a pooling head or a mean reads out.
    """

    tower: Tower
    part: MapPart
    layers: dict[int, LayerGradient]
    tokens: int
    readout: Tensor | None


@dataclass(frozen=True)
class Gradients:
    """One run: the cosine similarity (B,) of picture b and text b, and each tower's maps with their gradients.

    A tower without attention, or that was left out, is None.
    """

    similarity: Tensor
    vision: TowerGradients | None
    text: TowerGradients | None


def map_gradients(
    model: LoadedModel,
    pixels: Tensor,
    ids: Tensor,
    vision: Choice | None = None,
    text: Choice | None = None,
    edits: Iterable[Edit] = (),
) -> Gradients:
    """Run the model on pictures (B, 3, height, width) and token ids (B, N), and differentiate their similarity.

    The target is the cosine of picture b and text b, without the logit scale, which would multiply every gradient and
    with it make two models incomparable. Takes the model's lock; no hook and no gradient of a parameter is left.

    Args:
        vision: which maps of the vision tower; the weights of the last layer if not given.
        text: the same for the text tower.
        edits: how the vision tower is changed, as `intervene` takes them; its maps are then the changed ones.

    Raises:
        StudioError: not as many texts as pictures, or an edit that does not fit.
        UndefinedMapError: "a2" of a tower with one map, whose "a1" is its "weights", or an unknown map.
        RecordingError: a layer that does not exist, or no attention to look at in any tower.
    """
    if pixels.shape[0] != ids.shape[0]:
        raise StudioError(
            f"{pixels.shape[0]} pictures and {ids.shape[0]} texts do not make pairs: give as many texts as pictures."
        )
    changes = tuple(edits)
    leaves = {
        "vision": _Leaves(model.vision, vision or Choice(), changes),
        "text": _Leaves(model.text, text or Choice(), ()),
    }
    if not any(leaf.layers for leaf in leaves.values()):
        reasons = " ".join(filter(None, (model.vision.reason, model.text.reason)))
        raise RecordingError(reasons or "Both towers are left out: choose a layer of one of them.")
    with model.lock, torch.enable_grad(), intervene(model.vision, changes), ExitStack() as stack:
        # These hooks come after those of the edits, whose answer they replace in the chosen layers.
        for leaf in leaves.values():
            stack.enter_context(replacing(leaf.tower, leaf.functions()))
        image, caption = model.module.encode_image(pixels), model.module.encode_text(ids)
        for leaf in leaves.values():
            leaf.check_all_ran()
        similarity = F.cosine_similarity(widen(image), widen(caption), dim=-1)
        deltas = [entry[1] for leaf in leaves.values() for entry in leaf.seen.values()]
        found = iter(torch.autograd.grad(similarity.sum(), deltas))
    return Gradients(
        similarity.detach(),
        leaves["vision"].gathered(found, _grid_readout(model.vision, pixels)),
        leaves["text"].gathered(found, _text_readout(model.text, ids)),
    )


class _Leaves:
    """The leaves that one run adds to the maps of one tower, as the edits make them."""

    def __init__(self, tower: Tower, choice: Choice, edits: tuple[Edit, ...]) -> None:
        self.tower = tower
        self.plans = plan_edits(tower, edits)
        self.part: MapPart = choice.part
        self.layers = _chosen(tower, choice)
        self.seen: dict[int, tuple[Tensor, Tensor, bool]] = {}
        if self.layers and choice.part not in ("weights", "a1", "a2"):
            raise UndefinedMapError(f"Map {choice.part!r} is unknown: choose weights, a1 or a2.")
        if self.layers and choice.part == "a2" and not tower.differential:
            raise UndefinedMapError(f"The {tower.name} tower has one map and no A2: choose weights.")

    def check_all_ran(self) -> None:
        """Refuses a run in which a chosen layer made no map."""
        missing = [layer for layer in self.layers if layer not in self.seen]
        if missing:
            raise RecordingError(f"Layer {missing[0]} of the {self.tower.name} tower did not run: choose other layers.")

    def functions(self) -> dict[int, Callable[[Projections], Tensor]]:
        return {layer: self._function(layer) for layer in self.layers}

    def _function(self, layer: int) -> Callable[[Projections], Tensor]:
        def attend(projections: Projections) -> Tensor:
            plan = self.plans.get(layer)
            maps = (
                attention_maps(projections)
                if plan is None
                else maps_by_plan(plan, layer, self.tower.layout, projections)
            )
            part = _WEIGHTS if projections.pooling else self.part
            chosen = maps.part(part)
            delta = torch.zeros_like(chosen, requires_grad=True)
            self.seen[layer] = (chosen.detach(), delta, projections.pooling)
            # weights = A1 - lambda A2, so a change of A2 changes the weights by -lambda times it.
            change = -maps.lam * delta if part == "a2" and maps.lam is not None else delta
            return reconstruct(projections, maps.weights + change)

        return attend

    def gathered(self, gradients: Iterator[Tensor], readout: Tensor | None) -> TowerGradients | None:
        """The gradients of these leaves, the next ones of `gradients`, with what they belong to."""
        if not self.layers:
            return None
        layers = {layer: LayerGradient(value, next(gradients), pools) for layer, (value, _, pools) in self.seen.items()}
        # A pooling head may be given fewer tokens than there are.
        tokens = max(entry.map.shape[-1] for entry in layers.values())
        return TowerGradients(self.tower, self.part, layers, tokens, readout)


def _chosen(tower: Tower, choice: Choice) -> tuple[int, ...]:
    """The chosen layers, counted from 0, in order, with the pooling head of a tower that is not left out."""
    wanted = range(tower.layers) if choice.layers is None else choice.layers
    if tower.layers == 0 or not wanted:
        return ()
    for layer in wanted:
        if not -tower.layers <= layer < tower.layers:
            raise RecordingError(
                f"Layer {layer} does not exist in the {tower.name} tower: choose 0-{tower.layers - 1}, or -1 for the "
                "last."
            )
    pool = (tower.layers - 1,) if tower.pooled else ()
    return tuple(sorted({*(layer % tower.layers for layer in wanted), *pool}))


def _grid_readout(tower: Tower, pixels: Tensor) -> Tensor | None:
    layout = tower.layout
    if not isinstance(layout, TokenGrid) or layout.cls is None or layout.readout != "cls" or tower.pooled:
        return None
    return torch.full(pixels.shape[:1], layout.cls, device=pixels.device)


def _text_readout(tower: Tower, ids: Tensor) -> Tensor | None:
    return tower.layout.readout(ids) if isinstance(tower.layout, TokenSequence) else None
