"""Numbers under the panels that did not come, in a real Chromium: that is said, not kept, and they are asked again."""

import re
from pathlib import Path
from typing import Any

import pytest
from browsing import WAIT, Studio, served_with_room
from playwright.sync_api import BrowserContext, expect

from studio import reading
from studio.examples import load_examples

CROWD = "Many people ask for maps at this moment: move the control again in a few seconds."


def wait_failed(studio: Studio) -> None:
    studio.page.wait_for_selector("#viewer [data-numbers='failed']", state="attached", timeout=WAIT)


def test_numbers_that_failed_are_said_and_asked_for_again_by_the_next_change(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages, answered, asked = studio.viewer.locator(".message"), reading._answered, []
    runs: list[str] = []
    studio.page.on("request", lambda request: runs.append(request.url) if "queue/join" in request.url else None)
    studio.wait_numbers()

    def answers(answer: dict[str, Any]) -> None:
        monkeypatch.setattr(reading, "_answered", lambda *_: asked.append(1) or answer)

    answers({"error": CROWD})
    studio.click(0, 0.3, 0.3)
    expect(messages).to_have_text([CROWD] * 4)
    wait_failed(studio)
    assert studio.viewer.locator('.panel tr[data-measure="entropy"] td').first.inner_text() == "–"
    studio.page.set_viewport_size({"width": 1200, "height": 900})
    studio.page.wait_for_timeout(200)
    assert len(asked) == 4, "one question a panel, and none for a page that only changed its size"
    # The server has let go of the run and has no room for it: it is asked to run once, and that is all.
    answers({"evicted": True})
    studio.check("scale", "raw")
    expect(messages).to_have_text([re.compile("let go of this run, so there are no numbers")] * 4)
    studio.page.wait_for_timeout(600)
    assert (len(asked), len(runs)) == (12, 1)
    monkeypatch.setattr(reading, "_answered", answered)
    studio.check("scale", "uniform")
    expect(messages).to_have_text([""] * 4)
    assert re.fullmatch(r"\d\.\d\d", studio.fact(0, "entropy"))
    assert re.fullmatch(r"\d\.\d\d", studio.fact(3, "entropy", column=1))


def test_a_connection_that_was_lost_is_said_and_any_change_asks_again_when_it_is_back(studio: Studio) -> None:
    studio.wait_numbers()
    messages = studio.viewer.locator(".message")
    studio.page.context.set_offline(True)
    try:
        studio.click(0, 0.3, 0.3)
        expect(messages).to_have_text([re.compile("The server gave no numbers; any change asks again")] * 4)
        studio.slide("layer", 1)
        expect(messages).to_have_text([re.compile("no answer for this layer; any change asks again")] * 4)
    finally:
        studio.page.context.set_offline(False)
    studio.check("scale", "raw")
    expect(messages).to_have_text([""] * 4)
    studio.click(0, 0.3, 0.3)
    assert re.fullmatch(r"\d\.\d\d", studio.fact(0, "entropy"))


def test_a_run_that_was_let_go_runs_again_for_the_numbers_of_a_layer_that_the_page_has(
    context: BrowserContext, folders: tuple[Path, Path]
) -> None:
    scenes = load_examples()
    with served_with_room(folders, 1) as url:
        first, second = Studio(context.new_page()), Studio(context.new_page())
        for studio in (first, second):
            studio.page.goto(url)
            studio.wait_shown(token=scenes[0].token)
            studio.wait_numbers()
        second.page.locator("#scenes button").nth(1).click()
        second.wait_shown(token=scenes[1].token)
        second.wait_numbers()
        first.click(0, 0.3, 0.3)
        expect(first.viewer.locator(".line")).to_contain_text("query patch")
        assert re.fullmatch(r"\d\.\d\d", first.fact(0, "entropy"))
        assert re.fullmatch(r"\d\.\d\d", first.fact(3, "entropy"))
        expect(first.viewer.locator(".message")).to_have_text([""] * 4)
        for studio in (first, second):
            studio.page.close()
