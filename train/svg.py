"""Curves as SVG in text: axes with round numbers, a line a series, and words for those who do not see them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 244, 58, 12, 10, 34
MOST_POINTS = 600


@dataclass(frozen=True)
class Series:
    """A curve: its name and its points (x, y), in order of x."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Chart:
    """Some curves over one axis.

    Attributes:
        note: what a reader must know to read them, in a sentence.
        logarithmic: powers of ten at equal distances; for values above 0.
    """

    title: str
    note: str
    series: tuple[Series, ...]
    x_name: str = "step"
    logarithmic: bool = False


def figure(chart: Chart, number: int) -> str:
    """The chart as an HTML figure with a legend and a table of what the curves say."""
    series = [s for s in chart.series if s.points]
    if not series:
        return ""
    legend = ""
    if len(series) > 1:
        keys = (
            f'<li><i style="background:{colour(i, len(series))}"></i>{escape(s.name)}</li>'
            for i, s in enumerate(series)
        )
        legend = f'<ul class="legend" aria-hidden="true">{"".join(keys)}</ul>'
    rows = "".join(
        f'<tr><th scope="row">{escape(s.name)}</th>' + "".join(f"<td>{short(v)}</td>" for v in _summary(s)) + "</tr>"
        for s in series
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("", "first", "last", "lowest", "highest"))
    return (
        f"<figure><figcaption><h2>{escape(chart.title)}</h2><p>{escape(chart.note)}</p></figcaption>"
        f"{_svg(chart, series, number)}{legend}"
        f"<details><summary>Numbers</summary><table><tr>{head}</tr>{rows}</table></details></figure>"
    )


def colour(index: int, count: int) -> str:
    """The colour of a series: from blue to orange through green, so that layers read as an order."""
    hue = 255 - 215 * (index / (count - 1) if count > 1 else 0.0)
    return f"oklch(var(--lightness) 0.14 {hue:.0f})"


def _summary(series: Series) -> tuple[float, float, float, float]:
    values = [y for _, y in series.points]
    return values[0], values[-1], min(values), max(values)


def _svg(chart: Chart, series: Sequence[Series], number: int) -> str:
    points = [point for s in series for point in s.points]
    low_x, high_x = _span([x for x, _ in points])
    low_y, high_y = _span([_y(chart, y) for _, y in points])
    if high_y - low_y > 0:
        pad = 0.04 * (high_y - low_y)
        low_y, high_y = low_y - pad, high_y + pad

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - low_x) / (high_x - low_x)
        up = (y - low_y) / (high_y - low_y)
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    parts = []
    for tick in log_ticks(low_y, high_y) if chart.logarithmic else ticks(low_y, high_y, 5):
        y = place(low_x, tick)[1]
        label = short(10**tick) if chart.logarithmic else short(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    for tick in ticks(low_x, high_x, 6):
        x = place(tick, low_y)[0]
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 18}" text-anchor="middle">{short(tick)}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 3}" text-anchor="end">{escape(chart.x_name)}</text>')
    for index, one in enumerate(series):
        places = [place(x, _y(chart, y)) for x, y in thinned(one.points)]
        colouring = f"stroke:{colour(index, len(series))}"
        if len(places) < 40:
            dots = (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" style="{colouring}"/>' for x, y in places)
            parts += dots
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{line}" style="{colouring}"><title>{escape(one.name)}</title></polyline>')
    told = "; ".join(
        f"{s.name}: from {short(a)} to {short(b)}, between {short(c)} and {short(d)}"
        for s in series
        for a, b, c, d in [_summary(s)]
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t{number} d{number}">'
        f'<title id="t{number}">{escape(chart.title)}</title><desc id="d{number}">{escape(told)}.</desc>'
        f"{''.join(parts)}</svg>"
    )


def _y(chart: Chart, value: float) -> float:
    return math.log10(max(value, 1e-30)) if chart.logarithmic else value


def _span(values: Sequence[float]) -> tuple[float, float]:
    """The least and the greatest value, apart from each other."""
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - (abs(low) * 0.1 or 1), high + (abs(high) * 0.1 or 1))


def thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most 600 points: of each stretch its lowest and its highest, so that no spike is lost."""
    if len(points) <= MOST_POINTS:
        return list(points)
    kept: list[tuple[float, float]] = []
    stretches = MOST_POINTS // 2
    for index in range(stretches):
        part = points[index * len(points) // stretches : (index + 1) * len(points) // stretches]
        kept += sorted({min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])})
    return kept


def ticks(low: float, high: float, count: int) -> list[float]:
    """Round numbers between two values, about `count` of them."""
    raw = (high - low) / max(1, count)
    size = 10 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw)
    first = math.ceil(low / step)
    return [round(index * step, 12) for index in range(first, math.floor(high / step) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Logarithms of round numbers between two logarithms: 1, 2 and 5 times powers of ten, or the powers alone."""
    factors = (1, 2, 5) if high - low < 3 else (1,)
    every = 1 if high - low < 8 else 2
    found = [
        math.log10(factor) + power for power in range(math.floor(low), math.ceil(high), every) for factor in factors
    ]
    return [tick for tick in found if low <= tick <= high] or ticks(low, high, 3)


def short(value: float) -> str:
    """A number in few characters: 1,500; 0.25; 3e-05."""
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:,.0f}" if value == round(value) else f"{value:.4g}"
    return f"{value:.3g}"
