"""The address of the page holds the open tab and the settings of all tabs; a page that is opened by it takes them.

Compare's own view is in the same query string, by `studio.link`. Masks, logs and folders of runs are in no address, and
pictures by their names alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.components import Component

from models import LoadedModel, StudioError
from studio.changes import controls_value
from studio.edit_link import edits_asked
from studio.failures import told
from studio.link import beyond, read_link
from studio.looked_at import LookedAt
from studio.service import Service
from studio.tab_link import Below, Edits, Field, Named, OneOf, Rule, SomeOf, Within, Words, read_settings, written
from studio.tabs.compare import link_models
from studio.tabs.intervene import need_other
from studio.view_link import DRAWN_HEADS, DRAWN_HIDDEN, DRAWN_LAYER, VIEWS

Count = Callable[[LoadedModel, LoadedModel], int]
_LARGEST, _FINE = 10**6, 0.01


def _layers(left: LoadedModel, right: LoadedModel) -> int:
    return max(left.vision.layers, right.vision.layers)


def _heads(left: LoadedModel, right: LoadedModel) -> int:
    return max(left.vision.heads, right.vision.heads)


# What an address holds: the key -> the component's elem_id, and for a layer or a head how many there are.
HELD: dict[str, tuple[str, Count | None]] = {
    "compare.classes": ("classes", None),
    "compare.template": ("template", None),
    "sparsity.alpha": ("sparsity-alpha", None),
    "sparsity.match": ("sparsity-match", None),
    "sparsity.keep": ("sparsity-keep", None),
    "sparsity.source": ("sparsity-source", None),
    "sparsity.layer": ("sparsity-layer", _layers),
    "sparsity.head.left": ("sparsity-head-left", lambda left, _: left.vision.heads),
    "sparsity.head.right": ("sparsity-head-right", lambda _, right: right.vision.heads),
    "sparsity.query": ("sparsity-query", None),
    "sparsity.mode": ("sparsity-mode", None),
    "sparsity.everywhere": ("sparsity-everywhere", None),
    "sparsity.classes": ("sparsity-classes", None),
    "sparsity.template": ("sparsity-template", None),
    "sparsity.preset": ("sparsity-preset", None),
    "sparsity.background": ("sparsity-background", None),
    "sparsity.rules": ("sparsity-rules", None),
    "sparsity.named": ("sparsity-named", None),
    "lambda.runs": ("lambda-shipped", None),
    "explain.texts": ("explain-prompts", None),
    "explain.method": ("explain-method", None),
    "explain.part": ("explain-part", None),
    "explain.rule": ("explain-rule", None),
    "explain.back": ("explain-back", None),
    "explain.steps": ("explain-steps", None),
    "explain.baseline": ("explain-baseline", None),
    "explain.detail": ("explain-detail", None),
    "explain.control": ("explain-control", None),
    "duel.text": ("duel-text", None),
    "duel.layers": ("duel-depth", None),
    "duel.baseline": ("duel-baseline", None),
    "duel.steps": ("duel-points", None),
    "intervene.left": ("bench-left", None),
    "intervene.right": ("bench-right", None),
    "intervene.other": ("intervene-other-token", None),
    "intervene.classes": ("intervene-classes", None),
    "intervene.template": ("intervene-template", None),
    "intervene.layer": ("intervene-layer", _layers),
    "intervene.head": ("intervene-head", _heads),
    "intervene.part": ("intervene-part", None),
    "intervene.sweep": ("sweep-tower", None),
    "intervene.only": ("sweep-only", None),
    "text.prompts": ("text-prompts", None),
    "text.layer": ("text-layer", lambda left, right: max(left.text.layers, right.text.layers)),
}
TABS = ("compare", "sparsity", "trajectories", "explain", "intervene", "text")
TAB = Field("tab", OneOf(TABS), TABS[0])
WAITS = (
    "The tabs are set as the link says. What takes long waits until it is asked for: Explain, the duel, sweeps and "
    "segmentations."
)
_LONG = ("sparsity.", "explain.", "duel.", "intervene.")


@dataclass(frozen=True)
class Linked:
    """A component and what an address can say of it."""

    field: Field
    component: Any
    count: Count | None


def hold_in_address(demo: gr.Blocks, opened: Any, tabs: gr.Tabs, at: LookedAt, service: Service, line: gr.HTML) -> None:
    """Wire what the tabs hold to the address, both ways; no change of a field asks the server for it.

    Args:
        demo: the page with all its tabs.
        opened: the event after which picture and models are those of the address.
        tabs: which one is open.
        at: picture and models.
        service: the models.
        line: made by `studio.viewer.address.address_line`.
    """
    linked, other = linked_components(demo), _other_picture(demo)
    fields = [_for_the_page(each) for each in linked]

    @told
    def open_settings(picture: Any, left: str, right: str, request: gr.Request) -> dict[Any, Any]:
        parameters = request.query_params.multi_items()
        changed, said, gone = _asked(service, linked, parameters, (left, right))
        tab = read_settings(parameters, [TAB, *VIEWS], _drawn_counts(service, parameters, (left, right)))
        chosen = tab.values.get("tab", TABS[0])
        strange = [name for key, name in parameters if key == DRAWN_HIDDEN and not service.knows(name)]
        told_so = [f"The link's {DRAWN_HIDDEN} “{name[:80]}” is left out: it is not here." for name in strange[:1]]
        said, gone = [*tab.remarks, *told_so, *said], [*tab.left_out, *gone]
        if chosen != TABS[0]:
            changed[tabs] = gr.update(selected=chosen)
            # Compare says this too, where nobody looks.
            said = [*_of_compare(parameters, service, (left, right), missing=picture is None), *said]
        if other.token in changed:
            found, asked = _other(service, changed[other.token])
            changed |= {other.fold: gr.update(open=True), other.picture: found, other.need: asked}
            said += [asked] if asked else []
        return {**changed, line: gr.update(fields=fields, said=" ".join(said), gone=gone)}

    components = [each.component for each in linked]
    private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    outputs = [*components, tabs, line, other.picture, other.need, other.fold]
    opened.then(open_settings, at.inputs, outputs, concurrency_limit=None, **private)
    changes: list[Any] = [tabs.change, *(each.change for each in components)]
    # With the time, since the page does not notice a value that is equal to the one before.
    told_line = "(...values) => [{ values, at: performance.now() }]"
    gr.on(changes, None, components, line, js=told_line, **private)


@dataclass(frozen=True)
class _Other:
    """Intervene's picture whose A2 is taken: its name, its field, the line that asks for it, and where they fold."""

    token: Any
    picture: Any
    need: Any
    fold: Any


def _other_picture(demo: gr.Blocks) -> _Other:
    by_id = {getattr(block, "elem_id", None): block for block in demo.blocks.values()}
    return _Other(*(by_id[f"intervene-other{part}"] for part in ("-token", "", "-need", "-fold")))


def _other(service: Service, token: str) -> tuple[str | None, str]:
    """The file of another picture that an address names, and how it is asked for where it is not here."""
    upload = service.pictures.find(token)
    return (None, need_other(token)) if upload is None else (str(upload.file), "")


def linked_components(demo: gr.Blocks) -> list[Linked]:
    """What an address of the page holds, in the order of `HELD`."""
    by_id = {block.elem_id: block for block in demo.blocks.values() if isinstance(block, Component)}
    found = [(key, by_id[elem_id], count) for key, (elem_id, count) in HELD.items()]
    return [
        Linked(Field(key, _rule(component, count), getattr(component, "value", None)), component, count)
        for key, component, count in found
    ]


def _rule(component: Component, count: Count | None) -> Rule:
    """Which values an address can give a component: those that a person can give it."""
    if count is not None:
        return Below(("mean",) if isinstance(component, gr.Dropdown) else ())
    if component.elem_id == HELD["intervene.other"][0]:
        return Named()
    match component:
        case gr.CheckboxGroup():
            return SomeOf(tuple(value for _, value in component.choices))
        case gr.Dropdown() | gr.Radio():
            return OneOf(tuple(value for _, value in component.choices or ()))
        case gr.Checkbox():
            return OneOf((True, False))
        case gr.Slider():
            return Within(component.minimum, component.maximum, float(component.step or _FINE).is_integer())
        case gr.Number():
            low, high = component.minimum, component.maximum
            return Within(0 if low is None else low, _LARGEST if high is None else high, component.precision == 0)
        case gr.HTML():
            return Edits()
        case _:
            return Words()


def _for_the_page(linked: Linked) -> dict[str, Any]:
    """What viewer/address.js has to know of a field: its key, what it is by default, and how it is written."""
    default = linked.field.default
    texts = [written(each) for each in (default if isinstance(default, list) else [default])]
    # The default of a layer is the last one that the chosen models have; Sparsity, whose first view is of the last one
    # that both have, writes its layer always.
    layered = linked.count and isinstance(linked.component, gr.Slider) and linked.field.key != "sparsity.layer"
    last = linked.component.elem_id if layered else ""
    edits = isinstance(linked.field.rule, Edits)
    return {"key": linked.field.key, "default": texts or [""], "last": last, "edits": edits}


def _asked(
    service: Service, linked: list[Linked], parameters: list[tuple[str, str]], names: tuple[str, str]
) -> tuple[dict[Any, Any], list[str], list[str]]:
    """What components become by the address, sentences on that, and the keys that are left out."""
    given = {key for key, value in parameters if value}
    here = [each for each in linked if each.field.key in given or (each.field.key, "") in parameters]
    remarks: list[str] = []
    models: tuple[LoadedModel, ...] = ()
    if any(isinstance(each.field.rule, Below | Edits) for each in here):
        try:
            models = tuple(service.model(name) for name in names)
        except StudioError as error:
            remarks.append(str(error))
    counts = {each.field.key: each.count(*models) for each in here if each.count and models}
    settings = read_settings(parameters, [each.field for each in here], counts)
    remarks += settings.remarks
    left_out = [*settings.left_out]
    gone = {side: name for side, name in parameters if side in ("left", "right") and not service.knows(name)}
    changed: dict[Any, Any] = {}
    for each in here:
        key = each.field.key
        if key not in settings.values:
            continue
        value = settings.values[key]
        if isinstance(each.field.rule, Edits):
            at = key.partition(".")[2]
            if not models or gone.get(at):
                remarks.append(f"The link's {key} is left out: it belongs to a model that is not here.")
                left_out.append(key)
                continue
            model, name = models[at == "right"], names[at == "right"]
            try:
                changed[each.component] = controls_value(model, name) | {"chosen": edits_asked(value, model, name)}
            except StudioError as error:
                remarks.append(f"The link's {key} is left out: {error}")
                left_out.append(key)
        elif isinstance(each.component, gr.Dropdown) and each.count:
            heads = ["mean", *map(str, range(counts[key]))]
            changed[each.component] = gr.update(choices=heads, value=str(value))
        else:
            changed[each.component] = value
    if any(each.field.key.startswith(_LONG) and each.component in changed for each in here):
        remarks.append(WAITS)
    return changed, remarks, left_out


def _drawn_counts(service: Service, parameters: list[tuple[str, str]], names: tuple[str, str]) -> dict[str, int]:
    """How many heads and layers there are for drawings that the address names one of."""
    if not {key for key, _ in parameters} & {*DRAWN_HEADS, DRAWN_LAYER}:
        return {}
    models = link_models(service, names)
    # Slot 0 is the mean over heads.
    heads = {key: models[name].text.heads + 1 for key, name in zip(DRAWN_HEADS, names, strict=True) if name in models}
    runs = [name for key, name in parameters if key == "lambda.runs" and service.knows(name)]
    towers = [tower for model in link_models(service, [*names, *runs]).values() for tower in (model.vision, model.text)]
    return heads | {DRAWN_LAYER: max((tower.layers for tower in towers), default=0)}


def _of_compare(
    parameters: list[tuple[str, str]], service: Service, names: tuple[str, str], *, missing: bool
) -> list[str]:
    """What Compare says of its part of the address."""
    link = read_link(parameters, service.knows)
    shown = [panel["model"] for panel in link.state.get("panels", [])]
    said = [*link.remarks, *beyond(link, link_models(service, [*names, *shown]))]
    if not missing or not link.picture:
        return said
    return [
        *said,
        f"This link is about the picture whose pixels have the sha256 {link.picture}…, and a link does not contain its "
        "picture: choose that picture at the side.",
    ]
