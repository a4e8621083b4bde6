"""Windows of event time: equal to a plain recount, however rows are cut, placed and retried."""

from __future__ import annotations

import datetime as dt
import itertools
from collections import Counter, defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import atoll
from atoll import Map, agg, start
from atoll.errors import DeclarationError, DeployError
from atoll.testing import TopologyTestDriver

ROWS = "user string, at long, v long"
COUNTED = (
    "user string, window_start long, window_end long, n long, total long, vs array<long>, "
    "kinds long, seen array<long>, per_kind map<long, long>"
)
DELAY_MS = 10_000
SECOND = 1_000


def aggregates():
    """Sums that do not depend on order, a list that does, and what is kept of distinct values."""
    return {
        "n": agg.count(),
        "total": agg.sum("v"),
        "vs": agg.collect_list("v"),
        "kinds": agg.count_distinct("v % 3"),
        "seen": agg.collect_set("v % 3"),
        "per_kind": agg.count_values("v % 3"),
    }


def module_of(make, vnodes=4, partitions=2, columns=COUNTED):
    """A module whose topology sends what ``make(stream)`` gives to the depot ``out``."""
    module = atoll.Module("windows")
    clicks = module.depot("clicks", ROWS, partition_by="user", partitions=partitions)
    out = module.depot("out", columns, partitions=1)
    mb = module.microbatch("mb", vnode_count=vnodes)
    rows = mb.source(clicks, start_from=start.beginning()).with_watermark("at", "10 seconds")
    make(rows).append_to(out)
    return module


def read(driver, depot="out"):
    """All records of a depot with one partition, in order."""
    there = driver.depot(depot)
    return there.read(0, 0, there.end_offsets()[0]).to_pylist()


def row(user, seconds, v=1):
    """A click."""
    return {"user": user, "at": round(seconds * SECOND), "v": v}


def tumbled(rows, size, slide):
    """Each user's windows, recounted."""
    found = defaultdict(list)
    for each in rows:
        begin = each["at"] - each["at"] % slide
        while begin > each["at"] - size:
            found[each["user"], begin, begin + size].append(each["v"])
            begin -= slide
    return shown(found)


def sessions(rows, gap):
    """Each user's sessions, recounted: rows sorted, cut where nothing came for the gap."""
    found = {}
    by_user = defaultdict(list)
    for each in rows:
        by_user[each["user"]].append(each)
    for user, mine in by_user.items():
        ordered = sorted(mine, key=lambda each: each["at"])
        run = []
        for each in ordered:
            if run and each["at"] >= run[-1]["at"] + gap:
                found[user, run[0]["at"], run[-1]["at"] + gap] = [one["v"] for one in run]
                run = []
            run.append(each)
        found[user, run[0]["at"], run[-1]["at"] + gap] = [one["v"] for one in run]
    return shown(found)


def shown(found):
    """As rows of ``out``, lists sorted."""
    return sorted(
        (user, begin, end, len(vs), sum(vs), sorted(vs), *kinds(vs))
        for (user, begin, end), vs in found.items()
    )


def kinds(vs):
    """How many kinds of values there are, which, and how many of each."""
    found = sorted(Counter(v % 3 for v in vs).items())
    return len(found), [kind for kind, _ in found], found


def told(records):
    """Records of ``out`` as the recounts show them."""
    return sorted(
        (
            *(r["user"], r["window_start"], r["window_end"], r["n"], r["total"], sorted(r["vs"])),
            *(r["kinds"], r["seen"], r["per_kind"]),
        )
        for r in records
    )


@st.composite
def cases(draw):
    """Rows that are never late, in stretches, and everything that must not show."""
    count = draw(st.integers(1, 40))
    rows = []
    clock = 0
    for number in range(count):
        clock += draw(st.sampled_from([0, 1, 500, 3_000, 20_000]))
        at = clock - draw(st.integers(0, DELAY_MS))
        rows.append({"user": draw(st.sampled_from("abc")), "at": at, "v": number})
    cuts = sorted(draw(st.sets(st.integers(0, count), max_size=5)) | {0, count})
    return {
        "stretches": [rows[a:b] for a, b in itertools.pairwise(cuts)],
        "vnodes": draw(st.sampled_from([1, 3, 8])),
        "partitions": draw(st.integers(1, 3)),
        "parallelism": draw(st.integers(1, 3)),
        "failing": draw(st.sets(st.integers(0, 5), max_size=3)),
        "restarting": draw(st.sets(st.integers(0, 5), max_size=1)),
        "resizing": draw(st.dictionaries(st.integers(0, 5), st.integers(1, 3), max_size=1)),
    }


def run(case, make):
    """What comes out of the case once a row of a far day has closed all windows."""
    module = module_of(make, case["vnodes"], case["partitions"])
    with TopologyTestDriver(module, engine="inline", parallelism=3) as driver:
        driver.app.cluster.resize("mb", case["parallelism"])
        for number, stretch in enumerate(case["stretches"]):
            driver.depot("clicks").append(stretch)
            if number in case["failing"]:
                driver.fail_next_attempt(after_work=True)
            if number in case["resizing"]:
                driver.app.cluster.resize("mb", case["resizing"][number])
            driver.run_until_idle()
            if number in case["restarting"]:
                driver.restart()
        driver.depot("clicks").append([row("z", 1_000_000)])
        driver.fail_next_attempt(after_work=True)
        driver.run_until_idle()
        status = driver.status()
        assert sum(status["time"]["dropped"].values()) == 0
        return told(read(driver))


SLOW = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


@SLOW
@given(cases(), st.sampled_from([(10_000, 10_000), (10_000, 4_000), (3_000, 1_000)]))
def test_windows_equal_a_recount(case, shape):
    """Each closed window comes once, with all of its rows."""
    size, slide = shape
    found = run(
        case,
        lambda rows: rows.window(
            "at", dt.timedelta(milliseconds=size), f"{slide} milliseconds"
        ).aggregate_windows("user", **aggregates()),
    )
    rows = [each for stretch in case["stretches"] for each in stretch]
    assert found == tumbled(rows, size, slide)


@SLOW
@given(cases(), st.sampled_from([500, 5_000, 30_000]))
def test_sessions_equal_a_recount(case, gap):
    """Sessions grow, meet and close as if all rows had come at once."""
    found = run(
        case,
        lambda rows: rows.session_window("at", f"{gap} milliseconds").aggregate_windows(
            "user", **aggregates()
        ),
    )
    assert found == sessions([each for s in case["stretches"] for each in s], gap)


def test_a_window_comes_out_once_when_the_watermark_reaches_its_end():
    """Not a millisecond earlier, and without waiting for further records."""
    module = module_of(
        lambda s: s.window("at", "10 seconds").aggregate_windows("user", **aggregates())
    )
    with TopologyTestDriver(module, engine="inline") as driver:
        clicks = driver.depot("clicks")
        clicks.append([row("a", 1, 5), row("a", 9, 7), row("a", 19.999)])
        driver.run_until_idle()
        assert read(driver) == []
        clicks.append([row("b", 20)])
        assert [each.records for each in driver.run_until_idle()] == [1, 0]
        (only,) = read(driver)
        assert (only["user"], only["window_end"], only["vs"]) == ("a", 10_000, [5, 7])
        assert driver.run_until_idle() == []
        assert driver.status()["time"]["watermarks"] == {"clicks.at": 10_000}


def test_late_rows_are_a_stream_or_are_counted():
    """Never lost without a word; a sliding window takes a row into what is still open."""
    module = atoll.Module("late")
    clicks = module.depot("clicks", ROWS, partitions=1)
    late = module.depot("late", ROWS, partitions=1)
    mb = module.microbatch("mb", vnode_count=2)
    windows = mb.pstate("windows", Map(str, Map(int, int)))
    marked = mb.source(clicks, start_from=start.beginning()).with_watermark("at", "0 seconds")
    sliding, too_late = marked.window("at", "10 seconds", "5 seconds", split_late=True)
    sliding.aggregate(windows["user"]["window_start"], agg.count())
    too_late.append_to(late)
    counted = mb.pstate("counted", Map(str, Map(int, int)))
    marked.window("at", "5 seconds").aggregate(counted["user"]["window_start"], agg.count())
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot("clicks").append([row("a", 30)])
        driver.microbatch()
        driver.depot("clicks").append([row("a", 22), row("a", 19), {"user": "b", "v": 0}])
        driver.fail_next_attempt(after_work=True)
        driver.microbatch()
        assert driver.pstate("windows").get("a") == {25_000: 1, 30_000: 1}
        assert [each["at"] for each in read(driver, "late")] == [22_000, 19_000, None]
        assert driver.pstate("counted").get("a") == {30_000: 1}
        assert driver.status()["time"]["dropped"] == {"window.at": 3}


def test_allowed_lateness_gives_the_window_again():
    """A late row within it changes the row that came out; after it the window is gone."""
    module = module_of(
        lambda s: s.window("at", "10 seconds", allowed_lateness="5 seconds").aggregate_windows(
            "user", **aggregates()
        )
    )
    with TopologyTestDriver(module, engine="inline") as driver:
        for rows in ([row("a", 1)], [row("b", 21)], [row("a", 2)], [row("b", 25)], [row("a", 3)]):
            driver.depot("clicks").append(rows)
            driver.run_until_idle()
        assert [(r["user"], r["window_end"], r["n"]) for r in read(driver)] == [
            ("a", 10_000, 1),
            ("a", 10_000, 2),
        ]
        assert driver.status()["time"]["dropped"] == {"window.at": 1}


def test_timestamps_and_windows_of_all_keys():
    """Windows have the type of the event time; without keys a window is one row."""
    module = atoll.Module("instants")
    clicks = module.depot("clicks", "at timestamp, v long", partitions=2)
    out = module.depot("out", "window_start timestamp, window_end timestamp, n long", partitions=1)
    mb = module.microbatch("mb", vnode_count=4)
    rows = mb.source(clicks, start_from=start.beginning()).with_watermark("at", "1 minute")
    rows.window("at", "1 hour", start="15 minutes").aggregate_windows(n=agg.count()).append_to(out)
    day = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
    with TopologyTestDriver(module, engine="inline") as driver:
        minutes = (14, 15, 16, 74, 80, 200)
        driver.depot("clicks").append(
            [{"at": day + dt.timedelta(minutes=m), "v": m} for m in minutes]
        )
        driver.run_until_idle()
        assert [(r["window_start"].strftime("%H:%M"), r["n"]) for r in read(driver)] == [
            ("23:15", 1),
            ("00:15", 3),
            ("01:15", 1),
        ]


def test_a_rollback_restores_the_watermark():
    """What was closed after it closes again, and no row is late that was not."""
    module = module_of(
        lambda s: s.window("at", "10 seconds").aggregate_windows("user", **aggregates())
    )
    with TopologyTestDriver(module, engine="inline") as driver:
        clicks = driver.depot("clicks")
        clicks.append([row("a", 1)])
        driver.microbatch()
        before = driver.status()["time"]
        clicks.append([row("a", 2), row("a", 50)])
        driver.microbatch()
        assert driver.status()["time"] != before
        driver.topology("mb").rollback(1)
        assert driver.status()["time"] == before
        driver.topology("mb").resume()
        driver.run_until_idle()
        assert told(read(driver)) == [("a", 0, 10_000, 2, 2, [1, 1], *kinds([1, 1]))]


def test_the_lowest_watermark_of_a_union_counts():
    """As in Spark: a slow stream holds the windows open, and so does one without any row."""
    module = atoll.Module("both")
    mb = module.microbatch("mb", vnode_count=2)
    out = module.depot("out", "window_start long, window_end long, n long", partitions=1)
    marked = []
    for name in ("fast", "slow"):
        depot = module.depot(name, ROWS, partitions=1)
        rows = mb.source(depot, start_from=start.beginning())
        marked.append(rows.with_watermark("at", "0 seconds"))
    marked[0].union(marked[1]).window("at", "10 seconds").aggregate_windows(
        n=agg.count()
    ).append_to(out)
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot("fast").append([row("a", 1), row("a", 100)])
        driver.run_until_idle()
        assert read(driver) == []
        driver.depot("slow").append([row("a", 2), row("a", 10)])
        driver.run_until_idle()
        assert [each["n"] for each in read(driver)] == [2]


def test_windows_of_windows_go_by_a_watermark_of_their_own():
    """By the first one their rows would all be late."""
    module = atoll.Module("hours")
    clicks = module.depot("clicks", ROWS, partition_by="user", partitions=2)
    out = module.depot("out", "window_start long, window_end long, most long", partitions=1)
    mb = module.microbatch("mb", vnode_count=4)
    rows = mb.source(clicks, start_from=start.beginning()).with_watermark("at", "0 seconds")
    short = rows.window("at", "10 seconds").aggregate_windows("user", n=agg.count())
    with pytest.raises(DeclarationError, match="needs a watermark"):
        short.map(lambda row: {"ended": row.window_end}, emits="ended long").window(
            "ended", "1 minute"
        ).aggregate_windows(n=agg.count())
    renamed = short.map(
        lambda row: {"ended": row.window_end - 1, "n": row.n}, emits="ended long, n long"
    )
    minutes = renamed.with_watermark("ended", "0 seconds").window("ended", "1 minute")
    minutes.aggregate_windows(most=agg.max("n")).append_to(out)
    with TopologyTestDriver(module, engine="inline") as driver:
        clicks = [row("ab"[n % 2], n) for n in range(0, 200, 3)]
        for first in range(0, len(clicks), 7):
            driver.depot("clicks").append(clicks[first : first + 7])
            driver.run_until_idle()
        assert [(r["window_end"] // 60_000, r["most"]) for r in read(driver)] == [
            (1, 2),
            (2, 2),
            (3, 2),
        ]
        assert set(driver.status()["time"]["dropped"].values()) <= {0}


def test_another_aggregate_is_another_state():
    """An update that would read the windows' states wrongly is refused."""
    first = module_of(
        lambda s: s.window("at", "1 second").aggregate_windows("user", **aggregates())
    )
    other = module_of(
        lambda s: s.window("at", "1 second").aggregate_windows("user", n=agg.count()),
        columns="user string, window_start long, window_end long, n long",
    )
    del other.depots["out"]
    other.depots["out"] = first.depots["out"]
    with TopologyTestDriver(first, engine="inline") as driver:
        assert driver.app.pstates() == []
        other.topologies["mb"].graph.operators.pop()  # what appends other columns
        with pytest.raises(
            DeployError, match=r"window\(at\) by user is changed in meaning: aggregates"
        ):
            driver.update(other)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda s: s.with_watermark("at", "ten seconds"), "the delay of a watermark cannot be"),
        (lambda s: s.with_watermark("at + 1", "1 second"), "takes the name of a column"),
        (lambda s: s.window("at", "0 seconds"), "the length of a window cannot be"),
        (lambda s: s.window("at", "1 second", "2 seconds"), "rows between would be lost"),
        (lambda s: s.window("at", "1 second", allowed_lateness="1 day"), "have no watermark"),
        (
            lambda s: s.window("at", "1 second").aggregate_windows(n=agg.count()),
            "needs a watermark",
        ),
        (
            lambda s: (
                s.with_watermark("at", "1 second")
                .window("at", "1 second")
                .aggregate_windows("user")
            ),
            "at least one aggregate",
        ),
        (
            lambda s: (
                s.with_watermark("at", "1 second")
                .window("at", "1 second")
                .aggregate_windows("user", user=agg.count())
            ),
            "two columns of one name",
        ),
    ],
)
def test_mistakes_are_errors_on_their_own_line(declare, message):
    """With the place in the user's file."""
    module = atoll.Module("m")
    clicks = module.depot("clicks", ROWS)
    with pytest.raises(DeclarationError, match=message) as error:
        declare(module.microbatch("mb").source(clicks))
    assert str(error.value.context["declared"]).startswith("test_windows.py:")


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda s: s.with_watermark("user", "1 second"), "of type string as the time of an event"),
        (
            lambda s: s.window("when", "1 second").aggregate_windows,
            "which the rows before it do not",
        ),
        (lambda s: s.window("at", "1 second").window("at", "1 second"), "before it have already"),
    ],
)
def test_columns_are_checked_when_the_module_is_deployed(declare, message):
    """Types are known only then."""
    module = atoll.Module("m")
    clicks = module.depot("clicks", ROWS)
    declare(module.microbatch("mb").source(clicks))
    with (
        pytest.raises(DeclarationError, match=message),
        TopologyTestDriver(module, engine="inline"),
    ):
        pass


@pytest.mark.parametrize("most", [3, 10, 1_000])
def test_a_backlog_makes_no_rows_late(most):
    """Although one depot partition has twenty times as many rows, of the same time, as another."""
    module = module_of(
        lambda rows: rows.window("at", "5 seconds").aggregate_windows("user", **aggregates()),
        partitions=4,
    )
    heavy = [row("ann", n / 4) for n in range(1_200)]
    light = [row(user, n * 5) for n in range(60) for user in ("bob", "cyd", "dan")]
    with TopologyTestDriver(module) as driver:
        driver.depot("clicks").append(sorted(heavy + light, key=lambda each: each["at"]))
        while driver.microbatch(max_records=most) is not None:
            pass
        driver.depot("clicks").append([row("eve", 10_000)])
        driver.run_until_idle()
        found = read(driver)
    assert len(found) == 4 * 60
    assert sum(each["n"] for each in found) == 1_200 + 180
