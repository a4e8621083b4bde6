"""A3: statistics of latencies in windows of four sizes, and queries that use the coarsest ones.

``last_millis`` depends on the order of appends. A range of minutes is read from as few windows as
cover it: :func:`split_range` is pure, and the query adds up what it says.
"""

from __future__ import annotations

import pytest

import atoll
from atoll import Map, Struct, agg, path

GRANULARITIES = {"m": 1, "h": 60, "d": 1440, "td": 43_200}
"""Minutes of a window; ``td`` is thirty days."""
COARSER = {"m": ("h", 60), "h": ("d", 24), "d": ("td", 30)}
"""The next larger window, and how many go into it."""


def windows(row):
    """The latency once for each size of window."""
    minute = row.ts_millis // 60_000
    for granularity, minutes in GRANULARITIES.items():
        yield {
            "url": row.url,
            "granularity": granularity,
            "bucket": minute // minutes,
            "millis": row.render_millis,
        }


def make_module(shape):
    """Statistics by URL, size of the window and number of the window."""
    module = atoll.Module("time-series")
    latencies = module.depot(
        "latencies",
        "url string, render_millis long, ts_millis long",
        partition_by="url",
        partitions=shape.partitions,
    )
    mb = module.microbatch("timeseries", vnode_count=shape.vnodes)
    stats = Struct(cardinality=int, total=int, last_millis=int, min=int, max=int)
    window_stats = mb.pstate("window_stats", Map(str, Map(str, Map(int, stats))))

    (
        mb.source(latencies)
        .flat_map(windows, emits="url string, granularity string, bucket long, millis long")
        .aggregate(
            window_stats["url"]["granularity"]["bucket"],
            cardinality=agg.count(),
            total=agg.sum("millis"),
            last_millis=agg.last("millis"),
            min=agg.min("millis"),
            max=agg.max("millis"),
        )
    )
    return module


def split_range(granularity, start, end):
    """The windows, as (granularity, start, end) with ``end`` excluded, that make up a range."""
    if granularity not in COARSER:
        return {(granularity, start, end)} if start < end else set()
    coarser, size = COARSER[granularity]
    first, last = -(-start // size), end // size
    if first * size >= last * size:
        return {(granularity, start, end)} if start < end else set()
    edges = {(granularity, start, first * size), (granularity, last * size, end)}
    return split_range(coarser, first, last) | {each for each in edges if each[1] < each[2]}


def minute_range(state, url, start, end):
    """(cardinality, total, last, least, most) of the minutes from ``start`` to before ``end``."""
    found = []
    for granularity, begin, stop in split_range("m", start, end):
        part = state.select_one(path.key(url, granularity).sorted_range(begin, stop))
        found += [(at * GRANULARITIES[granularity], each) for at, each in part.items()]
    stats = [each for _, each in sorted(found, key=lambda pair: pair[0])]
    return (
        sum(each["cardinality"] for each in stats),
        sum(each["total"] for each in stats),
        stats[-1]["last_millis"] if stats else None,
        min((each["min"] for each in stats), default=None),
        max((each["max"] for each in stats), default=None),
    )


def shown(stats):
    """The statistics in the order in which the case lists them."""
    return tuple(stats[name] for name in ("cardinality", "total", "last_millis", "min", "max"))


@pytest.mark.parametrize(
    ("asked", "parts"),
    [
        (
            ("m", 63, 10_033),
            {("m", 63, 120), ("h", 2, 24), ("d", 1, 6), ("h", 144, 167), ("m", 10_020, 10_033)},
        ),
        (("d", 3, 122), {("d", 3, 30), ("td", 1, 4), ("d", 120, 122)}),
        (("m", 5, 5), set()),
        (("m", 0, 43_200), {("td", 0, 1)}),
    ],
)
def test_ranges_are_split(asked, parts):
    """Into the coarsest windows, with finer ones at both ends."""
    assert split_range(*asked) == parts


def test_parts_of_a_range_cover_it_once():
    """Minute by minute, for ranges of every length and position."""
    for start in range(0, 200, 7):
        for end in range(start, start + 3_200, 61):
            minutes = [
                minute
                for granularity, begin, stop in split_range("m", start, end)
                for minute in range(
                    begin * GRANULARITIES[granularity], stop * GRANULARITIES[granularity]
                )
            ]
            assert sorted(minutes) == list(range(start, end))


FOO = [(10, 3), (20, 3), (15, 10), (18, 10), (33, 10), (20, 65), (30, 65), (100, 1440)]
FOO += [(100, 1448), (50, 3002)]
OTHER = [(10, 3), (20, 3), (15, 10), (20, 65), (30, 65), (100, 1440), (100, 1448), (50, 3002)]


def test_time_series(run, shape):
    """Windows, ranges of windows, and ranges of minutes over all sizes."""
    run.deploy(shape.example("time_series.py") or make_module(shape)).cut()
    for url, rows, count in (("foo.com", FOO, 10), ("d.com", OTHER, 18)):
        run.app.depot("latencies").append(
            [
                {"url": url, "render_millis": ms, "ts_millis": minute * 60_000 + 59_999}
                for ms, minute in rows
            ]
        )
        run.disturb()
        run.app.topology("timeseries").wait_processed(count)

    state = run.app.pstate("window_stats")
    minutes = path.key("foo.com", "m")
    assert shown(state.select_one(minutes.key(3))) == (2, 30, 20, 10, 20)
    part = state.select_one(minutes.sorted_range(3, 11))
    assert [(at, shown(each)) for at, each in part.items()] == [
        (3, (2, 30, 20, 10, 20)),
        (10, (3, 66, 33, 15, 33)),
    ]
    assert state.select_one(minutes.sorted_range(0, 4320).size()) == 6
    assert shown(state.select_one(path.key("foo.com", "d", 0))) == (7, 146, 30, 10, 33)
    assert minute_range(state, "foo.com", 0, 4320) == (10, 396, 50, 10, 100)

    assert minute_range(state, "d.com", 0, 4320) == (8, 345, 50, 10, 100)
    assert minute_range(state, "d.com", 0, 60)[:2] == (3, 45)
    assert minute_range(state, "d.com", 60, 120)[:2] == (2, 50)
    assert minute_range(state, "d.com", 1440, 1500)[:2] == (2, 200)
    assert minute_range(state, "d.com", 4, 10)[:2] == (0, 0)
    assert minute_range(state, "d.com", 9, 9)[:2] == (0, 0)
    assert minute_range(state, "nobody.com", 0, 4320) == (0, 0, None, None, None)
