"""Classes in words -> how near each is to the picture, for both models, with what a person should know beside it."""

import html
from dataclasses import dataclass

import torch

from models import LoadedModel, StudioError
from studio.filled import filled_text
from studio.remarks import Remarks, remarks_on
from studio.service import Look

SLOT = "{}"
MAX_PROMPTS = 200
MAX_LENGTH = 2000
SHOWN = 8  # further classes are folded away


@dataclass(frozen=True)
class Prompt:
    """One class as a person wrote it, and the text that the models read."""

    label: str
    text: str


@dataclass(frozen=True)
class Scores:
    """What one model says of P prompts: cosine similarity, probability among them, and remarks, (P,) each."""

    title: str
    cosine: tuple[float, ...]
    probability: tuple[float, ...]
    remarks: tuple[Remarks, ...]


def parse_prompts(classes: str, template: str) -> list[Prompt]:
    """One class a line, or several on one line with commas between; each once.

    Only a bare `{}` of the template is replaced, as plain text; without a template the classes are the prompts.

    Raises:
        StudioError: no class at all, too many or too long ones, or a template without a slot.
    """
    classes, template = filled_text(classes, "Classes"), filled_text(template, "Template")
    parts = classes.splitlines() if "\n" in classes.strip() else classes.split(",")
    labels = list(dict.fromkeys(part.strip() for part in parts if part.strip()))
    template = template.strip()
    if not labels:
        raise StudioError("The list of classes is empty: write at least one, one a line or with commas between.")
    if len(labels) > MAX_PROMPTS:
        raise StudioError(f"{len(labels)} classes are too many: at most {MAX_PROMPTS} are taken, leave some out.")
    slots, longest = template.count(SLOT), max(map(len, labels))
    if max(longest, len(template) + slots * (longest - len(SLOT))) > MAX_LENGTH:
        raise StudioError(f"A class, alone or in the template, is longer than {MAX_LENGTH} characters: shorten it.")
    if template and SLOT not in template:
        raise StudioError(
            f"The template “{template}” has no {SLOT} where the class goes: write one, as in “a photo of a {SLOT}”, "
            "or empty the template."
        )
    return [Prompt(label, template.replace(SLOT, label) if template else label) for label in labels]


def score(look: Look, prompts: list[Prompt]) -> Scores:
    """How near each prompt is to the picture, by the model that looked at it."""
    model: LoadedModel = look.model
    texts = [prompt.text for prompt in prompts]
    embedded = model.encode_text(model.tokenize(texts), normalize=True)
    cosine = (embedded @ look.embedding[0]).float()
    return Scores(
        model.title,
        tuple(cosine.tolist()),
        tuple(torch.softmax(cosine * model.logit_scale, dim=0).tolist()),
        tuple(remarks_on(model.tokenizer, [text]) for text in texts),
    )


def scores_html(prompts: list[Prompt], left: Scores, right: Scores) -> str:
    """Bars of both models, likeliest classes first, as HTML with every text of a person escaped."""
    best = sorted(range(len(prompts)), key=lambda i: -left.probability[i] - right.probability[i])
    rows = [_row(index, prompts[index], (left, right), len(prompts)) for index in best]
    rest = f"<details><summary>{len(rows) - SHOWN} more classes</summary>{''.join(rows[SHOWN:])}</details>"
    keys = "".join(
        f'<span class="zs-key zs-{side}">{html.escape(scores.title)}</span>'
        for side, scores in zip(("left", "right"), (left, right), strict=True)
    )
    alone = (
        '<p class="zs-note">One class alone cannot be ranked: its probability would be 100 % for any picture. '
        "The cosine is what there is to read; add a second class to compare.</p>"
        if len(prompts) == 1
        else '<p class="zs-note">Probabilities are among these classes only.</p>'
    )
    shown = "".join(rows[:SHOWN]) + (rest if rows[SHOWN:] else "")
    return f'<div class="zs"><div class="zs-keys">{keys}</div>{shown}{alone}</div>'


def message_html(message: str) -> str:
    """A sentence in place of bars, escaped."""
    return f'<div class="zs"><p class="zs-note" role="status">{html.escape(message)}</p></div>'


def _row(index: int, prompt: Prompt, both: tuple[Scores, Scores], count: int) -> str:
    bars = "".join(_bar(side, scores, index, count) for side, scores in zip(("left", "right"), both, strict=True))
    warnings = "".join(f'<div class="zs-warn">{html.escape(text)}</div>' for text in _warnings(index, both))
    label = f'<div class="zs-label" title="{html.escape(prompt.text, quote=True)}">{html.escape(prompt.label)}</div>'
    return f'<div class="zs-row">{label}{bars}{warnings}</div>'


def _bar(side: str, scores: Scores, index: int, count: int) -> str:
    """One bar: probability among several classes; the cosine's place between 0 and 1 for one alone."""
    cosine, probability = scores.cosine[index], scores.probability[index]
    width = max(cosine, 0.0) if count == 1 else probability
    best = " zs-best" if count > 1 and probability == max(scores.probability) else ""
    figure = "" if count == 1 else f"<b>{100 * probability:.0f} %</b>"
    return (
        f'<div class="zs-bar zs-{side}"><i style="width:{100 * width:.1f}%"></i></div>'
        f'<div class="zs-num{best}">{figure}<span title="cosine similarity">cos {_signed(cosine)}</span></div>'
    )


def _signed(value: float) -> str:
    """Two digits with a true minus sign, and no minus zero."""
    return f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def _warnings(index: int, both: tuple[Scores, Scores]) -> list[str]:
    """What a person should know of this prompt; said once where both models agree."""
    said: dict[str, list[str]] = {}
    for scores in both:
        for clause in scores.remarks[index].clauses:
            said.setdefault(clause, []).append(scores.title)
    return [text if len(titles) == 2 else f"{titles[0]}: {text}" for text, titles in said.items()]
