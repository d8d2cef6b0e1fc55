"""The edits of a model as a short text, read back: what an address holds of a table of the Intervene tab.

Edits are joined by "_": "vision.lam.0-3*7.0.5" sets λ to 0.5 in layers 0 to 3 and 7, "text.a2.uniform" chooses A2,
"vision.off.2.0*3" ablates heads 0 and 3 of layer 2. The page writes it (viewer/address.js).
"""

from typing import Any

from models import LoadedModel, StudioError
from studio.changes import TOWERS, checked_change, tower_value


def edits_asked(text: str, model: LoadedModel, name: str) -> dict[str, Any]:
    """The edits that a text names, as the value of the model's table holds them under `chosen`.

    Args:
        text: as it stands in the address.
        model: the model whose table it is.
        name: what the page calls the model.

    Raises:
        StudioError: the text names what the model does not have, or is no such text.
    """
    towers = {tower: tower_value(tower_of) for tower, tower_of in zip(TOWERS, (model.vision, model.text), strict=True)}
    chosen: dict[str, Any] = {tower: {"lam": [], "a2": "learned", "off": []} for tower in TOWERS}
    for edit in filter(None, text.split("_")):
        match edit.split(".", 3):
            case [tower, "lam", layers, value] if tower in towers:
                count = towers[tower]["lambdas"]
                lam = chosen[tower]["lam"] or [None] * count
                for layer in _numbers(layers, count, edit, model):
                    lam[layer] = _lambda(value, edit, model)
                chosen[tower]["lam"] = lam
            case [tower, "a2", second] if tower in towers and second in towers[tower]["a2"]:
                chosen[tower]["a2"] = second
            case [tower, "off", layers, heads] if tower in towers:
                there = len(towers[tower]["layers"]), towers[tower]["heads"]
                pairs = [
                    [layer, head]
                    for layer in _numbers(layers, there[0], edit, model)
                    for head in _numbers(heads, there[1], edit, model)
                ]
                chosen[tower]["off"] += [pair for pair in pairs if pair not in chosen[tower]["off"]]
            case _:
                raise _unknown(edit, model)
    checked_change({"name": name, "chosen": chosen}, model, name)
    return chosen


def _numbers(text: str, count: int, edit: str, model: LoadedModel) -> list[int]:
    """The numbers below `count` in a text like "0-3*7"."""
    numbers: dict[int, None] = {}
    for run in text.split("*"):
        first, dash, last = run.partition("-")
        ends = [first, last] if dash else [first]
        if not all(end.isascii() and end.isdigit() and len(end) <= 4 and int(end) < count for end in ends):
            raise _unknown(edit, model)
        numbers |= dict.fromkeys(range(int(ends[0]), int(ends[-1]) + 1))
    return list(numbers)


def _lambda(text: str, edit: str, model: LoadedModel) -> float:
    try:
        return float(text)
    except ValueError:
        raise _unknown(edit, model) from None


def _unknown(edit: str, model: LoadedModel) -> StudioError:
    return StudioError(f"{model.title} has no edit “{edit[:80]}”: choose edits in its table.")
