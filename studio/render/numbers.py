"""The numbers under each panel as a person reads them, each that suggests cleaning with its control beside it."""

from dataclasses import dataclass

from studio.measures import SHUFFLES
from studio.render.readings import Reading
from studio.shuffled_runs import RUN_SO

SHUFFLES_SAID = f"“A2 shuffled”: the same number with A2 permuted over the patches, mean of {SHUFFLES} fixed shuffles"
RUNS_SAID = f"“A2 shuffled” of relevance: {RUN_SO}"


@dataclass(frozen=True)
class Number:
    """One statistic.

    Attributes:
        measure: its name, as in `studio.measures`.
        label: how it is called under a panel.
        value: None where it is undefined.
        control: the same with A2 shuffled over the patches, None where there is none.
        controlled: whether it has a control, be it undefined.
        written, control_written: as a person reads them; "" for no control.
    """

    measure: str
    label: str
    value: float | None
    control: float | None
    controlled: bool
    written: str
    control_written: str


_LABELS = {
    "similarity": "cosine",
    "sum": "sum",
    "negative": "negative mass",
    "entropy": "entropy",
    "support": "support",
    "cls": "on prefix tokens",
    "inside": "in object",
    "auroc": "AUROC",
    "cosine": "cos(A1, λA2)",
    "cancelled": "A1 cancelled",
}
_SHARES = ("negative", "cls", "inside", "cancelled")


def numbers_of(reading: Reading) -> tuple[Number, ...]:
    """The statistics of a panel; none where there is nothing to draw."""
    return tuple(_number(name, value, reading) for name, value in reading.measures.items())


def _number(name: str, value: float | None, reading: Reading) -> Number:
    controlled = name in reading.control
    control = reading.control.get(name)
    beside = _written(name, control, reading).partition(" of ")[0] if controlled else ""
    return Number(name, _label(name, reading), value, control, controlled, _written(name, value, reading), beside)


def _label(name: str, reading: Reading) -> str:
    label = _LABELS.get(name, name)
    if name == "cls" and reading.prefix == 1:
        return "on CLS"
    if reading.signed and name in ("entropy", "inside"):
        return f"{label}, positive"
    return f"{label}, signed" if reading.signed and name == "auroc" else label


def _written(name: str, value: float | None, reading: Reading) -> str:
    if value is None:
        return "–"
    if name == "support":
        return f"{value:.0f} of {len(reading.row)}"
    return f"{rounded(100 * value, 0)} %" if name in _SHARES else rounded(value, 2)


def rounded(value: float, digits: int) -> str:
    """A number with a true minus sign, never minus zero."""
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")
