"""Shapes and text of a figure as SVG, on a ground of its own, so that light and dark pages show the same."""

from collections.abc import Sequence
from html import escape

INK, SOFT, RULE, PAPER = "#1d2733", "#56626f", "#d9dfe6", "#ffffff"
# Room for a character of sans-serif text, by its size: wide enough for every common font.
_CHARACTER = 0.6


def text(
    x: float, y: float, content: str, size: float = 12, anchor: str = "start", colour: str = INK, weight: int = 400
) -> str:
    """A line of text whose baseline is at y, with paper around each letter; `anchor` is start, middle or end."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}" fill="{colour}" '
        f'font-weight="{weight}" stroke="{PAPER}" stroke-width="3" paint-order="stroke">{escape(content)}</text>'
    )


def width_of(content: str, size: float = 12) -> float:
    """Pixels that a line of text takes at most."""
    return _CHARACTER * size * len(content)


def line(x1: float, y1: float, x2: float, y2: float, colour: str = INK, width: float = 1, dash: str = "") -> str:
    """A straight line; `dash` as in stroke-dasharray."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width:g}"{dashed}/>'
    )


def rect(x: float, y: float, width: float, height: float, fill: str, stroke: str = "none", hint: str = "") -> str:
    """A rectangle; `hint` is told where a pointer rests on it."""
    told = f"<title>{escape(hint)}</title>" if hint else ""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}" stroke="{stroke}">'
        f"{told}</rect>"
    )


def outline(
    points: Sequence[tuple[float, float]], stroke: str, width: float = 2, dash: str = "", hint: str = ""
) -> str:
    """A closed line, so that what lies behind it stays visible."""
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<polygon points="{places}" fill="none" stroke="{stroke}" stroke-width="{width:g}" '
        f'stroke-linejoin="round"{dashed}><title>{escape(hint)}</title></polygon>'
    )


def page(width: float, height: float, title: str, description: str, parts: Sequence[str]) -> str:
    """The whole figure; title and description are for those who do not see it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-labelledby="title description" '
        f'font-family="system-ui, Helvetica, Arial, sans-serif">\n<title id="title">{escape(title)}</title>\n'
        f'<desc id="description">{escape(description)}</desc>\n'
        f'<rect width="100%" height="100%" fill="{PAPER}"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )
