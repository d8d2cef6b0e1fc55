"""What a browser saves when a button is pressed, and what the command draws from its recipe."""

import json
import zipfile
from pathlib import Path

from playwright.sync_api import Locator, Page

from studio.__main__ import main
from studio.tab_recipe import TabRecipe, read_tab_recipe

FILES = ["figure.png", "figure.svg", "arrays.npz", "numbers.csv", "recipe.json"]


def saved_by(page: Page, button: Locator) -> dict[str, bytes]:
    """Press the button; the files in the zip that comes, by their names."""
    with page.expect_download() as download:
        button.click()
    assert download.value.suggested_filename.endswith(".zip")
    with zipfile.ZipFile(download.value.path()) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def recipe_in(files: dict[str, bytes]) -> TabRecipe:
    """The recipe of a tab among the files."""
    return read_tab_recipe(json.loads(files["recipe.json"]))


def drawn_again(recipe: bytes, folder: Path, *options: str) -> dict[str, bytes]:
    """What `python -m studio render recipe.json OUT` makes of a recipe."""
    (folder / "recipe.json").write_bytes(recipe)
    assert main(["render", str(folder / "recipe.json"), str(folder / "again"), *options]) == 0
    return {path.name: path.read_bytes() for path in (folder / "again").iterdir()}
