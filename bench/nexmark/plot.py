"""Small line charts as SVG, without a library: a grid of panels, each with its own axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Panel", "svg", "ticks"]

_WIDTH, _HEIGHT = 360, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 22, 34, 26
_COLUMNS = 2
_POINTS_MAX = 400
_TICKS = 4
_COLOURS = ("#1f6feb", "#d1570b", "#2d8a4e", "#8b5cc7", "#bf3989")
_STYLE = (
    "text{font:11px system-ui,sans-serif;fill:#57606a}.title{font-weight:600;fill:#24292f}"
    "path{fill:none;stroke-width:1.4}.grid{stroke:#d0d7de;stroke-width:.6}"
)


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart.

    Attributes:
        title: With the unit of the values.
        series: By name, points from left to right.
        powers: Whether each step to the right is ten times as much; points then lie above 0.
    """

    title: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    powers: bool = False


def svg(panels: Sequence[Panel], below: str) -> str:
    """The panels, two in a row; ``below`` says what runs from left to right."""
    rows = math.ceil(len(panels) / _COLUMNS)
    width, height = _COLUMNS * _WIDTH, rows * _HEIGHT + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for place, panel in enumerate(panels):
        row, column = divmod(place, _COLUMNS)
        parts.append(f'<g transform="translate({column * _WIDTH},{row * _HEIGHT})">')
        parts += _drawn(panel)
        parts.append("</g>")
    parts.append(f'<text x="{_LEFT}" y="{height - 8}">{escape(below)}</text></svg>')
    return "\n".join(parts) + "\n"


def ticks(highest: float) -> list[float]:
    """Round values from 0 to at least the highest, a few steps apart."""
    if highest <= 0:
        return [0.0, 1.0]
    rough = highest / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= rough * 0.999)
    return [step * number for number in range(math.ceil(highest / step - 1e-9) + 1)]


def _drawn(panel: Panel) -> list[str]:
    points = [point for line in panel.series.values() for point in line]
    marks = ticks(max((y for _, y in points), default=0.0))
    last = max((x for x, _ in points), default=0.0) or 1.0
    first = min((x for x, _ in points), default=1.0) if panel.powers else 0.0

    def across(x: float) -> float:
        share = x / last
        if panel.powers:
            share = math.log(x / first) / math.log(last / first) if last > first else 0.0
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def up(y: float) -> float:
        return _HEIGHT - _BOTTOM - y / marks[-1] * (_HEIGHT - _TOP - _BOTTOM)

    parts = [f'<text class="title" x="{_LEFT}" y="14">{escape(panel.title)}</text>']
    for mark in marks:
        y = round(up(mark), 1)
        line = f"M{_LEFT} {y}H{_WIDTH - _RIGHT}"
        parts.append(f'<path class="grid" d="{line}"/>')
        parts.append(f'<text x="{_LEFT - 5}" y="{y + 4}" text-anchor="end">{mark:,.6g}</text>')
    middle = math.sqrt(first * last) if panel.powers else last / 2
    for mark in (first, middle, last):
        x = round(across(mark), 1)
        parts.append(f'<text x="{x}" y="{_HEIGHT - 10}" text-anchor="middle">{_short(mark)}</text>')
    for place, (name, line) in enumerate(panel.series.items()):
        colour = _COLOURS[place % len(_COLOURS)]
        path = "L".join(f"{across(x):.1f} {up(y):.1f}" for x, y in _thinned(line))
        parts.append(f'<path stroke="{colour}" d="M{path}"/>')
        if len(panel.series) > 1:
            x = _LEFT + 4 + place * 60
            parts.append(f'<text x="{x}" y="28" style="fill:{colour}">{escape(name)}</text>')
    return parts


def _thinned(line: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """At most some hundred points: the highest of each stretch, so that no spike is lost."""
    stretch = math.ceil(len(line) / _POINTS_MAX)
    if stretch <= 1:
        return line
    starts = range(0, len(line), stretch)
    return [max(line[start : start + stretch], key=lambda point: point[1]) for start in starts]


def _short(value: float) -> str:
    """1,500,000 as 1.5 M."""
    for limit, unit in ((1e6, " M"), (1e3, " k")):
        if value >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"
