"""A figure as SVG: patches as rectangles, text as text, the picture in grey inside; no script and no link."""

import base64
import io
from collections import defaultdict
from html import escape
from itertools import pairwise

import numpy as np
from PIL import Image

from studio.render.shapes import (
    Area,
    Bar,
    Cells,
    Clip,
    Disc,
    Drawn,
    Hatching,
    Lines,
    Outline,
    Photo,
    Place,
    Polyline,
    Shape,
    Words,
)

FAMILY = "DejaVu Sans, Verdana, Arial, sans-serif"
_MOST_RECTANGLES = 20_000  # in one map; a map of pixels would have more and be no picture that an editor opens


def svg_text(drawn: Drawn) -> str:
    """The figure as an SVG document."""
    size = f'width="{_n(drawn.width)}pt" height="{_n(drawn.height)}pt"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {_n(drawn.width)} {_n(drawn.height)}" '
        f'font-family="{FAMILY}" role="img">',
        f"<title>{_text(drawn.title)}</title>",
        f"<desc>{_text(drawn.description)}</desc>",
        f'<rect width="{_n(drawn.width)}" height="{_n(drawn.height)}" fill="#ffffff"/>',
    ]
    writer = _Writer()
    for shape in drawn.shapes:
        parts += writer.written(shape)
    return "\n".join([*parts, "</svg>"]) + "\n"


class _Writer:
    """Shapes as elements; ids of gradients and clips are counted."""

    def __init__(self) -> None:
        self._count = 0

    def _id(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    def written(self, shape: Shape) -> list[str]:
        """The elements of one shape."""
        match shape:
            case Words():
                return [_words(shape)]
            case Photo():
                return [_photo(shape)]
            case Cells():
                return _cells(shape)
            case Hatching():
                return self._hatching(shape)
            case Lines():
                path = "".join(f"M{_n(x0)} {_n(y0)}L{_n(x1)} {_n(y1)}" for x0, y0, x1, y1 in shape.ends)
                style = f'stroke="{shape.colour}" stroke-width="{_n(shape.width)}" stroke-opacity="{shape.opacity}"'
                return [f'<path d="{path}" fill="none" {style}/>']
            case Polyline():
                return [_path(shape)]
            case Area():
                points = " ".join(f"{_n(x)},{_n(y)}" for x, y in shape.points)
                return [f'<polygon points="{points}" fill="{shape.colour}"{_opacity("fill", shape.opacity)}/>']
            case Disc():
                return [f'<circle cx="{_n(shape.x)}" cy="{_n(shape.y)}" r="{_n(shape.radius)}" fill="{shape.colour}"/>']
            case Outline():
                frame = f'<rect {_box(shape.place)} fill="none"'
                return [f'{frame} stroke="#101820" stroke-width="1.8"/>', f'{frame} stroke="#fff" stroke-width="0.9"/>']
            case Bar():
                return self._bar(shape)
            case Clip():
                name = self._id("clip")
                inside = [line for part in shape.shapes for line in self.written(part)]
                head = f'<clipPath id="{name}"><rect {_box(shape.place)}/></clipPath>'
                return [head, f'<g clip-path="url(#{name})">', *inside, "</g>"]

    def _hatching(self, shape: Hatching) -> list[str]:
        name, gap = self._id("hatch"), _n(shape.gap)
        stroke = f'stroke="{shape.colour}" stroke-width="{_n(shape.width)}"'
        pattern = (
            f'<pattern id="{name}" width="{gap}" height="{gap}" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate(45)"><path d="M0 0V{gap}" {stroke}/></pattern>'
        )
        path = "".join(_rectangle(place) for place in shape.places)
        tint = [f'<path d="{path}" fill="{shape.tint}" fill-opacity="{shape.opacity}"/>'] if shape.opacity else []
        return [*tint, pattern, f'<path d="{path}" fill="url(#{name})"/>'] if shape.width else tint

    def _bar(self, shape: Bar) -> list[str]:
        name, last = self._id("ramp"), len(shape.stops) - 1
        stops = "".join(f'<stop offset="{i / last:.4f}" stop-color="#{stop}"/>' for i, stop in enumerate(shape.stops))
        return [
            f'<linearGradient id="{name}">{stops}</linearGradient>',
            f'<rect {_box(shape.place)} fill="url(#{name})"/>',
        ]


def _words(shape: Words) -> str:
    bold = ' font-weight="700"' if shape.bold else ""
    anchor = f' text-anchor="{shape.anchor}"' if shape.anchor != "start" else ""
    turn = f' transform="rotate(-90 {_n(shape.x)} {_n(shape.y)})"' if shape.turned else ""
    style = f'font-size="{_n(shape.size)}" fill="{shape.colour}"{bold}{anchor}{turn}'
    return f'<text x="{_n(shape.x)}" y="{_n(shape.y)}" {style}>{_text(shape.text)}</text>'


def _path(shape: Polyline) -> str:
    points = " ".join(f"{_n(x)},{_n(y)}" for x, y in shape.points)
    dash = f' stroke-dasharray="{" ".join(map(_n, shape.dash))}"' if shape.dash else ""
    style = f'stroke="{shape.colour}" stroke-width="{_n(shape.width)}" stroke-linejoin="round"'
    return f'<polyline points="{points}" fill="none" {style}{dash}{_opacity("stroke", shape.opacity)}/>'


def _opacity(what: str, opacity: float) -> str:
    return "" if opacity >= 1 else f' {what}-opacity="{opacity:g}"'


def _photo(shape: Photo) -> str:
    return f'<image {_box(shape.place)} preserveAspectRatio="none" href="{_png(shape.image)}"/>'


def _png(image: Image.Image) -> str:
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode("ascii")


def _cells(shape: Cells) -> list[str]:
    """Neighbours of one colour in a row are one rectangle, and all rectangles of one colour are one path.

    What would be too many rectangles is a picture with one pixel a cell.
    """
    rows, cols = shape.drawn.shape
    height, width = shape.place.h / rows, shape.place.w / cols
    paths: dict[str, list[str]] = defaultdict(list)
    codes = shape.colours.astype(np.int64) @ np.array([65536, 256, 1])
    codes = np.where(shape.drawn, codes, -1)
    if rows + int(np.count_nonzero(np.diff(codes))) > _MOST_RECTANGLES:
        return [_pixels(shape)]
    for row in range(rows):
        edges = [0, *(np.flatnonzero(np.diff(codes[row])) + 1), cols]
        for first, last in pairwise(edges):
            if codes[row, first] < 0:
                continue
            left, top = shape.place.x + first * width, shape.place.y + row * height
            box = Place(left, top, (last - first) * width, height)
            paths[f"{codes[row, first]:06x}"].append(_rectangle(box))
    lines = [f'<path fill="#{colour}" d="{"".join(path)}"/>' for colour, path in paths.items()]
    return [f'<g fill-opacity="{shape.opacity}" shape-rendering="crispEdges">', *lines, "</g>"]


def _pixels(shape: Cells) -> str:
    alpha = np.where(shape.drawn, 255, 0).astype(np.uint8)
    data = _png(Image.fromarray(np.dstack([shape.colours, alpha])))
    style = f'opacity="{shape.opacity}" style="image-rendering:pixelated"'
    return f'<image {_box(shape.place)} preserveAspectRatio="none" {style} href="{data}"/>'


def _rectangle(place: Place) -> str:
    return f"M{_n(place.x)} {_n(place.y)}h{_n(place.w)}v{_n(place.h)}h{_n(-place.w)}z"


def _box(place: Place) -> str:
    return f'x="{_n(place.x)}" y="{_n(place.y)}" width="{_n(place.w)}" height="{_n(place.h)}"'


def _n(value: float) -> str:
    """A length to a thousandth of a point."""
    return f"{value:.3f}".rstrip("0").rstrip(".") or "0"


def _text(text: str) -> str:
    """Escaped; signs that XML cannot hold become the sign for what is unknown."""
    fit = (c if c >= " " and not "\ud800" <= c <= "\udfff" and c not in "\ufffe\uffff" else "\ufffd" for c in text)
    return escape("".join(fit), quote=True)
