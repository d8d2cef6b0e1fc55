"""Tiny checkpoints and an example scene on disk, read only; the page on the shipped checkpoints in a real Chromium."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import gradio as gr
import numpy as np
import pytest
from browsing import WAIT, Studio, opened
from checkpoint_folders import write_checkpoint
from PIL import Image
from playwright.sync_api import BrowserContext, expect, sync_playwright
from raw_requests import Served
from watched_browser import WatchedBrowser

from models import LoadedModel
from models.tokenizer import DomainTokenizer
from studio.examples import Example, load_examples
from studio.service import Service
from studio.ui import build_app, launch_settings
from studio.upload import Upload
from studio.uploads import own_folder


@pytest.fixture(scope="session", autouse=True)
def what_pages_are_sent_is_of_this_process() -> None:
    """Tests of another process, which end their apps, delete nothing here."""
    own_folder()


@pytest.fixture(scope="session")
def folders(
    tmp_path_factory: pytest.TempPathFactory, clip: LoadedModel, diffclip: LoadedModel, tokenizer: DomainTokenizer
) -> tuple[Path, Path]:
    """Checkpoint folders of a tiny CLIP and a tiny DiffCLIP; the latter with a run log."""
    root = tmp_path_factory.mktemp("checkpoints")
    left = write_checkpoint(root / "clip-scenes", clip, "CLIP, tiny", tokenizer)
    right = write_checkpoint(root / "diffclip-scenes", diffclip, "DiffCLIP, tiny", tokenizer)
    with (right / "log.jsonl").open("w", encoding="utf-8") as log:
        for step in range(1, 6):
            lam = {"vision": [0.8 + 0.01 * step * layer for layer in range(3)], "text": [0.8, 0.7]}
            terms = {tower: [[value + 0.2, 1.0] for value in values] for tower, values in lam.items()}
            line = {"step": step, "samples": 256 * step, "loss": 5.0 / step, "lambda": lam, "lambda_terms": terms}
            log.write(json.dumps(line) + "\n")
    return left, right


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> tuple[Example, ...]:
    """One scene of 64 x 64 with an object in the upper left quarter."""
    folder = tmp_path_factory.mktemp("examples")
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    mask = np.zeros((64, 64), dtype=np.uint8)
    mask[:32, :32] = 1
    Image.fromarray(pixels).save(folder / "scene.png")
    Image.fromarray(mask).save(folder / "scene.mask.png")
    entry = {"image": "scene.png", "mask": "scene.mask.png", "caption": "a cat", "objects": [{"id": 1, "name": "cat"}]}
    (folder / "examples.json").write_text(json.dumps([entry]), encoding="utf-8")
    return load_examples(folder)


@pytest.fixture
def service(folders: tuple[Path, Path], examples: tuple[Example, ...]) -> Service:
    return Service(folders, examples)


@pytest.fixture(scope="session")
def served(folders: tuple[Path, Path]) -> Iterator[Served]:
    """The whole page on the tiny models, for requests past its fields."""
    demo = build_app(folders)
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", **launch_settings())
    yield Served(demo, url)
    demo.close()


@pytest.fixture
def scene(examples: tuple[Example, ...]) -> Upload:
    return Upload(Image.open(examples[0].picture).convert("RGB"), examples[0].picture)


CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
SHIPPED = ("clip-scenes", "diffclip-scenes")


@pytest.fixture(autouse=True)
def nothing_leaves_this_machine(request: pytest.FixtureRequest) -> Iterator[None]:
    """Holds for each page that a test opens, whichever fixture opened it."""
    yield
    if "browser" in request.fixturenames:
        assert request.getfixturevalue("browser").taken() == []


@pytest.fixture(scope="session")
def browser() -> Iterator[WatchedBrowser]:
    if not Path(CHROMIUM).exists():
        if os.environ.get("REQUIRE_BROWSER") == "1":
            pytest.fail("REQUIRE_BROWSER is 1 and there is no Chromium: install it, or unset the variable.")
        pytest.skip("there is no Chromium on this machine")
    expect.set_options(timeout=WAIT)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield WatchedBrowser(chromium)
        chromium.close()


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """The page on the shipped checkpoints, one server for all browser tests."""
    demo: gr.Blocks = build_app(SHIPPED)
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", **launch_settings())
    yield url
    demo.close()


@pytest.fixture(scope="session")
def context(browser: WatchedBrowser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """One browser profile for all pages, so that Gradio's own files are fetched once.

    It lies on disk, since only such a profile keeps scripts compiled, which makes a page open in two thirds of the
    time.
    """
    launch = browser.chromium.browser_type.launch_persistent_context
    folder, viewport = tmp_path_factory.mktemp("profile"), {"width": 1440, "height": 1000}
    context = browser.watched(launch(folder, executable_path=CHROMIUM, args=list(FLAGS), viewport=viewport))  # pyright: ignore[reportArgumentType]
    context.set_default_timeout(WAIT)
    yield context
    context.close()


@pytest.fixture
def studio(context: BrowserContext, address: str) -> Iterator[Studio]:
    """A page of its own for one test."""
    with opened(context, address) as studio:
        yield studio


@pytest.fixture(scope="module")
def shared_studio(context: BrowserContext, address: str) -> Iterator[Studio]:
    """One page for all tests of a file, which each set what they look at."""
    with opened(context, address) as studio:
        yield studio
