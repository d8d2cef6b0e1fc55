"""Tiny checkpoints and an example scene on disk, read only; the page on the shipped checkpoints in a real Chromium."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import gradio as gr
import numpy as np
import pytest
import torch
from browsing import WAIT, Studio
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from models import LoadedModel
from models.build import build_clip, vision_blocks
from models.checkpoints import CheckpointInfo, save_checkpoint
from models.tokenizer import DomainTokenizer
from studio.examples import Example, load_examples
from studio.service import Service
from studio.ui import build_app, launch_settings
from studio.uploads import Upload


def write_checkpoint(folder: Path, like: LoadedModel, title: str, tokenizer: DomainTokenizer) -> Path:
    """A checkpoint as `like`, with queries and keys enlarged so that its maps are far from uniform."""
    clip = build_clip(like.config, 5)
    with torch.no_grad():
        for block in vision_blocks(clip):
            for name, parameter in block.named_parameters():
                if any(part in name for part in ("in_proj_weight", "q_proj.weight", "k_proj.weight")):
                    parameter.mul_(3.0)
    save_checkpoint(folder, clip, CheckpointInfo(title, "scenes", like.config, like.preprocess_settings), tokenizer)
    return folder


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


@pytest.fixture
def scene(examples: tuple[Example, ...]) -> Upload:
    return Upload(Image.open(examples[0].picture).convert("RGB"), examples[0].picture)


FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
SHIPPED = ("clip-scenes", "diffclip-scenes")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium") or "/usr/bin/chromium"
    if not Path(path).exists():
        if os.environ.get("REQUIRE_BROWSER") == "1":
            pytest.fail("REQUIRE_BROWSER is 1 and there is no Chromium: install it, or unset the variable.")
        pytest.skip("there is no Chromium on this machine")
    expect.set_options(timeout=WAIT)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """The page on the shipped checkpoints, one server for all browser tests."""
    demo: gr.Blocks = build_app(SHIPPED)
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", **launch_settings())
    yield url
    demo.close()


@pytest.fixture(scope="session")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """One browser profile for all pages, so that Gradio's own files are fetched once."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    context.set_default_timeout(WAIT)
    yield context
    context.close()


@pytest.fixture
def studio(context: BrowserContext, address: str) -> Iterator[Studio]:
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
