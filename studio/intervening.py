"""The model run as changed, beside the model as it is: embeddings, similarities and maps before and after.

Everything here but "before" is an intervention: the forward pass itself is run with the edits, so that a change in an
early layer reaches everything behind it.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from models import LoadedModel, Recording, StudioError, record
from models.intervention import Edit, intervene
from studio.changes import Change, checked_change, edits_of, words_of
from studio.service import Look, Service
from studio.upload import Upload
from studio.zeroshot import Prompt


@dataclass(frozen=True)
class Run:
    """One forward pass of both towers.

    Attributes:
        embedding: of the picture (1, E), of length 1.
        texts: of the prompts (P, E), of length 1, or None where there is no prompt.
        recording: of the vision tower.
    """

    embedding: Tensor
    texts: Tensor | None
    recording: Recording

    @property
    def cosine(self) -> Tensor:
        """Cosine similarity of picture and prompts (P,)."""
        return torch.empty(0) if self.texts is None else (self.texts @ self.embedding[0]).float()


@dataclass(frozen=True)
class Outcome:
    """One model before and after the edits.

    Attributes:
        look: of the model as it is.
        words: the edits in words, none where nothing was changed; then `after` is `before`.
        vision: the edits of the vision tower, which its maps are worked out with.
        before, after: the two runs.
        unread: why no prompt could be read, "" where they were.
    """

    look: Look
    words: tuple[str, ...]
    vision: tuple[Edit, ...]
    before: Run
    after: Run
    unread: str = ""

    @property
    def model(self) -> LoadedModel:
        """The model that was run."""
        return self.look.model

    @property
    def moved(self) -> float:
        """Cosine between the picture's embeddings before and after: 1 where nothing moved."""
        return cosines(self.before.embedding, self.after.embedding)[0]

    @property
    def texts_moved(self) -> list[float]:
        """Cosine between each prompt's embeddings before and after."""
        before, after = self.before.texts, self.after.texts
        return [] if before is None or after is None else cosines(before, after)


@dataclass(frozen=True)
class Refused:
    """A model that could not be run as asked, and why, in a sentence."""

    title: str
    reason: str


def changed_model(
    service: Service, name: str, picture: Upload, asked: Any, prompts: list[Prompt], other: Upload | None
) -> Outcome | Refused:
    """Run the model `name` as the value `asked` of its controls says; what does not fit is told and stops no other."""
    try:
        look, change, recording = asked_change(service, name, picture, asked, other)
        return run_changed(look, picture.image, prompts, change, recording)
    except StudioError as error:
        return Refused(service.title(name), str(error))


def asked_change(
    service: Service, name: str, picture: Upload, asked: Any, other: Upload | None
) -> tuple[Look, Change, Recording | None]:
    """What the model sees of the picture, the change that is asked for, and the other picture's recording for its A2.

    Raises:
        StudioError: no such model, no such change, or another picture's A2 without another picture.
    """
    look = service.look(name, picture.image)
    change = checked_change(asked, look.model, name)
    if not change.needs_other or not look.model.vision.differential:
        return look, change, None
    if other is None:
        raise StudioError("A2 of another picture needs another picture: choose one below the tables, or another A2.")
    return look, change, service.look(name, other.image).recording


def run_changed(
    look: Look, image: Image.Image, prompts: list[Prompt], change: Change, other: Recording | None = None
) -> Outcome:
    """Run a model as it is and as changed.

    Args:
        look: what the model does with the picture; its vision tower is not run again for "before".
        image: the same picture, upright RGB.
        prompts: the texts, P of them; none where only maps are asked for.
        change: what is changed in its towers.
        other: a recording of another picture by the same model, for its A2.

    Raises:
        StudioError: an edit that this model cannot be given.
    """
    model = look.model
    vision, text = edits_of(change.vision, model.vision, other), edits_of(change.text, model.text)
    words = (*words_of(change.vision, model.vision), *words_of(change.text, model.text))
    tokens, unread = read_prompts(model, prompts)
    texts = None if tokens is None else model.encode_text(tokens, normalize=True)
    before = Run(look.embedding, texts, look.recording)
    after = before
    if vision:
        embedding, recording = run_vision(model, image, vision)
        after = replace(after, embedding=embedding, recording=recording)
    if text:
        after = replace(after, texts=run_text(model, tokens, text))
    return Outcome(look, words, tuple(vision), before, after, unread)


def read_prompts(model: LoadedModel, prompts: list[Prompt]) -> tuple[Tensor | None, str]:
    """Token ids (P, N) of the prompts and "", or None and why there are none; maps need no tokenizer."""
    try:
        return (model.tokenize([prompt.text for prompt in prompts]) if prompts else None), ""
    except StudioError as error:
        return None, str(error)


def run_vision(model: LoadedModel, image: Image.Image, edits: list[Edit]) -> tuple[Tensor, Recording]:
    """Embedding (1, E) and recording of the vision tower, run with the edits."""
    pixels, _ = model.preprocess(image)
    with model.lock, intervene(model.vision, edits), record(model.vision) as recording:
        return model.encode_image(pixels[None], normalize=True), recording


def run_text(model: LoadedModel, tokens: Tensor | None, edits: list[Edit]) -> Tensor | None:
    """Embeddings (P, E) of token ids by the text tower, run with the edits, which are checked also without ids."""
    with model.lock, intervene(model.text, edits):
        return None if tokens is None else model.encode_text(tokens, normalize=True)


def cosines(first: Tensor, second: Tensor) -> list[float]:
    """Cosine between the rows of two matrices (N, K)."""
    return torch.nn.functional.cosine_similarity(first.double(), second.double(), dim=-1).tolist()
