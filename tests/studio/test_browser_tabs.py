"""Ten tabs of one browser, each with a picture, a layer and an order of the models of its own."""

import json
from urllib.parse import urlencode

from browsing import Studio
from playwright.sync_api import BrowserContext, expect

from studio.examples import load_gallery

TABS = 10
MODELS = ("clip-scenes", "diffclip-scenes")


def test_ten_tabs_of_one_browser_show_what_each_was_asked_for(context: BrowserContext, address: str) -> None:
    gallery = load_gallery()
    wanted = [(gallery[tab].token, MODELS[tab % 2], MODELS[1 - tab % 2], tab % 3 + 1) for tab in range(TABS)]
    tabs = [Studio(context.new_page()) for _ in wanted]
    try:
        # All are on their way before the first has come.
        for studio, (token, left, right, layer) in zip(tabs, wanted, strict=True):
            link = urlencode({"picture": token, "left": left, "right": right, "layer": layer})
            studio.page.goto(f"{address}?{link}", wait_until="commit")
        for studio, (token, left, right, layer) in zip(tabs, wanted, strict=True):
            studio.wait_shown(token=token, left=left, right=right, layer=layer)
        pictures = set()
        for studio, (token, left, right, layer) in zip(tabs, wanted, strict=True):
            studio.page.bring_to_front()
            studio.viewer.locator(".stage").press("[")
            studio.wait_shown(token=token, left=left, right=right, layer=layer - 1)
            studio.wait_numbers()
            expect(studio.viewer.locator(".line")).to_contain_text(f"Layer {layer - 1} ")
            pictures.add(json.dumps(studio.patch_colours(0, 4, 4).tolist()))
        assert len(pictures) == TABS, "every tab draws its own picture"
    finally:
        for studio in tabs:
            studio.page.close()
