"""`python docs/screenshot.py [TAB ...]`: pictures of the page's tabs, taken from the running app in headless Chromium.

They are shown by README.md and docs/studio.md. Without a name all are taken; the names are those of `SHOTS`.
"""

import io
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from studio.ui import build_app, launch_settings  # noqa: E402

IMAGES = ROOT / "docs" / "images"
WIDTH = 1440
WAIT = 180_000  # ms; runs of many passes take their time on a busy machine
QUALITY = 88
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@dataclass(frozen=True)
class Shot:
    """One picture.

    Attributes:
        title: of the tab, as the page writes it.
        height: of the window, in pixels.
        prepare: what a person does there before there is something to see; gets Playwright's page.
    """

    title: str
    height: int
    prepare: Callable[[Any], None]


def _compare(page: Any) -> None:
    page.wait_for_function("document.querySelectorAll('#viewer canvas').length >= 4")
    page.wait_for_selector("#viewer [data-numbers='shown']", state="attached")


def _sparsity(page: Any) -> None:
    page.wait_for_selector("#sparsity-grids table")


def _trajectories(page: Any) -> None:
    page.wait_for_selector("#lambda-chart svg")


def _explain(page: Any) -> None:
    page.locator("#explain-run").click()
    page.wait_for_selector("#explain-words li")
    page.wait_for_function("/passes in/.test(document.querySelector('#explain-status').innerText)")


def _intervene(page: Any) -> None:
    page.wait_for_selector("#intervene-maps canvas")
    page.locator("#bench-right .global").evaluate(
        "(slider) => { slider.value = 0.4; slider.dispatchEvent(new Event('input', {bubbles: true})); }"
    )
    page.wait_for_function("/λ = 0.40/.test(document.querySelector('#intervene-outcome').innerText)")


def _text(page: Any) -> None:
    page.wait_for_selector("#text-maps canvas")


SHOTS = {
    "compare": Shot("Compare", 900, _compare),
    "sparsity": Shot("Sparsity", 1240, _sparsity),
    "trajectories": Shot("λ trajectories", 840, _trajectories),
    "explain": Shot("Explain", 1440, _explain),
    "intervene": Shot("Intervene", 1620, _intervene),
    "text": Shot("Text", 1100, _text),
}


def image_of(name: str) -> Path:
    """The file of one picture."""
    return IMAGES / f"{name}.webp"


def main(names: Sequence[str]) -> None:
    """Start the app and take the pictures.

    Raises:
        SystemExit: an unknown name, or no Chromium.
    """
    if unknown := [name for name in names if name not in SHOTS]:
        raise SystemExit(f"There is no picture {unknown[0]!r}: choose among {', '.join(SHOTS)}.")
    browser_path = shutil.which("chromium")
    if browser_path is None:
        raise SystemExit("Chromium is not installed: apt-get install chromium.")
    from playwright.sync_api import sync_playwright

    IMAGES.mkdir(exist_ok=True)
    demo = build_app()
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", **launch_settings())
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path, args=FLAGS)
        page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light", reduced_motion="reduce")
        page.set_default_timeout(WAIT)
        page.goto(url)
        page.wait_for_selector("#viewer canvas")
        for name in names or SHOTS:
            shot = SHOTS[name]
            page.set_viewport_size({"width": WIDTH, "height": shot.height})
            page.get_by_role("tab", name=shot.title, exact=True).click()
            shot.prepare(page)
            page.mouse.move(0, 0)
            page.evaluate("document.activeElement?.blur(); scrollTo(0, 0)")
            page.wait_for_timeout(1500)
            with Image.open(io.BytesIO(page.screenshot())) as image:
                image.convert("RGB").save(image_of(name), quality=QUALITY, method=6)
            print(image_of(name).relative_to(ROOT), f"{image_of(name).stat().st_size / 1000:.0f} kB", flush=True)
        browser.close()
    demo.close()


if __name__ == "__main__":
    main(sys.argv[1:])
