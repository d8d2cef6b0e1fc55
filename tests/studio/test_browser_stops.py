"""Stop beside the duel, the sweep of λ, the segmentation and the answers in a real Chromium: each run ends at once."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
from browsing import Studio
from playwright.sync_api import expect

from studio.tabs import duel, intervene, sparsity, sparsity_answers


@dataclass(frozen=True)
class Run:
    """A long run as its page shows it: where its steps come from, its buttons, and what is told of it.

    `text` is where a text is written that no run had before; "" is a run of which nothing is kept when it is left.
    """

    tab: str
    module: ModuleType
    steps: str
    begin: str
    stop: str
    status: str
    told: str
    stopped: str
    unfinished: str
    text: str = ""


RUNS = {
    "duel": Run(
        "Explain", duel, "drained", "#duel-run", "#duel-stop", "#duel-status", r"[1-9]\d* of \d+ passes",
        "Stopped.", "#duel-deletion .js-plotly-plot", "#duel-text",
    ),
    "sweep": Run(
        "Intervene", intervene, "swept_models", "#sweep-run", "#sweep-stop", "#sweep-words", r"run \d+ of \d+",
        intervene.STOPPED, "#sweep-right-classes .js-plotly-plot", "#intervene-template",
    ),
    "segmentation": Run(
        "Sparsity", sparsity, "segment_shown", "#sparsity-segment", "#sparsity-stop", "#sparsity-segmented",
        r"\d+ of \d+ …", "Stopped.", "#sparsity-segments-right .panel:nth-child(7)", "#sparsity-template",
    ),
    "answers": Run(
        "Sparsity", sparsity_answers, "answers_shown", "#sparsity-mode input[value=intervention]",
        "#sparsity-answers-stop", "#sparsity-answering", r"run \d of \d …", "Stopped.",
        "#sparsity-answers div:nth-child(2) > table",
    ),
}  # fmt: skip


def watched(steps: Callable[..., Iterator[Any]], made: list[Any], closed: list[bool]) -> Callable[..., Iterator[Any]]:
    """The same steps as of a larger model, so that there is something to stop; they are noted, and so is their end."""

    def slower(*given: Any) -> Iterator[Any]:
        try:
            for step in steps(*given):
                time.sleep(0.3)
                made.append(step)
                yield step
        finally:
            closed.append(True)

    return slower


@pytest.mark.parametrize("name", RUNS)
def test_stop_ends_the_run_at_its_next_step_and_it_says_so(
    shared_studio: Studio, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    run, page = RUNS[name], shared_studio.page
    made, closed = list[Any](), list[bool]()
    monkeypatch.setattr(run.module, run.steps, watched(getattr(run.module, run.steps), made, closed))
    page.get_by_role("tab", name=run.tab, exact=True).click()
    if run.text:
        page.locator(run.text).locator("input, textarea").first.fill("a run to be stopped, of a {}")
    page.locator(run.begin).click()
    expect(page.locator(run.status)).to_contain_text(re.compile(run.told))
    assert not closed
    page.locator(run.stop).click()
    expect(page.locator(run.status)).to_have_text(run.stopped)
    assert not closed, "it is left so that it can go on"
    count = len(made)
    page.wait_for_timeout(900)  # in which three more steps would be made
    assert len(made) == count
    expect(page.locator(run.status)).to_have_text(run.stopped)
    expect(page.locator(run.unfinished)).to_have_count(0)
