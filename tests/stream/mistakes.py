"""How tests state that a declaration is refused: on its own line, with what to do."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import atoll
from atoll import Map, Set, Struct, agg
from atoll.errors import DeclarationError
from atoll.testing import TopologyTestDriver


@contextmanager
def refused(*words, lines=1):
    """The block raises a DeclarationError that names its first line and holds these words.

    ``lines`` is how many lines the statement under test has: the place may be any of them.
    """
    frame = inspect.currentframe().f_back.f_back
    file, began = Path(frame.f_code.co_filename).name, frame.f_lineno
    with pytest.raises(DeclarationError) as caught:
        yield
    error = caught.value
    name, _, line = str(error.context.get("declared", "missing:0")).rpartition(":")
    assert name == file, error
    assert began < int(line) <= began + lines, error
    assert error.hint, error
    for word in words:
        assert word in str(error), error


@dataclass(frozen=True)
class Mistake:
    """Something that is refused, and what its hint says to write instead.

    ``wrong`` and ``right`` take a :class:`World`, and declare in it. ``hint`` is a part of the
    hint: what ``right`` does is what it says.
    """

    wrong: Callable[[World], object]
    hint: str
    right: Callable[[World], object]


class World:
    """A module with some of everything, of which nothing is wrong yet."""

    def __init__(self, name: str = "m") -> None:
        self.module = atoll.Module(name)
        self.depot = self.module.depot(
            "rows", "k string, n long, at timestamp, tags array<string>", partitions=1
        )
        self.mb = self.module.microbatch("mb", vnode_count=2)
        self.rows = self.mb.source(self.depot)
        self.counts = self.mb.pstate("counts", Map(str, int))
        self.sets = self.mb.pstate("sets", Map(str, Set(int)))
        self.nested = self.mb.pstate("nested", Map(str, Map(str, int)))
        self.mixed = self.mb.pstate("mixed", Map(str, Struct(seen=Set(int), n=int)))
        self.stats = self.mb.pstate("stats", Map(str, Struct(n=int, total=int)))
        self.second = self.module.microbatch("second", vnode_count=2)
        self.more = self.second.source(self.depot)
        self.second.pstate("own", Map(str, int))
        self.more.aggregate(self.second.graph.pstates["own"]["k"], agg.count())
        self.windows = self.rows.with_watermark("at", "1 hour").window("at", "1 hour")

    def query(self, **parameters):
        """A query of the module."""
        return self.module.query("asked", **parameters)

    def state(self, schema, name="state"):
        """One more PState."""
        return self.mb.pstate(name, schema)

    def deployed(self) -> None:
        """Hold that all that was declared can be deployed."""
        with TopologyTestDriver(self.module, engine="inline"):
            pass
