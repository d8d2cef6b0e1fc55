"""Text-conditioned relevance for the panels of Compare: which patches speak for the similarity to one text.

Unlike every other map there, it depends on the text, and not on layer, head and query.
"""

from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image

from models import Choice, StudioError, map_gradients
from models.relevance import relevance
from studio.measures import plain_measures
from studio.service import Service, vision_grid
from studio.store import BoundedStore
from studio.view import packed

RELEVANCE_BYTES = 16 * 2**20


@dataclass(frozen=True)
class RelevanceAsked:
    """Which relevance: of which model and picture, to which text, through the layers from `first` to the last."""

    model: str
    token: str
    text: str
    first: int | None


class RelevanceStore:
    """Relevance that was worked out; running it twice for the same question would keep others waiting."""

    def __init__(self, service: Service, capacity: int = RELEVANCE_BYTES) -> None:
        self.service = service
        self.known: BoundedStore[RelevanceAsked, dict[str, Any]] = BoundedStore(capacity)

    def relevance(self, asked: RelevanceAsked, image: Image.Image) -> dict[str, Any]:
        """Relevance of each patch as the browser draws it; runs the model forwards and backwards if not known.

        Args:
            asked: the question; its token is that of `image`.
            image: upright RGB.

        Returns:
            `values` (R * C floats), `measures`, `similarity` (cosine), `note` and the question itself; or `error`.
        """
        known = self.known.get(asked)
        if known is not None:
            return known
        base = {"model": asked.model, "token": asked.token, "text": asked.text, "first": asked.first}
        try:
            answer = base | self._worked_out(asked, image)
        except StudioError as error:
            return base | {"error": str(error)}
        self.known.put(asked, answer, len(answer["values"]) + 1024)
        return answer

    def _worked_out(self, asked: RelevanceAsked, image: Image.Image) -> dict[str, Any]:
        model = self.service.model(asked.model)
        if model.vision.layers == 0:
            raise StudioError(model.vision.reason or "This model has no attention to be relevant through.")
        last = model.vision.layers - 1
        first = last if asked.first is None else min(max(asked.first, 0), last)
        pixels, _ = model.preprocess(image)
        chosen = Choice(layers=tuple(range(first, last + 1)))
        gradients = map_gradients(model, pixels[None], model.tokenize([asked.text]), chosen, Choice(layers=()))
        assert gradients.vision is not None
        found = relevance(gradients.vision)
        grid, objects = vision_grid(model), self.service.look(asked.model, image).objects
        patches = found.patches[0].reshape(-1).float()
        measures = plain_measures(patches, 0, objects) if patches.shape[0] == grid.patches else {}
        said = [found.note] if found.note else []
        unknown, cut = model.tokenizer.unknown_words(asked.text), model.tokenizer.cut_text(asked.text)
        if unknown:
            said.append(f"{model.title} never saw in training: {', '.join(unknown)}.")
        if cut:
            said.append(f"Too long for {model.title}, not read: “{cut}”.")
        return {
            "values": packed(patches.numpy().astype("<f4")),
            "measures": {
                name: float(value) if bool(torch.isfinite(value)) else None
                for name, value in measures.items()
                if name in ("entropy", "inside", "auroc")
            },
            "similarity": float(gradients.similarity[0]),
            "layers": f"{first}–{last}" if first < last else str(last),
            "note": " ".join(said),
        }
