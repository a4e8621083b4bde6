"""The contract of sinks as tests: whoever writes a sink lets these run against the real target.

A subclass says how a sink on an empty target is made and what that target holds; a test runner
that collects classes by name, such as pytest, does the rest::

    class TestClickHouse(SinkContract):
        def make_sink(self, target):
            return ClickHouse(self.server.url, table=target)

        def held(self, target):
            return self.server.rows(f"SELECT * FROM {target}")

What is held: rows come in order, whole parcels or nothing, each once, whoever writes them, and
however often; also when the answer to a write was lost, when a writer dies in the middle, and when
one that was given up writes late. For a sink that is only at least once ``held`` gives what remains
when repetitions are dropped by their key.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any, ClassVar

import pyarrow as pa

from atoll.errors import SinkError
from atoll.sinks.interface import Guarantee, Opening, Sink, SinkParcel, SinkRows, SinkWriter

__all__ = ["ALL_TYPES", "SinkContract", "parcel_of", "sample_rows"]

_UTC = dt.timezone.utc  # noqa: UP017  # as a value, not as a type

ALL_TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "double": pa.float64(),
    "decimal": pa.decimal128(20, 4),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "array": pa.list_(pa.int64()),
    "struct": pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.string())]),
    "map": pa.map_(pa.string(), pa.int64()),
}
"""Every type that a column of a stream can have, by a name."""

_SAMPLES: dict[str, Sequence[Any]] = {
    "boolean": [True, False],
    "tinyint": [-128, 127],
    "smallint": [-(2**15), 2**15 - 1],
    "integer": [-(2**31), 2**31 - 1],
    "bigint": [-(2**63), 2**63 - 1],
    "real": [0.5, -1.25],
    "double": [1e308, math.inf],
    "decimal": [Decimal("-1234567890123456.7891"), Decimal("0.0001")],
    "string": ["", "Zoë \"'\\;--\t\n,ß→🦀"],
    "binary": [b"", bytes(range(256))],
    "date": [dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    "timestamp": [
        dt.datetime(1582, 10, 15, tzinfo=_UTC),
        dt.datetime(2026, 2, 3, 4, 5, 6, 789012, tzinfo=_UTC),
    ],
    "timestamp_ntz": [dt.datetime(1970, 1, 1), dt.datetime(2026, 2, 3, 4, 5, 6, 789012)],  # noqa: DTZ001
    "array": [[], [1, None, -3]],
    "struct": [{"a": None, "b": "x"}, {"a": 7, "b": None}],
    "map": [[], [("k", 1), ("l", None)]],
}


def sample_rows(types: Iterable[str] = tuple(ALL_TYPES)) -> pa.Table:
    """Rows with the extremes of each type, and one that is null but for its ``id``."""
    columns: dict[str, pa.Array] = {"id": pa.array([1, 2, 3], pa.int64())}
    for name in types:
        columns[f"a_{name}"] = pa.array([*_SAMPLES[name], None], ALL_TYPES[name])
    return pa.table(columns)


def parcel_of(number: int, rows: pa.Table, *, dies_after: int | None = None) -> SinkParcel:
    """A parcel as a topology would make it: with gaps in the ids of microbatches.

    Args:
        number: Its number.
        rows: Its rows; a batch for each chunk.
        dies_after: After how many batches reading breaks off, as when the process is killed.
    """
    batches = rows.to_batches()

    def read() -> Iterator[pa.RecordBatch]:
        for count, batch in enumerate(batches):
            if dies_after is not None and count >= dies_after:
                raise DiedError
            yield batch

    return SinkParcel(number, number * 3, 0, 1_000 * number, rows.num_rows, rows.schema, read)


class DiedError(BaseException):
    """A process ends here. No sink can have caught it."""


class SinkContract(ABC):
    """What every sink must hold; each test has a target of its own.

    Attributes:
        types: The types of :data:`ALL_TYPES` that the sink's columns can have.
        follows_changes: Whether the sink can follow a PState's changes, entry by entry.
    """

    types: ClassVar[Sequence[str]] = tuple(ALL_TYPES)
    follows_changes: ClassVar[bool] = False

    @abstractmethod
    def make_sink(self, target: str) -> Sink:
        """A sink on a target of that name, empty when it is first asked for; no connection yet.

        Called several times for one target: all are the same sink, as after a restart.
        """

    @abstractmethod
    def held(self, target: str) -> list[dict[str, Any]]:
        """The rows that a reader of the target sees now, in order where it has one."""

    def make_changes_sink(self, target: str) -> Sink:
        """A sink that follows a PState; what it holds then are the entries, not the changes."""
        return self.make_sink(target)

    # Tests ----------------------------------------------------------------------------------------

    def test_parcels_are_written_in_order(self) -> None:
        """Parcels of several batches come in order, and the target says how far it is."""
        target, opening = self._target("in_order")
        writer = self._open(target, opening)
        self._holds(writer, 0)
        for number in (1, 2, 3):
            writer.write(parcel_of(number, _numbered(number, batches=3)))
        writer.close()
        self._same(_ids(1, 2, 3), target)
        self._reopened(target, opening, 3)

    def test_a_repeated_parcel_changes_nothing(self) -> None:
        """The same writer and a new one write again what was written."""
        target, opening = self._target("repeated")
        writer = self._open(target, opening)
        for number in (1, 2, 2, 1):
            writer.write(parcel_of(number, _numbered(number)))
        writer.close()
        again = self._open(target, opening)
        for number in (1, 2, 3):
            again.write(parcel_of(number, _numbered(number)))
        again.close()
        self._same(_ids(1, 2, 3), target)

    def test_a_lost_answer_is_found_out(self) -> None:
        """A writer is dropped after the write, before anybody noted it: the target knows."""
        target, opening = self._target("lost_answer")
        first = self._open(target, opening)
        first.write(parcel_of(1, _numbered(1)))
        second = self._open(target, opening)  # the first one was never closed
        self._holds(second, 1)
        second.write(parcel_of(1, _numbered(1)))
        second.write(parcel_of(2, _numbered(2)))
        second.close()
        self._same(_ids(1, 2), target)
        _closed(first)

    def test_a_writer_that_was_given_up_writes_late(self) -> None:
        """What it writes again, or ahead of the new one, is there once all the same."""
        target, opening = self._target("late")
        old = self._open(target, opening)
        old.write(parcel_of(1, _numbered(1)))
        new = self._open(target, _later(opening))
        new.write(parcel_of(2, _numbered(2)))
        for number in (1, 2, 3):
            _tried(old, parcel_of(number, _numbered(number)))
        if _is_there(self.held(target), 3):
            self._reopened(target, opening, 3)
        new.close()
        last = self._open(target, _later(opening))
        for number in (3, 4):
            last.write(parcel_of(number, _numbered(number)))
        last.close()
        _closed(old)
        self._same(_ids(1, 2, 3, 4), target)

    def test_two_writers_at_once(self) -> None:
        """Both write the same parcels at the same time; each is there once."""
        target, opening = self._target("at_once")
        writers = [self._open(target, opening), self._open(target, _later(opening))]
        begin = threading.Barrier(len(writers))

        def write(writer: SinkWriter) -> None:
            begin.wait()
            for number in range(1, 6):
                if not _tried(writer, parcel_of(number, _numbered(number))):
                    return

        threads = [threading.Thread(target=write, args=(each,)) for each in writers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for writer in writers:
            _closed(writer)
        last = self._open(target, _later(opening))
        for number in range(1, 7):
            last.write(parcel_of(number, _numbered(number)))
        last.close()
        self._same(_ids(*range(1, 7)), target, ordered=False)

    def test_a_writer_dies_in_the_middle(self) -> None:
        """Nothing of the parcel is seen, and the next writer writes all of it."""
        target, opening = self._target("middle")
        dying = self._open(target, opening)
        dying.write(parcel_of(1, _numbered(1)))
        try:
            dying.write(parcel_of(2, _numbered(2, batches=3), dies_after=2))
        except DiedError:
            pass
        else:
            raise AssertionError("a parcel whose rows cannot be read was written")
        if self._exactly_once(target):
            self._same(_ids(1), target)
        _closed(dying)
        heir = self._open(target, opening)
        self._holds(heir, 1)
        heir.write(parcel_of(2, _numbered(2, batches=3)))
        heir.close()
        self._same(_ids(1, 2), target)

    def test_a_gap_is_refused(self) -> None:
        """A parcel that is not the next one is refused, and nothing of it is there."""
        target, opening = self._target("gap")
        if not self._exactly_once(target):
            return  # without a number in the target there is nothing to see it by
        writer = self._open(target, opening)
        writer.write(parcel_of(1, _numbered(1)))
        if _tried(writer, parcel_of(3, _numbered(3))):
            raise AssertionError("parcel 3 was written after parcel 1")
        _closed(writer)
        self._same(_ids(1), target)
        self._reopened(target, opening, 1)

    def test_parcels_without_rows_count(self) -> None:
        """A parcel may be empty; its number is taken all the same."""
        target, opening = self._target("no_rows")
        writer = self._open(target, opening)
        empty = _numbered(2).slice(0, 0)
        for number, rows in enumerate((_numbered(1), empty, _numbered(3)), 1):
            writer.write(parcel_of(number, rows))
        writer.close()
        self._same(_ids(1, 3), target)
        self._reopened(target, opening, 3)

    def test_nulls_and_all_types_come_back(self) -> None:
        """The extremes of each type, null in each column, and texts that would end a statement."""
        rows = sample_rows(self.types)
        target, opening = self._target("types", SinkRows(rows.schema))
        writer = self._open(target, opening)
        writer.write(parcel_of(1, rows))
        writer.close()
        found = sorted(self.held(target), key=lambda row: row["id"])
        expected = rows.to_pylist()
        if len(found) != len(expected):
            raise AssertionError(f"{len(expected)} rows came as {len(found)}")
        for wanted, there in zip(expected, found, strict=True):
            for name in wanted:
                if not _alike(wanted[name], there[name]):
                    raise AssertionError(f"{name}: {wanted[name]!r} came as {there[name]!r}")

    def test_another_sinks_number_is_not_taken_over(self) -> None:
        """A sink with the same names on another root is refused, or begins with nothing."""
        target, opening = self._target("another")
        writer = self._open(target, opening)
        for number in (1, 2):
            writer.write(parcel_of(number, _numbered(number)))
        writer.close()
        stranger = Opening(opening.identity + "0", 1, opening.rows)
        try:
            other = self._open(target, stranger)
        except SinkError:
            return
        self._holds(other, 0)
        _closed(other)

    def test_a_column_more_is_written_whole_or_refused(self) -> None:
        """After an update rows have another column; no parcel is written by half."""
        target, opening = self._target("column")
        writer = self._open(target, opening)
        writer.write(parcel_of(1, _numbered(1)))
        rows = _numbered(2)
        wider = rows.append_column("more", pa.array(["m"] * rows.num_rows))
        written = _tried(writer, parcel_of(2, wider))
        _closed(writer)
        self._same(_ids(1, 2) if written else _ids(1), target)
        self._reopened(target, opening, 2 if written else 1)

    def test_a_pstate_is_followed(self) -> None:
        """Entries come, change and go; in the end the target holds what the PState does."""
        if not self.follows_changes:
            return
        rows = SinkRows(_CHANGES, ("key",), "entries")
        target, opening = self._target("changes", rows)
        state: dict[str, int] = {}
        for number, now in enumerate(_STATES, 1):
            writer = self.make_changes_sink(target).open(opening)
            for _ in range(2):  # again each time: it changes nothing
                writer.write(parcel_of(number, _changes(state, now)))
            writer.close()
            state = now
            found = {row["key"]: row["new"] for row in self.held(target)}
            if found != state or len(self.held(target)) != len(state):
                raise AssertionError(f"after parcel {number}: {state} is {self.held(target)}")

    # Inside ---------------------------------------------------------------------------------------

    def _target(self, name: str, rows: SinkRows | None = None) -> tuple[str, Opening]:
        target = f"{name}_{next(_COUNTER)}"
        rows = SinkRows(_numbered(1).schema) if rows is None else rows
        sink = self.make_changes_sink(target) if rows.changes else self.make_sink(target)
        sink.check(rows)
        return target, Opening(f"module/topology/{target}/0123456789abcdef", 1, rows)

    def _open(self, target: str, opening: Opening) -> SinkWriter:
        return self.make_sink(target).open(opening)

    def _exactly_once(self, target: str) -> bool:
        return self.make_sink(target).guarantee is Guarantee.EXACTLY_ONCE

    def _holds(self, writer: SinkWriter, number: int) -> None:
        found = writer.last_written()
        if found not in (number, None):
            raise AssertionError(f"the target holds parcels up to {number}, not {found}")

    def _reopened(self, target: str, opening: Opening, number: int) -> None:
        writer = self._open(target, opening)
        self._holds(writer, number)
        writer.close()

    def _same(self, expected: list[int], target: str, *, ordered: bool = True) -> None:
        found = [row["id"] for row in self.held(target)]
        if (found if ordered else sorted(found)) != expected:
            raise AssertionError(f"the target holds {found} instead of {expected}")


_COUNTER = itertools.count()
_ROWS = 6
_CHANGES = pa.schema([("key", pa.string()), ("old", pa.int64()), ("new", pa.int64())])
_STATES: list[dict[str, int]] = [
    {"a": 1, "b": 2, 'it\'s "c"': 3},
    {"a": 1, "b": 5},
    {},
    {"b": -1, "d": 2**62},
]


def _numbered(number: int, *, batches: int = 1) -> pa.Table:
    """Rows that say whose they are, and that no other parcel has."""
    first = number * 100
    ids = list(range(first, first + _ROWS))
    rows = pa.table({"id": pa.array(ids, pa.int64()), "text": [f"row {each}" for each in ids]})
    size = _ROWS // batches
    return pa.concat_tables(rows.slice(start, size) for start in range(0, _ROWS, size))


def _ids(*numbers: int) -> list[int]:
    return [number * 100 + row for number in numbers for row in range(_ROWS)]


def _changes(before: dict[str, int], now: dict[str, int]) -> pa.Table:
    changed = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    rows = [{"key": key, "old": before.get(key), "new": now.get(key)} for key in changed]
    return pa.Table.from_pylist(rows, _CHANGES)


def _later(opening: Opening) -> Opening:
    return Opening(opening.identity, opening.epoch + 1, opening.rows)


def _is_there(rows: list[dict[str, Any]], number: int) -> bool:
    """Whether the rows of a parcel are there already."""
    return any(row["id"] // 100 == number for row in rows)


def _tried(writer: SinkWriter, parcel: SinkParcel) -> bool:
    """Whether a write went well; a writer that was given up may be refused in any way."""
    try:
        writer.write(parcel)
    except Exception:  # noqa: BLE001 - as said
        return False
    return True


def _closed(writer: SinkWriter) -> None:
    with contextlib.suppress(Exception):  # its connection may be gone
        writer.close()


def _alike(wanted: Any, found: Any) -> bool:
    """Whether a value came back; maps may come as dicts or as pairs."""
    if isinstance(wanted, list) and isinstance(found, dict):
        found = list(found.items())
    if isinstance(wanted, list) and isinstance(found, list):
        pairs = zip(wanted, found, strict=False)
        return len(wanted) == len(found) and all(_alike(a, b) for a, b in pairs)
    if isinstance(wanted, tuple) and isinstance(found, list | tuple):
        return list(wanted) == list(found)
    return type(wanted) is type(found) and bool(wanted == found)
