"""Text-conditioned relevance for the panels of Compare: which patches speak for the similarity to one text.

Unlike every other map there, it depends on the text, and not on layer, head and query. Its control is the relevance of
the model run with A2 shuffled.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from models import Choice, LoadedModel, StudioError, map_gradients
from models.gradients import TowerGradients
from models.intervention import Edit
from models.relevance import relevance
from studio.measures import mean_over_shuffles, plain_measures
from studio.remarks import remarks_on
from studio.service import Service
from studio.shuffled_runs import RUN_SO, shuffled_edits
from studio.store import BoundedStore
from studio.view import packed

RELEVANCE_BYTES = 16 * 2**20
CONTROL_BYTES = 2**20
# The sum of relevance has no unit and it has no prefix, so these alone say something.
RELEVANCE_MEASURES = ("entropy", "inside", "auroc")


@dataclass(frozen=True)
class RelevanceAsked:
    """Which relevance: of which model and picture, to which text, through the layers from `first` to the last."""

    model: str
    token: str
    text: str
    first: int | None


class RelevanceStore:
    """Relevance that was worked out; running it twice for the same question would keep others waiting.

    Attributes:
        known: answers of `relevance` by their questions.
        controls: answers of `control`.
    """

    def __init__(self, service: Service, capacity: int = RELEVANCE_BYTES) -> None:
        self.service = service
        self.known: BoundedStore[RelevanceAsked, dict[str, Any]] = BoundedStore(capacity)
        self.controls: BoundedStore[RelevanceAsked, dict[str, Any]] = BoundedStore(CONTROL_BYTES)

    def relevance(self, asked: RelevanceAsked, image: Image.Image) -> dict[str, Any]:
        """Relevance of each patch as the browser draws it; runs the model forwards and backwards if not known.

        Args:
            asked: the question; its token is that of `image`.
            image: upright RGB.

        Returns:
            `values` (R * C floats), `measures`, `similarity` (cosine), `note` and the question itself; or `error`.
        """
        return _remembered(self.known, asked, lambda: self._worked_out(asked, image))

    def control(self, asked: RelevanceAsked, image: Image.Image) -> dict[str, Any]:
        """The numbers of the same relevance with A2 shuffled: the mean over runs of the model as changed.

        Args:
            asked, image: as in `relevance`.

        Returns:
            `control` (numbers by name, None where undefined; of `similarity` too), `said` (what it is, in words) and
            the question; or `error`.
        """
        return _remembered(self.controls, asked, lambda: self._control(asked, image))

    def _control(self, asked: RelevanceAsked, image: Image.Image) -> dict[str, Any]:
        model = self.service.model(asked.model)
        runs = [self._run(model, asked, image, edits) for edits in shuffled_edits(model.vision)]
        patches = torch.stack([relevance(tower).patches[0].flatten() for tower, _ in runs]).float()
        measures = mean_over_shuffles(self._measures(asked, image, patches))
        similarity = sum(similarity for _, similarity in runs) / len(runs)
        return {"control": plain(measures) | {"similarity": similarity}, "said": RUN_SO}

    def _run(
        self, model: LoadedModel, asked: RelevanceAsked, image: Image.Image, edits: Sequence[Edit]
    ) -> tuple[TowerGradients, float]:
        """Maps and gradients of the vision tower, and the cosine similarity."""
        if model.vision.layers == 0:
            raise StudioError(model.vision.reason or "This model has no attention to be relevant through.")
        last = model.vision.layers - 1
        first = last if asked.first is None else min(max(asked.first, 0), last)
        pixels, ids = model.preprocess(image)[0][None], model.tokenize([asked.text])
        found = map_gradients(
            model, pixels, ids, Choice(layers=tuple(range(first, last + 1))), Choice(layers=()), edits
        )
        assert found.vision is not None
        return found.vision, float(found.similarity[0])

    def _measures(self, asked: RelevanceAsked, image: Image.Image, patches: Tensor) -> dict[str, Tensor]:
        """Numbers of relevance (..., R * C)."""
        objects = self.service.look(asked.model, image).objects
        return {
            name: value for name, value in plain_measures(patches, 0, objects).items() if name in RELEVANCE_MEASURES
        }

    def _worked_out(self, asked: RelevanceAsked, image: Image.Image) -> dict[str, Any]:
        model = self.service.model(asked.model)
        gradients, similarity = self._run(model, asked, image, ())
        found = relevance(gradients)
        patches = found.patches[0].flatten().float()
        said = [found.note] if found.note else []
        said += [f"{model.title}: {clause}." for clause in remarks_on(model.tokenizer, [asked.text]).clauses]
        return {
            "values": packed(patches.numpy().astype("<f4")),
            "measures": plain(self._measures(asked, image, patches)),
            "similarity": similarity,
            "layers": "–".join(map(str, dict.fromkeys((min(gradients.layers), max(gradients.layers))))),
            "note": " ".join(said),
        }


def plain(measures: Mapping[str, Tensor]) -> dict[str, float | None]:
    """Numbers as the browser gets them; None is what is undefined."""
    return {name: float(value) if bool(torch.isfinite(value)) else None for name, value in measures.items()}


def _remembered(
    known: BoundedStore[RelevanceAsked, dict[str, Any]], asked: RelevanceAsked, work: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """The answer with its question, worked out if it is not known; an error is not kept."""
    found = known.get(asked)
    if found is not None:
        return found
    base = {"model": asked.model, "token": asked.token, "text": asked.text, "first": asked.first}
    try:
        answer = base | work()
    except StudioError as error:
        return base | {"error": str(error)}
    known.put(asked, answer, len(answer.get("values", "")) + 1024)
    return answer
