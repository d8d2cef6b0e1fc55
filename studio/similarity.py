"""How near a picture and a text are, as a function of what can be changed: pixels, words, a layer's tokens.

The value is always the cosine similarity, without the logit scale, which would multiply every attribution and with it
make two models incomparable. Each function takes the model's lock for as long as one batch runs, and no longer, so that
other people's pictures pass between the batches of a long attribution.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.transforms.functional import gaussian_blur

from models import LoadedModel, StudioError, Tower
from models.diff_attention import widen
from models.errors import RecordingError
from models.intervention import Edit, intervene
from models.layout import TokenGrid
from models.loaded import CLIP

Side = Literal["vision", "text"]
Similarity = Callable[[Tensor], Tensor]
Baseline = Literal["mean colour", "blur", "black"]
BASELINES: tuple[Baseline, ...] = ("mean colour", "blur", "black")


@dataclass(frozen=True)
class Pair:
    """A model's input of one picture and one text.

    Attributes:
        model: whose they are.
        pixels: (1, 3, height, width).
        ids: (1, N).
        image, text: their embeddings (1, E), of any length.
        pieces: the tokens of the text as a person reads them, the first of the N positions.
        edits: how the vision tower is changed when it runs.
    """

    model: LoadedModel
    pixels: Tensor
    ids: Tensor
    image: Tensor
    text: Tensor
    pieces: tuple[str, ...]
    edits: tuple[Edit, ...] = ()

    @property
    def cosine(self) -> float:
        """The similarity of its embeddings."""
        return float(F.cosine_similarity(widen(self.image), widen(self.text), dim=-1))

    @property
    def words(self) -> slice:
        """The positions of what a person wrote; start and end tokens stay as they are, so that the text stays one."""
        written = [place for place, piece in enumerate(self.pieces) if not _special(piece)]
        return slice(written[0], written[-1] + 1) if written else slice(0, 0)

    def tower(self, side: Side) -> Tower:
        """The tower that reads the picture, or the text."""
        return self.model.vision if side == "vision" else self.model.text


def pair_of(model: LoadedModel, pixels: Tensor, text: str, image: Tensor) -> Pair:
    """The pair of a preprocessed picture (3, height, width), whose embedding (1, E) is known, and a text.

    Raises:
        StudioError: there is no tokenizer for the model's vocabulary.
    """
    ids, picture = model.tokenize([text]), pixels[None]
    pieces = tuple(model.tokenizer.pieces(text))
    return Pair(model, picture, ids, image, model.encode_text(ids), pieces)


def check_readable(model: LoadedModel, texts: Sequence[str]) -> None:
    """Refuses a model that cannot read texts, by its name and before another one is run for nothing.

    Raises:
        StudioError: there is no tokenizer for the model's vocabulary.
    """
    try:
        model.tokenize(list(texts))
    except StudioError as error:
        raise StudioError(f"{model.title}: {error}") from error


def of_pixels(pair: Pair) -> Similarity:
    """Pictures (B, 3, height, width) -> their similarity (B,) to the text."""
    return lambda pixels: _nearness(_run(pair, "vision", pixels), pair.text)


def of_words(pair: Pair) -> Similarity:
    """Token embeddings (B, N, D), before positions are added -> the similarity (B,) of such texts to the picture."""
    return lambda words: _nearness(_run(pair, "text", words), pair.image)


def of_layer(pair: Pair, side: Side, layer: int) -> Similarity:
    """Tokens (B, N, D) that enter a layer -> the similarity (B,); what the layers before made is put aside."""
    module, first = _layer(pair.tower(side), layer), _batch_first(pair.tower(side), layer)
    own = pair.pixels if side == "vision" else embedded_words(pair)[0]
    other = pair.text if side == "vision" else pair.image

    def run(tokens: Tensor) -> Tensor:
        def replace(_module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
            given = tokens if first else tokens.transpose(0, 1)
            return (given.to(args[0].dtype), *args[1:])

        batch = own.expand(len(tokens), *own.shape[1:])
        return _nearness(_run(pair, side, batch, _Hook(module, replace, before=True)), other)

    return run


@torch.no_grad()
def embedded_words(pair: Pair) -> tuple[Tensor, Tensor]:
    """Token embeddings (1, N, D) of the text, and the same with padding in the place of every word.

    Raises:
        StudioError: a text tower whose embeddings cannot be replaced.
    """
    embedding, bare = _embedding(pair.model), pair.ids.clone()
    bare[:, pair.words] = pair.model.tokenizer.rule.pad
    return embedding(pair.ids), embedding(bare)


@torch.no_grad()
def tokens_entering(pair: Pair, side: Side, layer: int, given: Tensor) -> Tensor:
    """The tokens (1, N, D) that enter a layer for a picture (1, 3, height, width) or token embeddings (1, N, D)."""
    module, kept = _layer(pair.tower(side), layer), []

    def keep(_module: nn.Module, args: tuple[Any, ...]) -> None:
        kept.append(args[0])

    _run(pair, side, given, _Hook(module, keep, before=True))
    return kept[-1] if _batch_first(pair.tower(side), layer) else kept[-1].transpose(0, 1)


def bare_picture(pair: Pair, baseline: Baseline) -> Tensor:
    """A picture (1, 3, height, width) that shows nothing, in the model's own normalised pixels.

    "mean colour" is the mean of the picture the model saw, "blur" that picture blurred by a patch's width, so that what
    is in a patch is gone and its colours are not, "black" is black.

    Raises:
        StudioError: an unknown baseline.
    """
    if baseline == "mean colour":
        return pair.pixels.mean((-2, -1), keepdim=True).expand_as(pair.pixels).contiguous()
    if baseline == "blur":
        return _blurred(pair)
    if baseline == "black":
        settings = pair.model.preprocess_settings
        mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (settings.mean, settings.std))
        return (-mean / std).to(pair.pixels).expand_as(pair.pixels).contiguous()
    raise StudioError(f"The baseline {baseline!r} is unknown: choose {', '.join(BASELINES)}.")


def patch_size(pair: Pair) -> tuple[int, int]:
    """(height, width) of a patch of the model's input, in pixels.

    Raises:
        StudioError: a vision tower without patches.
    """
    grid = pair.model.vision.layout
    if not isinstance(grid, TokenGrid) or not grid.patches:
        raise StudioError(pair.model.vision.reason or f"{pair.model.title} has no grid of patches.")
    return pair.pixels.shape[-2] // grid.rows, pair.pixels.shape[-1] // grid.cols


def _blurred(pair: Pair) -> Tensor:
    """Row by row and then column by column, which is the same and much less work."""
    blurred = pair.pixels
    for axis, size in enumerate(patch_size(pair)):
        # The kernel ends at two widths; mirrored edges must not reach beyond the picture.
        length = min(4 * size + 1, 2 * ((pair.pixels.shape[-2 + axis] - 1) // 2) + 1)
        kernel = [1, length] if axis == 0 else [length, 1]
        blurred = gaussian_blur(blurred, kernel, [float(size), float(size)])
    return blurred


def _nearness(embedding: Tensor, other: Tensor) -> Tensor:
    return F.cosine_similarity(widen(embedding), widen(other), dim=-1)


@dataclass(frozen=True)
class _Hook:
    """What is called with a module's input, or with its output, while this thread runs the model."""

    module: nn.Module
    function: Callable[..., Any]
    before: bool


def _run(pair: Pair, side: Side, given: Tensor, *hooks: _Hook) -> Tensor:
    """The embeddings (B, E) of pictures or of token embeddings, with hooks in the tower, under the model's lock."""
    module: Any = pair.model.module
    with pair.model.lock, ExitStack() as stack:
        for hook in hooks:
            stack.enter_context(_hooked(hook))
        if side == "vision":
            stack.enter_context(intervene(pair.model.vision, pair.edits))
            return module.encode_image(given)

        def replace(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
            return given.to(output.dtype)

        stack.enter_context(_hooked(_Hook(_embedding(pair.model), replace, before=False)))
        return module.encode_text(pair.ids.expand(len(given), -1))


@contextmanager
def _hooked(hook: _Hook) -> Iterator[None]:
    """A hook that listens to this thread alone, and is gone when the block ends."""
    thread = threading.get_ident()

    def call(*given: Any) -> Any:
        return hook.function(*given) if threading.get_ident() == thread else None

    register = hook.module.register_forward_pre_hook if hook.before else hook.module.register_forward_hook
    handle = register(call)
    try:
        yield
    finally:
        handle.remove()


def _layer(tower: Tower, layer: int) -> nn.Module:
    """The block of a layer, or the pooling head."""
    if not 0 <= layer < tower.layers:
        raise RecordingError(tower.reason or f"Layer {layer} of the {tower.name} tower does not exist.")
    return tower.blocks[layer] if layer < len(tower.blocks) else tower.attention[layer]


def _batch_first(tower: Tower, layer: int) -> bool:
    attention = tower.attention[layer]
    # A pooling head is given its tokens batch first, whatever the attention inside it does.
    return layer >= len(tower.blocks) or bool(getattr(attention, "batch_first", True))


def _embedding(model: LoadedModel) -> nn.Module:
    text: Any = model.module if isinstance(model.module, CLIP) else model.module.text
    embedding = getattr(text, "token_embedding", None)
    if not isinstance(embedding, nn.Module):
        raise StudioError(
            f"The words of {model.title} cannot be changed one by one, its text tower being a {type(text).__name__}: "
            "look at the picture alone, or choose a model with open_clip's own text transformer."
        )
    return embedding


def _special(piece: str) -> bool:
    """Whether a token is no part of what was written: "<start>", "</s>", "[CLS]"."""
    return len(piece) > 2 and piece[0] + piece[-1] in ("<>", "[]")
