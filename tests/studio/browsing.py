"""What the browser tests share: one open page with short names for what a person does and sees, and what is true."""

import base64
import io
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import numpy as np
import torch
from PIL import Image
from playwright.sync_api import BrowserContext, Locator, Page

from models import AttentionMaps, LoadedModel, Normalizer, attention_maps, open_picture, record
from studio.examples import load_examples
from studio.service import Service
from studio.ui import build_app, launch_settings

T = TypeVar("T")
# Milliseconds; BROWSER_WAIT gives a busy machine more seconds.
WAIT = 1000 * int(os.environ.get("BROWSER_WAIT", "60"))
# What a tab shows when it is drawn.
TABS = {
    "Compare": "#viewer canvas",
    "Sparsity": "#sparsity-grids table",
    "λ trajectories": "#lambda-chart svg",
    "Explain": "#explain-run",
    "Intervene": "#intervene-maps canvas",
    "Text": "#text-maps canvas",
}


@dataclass
class Studio:
    """One open page, and what went wrong on it."""

    page: Page
    faults: list[str] = field(default_factory=list)

    @property
    def viewer(self) -> Locator:
        return self.page.locator("#viewer")

    def shown(self) -> list:
        """[token, left, right, layer, alpha] of what is drawn."""
        return json.loads(self.viewer.locator("[data-shown]").get_attribute("data-shown") or "[]")

    def wait_shown(self, **wanted: object) -> None:
        """Wait until what is drawn is as wanted, by the names token, left, right, layer, alpha."""
        places = {"token": 0, "left": 1, "right": 2, "layer": 3, "alpha": 4}
        script = """(wanted) => {
          const text = document.querySelector('#viewer [data-shown]')?.dataset.shown;
          return text && wanted.every(([at, value]) => JSON.parse(text)[at] === value); }"""
        self.page.wait_for_function(script, arg=[[places[name], value] for name, value in wanted.items()], timeout=WAIT)

    def wait_numbers(self) -> None:
        """Wait until the numbers under all panels belong to what is drawn."""
        self.page.wait_for_selector("#viewer [data-numbers='shown']", state="attached", timeout=WAIT)

    def choose(self, panel: int, what: str, value: str) -> None:
        """Choose the "kind", "slot" or "model" of a panel."""
        self.viewer.locator(".panel").nth(panel).locator(f"select.{what}").select_option(value)

    def check(self, control: str, value: str) -> None:
        """Choose one of a row of options."""
        self.viewer.locator(f".{control} input[value='{value}']").check(force=True)

    def fact(self, panel: int, measure: str, column: int = 0) -> str:
        self.wait_numbers()
        rows = self.viewer.locator(".panel").nth(panel).locator(f'tr[data-measure="{measure}"] td')
        return rows.nth(column).inner_text()

    def canvas(self, panel: int) -> Locator:
        return self.viewer.locator(".panel canvas").nth(panel)

    def point(self, panel: int, y: float, x: float) -> tuple[float, float]:
        """Page coordinates of a point in fractions of a panel's picture."""
        self.canvas(panel).scroll_into_view_if_needed()
        box = self.canvas(panel).bounding_box()
        assert box is not None
        return box["x"] + x * box["width"], box["y"] + y * box["height"]

    def click(self, panel: int, y: float, x: float) -> None:
        self.page.mouse.click(*self.point(panel, y, x))

    def slide(self, control: str, value: float) -> None:
        set_value(self.viewer.locator(f"input.{control}"), value)

    def pixels(self, panel: int) -> np.ndarray:
        """The canvas (height, width, 3) as it is drawn."""
        return drawn_pixels(self.canvas(panel))

    def patch_colours(self, panel: int, rows: int, cols: int) -> np.ndarray:
        """Colour at each patch's centre (R, C, 3), for a picture that the model saw whole."""
        pixels = self.pixels(panel).astype(int)
        y = ((np.arange(rows) + 0.5) / rows * pixels.shape[0]).astype(int)
        x = ((np.arange(cols) + 0.5) / cols * pixels.shape[1]).astype(int)
        return pixels[np.ix_(y, x)]

    def upload(self, path: Path) -> None:
        """Put another file into the picture field, which holds one already."""
        self.page.locator("#picture").get_by_label(re.compile("remove|clear", re.I)).first.click()
        self.page.locator("#picture input[type=file]").first.set_input_files(path)


@contextmanager
def opened(context: BrowserContext, address: str) -> Iterator[Studio]:
    """A page on the first example scene, closed at the end; what went wrong on it fails who opened it."""
    page = context.new_page()
    studio = Studio(page)
    host = urlsplit(address).netloc

    def check_request(url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob") and parts.netloc != host:
            studio.faults.append(f"a request left the server: {url}")

    page.on("request", lambda request: check_request(request.url))
    page.on("pageerror", lambda error: studio.faults.append(f"page error: {error}"))
    page.goto(address)
    studio.wait_shown(token=load_examples()[0].token)
    yield studio
    page.close()
    assert studio.faults == []


def drawn_pixels(canvas: Locator) -> np.ndarray:
    """A canvas (height, width, 3) as it is drawn."""
    address = canvas.evaluate("(canvas) => canvas.toDataURL('image/png')")
    stream = io.BytesIO(base64.b64decode(address.partition(",")[2]))
    return np.asarray(Image.open(stream).convert("RGB"))


def set_value(slider: Locator, value: float) -> None:
    """Move a slider of our own components as a drag does."""
    script = "(input, value) => { input.value = value; input.dispatchEvent(new Event('input', {bubbles: true})); }"
    slider.evaluate(script, value)


def watch_texts(page: Page, selector: str) -> None:
    """From now on, keep every text that a place of the page shows, for `texts_seen`."""
    script = """(selector) => {
      const place = document.querySelector(selector), seen = (window.textsSeen = []);
      const look = () => { if (place.innerText !== seen.at(-1)) seen.push(place.innerText); };
      window.textsWatcher?.disconnect();
      window.textsWatcher = new MutationObserver(look);
      window.textsWatcher.observe(place, { childList: true, characterData: true, subtree: true });
      look(); }"""
    page.evaluate(script, selector)


def texts_seen(page: Page) -> list[str]:
    """What `watch_texts` saw so far."""
    return page.evaluate("window.textsSeen")


def slowed(work: Callable[..., T], seconds: float) -> Callable[..., T]:
    """The same, as a larger model would do it."""

    def slow(*args: Any, **named: Any) -> T:
        time.sleep(seconds)
        return work(*args, **named)

    return slow


def maps_of(model: LoadedModel, image: Image.Image, layer: int, alpha: float = 1.0) -> AttentionMaps:
    """The maps of one layer, of a batch of one."""
    pixels, _ = model.preprocess(image)
    with record(model.vision) as recording:
        model.encode_image(pixels[None])
    return attention_maps(recording[layer], normalizer=Normalizer(alpha))


def row_of(
    model: LoadedModel, image: Image.Image, layer: int, query: int, alpha: float = 1.0
) -> dict[str, torch.Tensor]:
    """What the page must show of the mean head: A1, lambda A2 and the difference (Nk,) of one query."""
    maps = maps_of(model, image, layer, alpha)
    rows = {"first": maps.a1, "difference": maps.weights}
    if maps.subtracted is not None:
        rows["subtracted"] = maps.subtracted
    return {name: values[0].mean(0)[query] for name, values in rows.items()}


def shown_percent(value: torch.Tensor) -> str:
    return f"{100 * float(value):.0f} %".replace("-", "−")


@contextmanager
def served_with_room(folders: tuple[Path, Path], pictures: int) -> Iterator[str]:
    """The address of a page that keeps what its two models did with so many pictures, and lets go of the rest."""
    scenes = load_examples()
    service = Service(folders, scenes)
    looks = [service.look(name, open_picture(scenes[0].picture)) for name in service.names]
    # Looking at a layer adds Q, K and V to its recording.
    room = pictures * sum(int(look.recording.nbytes * 2.5) + 1 for look in looks)
    demo = build_app(folders, recording_bytes=max(1, room))
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", **launch_settings())
    try:
        yield url
    finally:
        demo.close()
