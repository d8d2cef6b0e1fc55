"""Stop beside the duel, the sweep of λ and the segmentation in a real Chromium: each run ends at its next step."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
from browsing import Studio
from playwright.sync_api import expect

from studio.tabs import duel, intervene, sparsity


@dataclass(frozen=True)
class Run:
    """A long run as its page shows it: where its steps come from, its buttons, and what is told of it."""

    tab: str
    module: ModuleType
    steps: str
    begin: str
    stop: str
    status: str
    told: str
    stopped: str
    unfinished: str


RUNS = {
    "duel": Run(
        "Explain", duel, "drained", "#duel-run", "#duel-stop", "#duel-status", r"[1-9]\d* of \d+ passes",
        "Stopped.", "#duel-deletion .js-plotly-plot",
    ),
    "sweep": Run(
        "Intervene", intervene, "swept_models", "#sweep-run", "#sweep-stop", "#sweep-words", r"run \d+ of \d+",
        "Stopped; what was swept so far is let go.", "#sweep-right-classes .js-plotly-plot",
    ),
    "segmentation": Run(
        "Sparsity", sparsity, "segment_shown", "#sparsity-segment", "#sparsity-stop", "#sparsity-segmented",
        r"\d+ of \d+ …", "Stopped.", "#sparsity-segments-right .panel:nth-child(7)",
    ),
}  # fmt: skip


def watched(steps: Callable[..., Iterator[Any]], made: list[Any], closed: list[bool]) -> Callable[..., Iterator[Any]]:
    """The same steps as of a larger model, so that there is something to stop; they are noted, and so is their end."""

    def slower(*given: Any) -> Iterator[Any]:
        try:
            for step in steps(*given):
                time.sleep(0.4)
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
    page.locator(run.begin).click()
    expect(page.locator(run.status)).to_contain_text(re.compile(run.told))
    assert not closed
    page.locator(run.stop).click()
    expect(page.locator(run.status)).to_have_text(run.stopped)
    assert closed == [True]
    count = len(made)
    page.wait_for_timeout(1500)  # in which three more steps would be made
    assert len(made) == count
    expect(page.locator(run.status)).to_have_text(run.stopped)
    expect(page.locator(run.unfinished)).to_have_count(0)
