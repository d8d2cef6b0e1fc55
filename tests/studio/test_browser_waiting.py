"""Two pages in a real Chromium: a long run waits for that of the other page, says so, and holds up nothing quick."""

import re

from browsing import Studio, opened
from hooked import slow_models
from playwright.sync_api import BrowserContext, expect

from studio.tabs.following import STOPPED_WAITING, place_in_line

UNDER_WAY = re.compile(r"\d+ of \d+ passes")


def open_tab(studio: Studio, name: str) -> None:
    studio.page.get_by_role("tab", name=name, exact=True).click()


def test_a_sweep_waits_for_an_explanation_of_another_page_and_quick_things_do_not(
    studio: Studio, context: BrowserContext, address: str
) -> None:
    status = studio.page.locator("#explain-status")
    open_tab(studio, "Explain")
    studio.page.locator("#explain-prompts textarea").fill("\n".join(f"a photo of a car {at}" for at in range(6)))
    studio.page.locator("#explain-method input").click()
    studio.page.locator("li[role=option][aria-label='Integrated Gradients']").click()
    studio.page.locator("#explain-steps input[type=range]").press("End")
    with opened(context, address) as other:
        open_tab(other, "Sparsity")
        expect(other.page.locator("#sparsity-grids table").first).to_be_visible()
        waiting, swept = other.page.locator("#sparsity-sweep-waiting"), other.page.locator("#sparsity-swept")
        # No run of another test, which would be taken up where it was left.
        other.page.locator("#sparsity-template").locator("input, textarea").first.fill("a run that waits, of a {}")
        with slow_models(0.3):
            studio.page.locator("#explain-run").click()
            expect(status).to_contain_text(UNDER_WAY)
            other.page.locator("#sparsity-sweep").click()
            expect(waiting).to_have_text(place_in_line(1))
            open_tab(other, "Compare")
            other.slide("layer", 1)
            other.wait_shown(layer=1)
            expect(status).to_contain_text(UNDER_WAY)
            open_tab(other, "Sparsity")
            expect(waiting).to_have_text(place_in_line(1))
            other.page.locator("#sparsity-sweep-stop").click()
            expect(waiting).to_have_text(STOPPED_WAITING)
            expect(swept).to_have_text("")
            expect(status).to_contain_text(UNDER_WAY)
            other.page.locator("#sparsity-sweep").click()
            expect(waiting).to_have_text(place_in_line(1))
            studio.page.locator("#explain-stop").click()
            expect(status).to_contain_text("Stopped")
        expect(swept).to_contain_text("A readout off the unmodified run")
        expect(waiting).to_have_text("")
