"""What tokens of a prompt read in the text tower: token × token maps of one layer, and their values for the browser.

Maps are those of the run as it is. Raw maps of a text tower know nothing of any picture.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models import LoadedModel, Recording, StudioError, attention_maps, record
from models.layout import TokenSequence
from models.loaded import Tower
from models.tokenizer import DomainTokenizer
from models.vocabulary import ClipTokenizer, JsonTokenizer
from studio.filled import filled_text
from studio.remarks import remarks_on
from studio.token_maps import TokenMaps, TokenPanel, TokenRow

MOST_PROMPTS = 3
MAX_LENGTH = 2000


@dataclass(frozen=True)
class TextRun:
    """What one model's text tower did with P prompts.

    Attributes:
        model: the model.
        ids: token ids (P, context).
        recording: of its text tower.
        readout: the position (P,) that each embedding is made from.
        embeddings: (P, E), of length 1.
    """

    model: LoadedModel
    ids: Tensor
    recording: Recording
    readout: tuple[int, ...]
    embeddings: Tensor


def parse_texts(text: str) -> list[str]:
    """Up to three prompts, one a line, as they are written; empty lines are left out.

    Raises:
        StudioError: no prompt, too many, or one that is too long.
    """
    lines = filled_text(text, "Prompts").splitlines()
    prompts = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not prompts:
        raise StudioError("There is no prompt: write one, or up to three, one a line.")
    if len(prompts) > MOST_PROMPTS:
        raise StudioError(f"{len(prompts)} prompts are too many side by side: leave {MOST_PROMPTS} of them.")
    if max(map(len, prompts)) > MAX_LENGTH:
        raise StudioError(f"A prompt is longer than {MAX_LENGTH} characters: shorten it.")
    return prompts


def run_text(model: LoadedModel, prompts: Sequence[str]) -> TextRun:
    """Run the text tower once over all prompts and record it.

    Raises:
        StudioError: no tokenizer for this vocabulary, or a text tower without attention; the sentence says so.
    """
    ids = model.tokenize(list(prompts))
    with record(model.text) as recording:
        embeddings = model.encode_text(ids, normalize=True)
    layout = model.text.layout
    assert isinstance(layout, TokenSequence)
    return TextRun(model, ids, recording, tuple(layout.readout(ids).tolist()), embeddings)


def run_or_why(model: LoadedModel, prompts: Sequence[str]) -> TextRun | tuple[str, str]:
    """What the text tower did, or (title, why it cannot be read)."""
    try:
        return run_text(model, prompts)
    except StudioError as error:
        return model.title, str(error)


def token_labels(model: LoadedModel, text: str, ids: Tensor) -> list[str]:
    """How a person reads each position of a row of ids (context,): pieces, start and end, and what fills up."""
    tokenizer, numbers = model.tokenizer, ids.tolist()
    if isinstance(tokenizer, JsonTokenizer):
        return [_shown(tokenizer.bpe.id_to_token(number) or f"#{number}") for number in numbers]
    if isinstance(tokenizer, DomainTokenizer):
        special = {0: "<pad>", tokenizer.start_id: "<start>", tokenizer.end_id: "<end>"}
        return [special.get(number) or _shown(tokenizer.bpe.decode([number])) for number in numbers]
    if isinstance(tokenizer, ClipTokenizer) and tokenizer.rule.truncation == "cut_end":
        # Its pieces always name an end; a row that lost its end with the tail holds one piece more in its place.
        tokenizer = replace(tokenizer, context=tokenizer.context + 1)
    pieces = tokenizer.pieces(text)[: len(numbers)]
    return [*map(_shown, pieces), *["<pad>"] * (len(numbers) - len(pieces))]


def panel_of(run: TextRun, prompts: Sequence[str], at: int, layer: int) -> TokenPanel:
    """The maps of one prompt in one layer; what cannot be shown says why.

    Positions that neither the readout nor anything before it can see are left out, and that is said.
    """
    model, text = run.model, prompts[at]
    try:
        tower = model.text
        if not 0 <= layer < tower.layers:
            raise StudioError(f"The text tower of {model.title} has layers 0–{tower.layers - 1}: choose among them.")
        projections = run.recording[layer]
        maps = attention_maps(projections)
    except StudioError as error:
        return TokenPanel(model.title, at, text, message=str(error))
    positions = maps.a1.shape[-1]
    masked = masked_keys(projections.mask, at, positions)
    readout = min(run.readout[at], positions - 1)
    shown = _shown_positions(masked, readout)
    labels = token_labels(model, text, run.ids[at])
    # A tower that appends its own readout token has one position more than there are ids.
    labels += ["<cls>"] * (positions - len(labels))
    subtracted = maps.subtracted
    left = f"Positions {shown}–{positions - 1} are left out: nothing that is shown can read them."
    return TokenPanel(
        model.title,
        at,
        text,
        tuple(labels[:shown]),
        readout,
        _mean_first(maps.a1[at : at + 1, :, :shown, :shown]),
        None if subtracted is None else _mean_first(subtracted[at : at + 1, :, :shown, :shown].contiguous()),
        masked[:shown, :shown].numpy().copy(),
        tuple(warnings_of(model, text)),
        left if shown < positions else "",
    )


def warnings_of(model: LoadedModel, text: str) -> list[str]:
    """What a person should know of a prompt as this model reads it: words it never saw, and a tail that is lost."""
    remarks = remarks_on(model.tokenizer, [text])
    warnings = [f"{clause[0].upper()}{clause[1:]}." for clause in remarks.clauses]
    if remarks.cut and model.tokenizer.rule.truncation == "cut_end":
        warnings.append("Its end token was cut off with the tail, as this checkpoint's own code does.")
    return warnings


def masked_keys(mask: Tensor | None, at: int, positions: int) -> Tensor:
    """True (N, N) where a query cannot see a key, by the additive mask of the run and the row `at` of its batch."""
    if mask is None:
        return torch.zeros(positions, positions, dtype=torch.bool)
    blocked = torch.isneginf(mask.float())
    # In front of (queries, keys) there may be axes of batch, heads and maps; the mask is the same for all heads.
    while blocked.dim() > 2:
        blocked = blocked[at if blocked.dim() == 5 and blocked.shape[0] > 1 else 0]
    return blocked.expand(positions, positions)


def readout_words(tower: Tower) -> str:
    """Which position the embedding is made from, for the caption."""
    layout = tower.layout
    pool = layout.pool if isinstance(layout, TokenSequence) else "argmax"
    name = {
        "argmax": "the end token",
        "eos": "the end token",
        "first": "the first position",
        "last": "the last position",
    }
    sight = (
        "causal: a token reads itself and what stands before it"
        if _causal(tower)
        else "not causal: every token reads all"
    )
    return f"read out at {name[pool]}; {sight}"


def token_maps(runs: Sequence[TextRun | tuple[str, str]], prompts: Sequence[str], layer: int) -> TokenMaps:
    """The maps of one layer: a row for each model, a panel for each prompt.

    Args:
        runs: of the models, or (title, why it has none).
        prompts: P of them.
        layer: 0-based; each model says where it has no such layer.
    """
    rows = []
    for run in runs:
        if isinstance(run, TextRun):
            panels = tuple(panel_of(run, prompts, at, layer) for at in range(len(prompts)))
            rows.append(TokenRow(run.model.title, readout_words(run.model.text), panels))
        else:
            rows.append(TokenRow(run[0], message=run[1]))
    return TokenMaps(layer, tuple(prompts), tuple(rows))


def text_value(maps: TokenMaps, take: str = "", taken: Sequence[int] = ()) -> dict[str, Any]:
    """The value of `studio.viewer.matrix`.

    Args:
        maps: what is shown.
        take: the name by which it can be taken away, "" where it cannot.
        taken: which rows that name stands for.
    """
    rows = [
        {"title": row.title, "said": row.said, "panels": [_sent(panel) for panel in row.panels]}
        | ({"message": row.message} if row.message else {})
        for row in maps.rows
    ]
    return {"layer": maps.layer, "prompts": list(maps.prompts), "rows": rows, "take": take, "taken": list(taken)}


def _sent(panel: TokenPanel) -> dict[str, Any]:
    """A panel as the browser unpacks it."""
    sent = {"model": panel.model, "prompt": panel.prompt, "text": panel.text, "message": panel.message}
    if panel.first is None or panel.masked is None:
        return sent
    return sent | {
        "tokens": list(panel.tokens),
        "readout": panel.readout,
        "heads": panel.heads,
        "differential": panel.differential,
        "first": _text(panel.first.astype("<f4")),
        "subtracted": "" if panel.subtracted is None else _text(panel.subtracted.astype("<f4")),
        "masked": _text(panel.masked.astype("u1")),
        "warnings": list(panel.warnings),
        "left": panel.left,
    }


def _causal(tower: Tower) -> bool:
    return isinstance(tower.layout, TokenSequence) and tower.layout.causal


def _shown_positions(masked: Tensor, readout: int) -> int:
    """How many positions from the first are shown: up to the readout if nothing there can see further, else all."""
    end = readout + 1
    return end if bool(masked[:end, end:].all()) else len(masked)


def _mean_first(maps: Tensor) -> np.ndarray:
    """(1, H, N, N) -> (1 + H, N, N) in float32: the mean over heads, then each head."""
    return torch.cat([maps.mean(1), maps[0]]).float().numpy()


def _text(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")


def _shown(piece: str) -> str:
    """A piece without the marks of word borders that vocabularies use; a dot for one that shows nothing."""
    return piece.replace("</w>", "").replace("▁", " ").replace("Ġ", " ").strip() or "·"
