"""Each tab of the page has a small picture of itself, shown and described in docs/studio.md and made by one command."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import gradio as gr
import pytest
from PIL import Image

from studio.ui import build_app

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 250_000


@pytest.fixture(scope="module")
def screenshot() -> ModuleType:
    spec = importlib.util.spec_from_file_location("screenshot", ROOT / "docs" / "screenshot.py")
    assert spec
    assert spec.loader
    module = sys.modules["screenshot"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_command_takes_each_tab_of_the_page_under_its_title(screenshot: ModuleType) -> None:
    tabs = {block.id: block.label for block in build_app().blocks.values() if isinstance(block, gr.Tab)}
    assert {name: shot.title for name, shot in screenshot.SHOTS.items()} == tabs


def test_every_tab_has_a_small_picture_of_the_stated_width(screenshot: ModuleType) -> None:
    files = {screenshot.image_of(name) for name in screenshot.SHOTS}
    assert files == set(screenshot.IMAGES.iterdir())
    for name in screenshot.SHOTS:
        with Image.open(screenshot.image_of(name)) as image:
            assert image.width == screenshot.WIDTH
        assert screenshot.image_of(name).stat().st_size < MOST_BYTES


def test_every_picture_is_shown_once_below_its_tabs_heading_and_described(screenshot: ModuleType) -> None:
    text = (ROOT / "docs" / "studio.md").read_text(encoding="utf-8")
    shown = re.findall(r"## ([^\n]+)\n(?:(?!## ).*\n)*?!\[([^\]]+)\]\(images/(\w+)\.webp\)", text)
    assert {name: title for title, _, name in shown} == {name: shot.title for name, shot in screenshot.SHOTS.items()}
    assert all(len(words) > 30 for _, words, _ in shown)


def test_a_picture_that_does_not_exist_is_refused_with_those_that_do(screenshot: ModuleType) -> None:
    with pytest.raises(SystemExit, match=r"no picture 'comparison': choose among compare, sparsity, "):
        screenshot.main(["comparison"])
