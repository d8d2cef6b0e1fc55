"""Ten tabs of one browser, each with a picture, a layer and an order of the models of its own, and runs in all."""

import json
import re
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from browsing import Studio, opened
from hooked import slow_models
from playwright.sync_api import BrowserContext, Locator, expect

from studio.examples import load_gallery
from studio.tabs.following import STOPPED_WAITING, place_in_line

TABS = 10
BUSY = 8  # of them have a run, more than a browser has connections to one server
MODELS = ("clip-scenes", "diffclip-scenes")
WANTED = [
    (picture.token, MODELS[tab % 2], MODELS[1 - tab % 2], tab % 3 + 1)
    for tab, picture in enumerate(load_gallery()[:TABS])
]
A_PLACE = re.compile(r"waiting for its turn: \d")
UNDER_WAY = re.compile(r"\d+ of \d+ passes")


@pytest.fixture(scope="module")
def tabs(context: BrowserContext, address: str) -> Iterator[list[Studio]]:
    """The tabs; all are on their way before the first has come."""
    tabs = [Studio(context.new_page()) for _ in WANTED]
    for studio, (token, left, right, layer) in zip(tabs, WANTED, strict=True):
        link = urlencode({"picture": token, "left": left, "right": right, "layer": layer})
        studio.page.goto(f"{address}?{link}", wait_until="commit")
    yield tabs
    for studio in tabs:
        studio.page.close()


def press(studio: Studio, button: str) -> None:
    """Press a button of a tab, be it in front or not."""
    studio.page.locator(button).dispatch_event("click")


def explained(studio: Studio) -> Locator:
    """The line that says how far an explanation is."""
    return studio.page.locator("#explain-status")


def test_ten_tabs_of_one_browser_show_what_each_was_asked_for(tabs: list[Studio]) -> None:
    for studio, (token, left, right, layer) in zip(tabs, WANTED, strict=True):
        studio.wait_shown(token=token, left=left, right=right, layer=layer)
    pictures = set()
    for studio, (token, left, right, layer) in zip(tabs, WANTED, strict=True):
        studio.page.bring_to_front()
        studio.viewer.locator(".stage").press("[")
        studio.wait_shown(token=token, left=left, right=right, layer=layer - 1)
        studio.wait_numbers()
        expect(studio.viewer.locator(".line")).to_contain_text(f"Layer {layer - 1} ")
        pictures.add(json.dumps(studio.patch_colours(0, 4, 4).tolist()))
    assert len(pictures) == TABS, "every tab draws its own picture"


def test_with_runs_in_eight_tabs_another_opens_stop_goes_through_and_who_waits_has_its_turn(
    tabs: list[Studio], context: BrowserContext, address: str
) -> None:
    """A browser has six connections to one server; runs that wait for each other may not hold them."""
    first, *others = tabs[:BUSY]
    for studio, (token, *_) in zip((first, *others), WANTED, strict=False):
        studio.wait_shown(token=token)
        press(studio, "role=tab[name='Explain']")
        studio.page.locator("#explain-prompts textarea").fill("a photo of a cat")
    first.page.bring_to_front()
    first.page.locator("#explain-method input").click()
    first.page.locator("li[role=option][aria-label='Integrated Gradients']").click()
    with slow_models(0.4):
        press(first, "#explain-run")
        expect(explained(first)).to_contain_text(UNDER_WAY)
        for studio in others:
            press(studio, "#explain-run")
        for studio in others:
            expect(explained(studio)).to_have_text(A_PLACE)
        others.sort(key=lambda studio: explained(studio).inner_text())
        for before, studio in enumerate(others, 1):
            expect(explained(studio)).to_have_text(place_in_line(before))
        with opened(context, address) as another:
            another.wait_numbers()
        # Pressed again, a run goes to the end of the line.
        press(others[0], "#explain-run")
        expect(explained(others[0])).to_have_text(place_in_line(len(others)))
        expect(explained(others[1])).to_have_text(place_in_line(1))
        for studio in others[3:]:
            press(studio, "#explain-stop")
        for studio in others[3:]:
            expect(explained(studio)).to_have_text(STOPPED_WAITING)
        expect(explained(others[0])).to_have_text(place_in_line(3))
        expect(explained(first)).to_contain_text(UNDER_WAY)
        press(first, "#explain-stop")
        expect(explained(first)).to_contain_text("Stopped")
    for studio in others[:3]:
        expect(explained(studio)).to_contain_text("passes in ")
    for studio in others[3:]:
        expect(explained(studio)).to_have_text(STOPPED_WAITING)
