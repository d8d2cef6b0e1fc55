"""`python docs/screenshot.py`: the README's picture of the page, taken from the running app in headless Chromium."""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from studio.ui import build_app, launch_settings  # noqa: E402

OUT = ROOT / "assets" / "screenshots" / "compare.png"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


def main() -> None:
    """Start the app, wait until maps are drawn, take the picture."""
    browser_path = shutil.which("chromium")
    if browser_path is None:
        raise SystemExit("Chromium is not installed: apt-get install chromium.")
    demo = build_app()
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", **launch_settings())
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path, args=FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme="light")
        page.goto(url)
        expect(page.locator("#viewer canvas").first).to_be_visible(timeout=60_000)
        page.wait_for_function("document.querySelectorAll('#viewer canvas').length >= 4")
        page.wait_for_timeout(1500)
        OUT.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=OUT)
        browser.close()
    demo.close()
    print(OUT)


if __name__ == "__main__":
    main()
