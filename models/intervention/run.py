"""The model run as changed. A readout recomputes a map of an unmodified run; an intervention changes the run.

with model.lock, intervene(model.vision, [SetLambda(0.0), DropFFN(layers=-1)]):
    model.encode_image(pixels)
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from torch import Tensor

from models.intervention.blocks import BlockForm, reformed, with_ffn, with_residual, without_ffn, without_residual
from models.intervention.edited_maps import maps_by_plan
from models.intervention.edits import Edit
from models.intervention.plans import LayerPlan, plan_edits
from models.layout import TokenGrid, TokenSequence
from models.loaded import Tower
from models.maps import AttentionMaps
from models.projections import Projections, reconstruct
from models.replacing import replacing


@contextmanager
def intervene(tower: Tower, edits: Iterable[Edit]) -> Iterator[None]:
    """Inside the block, on this thread, `tower` runs with the edits; `models.intervention.edits` says in which order.

    Nothing in the model is written to: hooks go in and come out, also when the forward pass raises. Without edits there
    is no hook, and layers that no edit names run as they are, bit for bit. Both towers are changed by two blocks. Hold
    the model's lock, so that nobody else runs the model meanwhile.

    A recording of the changed run holds the projections that each layer then had, and `edited_maps` makes of them the
    weights that were used.

    Raises:
        StudioError: an edit that does not fit, before anything runs; the sentence names edit and layer.
    """
    plans = plan_edits(tower, edits)
    functions = {layer: partial(_answer, plan, layer, tower.layout) for layer, plan in plans.items() if plan.attention}
    forms = {layer: _form(plan) for layer, plan in plans.items() if plan.block}
    with replacing(tower, functions), reformed(tower, forms):
        yield


def edited_maps(tower: Tower, edits: Iterable[Edit], layer: int, projections: Projections) -> AttentionMaps:
    """The maps that a layer with these projections uses inside `intervene(tower, edits)`.

    Raises:
        StudioError: an edit that does not fit.
    """
    plan = plan_edits(tower, edits).get(layer, LayerPlan())
    return maps_by_plan(plan, layer, tower.layout, projections)


def _answer(plan: LayerPlan, layer: int, layout: TokenGrid | TokenSequence, projections: Projections) -> Tensor:
    """What the attention module of a layer answers: steps 1 to 6."""
    return reconstruct(projections, maps_by_plan(plan, layer, layout, projections).weights)


def _form(plan: LayerPlan) -> BlockForm:
    return BlockForm(
        with_residual if plan.residual is None else without_residual, with_ffn if plan.ffn is None else without_ffn
    )
