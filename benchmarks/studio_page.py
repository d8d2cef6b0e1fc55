"""A server of the studio in its own process, and its page in Chromium, for benchmarks/studio.py."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Browser, Locator, Page, Request, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
WATCH = Path(__file__).with_name("studio_watch.js")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
SIZE = {"width": 1440, "height": 1000}
WAIT = 90_000


@dataclass(frozen=True)
class Server:
    """A running `python app.py`.

    Attributes:
        address: where it listens, with the slash at the end.
        started: seconds from the start of the process to its first answer.
        answered: when that was, in seconds of the clock on the wall.
    """

    address: str
    started: float
    answered: float


@contextmanager
def serving(roots: Path) -> Iterator[Server]:
    """`python app.py` on a free port of this machine; models under `roots` can be brought."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "GRADIO_SERVER_PORT": str(port), "HF_HUB_OFFLINE": "1"}
    environment |= {"DIFFCLIP_STUDIO_PUBLIC": "0", "DIFFCLIP_STUDIO_ROOTS": str(roots)}
    address, began = f"http://127.0.0.1:{port}/", time.time()
    with (roots / "server.txt").open("w") as said:
        command = [sys.executable, "app.py"]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=said, stderr=subprocess.STDOUT)
    try:
        while not answers(address):
            if process.poll() is not None:
                raise SystemExit(f"app.py ended: {(roots / 'server.txt').read_text()[-2000:]}")
            time.sleep(0.02)
        answered = time.time()
        yield Server(address, answered - began, answered)
    finally:
        process.terminate()
        process.wait()


def answers(address: str) -> bool:
    """Whether the page is served there."""
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return answer.status == 200
    except (urllib.error.URLError, ConnectionError):
        return False


@contextmanager
def chromium() -> Iterator[Browser]:
    """The Chromium of this machine, or playwright's own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        yield browser
        browser.close()


@dataclass
class Compare:
    """The Compare tab of an open page.

    Attributes:
        page: it.
        asked: what the page asked the server for by server functions: name and layer.
    """

    page: Page
    asked: list[tuple[str, Any]] = field(default_factory=list)

    @property
    def viewer(self) -> Locator:
        """The viewer of maps."""
        return self.page.locator("#viewer")

    def open(self, address: str, **link: Any) -> None:
        """Go to an address whose query says what to show, and wait until it is drawn."""
        self.page.goto(address + ("?" + urlencode(link, doseq=True) if link else ""))
        self.settled()
        self.viewer.locator(".stage").focus()

    def shown(self) -> list[Any]:
        """[token, left, right, layer, alpha] of what is drawn, or []."""
        return json.loads(self.page.evaluate("document.querySelector('#viewer [data-shown]')?.dataset.shown ?? '[]'"))

    def settled(self, token: str | None = None, layer: int | None = None) -> None:
        """Wait until the maps of a picture and layer are drawn and the numbers under them have come."""
        script = """([token, layer]) => {
          const node = document.querySelector('#viewer [data-shown]');
          const [picture, , , at] = JSON.parse(node?.dataset.shown ?? '[]');
          return picture && (token ?? picture) === picture && (layer ?? at) === at && node.dataset.numbers === 'shown';
        }"""
        self.page.wait_for_function(script, arg=[token, layer], timeout=WAIT)

    def bring(self, path: Path, side: str) -> str:
        """Have the page load a checkpoint as its "left" or "right" model, as a person does; gives the model's name."""
        button = self.page.get_by_role("button", name="Bring a model")
        if not self.page.locator(f"#bring-{side}").is_visible():
            button.click()
        before = self.page.locator("#brought summary").count()
        self.page.locator("#bring-name textarea, #bring-name input").fill(str(path))
        self.page.locator(f"#bring-{side}").click()
        self.page.locator("#brought summary").nth(before).wait_for(timeout=WAIT)
        return str(path)

    def watch(self, name: str, event: str, panels: str = "all") -> None:
        """Time what the next event of that type does, see studio_watch.js."""
        self.page.evaluate(f"() => {{ window.watched = watchFor('{name}', '{event}', '{panels}'); }}")

    def watched(self) -> dict[str, Any]:
        """What was timed."""
        return self.page.evaluate("() => window.watched")


@contextmanager
def compare_page(browser: Browser) -> Iterator[Compare]:
    """A new page in a profile of its own, with nothing in its cache, that watches what happens on it."""
    context = browser.new_context(viewport=SIZE)  # type: ignore[arg-type]
    context.set_default_timeout(WAIT)
    page = context.new_page()
    page.add_init_script(path=WATCH)
    compare = Compare(page)

    def note(request: Request) -> None:
        if request.method == "POST" and "/component_server" in request.url:
            sent = request.post_data_json or {}
            asked = sent.get("data")
            compare.asked.append((sent.get("fn_name", ""), asked.get("layer") if isinstance(asked, dict) else None))

    page.on("request", note)
    yield compare
    context.close()
