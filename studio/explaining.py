"""What speaks for the similarity of a picture and a text: a method, a model, a prompt -> a map and scores of words.

All methods explain the same number, the cosine similarity, on the picture's side and on the text's.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from models import Choice, StudioError, Tower, map_gradients
from models.gradients import TowerGradients
from models.layout import TokenGrid
from models.relevance import Rule, relevance
from studio.attribution import Attribution, Steps, drained, grad_cam, gradient_shap, integrated_gradients, occlusion
from studio.methods import (
    WORDS_AT_ONCE,
    GradientShap,
    IntegratedGradients,
    LayerGradCam,
    LayerIntegratedGradients,
    Method,
    Occlusion,
    Relevance,
    checked,
)
from studio.remarks import Remarks, remarks_on
from studio.service import Look
from studio.similarity import (
    BASELINES,
    Pair,
    Side,
    bare_picture,
    embedded_words,
    of_layer,
    of_pixels,
    of_words,
    pair_of,
    patch_size,
    tokens_entering,
)

SIGNED_RULES: tuple[Rule, ...] = ("signed", "++", "+-", "-+", "--")
NOTHING = "Every value is exactly 0, so there is nothing to see."


@dataclass(frozen=True)
class Scores:
    """What one side of one pair contributes.

    Attributes:
        values: (R, C) for a picture's patches, (height, width) for its pixels, (n,) for the words; None with a message.
        signed: whether negative values are possible.
        layers: which layers were looked at, in words, "" where it is the whole model.
        message: why there is nothing to see, or "".
        gap: by how much the values miss completeness, and what they should sum to; None where they need not sum up.
        aside: the part of that sum on tokens that have no place on the picture (CLS, registers); None where none has.
    """

    values: np.ndarray | None
    signed: bool
    layers: str = ""
    message: str = ""
    gap: tuple[float, float] | None = None
    aside: float | None = None


@dataclass(frozen=True)
class Shuffled:
    """What one run of the model with A2 shuffled gave: its own similarity, and what the picture contributes to it."""

    cosine: float
    picture: Scores


@dataclass(frozen=True)
class Explanation:
    """One model's explanation of one prompt.

    Attributes:
        look: the model and what it did with the picture.
        prompt: the text.
        cosine: the similarity that is explained.
        picture: what the patches contribute.
        words: what the tokens contribute, aligned with `pieces`; NaN for tokens that are no words, except where the
            tokens that enter a layer are explained.
        pieces: the tokens as a person reads them.
        passes: how many times a tower ran, batches counted by what is in them.
        remarks: what a person should know of the prompt as the model reads it.
        shuffled: the same with A2 shuffled, one a run; () where it was not worked out.
    """

    look: Look
    prompt: str
    cosine: float
    picture: Scores
    words: Scores
    pieces: tuple[str, ...]
    passes: int
    remarks: Remarks
    shuffled: tuple[Shuffled, ...] = ()


def explain(look: Look, pixels: Tensor, prompt: str, method: Method) -> Steps[Explanation]:
    """Explain the similarity of a preprocessed picture (3, height, width) and a prompt; yields passes as they are made.

    What one side cannot give (a tower without attention, an A2 that does not exist) is a message on that side.

    Raises:
        StudioError: settings out of bounds, or no tokenizer for the model.
    """
    checked(method)
    model = look.model
    pair = pair_of(model, pixels, prompt, look.embedding)
    passes = 1
    yield 1
    if isinstance(method, Relevance):
        picture, words = relevance_scores(pair, method)
        yield 2
        passes += 2
    else:
        sides: list[Scores] = []
        for side in (picture_scores, _words):
            try:
                scores, made = yield from _counted(side(pair, method))
                passes += made
            except StudioError as error:
                scores = Scores(None, True, message=str(error))
            sides.append(scores)
        picture, words = sides
    remarks = remarks_on(model.tokenizer, [prompt])
    return Explanation(look, prompt, pair.cosine, picture, words, pair.pieces, passes, remarks)


def _counted(steps: Steps[Scores]) -> Steps[tuple[Scores, int]]:
    """The same steps, with their sum beside the result."""
    made, results = 0, []
    for count in drained(steps, results):
        made += count
        yield count
    return results[0], made


def relevance_scores(pair: Pair, method: Relevance) -> tuple[Scores, Scores]:
    """Both sides from one run forward and back."""
    choices, messages = {}, {}
    for side in ("vision", "text"):
        tower = pair.tower(side)
        if tower.layers == 0:
            messages[side] = tower.reason
        elif method.part == "a2" and not tower.differential:
            messages[side] = f"The {tower.name} tower of {pair.model.title} has one map and no A2."
        back = 0 if side in messages else min(method.back, tower.layers)
        choices[side] = Choice("weights" if side in messages else method.part, tuple(range(-back, 0)))
    if len(messages) == 2:
        return (Scores(None, False, message=messages["vision"]), Scores(None, False, message=messages["text"]))
    found = map_gradients(pair.model, pair.pixels, pair.ids, choices["vision"], choices["text"], pair.edits)

    def scored(side: Side, gradients: TowerGradients | None, pick: Callable[[Tensor], np.ndarray]) -> Scores:
        if gradients is None:
            return Scores(None, False, message=messages[side])
        result = relevance(gradients, method.rule)
        layers = layers_in_words(pair.tower(side), tuple(gradients.layers))
        values = pick(result.tokens[0])
        # The core numbers the pairs of a batch, and here there is one.
        message = result.note.replace(" of pair 0", "") or ("" if np.nan_to_num(values).any() else NOTHING)
        return Scores(values, method.rule in SIGNED_RULES, layers, message)

    grid = pair.model.vision.layout

    def patches(tokens: Tensor) -> np.ndarray:
        assert isinstance(grid, TokenGrid)
        return _array(tokens[-grid.patches :].unflatten(0, (grid.rows, grid.cols)))

    return (
        scored("vision", found.vision, patches),
        scored("text", found.text, lambda tokens: _of_words(pair, tokens)),
    )


def picture_scores(pair: Pair, method: Method) -> Steps[Scores]:
    """The picture's side of one of captum's methods."""
    height, width = patch_size(pair)
    if isinstance(method, (LayerIntegratedGradients, LayerGradCam)):
        layer = _from_end(pair.model.vision, method.back)
        bare = bare_picture(pair, method.baseline) if isinstance(method, LayerIntegratedGradients) else None
        tokens, gap = yield from _layer_scores(pair, "vision", layer, method, bare)
        grid = pair.model.vision.layout
        assert isinstance(grid, TokenGrid)
        values = _array(tokens[-grid.patches :].unflatten(0, (grid.rows, grid.cols)))
        scores = _finished(values, f"tokens entering layer {pair.model.vision.layer_name(layer)}", gap)
        before = tokens[: -grid.patches]
        # In a late layer most of the similarity may stand on CLS, which the maps do not show.
        return scores if gap is None or not len(before) else replace(scores, aside=float(before.double().sum()))
    function = of_pixels(pair)
    if isinstance(method, Occlusion):
        rows, cols = pair.pixels.shape[-2] // height, pair.pixels.shape[-1] // width
        bands = [(slice(row * height, (row + 1) * height), slice(0, cols * width)) for row in range(rows)]
        found = yield from occlusion(function, pair.pixels, bare_picture(pair, method.baseline), (height, width), bands)
        corner = found.values[0, 0, : rows * height : height, : cols * width : width]
        return _finished(_array(corner))
    found = yield from _path(function, method, pair.pixels, [bare_picture(pair, name) for name in BASELINES])
    return _finished(_array(found.values[0].sum(0)), gap=(found.gap, found.end - found.start))


def _words(pair: Pair, method: Method) -> Steps[Scores]:
    """The text's side of one of captum's methods."""
    if isinstance(method, (LayerIntegratedGradients, LayerGradCam)):
        layer = _from_end(pair.model.text, method.back)
        bare = embedded_words(pair)[1] if isinstance(method, LayerIntegratedGradients) else None
        tokens, gap = yield from _layer_scores(pair, "text", layer, method, bare)
        # In a layer the start and end tokens hold what they have read of the words, so that they have their part.
        values = _of_words(pair, tokens) if gap is None else _array(tokens[: len(pair.pieces)])
        return _finished(values, f"tokens entering layer {pair.model.text.layer_name(layer)}", gap)
    words, bare = embedded_words(pair)
    function = of_words(pair)
    if isinstance(method, Occlusion):
        starts = range(pair.words.start, pair.words.stop, WORDS_AT_ONCE)
        regions = [(slice(at, min(at + WORDS_AT_ONCE, pair.words.stop)), slice(None)) for at in starts]
        found = yield from occlusion(function, words, bare, (1, words.shape[-1]), regions)
        return _finished(_of_words(pair, found.values[0, :, 0]))
    found = yield from _path(function, method, words, [bare])
    return _finished(_of_words(pair, found.values[0].sum(-1)), gap=(found.gap, found.end - found.start))


def _path(
    function: Callable[[Tensor], Tensor], method: Method, x: Tensor, baselines: list[Tensor]
) -> Steps[Attribution]:
    if isinstance(method, GradientShap):
        return (yield from gradient_shap(function, x, torch.cat(baselines), method.samples))
    assert isinstance(method, IntegratedGradients)
    chosen = baselines[BASELINES.index(method.baseline)] if len(baselines) > 1 else baselines[0]
    return (yield from integrated_gradients(function, x, chosen, method.steps))


def _layer_scores(
    pair: Pair, side: Side, layer: int, method: LayerIntegratedGradients | LayerGradCam, bare: Tensor | None
) -> Steps[tuple[Tensor, tuple[float, float] | None]]:
    """(N,) values of the tokens that enter a layer, and the gap of those that are complete; prefix tokens included."""
    own = pair.pixels if side == "vision" else embedded_words(pair)[0]
    function, tokens = of_layer(pair, side, layer), tokens_entering(pair, side, layer, own)
    yield 1
    if isinstance(method, LayerIntegratedGradients):
        assert bare is not None
        start = tokens_entering(pair, side, layer, bare)
        yield 1
        found = yield from integrated_gradients(function, tokens, start, method.steps)
        return found.values[0].sum(-1), (found.gap, found.end - found.start)
    values = tokens.new_zeros(tokens.shape[1], dtype=torch.float32)
    layout = pair.model.vision.layout
    prefix = layout.prefix if isinstance(layout, TokenGrid) else 0
    counted = slice(prefix, tokens.shape[1]) if side == "vision" else pair.words
    values[counted] = yield from grad_cam(function, tokens, counted)
    return values, None


def _from_end(tower: Tower, back: int) -> int:
    if tower.layers == 0:
        raise StudioError(tower.reason or f"The {tower.name} tower has no layers to look at.")
    return max(0, tower.layers - back)


def _finished(values: np.ndarray, layers: str = "", gap: tuple[float, float] | None = None) -> Scores:
    """Signed values as scores; what is not finite is taken out, and said."""
    if not np.isfinite(values[~np.isnan(values)]).all() or np.isnan(values).all():
        return Scores(None, True, layers, "The values are not finite, so nothing is shown.")
    blank = not np.nan_to_num(values).any()
    return Scores(values, True, layers, NOTHING if blank else "", gap)


def _of_words(pair: Pair, tokens: Tensor) -> np.ndarray:
    """Values (n,) of the pieces of a text, NaN where a piece is no word."""
    values = np.full(len(pair.pieces), np.nan)
    values[pair.words] = _array(tokens[pair.words])
    return values


def _array(values: Tensor) -> np.ndarray:
    return values.detach().double().cpu().numpy()


def layers_in_words(tower: Tower, layers: tuple[int, ...]) -> str:
    """Which of a tower's layers, for people: "layer 5 of 0–5", "layers 3–5 of 0–5"."""
    last = tower.layer_name(tower.layers - 1)
    span = tower.layer_name(layers[0])
    if len(layers) > 1:
        span = f"{span}–{tower.layer_name(layers[-1])}"
    return f"layer{'s' if len(layers) > 1 else ''} {span} of 0–{last}"


def by_patch(values: np.ndarray, grid: TokenGrid) -> np.ndarray:
    """Sums (R, C) of pixel values (height, width) over the patches; pixels beyond the last patch were not read."""
    height, width = values.shape[0] // grid.rows, values.shape[1] // grid.cols
    cut = values[: height * grid.rows, : width * grid.cols]
    return cut.reshape(grid.rows, height, grid.cols, width).sum((1, 3))
