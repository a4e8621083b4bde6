"""The contract finds sinks out: each of these breaks one promise, and some test of it fails."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from atoll.errors import SinkError
from atoll.sinks import Guarantee, Sink, SinkWriter, registry, sink_kinds
from atoll.testing.sinks import SinkContract


@dataclass
class Table:
    """What a server holds."""

    rows: list = field(default_factory=list)
    number: int = 0


@dataclass(frozen=True)
class Flawed(Sink):
    """A sink in memory that lacks one thing."""

    tables: dict
    name: str
    flaw: str

    kind: ClassVar[str] = "flawed"
    guarantee: ClassVar[Guarantee] = Guarantee.EXACTLY_ONCE

    @property
    def target(self):
        """Memory."""
        return "memory"

    def check(self, rows):
        """Everything goes."""

    def open(self, opening):
        """Connect."""
        key = self.name if self.flaw == "identity" else opening.identity
        return Writer(self, self.tables.setdefault(key, Table()))


class Writer(SinkWriter):
    """Writes as its sink's flaw lets it."""

    def __init__(self, sink, table):
        self.sink, self.table, self.seen = sink, table, table.number

    def last_written(self):
        """What is held."""
        return 0 if self.sink.flaw == "forgets" else self.table.number

    def write(self, parcel):
        """All of it, or nothing."""
        flaw, table = self.sink.flaw, self.table
        known = self.seen if flaw == "looks once" else table.number
        if parcel.number <= known and flaw != "repeats":
            return
        if parcel.number > known + 1 and flaw != "gaps":
            raise SinkError("a gap")
        if flaw == "halves":
            for batch in parcel.batches():
                table.rows += batch.to_pylist()
        else:
            rows = parcel.table().to_pylist()
            table.rows += rows[:-1] if flaw == "drops" else rows
        if flaw == "nulls":
            for row in table.rows:
                row.update({name: 0 for name, value in row.items() if value is None})
        if not (flaw == "empty" and not parcel.records):
            table.number = parcel.number
        self.seen = parcel.number


def found_out(flaw):
    """The tests of the contract that fail with a flaw."""

    class Contract(SinkContract):
        def make_sink(self, target):
            return Flawed(tables, target, flaw)

        def held(self, target):
            names = [key for key in tables if key == target or f"/{target}/" in key]
            return [row for key in names for row in tables[key].rows]

    failing = set()
    for name in dir(Contract):
        if name.startswith("test_"):
            tables = {}
            try:
                getattr(Contract(), name)()
            except (AssertionError, SinkError):
                failing.add(name)
    return failing


def test_a_sink_without_a_flaw_passes():
    """All of it."""
    assert found_out("") == set()


@pytest.mark.parametrize(
    ("flaw", "test"),
    [
        ("looks once", "test_a_writer_that_was_given_up_writes_late"),
        ("repeats", "test_a_repeated_parcel_changes_nothing"),
        ("gaps", "test_a_gap_is_refused"),
        ("halves", "test_a_writer_dies_in_the_middle"),
        ("drops", "test_parcels_are_written_in_order"),
        ("nulls", "test_nulls_and_all_types_come_back"),
        ("empty", "test_parcels_without_rows_count"),
        ("forgets", "test_a_lost_answer_is_found_out"),
        ("identity", "test_another_sinks_number_is_not_taken_over"),
    ],
)
def test_each_flaw_is_found_out(flaw, test):
    """By the test that is about it, others aside."""
    assert test in found_out(flaw)


def test_all_kinds_are_sinks_and_no_two_are_called_alike(monkeypatch):
    """Atoll's own can all be loaded; a package that gives a name again is refused, and told."""
    kinds = sink_kinds()
    assert {"folder", "postgres", "webhook"} <= set(kinds)
    assert all(each.kind == kind for kind, each in kinds.items())

    class Point:
        name, value, dist = "folder", "elsewhere:Folder", None

    monkeypatch.setattr(registry, "entry_points", lambda **_: [Point])
    with pytest.raises(SinkError, match="both have a sink of kind 'folder'"):
        sink_kinds()
    Point.name, Point.value = "table", "pyarrow:Table"
    with pytest.raises(SinkError, match="names pyarrow:Table as the sink 'table', which it is not"):
        sink_kinds()
