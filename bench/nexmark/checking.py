"""Holds a query's result against DuckDB's over the same records.

What may not change a result is drawn at random: vnodes, depot partitions, actors, where
microbatches are cut, which attempts fail after their work, and when the actors are rescheduled.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections import defaultdict
from decimal import Decimal
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from atoll.errors import RescheduleError
from atoll.testing import TopologyTestDriver
from nexmark import queries
from nexmark.feeds import tables
from nexmark.site import TOPOLOGY, Site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from nexmark.feeds import Feed

__all__ = ["differences", "expected", "run"]

Rows = list[tuple[Any, ...]]
_TOLERANCE = 1e-9
_PROCESSED = "processed_at"
_SMALL = "topology.microbatch.small.max.records"


def expected(name: str, records: Mapping[str, pa.Table]) -> Rows:
    """What ``reference/<name>.sql`` gives over all records.

    Tables are ``person``, ``auction`` and ``bid``; their times are without a zone and mean UTC.
    """
    sql = (Path(__file__).parent / "reference" / f"{name}.sql").read_text(encoding="utf-8")
    with duckdb.connect() as connection:
        for kind, table in records.items():
            connection.register(kind, _without_zones(table))
        return connection.execute(sql).fetchall()


def differences(found: Iterable[tuple[Any, ...]], wanted: Iterable[tuple[Any, ...]]) -> list[str]:
    """How two sets of rows differ, in words, a few of them; empty when they are the same.

    The order of the rows means nothing. Floats may differ in their last digits.
    """
    ours, theirs = ([_plain(row) for row in rows] for rows in (found, wanted))
    ours.sort(key=_order)
    theirs.sort(key=_order)
    wrong = [] if len(ours) == len(theirs) else [f"{len(ours)} rows instead of {len(theirs)}"]
    pairs = zip(ours, theirs, strict=False)
    wrong += [f"{one} instead of {two}" for one, two in pairs if not _same(one, two)][:5]
    return wrong


def run(  # each says one thing of the check
    name: str,
    feed: Feed,
    seed: int,
    *,
    build: Callable[[Site], None] | None = None,
    read: Callable[[Any], Rows] | None = None,
) -> tuple[Rows, dict[str, pa.Table]]:
    """Run a query over a feed, piece by piece, on the test driver.

    Args:
        name: Of the query.
        feed: Its pieces are appended one after the other; some of them wait for the next.
        seed: Of all that is drawn.
        build: Declares it; that of the query when None.
        read: Reads the rows; that of the query when None.

    Returns:
        Its rows, and the records that it saw, bids with the time of their microbatch as
        ``processed_at``.
    """
    dice = random.Random(seed)
    query = queries.load(name)
    site = Site(
        name,
        partitions=dice.randint(1, 3),
        vnode_count=dice.choice([1, 7, 16, 64]),
        options={_SMALL: dice.choice([0, 20_000])},
    )
    (build or query.build)(site)
    parallelism = dice.randint(1, 3)
    with TopologyTestDriver(site.module, parallelism=parallelism) as driver:
        times = _feed(driver, site, feed, dice)
        found = (read or query.results)(driver.app)
    seen = tables(feed)
    if "bid" in site.reads:
        seen["bid_processed"] = times
    return found, seen


class _Processed:
    """When each bid was processed, by the plan of its microbatch."""

    def __init__(self, driver: TopologyTestDriver) -> None:
        self.driver = driver
        self.moved_ms = 0
        self.ranges: dict[int, list[tuple[int, int, int]]] = defaultdict(list)

    def microbatch(self, most: int | None = None) -> bool:
        """Run one; whether there was one to run."""
        now_ms = self.driver.clock.now_ms()
        done = self.driver.microbatch(max_records=most)
        if done is not None:
            self._note(done.ranges.get("bid", ()), now_ms)
        return done is not None

    def move(self, parallelism: int) -> None:
        """Reschedule; the new mapping is tried with a microbatch of its own, if records wait.

        When that attempt is the one that is made to fail, nothing is rescheduled: ask again.
        """
        self.moved_ms = self.driver.clock.now_ms()
        try:
            self.driver.app.cluster.set_parallelism(TOPOLOGY, f"fixed({parallelism})")
        except RescheduleError:
            self.driver.app.cluster.set_parallelism(TOPOLOGY, f"fixed({parallelism})")

    def bids(self) -> pa.Table:
        """All bids, with the time of their microbatch."""
        depot = self.driver.depot("bid")
        self._note([(end, end) for end in depot.end_offsets()], 0)
        parts = []
        for partition, ranges in self.ranges.items():
            for start, end, now_ms in ranges:
                if end > start:
                    rows = pa.table(depot.read(partition, start, end))
                    at = pa.scalar(now_ms * 1_000, pa.int64()).cast(pa.timestamp("us", "UTC"))
                    parts.append(rows.append_column(_PROCESSED, pa.repeat(at, rows.num_rows)))
        return pa.concat_tables(parts)

    def _note(self, ranges: Sequence[tuple[int, int]], now_ms: int) -> None:
        """Records between the ranges were processed when the actors moved."""
        for partition, (start, end) in enumerate(ranges):
            known = self.ranges[partition][-1][1] if self.ranges[partition] else 0
            self.ranges[partition] += [(known, start, self.moved_ms), (start, end, now_ms)]


def _feed(driver: TopologyTestDriver, site: Site, feed: Feed, dice: random.Random) -> pa.Table:
    """Append and process all of it; the bids with the time at which they were processed."""
    moving, failing = dice.randrange(len(feed)), dice.randrange(len(feed))
    processed = _Processed(driver)
    for number, piece in enumerate(feed):
        for kind, table in piece.items():
            if kind in site.reads and table.num_rows:
                driver.depot(kind).append(table)
        if number == moving:
            processed.move(dice.randint(1, 4))
        if number == failing:
            driver.fail_next_attempt(after_work=True)
        most = max(sum(table.num_rows for table in piece.values()) // dice.randint(1, 3), 1)
        for _ in range(dice.randint(0, 2)):
            driver.advance(dice.choice([0.0, 0.5, 4.0]))
            processed.microbatch(most)
    while processed.microbatch():
        pass
    return processed.bids() if "bid" in site.reads else pa.table({})


def _without_zones(table: pa.Table) -> pa.Table:
    fields = [
        field.with_type(pa.timestamp("us")) if pa.types.is_timestamp(field.type) else field
        for field in table.schema
    ]
    columns = [pc.cast(column, f.type) for column, f in zip(table.columns, fields, strict=True)]
    return pa.table(columns, schema=pa.schema(fields))


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_value(value) for value in row)


def _value(value: Any) -> Any:
    match value:
        case dt.datetime():
            naive = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value
            return naive.astimezone(dt.UTC).replace(tzinfo=None)
        case bool():
            return value
        case int():
            return Decimal(value)
        case list() | tuple():
            return tuple(_value(each) for each in value)
    return value


def _order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """By what is exact, then by floats: those may differ in their last digits."""
    exact = tuple((value is None, str(type(value)), value) for value in row if not _is_float(value))
    floats = tuple(value for value in row if _is_float(value))
    return tuple((absent, kind, "" if absent else v) for absent, kind, v in exact), floats


def _same(one: tuple[Any, ...], two: tuple[Any, ...]) -> bool:
    return len(one) == len(two) and all(starmap(_same_value, zip(one, two, strict=True)))


def _same_value(one: Any, two: Any) -> bool:
    if _is_float(one) or _is_float(two):
        return one is not None and two is not None and math.isclose(one, two, rel_tol=_TOLERANCE)
    return bool(one == two)


def _is_float(value: Any) -> bool:
    return isinstance(value, float)
