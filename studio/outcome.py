"""Before and after an intervention in words and bars, as HTML with every text of a person escaped."""

import html
from collections.abc import Sequence

import torch

from studio.intervening import Outcome, Refused
from studio.remarks import remarks_on
from studio.strip import Table
from studio.zeroshot import Prompt

SHOWN = 8  # further classes are folded away
SIDES = ("left", "right")
NO_EDIT = "no edit"
ROUNDING = 1e-6  # of a cosine in float32, which the rows of a batch do not share
COLUMNS = (
    *("model", "title", "edits", "class", "text"),
    *("cosine_before", "cosine_after", "probability_before", "probability_after"),
    *("rank_before", "rank_after", "picture_before_after", "text_before_after"),
)


def outcome_html(prompts: list[Prompt], outcomes: Sequence[Outcome | Refused], problem: str = "") -> str:
    """One card a model: its edits, how far its embeddings moved, and each class before and after.

    Args:
        prompts: the classes, which stand in the same order in all cards.
        outcomes: of the left and the right model.
        problem: what is wrong with the classes, where there are none.
    """
    order = _order(len(prompts), outcomes)
    cards = "".join(
        _refused(outcome) if isinstance(outcome, Refused) else _card(side, prompts, order, outcome)
        for side, outcome in zip(SIDES, outcomes, strict=True)
    )
    alone = "One class alone cannot be ranked, so its cosine is what there is to read." if len(prompts) == 1 else ""
    notes = [problem or alone or ("Probabilities are among these classes only." if prompts else "")]
    return f'<div class="oc"><div class="oc-cards">{cards}</div>{"".join(map(_note, filter(None, notes)))}</div>'


def ranks_table(prompts: list[Prompt], outcomes: Sequence[Outcome]) -> Table:
    """The numbers of the cards: a line for each model and class; no probability and no rank of one class alone.

    `model` is its place among those that ran, from 0: one model may be there twice, with other edits.
    The last two columns are cosines between the embeddings before and after, of the picture and of the class's text.
    """
    rows: list[tuple[str | float | None, ...]] = []
    for at, outcome in enumerate(outcomes):
        named = (at, outcome.model.title, "; ".join(outcome.words) or NO_EDIT)
        if outcome.before.texts is None:
            rows.append((*named, *(None,) * 8, outcome.moved, None))
            continue
        before, after = probabilities(outcome)
        for index, (prompt, moved) in enumerate(zip(prompts, outcome.texts_moved, strict=True)):
            cosines = [float(run.cosine[index]) for run in (outcome.before, outcome.after)]
            places = [rank(run.cosine, index) for run in (outcome.before, outcome.after)]
            ranked = (before[index], after[index], *places)
            placed = ranked if len(prompts) > 1 else (None,) * len(ranked)
            rows.append((*named, prompt.label, prompt.text, *cosines, *placed, outcome.moved, moved))
    return Table("ranks", COLUMNS, tuple(rows))


def message_html(message: str) -> str:
    """A sentence, escaped."""
    return f'<div class="oc">{_note(message)}</div>'


def probabilities(outcome: Outcome) -> tuple[list[float], list[float]]:
    """Softmax over the prompts of cosine times the model's scale, before and after."""
    before, after = (
        torch.softmax(run.cosine * outcome.model.logit_scale, 0).tolist() for run in (outcome.before, outcome.after)
    )
    return before, after


def _order(count: int, outcomes: Sequence[Outcome | Refused]) -> list[int]:
    """Classes that some model finds likely, before or after, come first."""
    top = [0.0] * count
    for outcome in outcomes:
        if isinstance(outcome, Outcome) and outcome.before.texts is not None:
            top = [
                total + max(pair) for total, pair in zip(top, zip(*probabilities(outcome), strict=True), strict=True)
            ]
    return sorted(range(count), key=lambda index: -top[index])


def _card(side: str, prompts: list[Prompt], order: list[int], outcome: Outcome) -> str:
    words = (
        f'<p class="oc-words"><b>Intervention</b> {html.escape(" · ".join(outcome.words))}</p>'
        if outcome.words
        else '<p class="oc-words">No edit is chosen: after is before.</p>'
    )
    moved = f"<dt>picture embedding</dt><dd>{_signed(outcome.moved, 3)}</dd>"
    texts = outcome.texts_moved
    if texts and min(texts) < 1 - 1e-6:
        mean, least = _signed(sum(texts) / len(texts), 3), _signed(min(texts), 3)
        moved += f"<dt>class texts, mean (least)</dt><dd>{mean} ({least})</dd>"
    moved = f'<dl class="oc-moved"><dt class="oc-what">cosine before · after</dt>{moved}</dl>'
    ranks = _ranks(prompts, order, outcome) if outcome.before.texts is not None else ""
    unread = _note(outcome.unread) if outcome.unread else ""
    if ranks:
        clauses = remarks_on(outcome.model.tokenizer, [prompt.text for prompt in prompts]).clauses
        ranks += "".join(_note(f"{clause[0].upper()}{clause[1:]}.") for clause in clauses)
    title = html.escape(outcome.model.title)
    return f'<section class="oc-card oc-{side}"><h4>{title}</h4>{words}{moved}{ranks}{unread}</section>'


def _ranks(prompts: list[Prompt], order: list[int], outcome: Outcome) -> str:
    before, after = probabilities(outcome)
    rows = [
        _row(
            prompts[index],
            (before[index], after[index]) if len(prompts) > 1 else None,
            (float(outcome.before.cosine[index]), float(outcome.after.cosine[index])),
            (rank(outcome.before.cosine, index), rank(outcome.after.cosine, index)),
        )
        for index in order
    ]
    heads = "".join(
        f'<th scope="col">{name}</th>' for name in ("class", "before, after", "probability", "cosine", "rank")
    )
    table = f'<table class="oc-ranks"><thead><tr>{heads}</tr></thead><tbody>{{}}</tbody></table>'
    rest = rows[SHOWN:]
    folded = f"<details><summary>{len(rest)} more classes</summary>{table.format(''.join(rest))}</details>"
    return table.format("".join(rows[:SHOWN])) + (folded if rest else "")


def _row(
    prompt: Prompt, chances: tuple[float, float] | None, cosines: tuple[float, float], ranks: tuple[int, int]
) -> str:
    bars = "".join(
        f'<i class="{name}" style="width:{100 * max(share, 0.0):.1f}%"></i>'
        for name, share in zip(("oc-before", "oc-after"), chances or cosines, strict=True)
    )
    chance = "–" if chances is None else _arrow(*(f"{100 * share:.0f} %" for share in chances))
    place = "–" if chances is None else _arrow(*map(str, ranks))
    label = f'<th scope="row" title="{html.escape(prompt.text, quote=True)}">{html.escape(prompt.label)}</th>'
    numbers = f"<td>{chance}</td><td>{_arrow(*map(_signed, cosines))}</td><td>{place}</td>"
    return f'<tr>{label}<td class="oc-bars" aria-hidden="true">{bars}</td>{numbers}</tr>'


def _arrow(before: str, after: str) -> str:
    """Both values, the second one strong where it differs."""
    return f"{before} → <b>{after}</b>" if before != after else f"{before} → {after}"


def rank(cosine: torch.Tensor, index: int) -> int:
    """The place of a class among cosines (P,), from 1; what differs by rounding alone, as two spellings of a word that
    the model reads alike, has the same place.
    """
    return 1 + int((cosine > cosine[index] + ROUNDING).sum())


def _refused(refused: Refused) -> str:
    return f'<section class="oc-card"><h4>{html.escape(refused.title)}</h4>{_note(refused.reason)}</section>'


def _note(message: str) -> str:
    return f'<p class="oc-note" role="status">{html.escape(message)}</p>'


def _signed(value: float, digits: int = 2) -> str:
    """With a true minus sign, and no minus zero."""
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")
