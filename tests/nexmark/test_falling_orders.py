"""Orders that fall: q6, the best categories and the busy auctions give what DuckDB finds.

``ATOLL_SOAK_EVENTS=100000`` takes so many events, and all three seeds both ways.
"""

from __future__ import annotations

import ast
import os
import random
from pathlib import Path

import pytest

from atoll import path
from nexmark import queries
from nexmark.checking import differences, expected, run
from nexmark.feeds import generated
from nexmark.site import Site
from nexmark.verify import settings

NAMES = ("q6", *queries.FALLING)
FOLDER = Path(queries.__file__).parent
SOAK = int(os.environ.get("ATOLL_SOAK_EVENTS", "0"))
LINES_MAX = 15


class Shared(Site):
    """A site on which several queries read the same depots."""

    def _source(self, kind):
        streams = self.__dict__.setdefault("streams", {})
        if kind not in streams:
            streams[kind] = super()._source(kind)
        return streams[kind]


def shared(site):
    """All of them in one topology."""
    both = Shared.__new__(Shared)
    both.__dict__ = site.__dict__
    for name in NAMES:
        queries.load(name).build(both)


def everything(app):
    """The rows of each; what the query of q6 says of one auction is what they say of a seller."""
    found = {name: queries.load(name).results(app) for name in NAMES}
    for seller in app.pstate("sold").select(path.keys())[:5]:
        means = [mean for who, mean in found["q6"] if who == seller]
        ranked = [each for each, _ in app.pstate("sold").select(path.key(seller).ranked())]
        asked = [app.query("average", seller=seller, auction=each) for each in ranked[:20]]
        assert asked == pytest.approx(means[:20])
    return found


def singly(feed, count):
    """The last records of each kind alone, in turn; those before them at once."""
    (whole,) = feed
    alone = {kind: min(count, table.num_rows) for kind, table in whole.items()}
    first = {kind: table.slice(0, table.num_rows - alone[kind]) for kind, table in whole.items()}
    last = [
        (index / alone[kind], {kind: table.slice(table.num_rows - alone[kind] + index, 1)})
        for kind, table in whole.items()
        for index in range(alone[kind])
    ]
    return [first, *(piece for _, piece in sorted(last, key=lambda each: each[0]))]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("loading", ["all first", "record by record"])
def test_equal_to_sql(seed, loading):
    """Random cuts, partitions, vnodes and actors; a failed attempt, and a reschedule."""
    events = SOAK or 1_200
    feed = generated(settings(seed), events, 1, random.Random(seed))
    if loading == "record by record":
        feed = singly(feed, 300 if SOAK else 5)
    found, records = run("q6", feed, seed, build=shared, read=everything)
    for name in NAMES:
        wanted = expected(name, records)
        assert differences(found[name], wanted) == [], name
        assert wanted


def _lines(name):
    """How many lines of code a query's declaration has, but for imports and docstrings."""
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    wanted = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name != "results":
            docstring = node.body[0]
            own = set(range(node.lineno, (node.end_lineno or 0) + 1))
            wanted |= own - set(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
        elif isinstance(node, ast.Assign):
            wanted |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    lines = source.splitlines()
    return [lines[number - 1] for number in sorted(wanted) if lines[number - 1].strip()]


@pytest.mark.parametrize("name", NAMES)
def test_they_are_short(name):
    """What is declared, functions and schemas and all."""
    assert len(_lines(name)) <= LINES_MAX, "\n".join(_lines(name))
