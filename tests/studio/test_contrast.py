"""Text on the page can be read by people with weak sight: 4.5 to 1 for text, 3 to 1 for marks, on light and on dark."""

import re
from pathlib import Path

import pytest
from PIL import ImageColor

from studio.sparsity_grids import _colour
from studio.theme import page_css, studio_theme

# Grounds of Gradio's default theme: of the page, of its blocks and of its fields.
GROUNDS = {"light": ("#ffffff", "#f8fafc"), "dark": ("#0b0f19", "#1e293b", "#0f172a")}
TEXT, MARK = 4.5, 3.0


def colours(page: str) -> dict[str, str]:
    """The colours that a light or dark page uses everywhere, by name."""
    css = re.sub(r"/\*.*?\*/", "", page_css(), flags=re.S)
    block = re.search({"light": r":root \{(.*?)\}", "dark": r"\.dark \{(.*?)\}"}[page], css, re.S)
    assert block
    return dict(re.findall(r"--studio-([\w-]+): (#\w+);", block[1]))


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    channels = [value / 255 for value in ImageColor.getrgb(colour)[:3]]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_formula_gives_its_known_ends() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("page", ["light", "dark"])
def test_texts_and_marks_stand_out_from_their_grounds(page: str) -> None:
    found = colours(page)
    for ground in GROUNDS[page]:
        assert contrast(found["dim"], ground) >= TEXT, ground
        assert contrast(found["accent"], ground) >= TEXT, ground
        for side in ("left", "right"):
            assert contrast(found[side], ground) >= MARK, (side, ground)
    assert contrast(found["accent"], found["chosen"]) >= TEXT
    assert contrast(found["badge-text"], found["badge"]) >= TEXT


def test_numbers_in_cells_of_any_colour_can_be_read() -> None:
    for share in range(101):
        ground, ink = _colour(share / 100)
        assert contrast(ground, ink) >= TEXT, (share, ground)


def test_buttons_and_placeholders_of_the_theme_can_be_read() -> None:
    theme = studio_theme()
    for state in ("", "_hover"):
        assert contrast("#ffffff", getattr(theme, f"button_primary_background_fill{state}")) >= TEXT
    assert contrast(theme.input_placeholder_color, "#ffffff") >= TEXT
    assert contrast(theme.input_placeholder_color_dark, "#1e293b") >= TEXT
    assert contrast(theme.slider_color_dark, "#1e293b") >= MARK


@pytest.mark.parametrize("file", sorted((Path(__file__).resolve().parents[2] / "studio" / "viewer").glob("*.css")))
def test_components_take_the_focus_ring_away_nowhere(file: Path) -> None:
    assert not re.search(r"outline:\s*(0|none)\b", file.read_text(encoding="utf-8"))
