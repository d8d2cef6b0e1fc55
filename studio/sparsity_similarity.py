"""What sparsity does to what a model says: the similarity to each class, as it is and with the model run so."""

import html
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from PIL import Image

from models import StudioError
from studio.remarks import remarks_on
from studio.service import Look, Service
from studio.sparsity import RULE_MEANS, RULES, Asked, Rule, read_out, run_with
from studio.sparsity_sides import Controls, Side, settings_words, sides_of
from studio.strip import Table
from studio.upload import Upload
from studio.zeroshot import Prompt, parse_prompts

COLUMNS = ("model", "class", "run", "cosine", "probability", "message")


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


@dataclass(frozen=True)
class Answered:
    """The answers so far.

    Attributes:
        shown: tables of all models, as HTML.
        table: the same for those who count on.
        said: how far it is, "" at the end.
    """

    shown: str
    table: Table
    said: str


def answers_shown(service: Service, upload: Upload, names: tuple[str, str], controls: Controls) -> Iterator[Answered]:
    """What both models say of the typed classes with each rule, after each run; nothing where neither has such maps.

    Raises:
        StudioError: classes that cannot be read, or settings that make no sense for either model.
    """
    prompts = parse_prompts(controls.classes, controls.template)
    sides = sides_of(service, upload, names, controls, None)
    asked = [(side.look, side.asked) for side in sides if side.look is not None and _has_maps(side, controls.at)]
    words = settings_words(sides, controls, "intervention", layer=False)
    caption = f"Similarity to each class, with the model run as changed; random keys are one fixed draw. {words}"
    done: dict[int, Answers] = {}
    for at, (look, changed) in enumerate(asked):
        for answers in answers_of(look, upload.image, prompts, changed, RULES):
            done[at] = answers
            count, found = len(answers.runs), list(done.values())
            ended = at + 1 == len(asked) and count == len(RULES)
            said = "" if ended else f"{answers.title}: run {count} of {len(RULES)} …"
            yield Answered(answers_html(prompts, found, caption), answers_table(prompts, found), said)


def _has_maps(side: Side, layer: int) -> bool:
    """Whether there is anything to run; the panel says why there is not."""
    try:
        return side.look is not None and read_out(side.look, side.asked).maps(layer) is not None
    except StudioError:
        return False


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


def answers_table(prompts: list[Prompt], sides: list[Answers]) -> Table:
    """The numbers of the same; no probability of one class alone."""
    rows: list[tuple[str | float | None, ...]] = []
    for side in sides:
        for run in side.runs:
            name = _run_name(run.rule)
            if run.message:
                rows.append((side.title, "", name, None, None, run.message))
                continue
            chances = run.probability if len(run.probability) > 1 else (None,) * len(prompts)
            for prompt, cosine, chance in zip(prompts, run.cosine, chances, strict=True):
                rows.append((side.title, prompt.label, name, cosine, chance, ""))
    return Table("answers", COLUMNS, tuple(rows))


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
    return html.escape(_run_name(rule))


def _run_name(rule: Rule) -> str:
    return "as it is" if rule == "softmax" else rule


def _cell(run: Answer, at: int) -> str:
    if run.message:
        return "<td>–</td>"
    best = " class='sg-best'" if run.probability[at] == max(run.probability) else ""
    cosine = f"{round(run.cosine[at], 2) + 0.0:.2f}".replace("-", "−")
    chance = f"{100 * run.probability[at]:.0f} % " if len(run.probability) > 1 else ""
    return f"<td{best}>{chance}<span>cos {cosine}</span></td>"
