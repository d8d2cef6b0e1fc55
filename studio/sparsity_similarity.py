"""What sparsity does to what a model says: the similarity to each class, as it is and with the model run so."""

import html
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from PIL import Image

from models import StudioError
from studio.remarks import remarks_on
from studio.service import Look
from studio.sparsity import RULE_MEANS, Asked, Rule, run_with
from studio.zeroshot import Prompt


@dataclass(frozen=True)
class Answer:
    """What one run says of P classes, or why it could not be made.

    Attributes:
        rule: what took the place of softmax.
        cosine, probability: (P,); none where there is a `message`.
        message: why there is no run, "" where there is one.
    """

    rule: Rule
    cosine: tuple[float, ...]
    probability: tuple[float, ...]
    message: str = ""


@dataclass(frozen=True)
class Answers:
    """The runs of one model, the model as it is first, and what to know of the prompts as it reads them."""

    title: str
    runs: tuple[Answer, ...]
    remarks: tuple[str, ...]


def answers_of(
    look: Look, image: Image.Image, prompts: list[Prompt], asked: Asked, rules: tuple[Rule, ...]
) -> Iterator[Answers]:
    """Run the model with each rule; the answers so far come after each run.

    "softmax" stands for the model as it is, with its own source of scores; it is not run again.
    """
    model = look.model
    texts = model.encode_text(model.tokenize([prompt.text for prompt in prompts]), normalize=True)
    remarks = tuple(remarks_on(model.tokenizer, [prompt.text for prompt in prompts]).clauses)
    runs: tuple[Answer, ...] = ()
    for rule in rules:
        try:
            embedding = look.embedding if rule == "softmax" else run_with(look, image, asked, rule).embedding
        except StudioError as error:
            answer = Answer(rule, (), (), str(error))
        else:
            cosine = (texts @ embedding[0]).float()
            probability = torch.softmax(cosine * model.logit_scale, dim=0)
            answer = Answer(rule, tuple(cosine.tolist()), tuple(probability.tolist()))
        runs = (*runs, answer)
        yield Answers(model.title, runs, remarks)


def answers_html(prompts: list[Prompt], sides: list[Answers], caption: str) -> str:
    """A table a model: classes by rows, runs by columns; every text of a person is escaped."""
    tables = "".join(_table(prompts, side) for side in sides if side.runs)
    return (
        f'<div class="sg"><p class="sg-caption">{html.escape(caption)}</p><div class="sg-tables">{tables}</div></div>'
    )


def _table(prompts: list[Prompt], side: Answers) -> str:
    heads = "".join(
        f'<th scope="col" title="{html.escape(RULE_MEANS[run.rule])}">{_head(run.rule)}</th>' for run in side.runs
    )
    first = side.runs[0].cosine
    order = sorted(range(len(prompts)), key=lambda at: -first[at]) if first else range(len(prompts))
    rows = "".join(
        f'<tr><th scope="row">{html.escape(prompts[at].label)}</th>{"".join(_cell(run, at) for run in side.runs)}</tr>'
        for at in order
    )
    said = [f"{_head(run.rule)}: {html.escape(run.message)}" for run in side.runs if run.message]
    said += [f"{html.escape(side.title)}: {html.escape(clause)}." for clause in side.remarks]
    below = "".join(f'<p class="sg-said">{line}</p>' for line in said)
    return (
        f'<div><table class="sg-words"><caption><b>{html.escape(side.title)}</b></caption>'
        f"<thead><tr><td></td>{heads}</tr></thead><tbody>{rows}</tbody></table>{below}</div>"
    )


def _head(rule: Rule) -> str:
    return "as it is" if rule == "softmax" else html.escape(rule)


def _cell(run: Answer, at: int) -> str:
    if run.message:
        return "<td>–</td>"
    best = " class='sg-best'" if run.probability[at] == max(run.probability) else ""
    cosine = f"{round(run.cosine[at], 2) + 0.0:.2f}".replace("-", "−")
    chance = f"{100 * run.probability[at]:.0f} % " if len(run.probability) > 1 else ""
    return f"<td{best}>{chance}<span>cos {cosine}</span></td>"
