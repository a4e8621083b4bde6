"""A module drawn as SVG: depots, steps and PStates from left to right, no scripts.

The drawing is a function of the declaration alone. A node stands right of all nodes that lead to
it; an edge that closes a circle (a topology appends to a depot that it reads) is drawn back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from atoll.markup import text
from atoll.topology.operator import Operator, StateOperator
from atoll.topology.sources import Source

if TYPE_CHECKING:
    from atoll.topology.graph import Graph

_CHARACTER_WIDTH = 7.2
_BOX_HEIGHT = 26
_GAP_X, _GAP_Y = 46, 14
_MARGIN = 12
_LABEL_MAX = 40
_LOOKS = {
    "depot": 'rx="13" fill="#8ecae6" fill-opacity="0.35"',
    "step": 'rx="3" fill="none"',
    "pstate": 'rx="3" stroke-width="2" fill="#ffd166" fill-opacity="0.35"',
    "sink": 'rx="13" fill="#b7e4c7" fill-opacity="0.35"',
}


@dataclass
class Drawing:
    """Boxes and arrows, before they have places.

    Attributes:
        boxes: By key: the look, the label, and what is told when the pointer rests on it.
        arrows: From key to key, in the order of their declaration.
    """

    boxes: dict[Any, tuple[str, str, str]] = field(default_factory=dict)
    arrows: dict[tuple[Any, Any], None] = field(default_factory=dict)

    def add(self, graph: Graph) -> None:
        """Add a topology."""
        for name, pstate in graph.pstates.items():
            self.boxes["pstate", name] = ("pstate", name, f"PState of {graph.topology}")
            assert pstate.name == name
        for step in graph.operators:
            if not step.drawn:
                continue
            if not isinstance(step, Source):
                told = f"{graph.topology}: {step.place}"
                self.boxes[step] = ("step", _label(step), told)
            self._connect(step)

    def depth(self) -> dict[Any, int]:
        """For each box how many arrows lead to it at most, those that close a circle left out."""
        following: dict[Any, list[Any]] = {key: [] for key in self.boxes}
        for source, target in self.arrows:
            following[source].append(target)
        led_to = {target for _, target in self.arrows}
        order: list[Any] = []  # each box before those that lead to it
        done: set[Any] = set()

        def visit(key: Any, on_the_way: frozenset[Any]) -> None:
            here = on_the_way | {key}
            following[key] = [each for each in following[key] if each not in here]
            for each in following[key]:
                if each not in done:
                    visit(each, here)
            done.add(key)
            order.append(key)

        for key in sorted(self.boxes, key=lambda each: each in led_to):
            if key not in done:
                visit(key, frozenset())
        depths = dict.fromkeys(self.boxes, 0)
        for key in reversed(order):
            for each in following[key]:
                depths[each] = max(depths[each], depths[key] + 1)
        return depths

    def _connect(self, step: Operator) -> None:
        here = ("depot", step.depot.name) if isinstance(step, Source) else step
        for given in step.inputs:
            each = given if given.drawn else given.inputs[0]
            self._arrow(("depot", each.depot.name) if isinstance(each, Source) else each, here)
        if isinstance(step, StateOperator):
            written = {pstate.name for pstate in step.writes}
            for name in written:
                self._arrow(here, ("pstate", name))
            for name in {pstate.name for pstate in step.reads} - written:
                self._arrow(("pstate", name), here)
            if step.appends_to is not None:
                self._arrow(here, ("depot", step.appends_to.name))
            if step.hands_out is not None:
                self._arrow(here, ("sink", step.hands_out))

    def _arrow(self, source: Any, target: Any) -> None:
        for key in (source, target):
            if isinstance(key, tuple):
                kind, name = key
                self.boxes.setdefault(key, (kind, name, f"{kind} {name}"))
        self.arrows[source, target] = None


def draw(graphs: Iterable[Graph], depots: Iterable[str]) -> str:
    """The SVG of some topologies, with the depots named whether they are read or not."""
    drawing = Drawing()
    for name in depots:
        drawing.boxes["depot", name] = ("depot", name, f"depot {name}")
    for graph in graphs:
        drawing.add(graph)
    return _svg(drawing)


def described(graphs: Iterable[Graph], depots: Iterable[str]) -> dict[str, Any]:
    """The same as plain data: nodes, and edges between their ids.

    A step's ``step`` is how statuses call it, with counts and times; two of one line and one word
    are told there as one.
    """
    drawing = Drawing()
    for name in depots:
        drawing.boxes["depot", name] = ("depot", name, f"depot {name}")
    of: dict[Any, str] = {}
    for graph in graphs:
        drawing.add(graph)
        of |= {("pstate", name): graph.topology for name in graph.pstates}
        of |= {step: f"{graph.topology}/{at}" for at, step in enumerate(graph.operators)}
    return {
        "nodes": [
            _node(key, kind, label, of.get(key)) for key, (kind, label, _) in drawing.boxes.items()
        ],
        "edges": [
            {"from": _id(source, of.get(source)), "to": _id(target, of.get(target))}
            for source, target in drawing.arrows
        ],
    }


def _id(key: Any, of: str | None) -> str:
    return ":".join(key) if isinstance(key, tuple) else f"step:{of}"


def _node(key: Any, kind: str, label: str, of: str | None) -> dict[str, Any]:
    node: dict[str, Any] = {"id": _id(key, of), "kind": kind, "label": label}
    if of is not None:
        node["topology"] = of.partition("/")[0]
    if kind == "step":
        node |= {"step": f"{key.title} ({key.place})", "place": key.place, "detail": key.caption}
        node["watermark"] = None if key.watermark is None else key.watermark[0]
    return node


def _label(step: Operator) -> str:
    whole = step.caption
    return whole if len(whole) <= _LABEL_MAX else whole[: _LABEL_MAX - 1] + "…"


def _svg(drawing: Drawing) -> str:
    depths = drawing.depth()
    columns: dict[int, list[Any]] = {}
    for key in drawing.boxes:
        columns.setdefault(depths[key], []).append(key)
    places: dict[Any, tuple[float, float, float]] = {}
    x = float(_MARGIN)
    for depth in sorted(columns):
        width = max(_width(drawing.boxes[key][1]) for key in columns[depth])
        for row, key in enumerate(columns[depth]):
            places[key] = (x, _MARGIN + row * (_BOX_HEIGHT + _GAP_Y), width)
        x += width + _GAP_X
    height = _MARGIN + max((len(each) for each in columns.values()), default=0) * (
        _BOX_HEIGHT + _GAP_Y
    )
    parts = [_curve(places[source], places[target]) for source, target in drawing.arrows]
    parts += [_box(places[key], *box) for key, box in drawing.boxes.items()]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{x:.0f}" height="{height:.0f}" '
        'font-family="monospace" font-size="12" stroke="currentColor" fill="none" role="img">'
        + "".join(parts)
        + "</svg>"
    )


def _width(label: str) -> float:
    return len(label) * _CHARACTER_WIDTH + 18


def _box(place: tuple[float, float, float], look: str, label: str, told: str) -> str:
    x, y, width = place
    return (
        f'<g><title>{text(told)}</title><rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" '
        f'height="{_BOX_HEIGHT}" {_LOOKS[look]}/><text x="{x + 9:.0f}" y="{y + 17:.0f}" '
        f'stroke="none" fill="currentColor">{text(label)}</text></g>'
    )


def _curve(source: tuple[float, float, float], target: tuple[float, float, float]) -> str:
    """An arrow from the right edge of one box to the left edge of another."""
    x1, y1 = source[0] + source[2], source[1] + _BOX_HEIGHT / 2
    x2, y2 = target[0], target[1] + _BOX_HEIGHT / 2
    bend = max(abs(x2 - x1) / 2, 24)
    back = ' stroke-dasharray="4 3"' if x2 <= x1 else ""
    return (
        f'<path d="M{x1:.0f} {y1:.0f}C{x1 + bend:.0f} {y1:.0f} {x2 - bend:.0f} {y2:.0f} '
        f'{x2:.0f} {y2:.0f}"{back}/><path d="M{x2 - 6:.0f} {y2 - 3:.0f}L{x2:.0f} {y2:.0f}'
        f'L{x2 - 6:.0f} {y2 + 3:.0f}"/>'
    )
