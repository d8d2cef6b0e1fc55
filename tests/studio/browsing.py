"""What the browser tests share: one open page with short names for what a person does and sees, and what is true."""

import base64
import io
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from playwright.sync_api import Locator, Page

from models import LoadedModel, Normalizer, attention_maps, record

WAIT = 60_000


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
        script = "(input, value) => { input.value = value; input.dispatchEvent(new Event('input', {bubbles: true})); }"
        self.viewer.locator(f"input.{control}").evaluate(script, value)

    def pixels(self, panel: int) -> np.ndarray:
        """The canvas (height, width, 3) as it is drawn."""
        address = self.canvas(panel).evaluate("(canvas) => canvas.toDataURL('image/png')")
        stream = io.BytesIO(base64.b64decode(address.partition(",")[2]))
        return np.asarray(Image.open(stream).convert("RGB"))

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


def row_of(
    model: LoadedModel, image: Image.Image, layer: int, query: int, alpha: float = 1.0
) -> dict[str, torch.Tensor]:
    """What the page must show of the mean head: A1, lambda A2 and the difference (Nk,) of one query."""
    pixels, _ = model.preprocess(image)
    with record(model.vision) as recording:
        model.encode_image(pixels[None])
    maps = attention_maps(recording[layer], normalizer=Normalizer(alpha))
    rows = {"first": maps.a1, "difference": maps.weights}
    if maps.subtracted is not None:
        rows["subtracted"] = maps.subtracted
    return {name: values[0].mean(0)[query] for name, values in rows.items()}


def shown_percent(value: torch.Tensor) -> str:
    return f"{100 * float(value):.0f} %".replace("-", "−")
