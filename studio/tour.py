"""A short tour: what the maps are, and what they are not."""

import html
from dataclasses import dataclass

import gradio as gr


@dataclass(frozen=True)
class Stop:
    """One stop of the tour: a heading, what is so, and what to try on the page. All plain text."""

    title: str
    text: str
    attempt: str


STOPS = (
    Stop(
        "A is what CLIP reads",
        "Each row of A says from which tokens one token takes its values: a softmax, so it is never negative and sums "
        "to 1. CLIP has this one map and subtracts nothing. Of two models only A and A1 are the same kind of thing.",
        "Click a patch: the row shown is now that patch's, and no longer the CLS token's.",
    ),
    Stop(
        "A1 and A2 are two readings",
        "A differential head is made of two: A1 and A2, each a softmax of its own. What multiplies the values is "
        "A1 − λA2. The paper calls A2 noise; no training signal says so. A2 is whatever helped when it was subtracted.",
        "Look where λA2 is large: on the ground, on the object, or everywhere alike?",
    ),
    Stop(
        "λ is one number a layer",
        "λ says how much of A2 is subtracted, the same for all heads and every picture. It was learned and may exceed "
        "1. Rows of A1 − λA2 sum to 1 − λ. DIFF V2 differs: there each token and head has its own λ.",
        "Open λ trajectories: which layers moved away from λ_init, and when?",
    ),
    Stop(
        "The signed map",
        "A1 − λA2 has a sign: zero is neutral, negative means that a token's values are taken away. So it needs a "
        "colour scale about zero. A norm of each head follows and removes the size of its output (only DIFF V2 has "
        "none): brightness means nothing from row to row or model to model, shape and sign do.",
        "Change the scale to row-normalised before you compare two rows.",
    ),
    Stop(
        "Readout or intervention",
        "Another α or source recomputes a map from the unmodified run: a readout, the model did not use it. "
        "An intervention runs the model as changed, so its embedding and scores change too. And raw maps of the "
        "picture do not depend on the text: for a prompt there is relevance, under Explain.",
        "Set α to 2 on Sparsity, and then choose intervention: only that changes what the models say of the classes.",
    ),
    Stop(
        "Why there are controls",
        "Subtracting any positive map makes the rest look sparser and sharper. Beside each number that suggests "
        "cleaning stands the same number with A2 shuffled over the patches: only what goes beyond it belongs to A2. "
        "One picture, and one trained pair of models, is an anecdote.",
        "Compare a number with its control on three scenes and on a photograph.",
    ),
)


def tour_html() -> str:
    """The stops as a list of cards."""
    cards = "".join(
        f"<li><h3>{html.escape(stop.title)}</h3><p>{html.escape(stop.text)}</p>"
        f'<p class="try"><b>Try</b> {html.escape(stop.attempt)}</p></li>'
        for stop in STOPS
    )
    return f'<ol class="tour">{cards}</ol>'


_CSS = """
.tour { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: 10px 26px;
  margin: 0; padding: 4px 2px; list-style: none; counter-reset: stop; font-size: 12.5px; line-height: 1.45; }
.tour li { counter-increment: stop; padding-left: 30px; position: relative; }
.tour li::before { content: counter(stop); position: absolute; left: 0; top: 0; width: 20px; height: 20px;
  border-radius: 50%; text-align: center; line-height: 20px; font-weight: 700;
  background: var(--studio-chosen); color: var(--studio-accent); }
.tour h3 { margin: 0 0 3px; font-size: 13px; font-weight: 700; color: var(--body-text-color); }
.tour p { margin: 0 0 4px; color: var(--body-text-color); }
.tour .try { color: var(--studio-dim); }
@media (max-width: 1040px) { .tour { grid-template-columns: minmax(0, 1fr); } }
.tour .try b { color: var(--studio-accent); margin-right: 4px; }
"""


def guided_tour() -> None:
    """Make the tour, folded, where the page is open."""
    with gr.Accordion("A short tour: what these maps are, and what they are not", open=False, elem_id="tour"):
        gr.HTML(tour_html(), css_template=_CSS, apply_default_css=False)
