"""The file of a study: what of each model it holds, how it is read, and what models have more than CLIP.

Everything that quotes a study, tables, figures and sentences, is made from this file alone.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from models.errors import StudioError
from models.plain import from_plain
from train.evaluation.attention import DIFFERENCE, POSITIVE
from train.evaluation.metrics import Measured
from train.evaluation.of_each import paired_difference
from train.evaluation.spoken import Spoken
from train.evaluation.study import Study, study_numbers

KIND, PLAIN = "SceneStudy", "CLIP"
Gains = dict[str, dict[str, dict[str, Measured]]]
# Of one model as JSON has it: "model" (which it was), "numbers" and "result".
Entry = dict[str, Any]


@dataclass(frozen=True)
class StudyModel:
    """What a study holds of one model.

    Attributes:
        variant: "CLIP", "DiffCLIP", "DiffCLIP*", ...
        seed: of its training, None where no record lies beside it.
        numbers, chance, each: as in `study.Study`, by name.
        layers: "map: metric" of attention -> its value in each layer; `numbers` has the mean over them.
        gains: map -> control -> metric, as in `attention.AttentionToObjects`.
        relevance: where names are seen.
    """

    name: str
    variant: str
    seed: int | None
    numbers: dict[str, Measured]
    chance: dict[str, float]
    each: dict[str, str]
    layers: dict[str, tuple[Measured, ...]]
    gains: Gains
    relevance: tuple[Spoken, ...]

    @property
    def title(self) -> str:
        """The variant and the seed, or the variant and the name."""
        return f"{self.variant}, {self.name if self.seed is None else f'seed {self.seed}'}"


@dataclass(frozen=True)
class Difference:
    """What a model has more than the CLIP of its seed, over the same pictures.

    Attributes:
        model, against: names.
        numbers: name of a number of the model -> the mean of the differences. Of attention, each map of the model
            stands against A.
    """

    model: str
    variant: str
    against: str
    seed: int | None
    numbers: dict[str, Measured]


@dataclass(frozen=True)
class StudyFile:
    """The models in the order of variant and seed, and their differences."""

    models: tuple[StudyModel, ...]
    differences: tuple[Difference, ...]


def entry(identity: Mapping[str, Any], found: Study) -> Entry:
    """What the file holds of a model that was measured now."""
    numbers = {name: asdict(number) for name, number in study_numbers(found).items()}
    return json.loads(json.dumps({"model": identity, "numbers": numbers, "result": asdict(found)}))


def plain(told: Sequence[Difference]) -> list[dict[str, Any]]:
    """Differences as the file holds them."""
    return [asdict(one) for one in told]


def differences(models: Sequence[StudyModel]) -> tuple[Difference, ...]:
    """What each other variant has more than the CLIP of the same seed, for all numbers of the same pictures."""
    found = []
    for plain in (one for one in models if one.variant == PLAIN):
        for model in (one for one in models if one.variant != PLAIN and one.seed == plain.seed):
            numbers = {
                name: difference
                for name, own in model.each.items()
                if (other := plain.each.get(_counterpart(name))) is not None
                and (difference := paired_difference(own, other)) is not None
            }
            found.append(Difference(model.name, model.variant, plain.name, model.seed, numbers))
    return tuple(found)


def _counterpart(name: str) -> str:
    """The number of a CLIP that a number stands against: of any map of attention, that of A."""
    first, _, metric = name.rpartition(": ")
    return f"A: {metric}" if first in ("A1", "A2", DIFFERENCE, POSITIVE + DIFFERENCE) else name


def read_study(path: Path) -> StudyFile:
    """Read the file of a study.

    Raises:
        StudioError: it cannot be read, or is not the file of a study.
    """
    content = read_content(path)
    try:
        models = models_of(content["results"])
        told = tuple(
            Difference(one["model"], one["variant"], one["against"], one["seed"], _measured(one["numbers"], "numbers"))
            for one in content["differences"]
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise StudioError(f"{path} is not the file of a study ({error!r}): write one with {_HOW}.") from error
    if not models:
        raise StudioError(f"{path} holds no model yet: let {_HOW} come to its end first.")
    return StudyFile(models, told)


_HOW = "`python -m train evaluate MODEL ... --protocol study --out FILE.json`"


def read_content(path: Path) -> dict[str, Any]:
    """The plain content of the file of a study.

    Raises:
        StudioError: it cannot be read, or is not the file of a study.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StudioError(f"{path} cannot be read ({error}): write it with {_HOW}.") from error
    protocol = content.get("protocol") if isinstance(content, dict) else None
    if not isinstance(protocol, dict) or protocol.get("kind") != KIND:
        raise StudioError(f"{path} is not the file of a study: write one with {_HOW}.")
    return content


def models_of(entries: Iterable[Mapping[str, Any]]) -> tuple[StudyModel, ...]:
    """The models of a file's entries: CLIP first, then by variant, then by seed."""
    found = [_model(one) for one in entries]
    return tuple(sorted(found, key=lambda one: (one.variant != PLAIN, one.variant, one.seed or 0, one.name)))


def _model(plain: Mapping[str, Any]) -> StudyModel:
    identity, result = plain["model"], plain["result"]
    training = identity["training"] or {}
    return StudyModel(
        identity["name"],
        identity["variant"],
        training.get("seed"),
        _measured(plain["numbers"], "numbers"),
        {name: float(value) for name, value in result["chance"].items()},
        {name: str(text) for name, text in result["each"].items()},
        {
            f"{name}: {metric}": tuple(from_plain(Measured, layer, "layers") for layer in values["layers"])
            for name, metrics in result["attention"]["maps"].items()
            for metric, values in metrics.items()
            if values is not None
        },
        {
            own: {control: _measured(metrics, control) for control, metrics in controls.items()}
            for own, controls in result["attention"]["gains"].items()
        },
        tuple(from_plain(Spoken, one, "relevance") for one in result["relevance"]),
    )


def _measured(plain: Mapping[str, Any], where: str) -> dict[str, Measured]:
    """Numbers by name; those that no picture has are left out."""
    return {name: from_plain(Measured, value, f"{where}.{name}") for name, value in plain.items() if value is not None}
