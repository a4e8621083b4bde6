"""Updates of steps that keep state by themselves: each goes on with its own, or it is refused.

Followed hints are part of it: what a refusal says to do is done, and works.
"""

from __future__ import annotations

import re

import pytest

import atoll
from atoll import Map, agg, start
from atoll.cluster.local import LocalCluster
from atoll.errors import DeclarationError, DeployError, UsageError
from atoll.testing import TopologyTestDriver

FIRST = start.beginning()
ROWS = [{"k": "f", "a": a, "b": b, "v": 1.0} for a, b in [("ann", "x"), ("bob", "y"), ("ann", "z")]]


def module_of(*builds):
    """A module whose topology is what the functions declare, in their order."""
    module = atoll.Module("m")
    depots = {
        name: module.depot(
            name, "k string, a string, b string, v double, v2 double, at long", partitions=1
        )
        for name in ("d", "e", "f")
    }
    mb = module.microbatch("mb", vnode_count=2)
    mb.source(depots["d"], start_from=FIRST).aggregate(mb.pstate("rows", int), agg.count())
    for build in builds:
        build(mb, {n: mb.source(each, start_from=FIRST) for n, each in depots.items()})
    return module


def distinct(pstate, counted, **name):
    """A distinct count."""

    def build(mb, rows):
        rows["d"].aggregate(
            mb.pstate(pstate, Map(str, int))["k"], agg.count_distinct(counted, **name)
        )

    return build


def joined(pstate, depot, unique=None, column="a", union=None, **name):
    """A count of joined rows."""

    def build(mb, rows):
        left = rows["d"] if union is None else rows["d"].union(rows[union])
        right = rows[depot].select("k AS k2", f"{column} AS right")
        pairs = left.incremental_join(right, "left.k = right.k2", unique=unique, **name)
        pairs.aggregate(mb.pstate(pstate, Map(str, int))["k"], agg.count())

    return build


def folded(aggregator, kind=int):
    """An aggregate into p."""

    def build(mb, rows):
        rows["d"].aggregate(mb.pstate("p", Map(str, kind))["k"], aggregator)

    return build


def lines(plan):
    """The plan's lines of hidden state."""
    return [(each.effect, each.name) for each in plan.changes if each.kind == "hidden"]


def updated(driver, module, **keywords):
    """The plan, and then the update."""
    plan = driver.cluster.plan(module, **keywords)
    driver.update(module, **keywords)
    return plan


def test_a_step_inserted_above_leaves_the_other_its_state():
    """By position it would have got the state of the one below."""
    with TopologyTestDriver(module_of(distinct("authors", "a")), engine="inline") as driver:
        driver.depot("d").append(ROWS)
        driver.run_until_idle()
        plan = updated(driver, module_of(distinct("paths", "b"), distinct("authors", "a")))
        assert lines(plan) == [("added", "mb-distinct-paths"), ("kept", "mb-distinct-authors")]
        assert 'begins empty: count_distinct(b) into paths["k"]' in str(plan)
        driver.depot("d").append([*ROWS, {"k": "f", "a": "y", "b": "ann"}])
        driver.run_until_idle()
        assert driver.pstate("authors").get() == {"f": 3}
        assert driver.pstate("paths").get() == {"f": 4}


def test_swapped_joins_keep_their_rows():
    """Told apart by the depots that they join."""
    builds = [joined("with_e", "e"), joined("with_f", "f")]
    with TopologyTestDriver(module_of(*builds), engine="inline") as driver:
        driver.depot("e").append([{"k": "f"}])
        driver.depot("f").append([{"k": "f"}] * 2)
        driver.run_until_idle()
        plan = updated(driver, module_of(*reversed(builds)))
        assert lines(plan) == [("kept", "mb-join-d-f"), ("kept", "mb-join-d-e")]
        assert str(plan).startswith("nothing changes but steps and functions\nkept ")
        driver.depot("d").append(ROWS[:1])
        driver.run_until_idle()
        assert driver.pstate("with_e").get() == {"f": 1}
        assert driver.pstate("with_f").get() == {"f": 2}


def test_what_is_counted_into_goes_with_its_hidden_state():
    """No name of a hidden state is needed, and the others are untouched."""
    both = module_of(distinct("paths", "b"), distinct("authors", "a"))
    with TopologyTestDriver(both, engine="inline") as driver:
        driver.depot("d").append(ROWS)
        driver.run_until_idle()
        plan = updated(driver, module_of(distinct("authors", "a")), remove=["pstate:paths"])
        assert lines(plan) == [("removed", "mb-distinct-paths"), ("kept", "mb-distinct-authors")]
        driver.depot("d").append(ROWS)
        driver.run_until_idle()
        assert driver.pstate("authors").get() == {"f": 2}


def follow(driver, module):
    """Do what the refusals say, until it is deployed."""
    remove = []
    for _ in range(3):
        try:
            return updated(driver, module, remove=remove)
        except DeployError as error:
            remove += re.findall(r"(?:hidden|pstate):[\w.-]*\w", error.hint)
    raise AssertionError(remove)


@pytest.mark.parametrize(
    ("before", "after", "problem", "value"),
    [
        (distinct("p", "a"), distinct("p", "b"), "counts: a is deployed, b declared", 2 + 3),
        (distinct("p", "a"), distinct("p", "v"), "kept as: Map(str, Map(str, int)) is", 2 + 1),
        (distinct("p", "a"), folded(agg.count()), "no longer declared: count_distinct(a)", 2 + 3),
        (joined("p", "e"), joined("p", "e", "right"), "unique side: none is deployed, right", 3),
        (joined("p", "e"), joined("p", "e", column="v"), "right: k2 str | None, right float", 3),
        (joined("p", "e"), joined("p", "f"), "no longer declared: incremental_join of d and e", 3),
    ],
)
def test_another_meaning_is_refused_and_the_hint_works(before, after, problem, value):
    """What the hint names is removed, and the step begins empty on what the PState holds."""
    with TopologyTestDriver(module_of(before), engine="inline") as driver:
        driver.depot("d").append(ROWS)
        driver.depot("e").append(ROWS[:1])
        driver.run_until_idle()
        plan = driver.cluster.plan(module_of(after))
        assert len(plan.refused) == 1
        assert problem in plan.refused[0].detail
        assert "_mb-" not in str(plan), "a private name"
        with pytest.raises(DeployError, match=re.escape(problem)):
            driver.update(module_of(after))
        plan = follow(driver, module_of(after))
        assert ("removed", "hidden") in {(each.effect, each.kind) for each in plan.changes}
        driver.depot("d").append(ROWS)
        driver.run_until_idle()
        assert driver.pstate("p").get() == {"f": value}


def test_steps_before_may_change():
    """A column of the same name and type comes from elsewhere: rows kept stay as they are."""
    with TopologyTestDriver(module_of(joined("p", "e")), engine="inline") as driver:
        plan = updated(driver, module_of(joined("p", "e", column="b")))
        assert lines(plan) == [("kept", "mb-join-d-e")]


def timed(shape, delay="0 seconds", timers=None, column="at", total="v", **windows):
    """Windows or sessions by key, and timers."""

    def build(mb, rows):
        stream = rows["d"].with_watermark(column, delay)
        if timers is not None:
            stream.process(
                lambda row, _, timers: timers.at(row.at + 1000),
                key="k",
                states=[mb.pstate("p", Map(str, int))],
                on_timer=lambda timer, p, _: p.update({timer.key: 1}),
                timers=timers,
            )
            return
        word = "window" if "slide" in windows or shape == "window" else "session_window"
        wide = {"duration" if word == "window" else "gap": "1 minute", **windows}
        opened = getattr(stream, word)(column, **wide)
        opened.aggregate_windows("k", total=agg.sum(total)).aggregate(
            mb.pstate("p", Map(str, float))["k"], agg.sum("total")
        )

    return build


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (timed("session"), timed("session", gap="2 minutes"), "gap: 60000 ms is deployed, 120000"),
        (timed("window"), timed("window", duration="2 minutes"), "length: 60000 ms is deployed"),
        (
            timed("window"),
            timed("window", slide="30 seconds"),
            "slide: 60000 ms is deployed, 30000",
        ),
        (timed("window"), timed("window", start="5 seconds"), "start: 0 ms is deployed, 5000 ms"),
        (
            timed("window"),
            timed("window", allowed_lateness="5 seconds"),
            "allowed lateness: 0 ms is deployed, 5000 ms declared",
        ),
        (timed("window"), timed("window", total="v2"), "aggregates: total=sum(v) is deployed"),
        (timed("", timers="event"), timed("", timers="processing"), "time: d.at is deployed, the "),
        (timed("window"), timed("window", delay="9 seconds"), None),
    ],
)
def test_other_times_are_another_meaning(before, after, problem):
    """Of windows, sessions and timers; the delay of a watermark may change, it never falls."""
    with TopologyTestDriver(module_of(before), engine="inline") as driver:
        if problem is None:
            assert {effect for effect, _ in lines(updated(driver, module_of(after)))} == {"kept"}
            return
        with pytest.raises((DeployError, DeclarationError), match=re.escape(problem)):
            driver.update(module_of(after))
        follow(driver, module_of(after))


def test_a_watermark_is_not_another_ones():
    """Two over one depot, behind different steps: the one inserted above begins by itself."""

    def marked(*conditions):
        def build(mb, rows):
            for each in conditions:
                chosen = rows["d"].where(_CHOOSE[each]).with_watermark("at", "0 seconds")
                chosen.window("at", "1 second").aggregate_windows("k", n=agg.count()).aggregate(
                    mb.pstate(each, Map(str, int))["k"], agg.sum("n")
                )

        return build

    rows = [{"k": "f", "b": each, "at": at} for each, at in (("x", 1_000), ("y", 90_000))]
    with TopologyTestDriver(module_of(marked("x")), engine="inline") as driver:
        driver.depot("d").append(rows[:1])
        driver.run_until_idle()
        assert list(driver.status()["time"]["watermarks"].values()) == [1_000]
        updated(driver, module_of(marked("y", "x")))
        driver.depot("d").append(rows)
        driver.depot("d").append([{"k": "f", "b": "y", "at": 99_000}])
        driver.run_until_idle()
        marks = driver.status()["time"]["watermarks"]
        assert marks.pop("d.at") == 1_000
        assert list(marks.values()) == [99_000]
        assert driver.pstate("x").get() == {}
        assert driver.pstate("y").get() == {"f": 1}


def test_a_distinct_count_that_comes_back_begins_empty():
    """Whatever a removed one of the same meaning left is not found again."""
    counted, plain = module_of(distinct("p", "a")), module_of(folded(agg.count()))
    with TopologyTestDriver(counted, engine="inline") as driver:
        driver.depot("d").append(ROWS)
        driver.run_until_idle()
        follow(driver, plain)
        plan = updated(driver, counted)
        assert lines(plan) == [("added", "mb-distinct-p-2")]
        assert "count() by k before, count_distinct(a) by k now" in str(plan)
        driver.depot("d").append(ROWS)
        driver.run_until_idle()
        assert driver.pstate("p").get() == {"f": 4}
        with pytest.raises(UsageError, match="the new version declares it"):
            driver.cluster.plan(counted, remove=["hidden:mb-distinct-p-2"])


def test_a_name_keeps_a_join_together_when_its_streams_change():
    """The other way out that the hint names: name it first, then change what comes before it."""
    with TopologyTestDriver(module_of(joined("p", "e")), engine="inline") as driver:
        driver.depot("e").append(ROWS[:1])
        driver.run_until_idle()
        wider = joined("p", "e", union="f", name="pairs")
        with pytest.raises(DeployError, match="no longer declared") as refused:
            driver.update(module_of(joined("p", "e", union="f")))
        assert "first deploy the version that runs with a name" in refused.value.hint
        assert lines(updated(driver, module_of(joined("p", "e", name="pairs")))) == [
            ("kept", "mb-join-d-e")
        ]
        assert lines(updated(driver, module_of(wider))) == [("kept", "mb-join-d-e")]
        driver.depot("f").append(ROWS[:1])
        driver.run_until_idle()
        assert driver.pstate("p").get() == {"f": 1}


def twice(*names, odd=("x", "y")):
    """Two distinct counts of one thing into one place, behind different steps."""

    def build(mb, rows):
        target = mb.pstate("p", Map(str, int))["k"]
        for each, name in zip(odd, names, strict=True):
            chosen = rows["d"].where(_CHOOSE[each]) if each else rows["d"]
            chosen.aggregate(target, agg.count_distinct("a", name=name))

    return build


def is_x(row):
    """A condition with a name."""
    return row.b == "x"


def is_y(row):
    """Another one."""
    return row.b == "y"


_CHOOSE = {"x": is_x, "y": is_y}


def test_two_steps_that_nothing_tells_apart_are_refused_where_they_stand():
    """The hint, a name for one of them, is enough."""
    with pytest.raises(DeclarationError, match="nothing tells apart") as refused:
        module_of(twice(None, None, odd=("", "")))
    assert 'agg.count_distinct("user", name="visitors")' in refused.value.hint
    module_of(twice(None, "second", odd=("", "")))
    with pytest.raises(DeclarationError, match="cannot name what count_distinct"):
        module_of(twice(None, "no name!", odd=("", "")))


def test_steps_told_apart_by_what_comes_before_them_are_not_mixed_up():
    """Swapped they are found; when one of them changes it might be either: refused, until named."""
    with TopologyTestDriver(module_of(twice(None, None)), engine="inline") as driver:
        driver.depot("d").append(ROWS)
        driver.run_until_idle()
        assert driver.pstate("p").get() == {"f": 2}
        updated(driver, module_of(twice(None, None, odd=("y", "x"))))
        driver.depot("d").append(ROWS)
        driver.run_until_idle()
        assert driver.pstate("p").get() == {"f": 2}
        with pytest.raises(DeployError, match="what comes before this one has changed") as refused:
            driver.update(module_of(twice(None, None, odd=("x", ""))))
        assert "first deploy the version that runs with a name" in refused.value.hint
        updated(driver, module_of(twice("first", "second")))
        plan = updated(driver, module_of(twice("first", "second", odd=("x", ""))))
        assert [effect for effect, _ in lines(plan)] == ["kept", "kept"]


@pytest.mark.parametrize(
    ("before", "after", "kind", "change"),
    [
        (agg.sum("v"), agg.max("v"), float, "sum(v) by k before, max(v) by k now"),
        (agg.min("a"), agg.last("a"), str, "min(a) by k before, last(a) by k now"),
    ],
)
def test_another_aggregate_of_plain_values_is_shown(before, after, kind, change):
    """What is stored is the value alone, and the user's to go on from."""
    with LocalCluster(engine="inline") as cluster:
        cluster.deploy(module_of(folded(before, kind)))
        plan = cluster.plan(module_of(folded(after, kind)))
        assert str(plan) == (
            f"changed  pstate:p  (changed in meaning: {change}; what is stored stays as it is)"
        )
        cluster.update(module_of(folded(after, kind)))


@pytest.mark.parametrize(
    ("before", "after", "kind", "problem"),
    [
        (
            agg.avg("v"),
            agg.sum("v"),
            float,
            "what is stored: a sum and a count (float) of avg(v) by k is deployed, the value alone",
        ),
        (
            agg.max_by("a", "at"),
            agg.max_by("a", "v"),
            str,
            "the order that a value was chosen by (int) of max_by(a, at) by k is deployed",
        ),
        (
            agg.max_by("a", "k"),
            agg.max_by("a", "b"),
            str,
            "changed in meaning: max_by(a, k) by k is deployed, max_by(a, b) by k declared",
        ),
        (
            agg.approx_count_distinct("a"),
            agg.approx_count_distinct("b"),
            int,
            "a sketch of distinct values is stored, which the new one would read under another",
        ),
    ],
)
def test_another_aggregate_of_hidden_values_is_refused(before, after, kind, problem):
    """The difference is told, and the hint works: another PState, which begins empty."""

    def elsewhere(mb, rows):
        rows["d"].aggregate(mb.pstate("q", Map(str, kind))["k"], after)

    with LocalCluster(engine="inline") as cluster:
        cluster.deploy(module_of(folded(before, kind)))
        with pytest.raises(DeployError, match=re.escape(problem)) as refused:
            cluster.update(module_of(folded(after, kind)))
        assert "fold it into a PState of another name" in refused.value.hint
        cluster.update(module_of(folded(before, kind), elsewhere))
        cluster.update(module_of(elsewhere), remove=["pstate:p"])


def test_conditions_of_counts_that_share_their_values_keep_their_bits():
    """Each count has a bit, by the order of the fields: another order is refused."""

    def counted(*fields):
        def build(mb, rows):
            stats = mb.pstate("p", Map(str, atoll.Struct(x=int, y=int)))
            counts = {name: agg.count_distinct("a").where(name) for name in fields}
            rows["d"].map(
                lambda row: {"k": row.k, "a": row.a, "x": row.b == "x", "y": row.b == "y"},
                emits="k string, a string, x boolean, y boolean",
            ).aggregate(stats["k"], **counts)

        return build

    with LocalCluster() as cluster:
        cluster.deploy(module_of(counted("x", "y")))
        plan = cluster.plan(module_of(counted("y", "x")))
        assert [each.effect for each in plan.changes if each.kind == "hidden"][-1] == "refused"


@pytest.mark.parametrize("name", [None, "reminders"])
def test_two_topologies_never_share_what_they_keep(name):
    """Names of topologies and PStates may hold what stands between them in the name of a state."""
    module = atoll.Module("m")
    depot = module.depot("d", "k string, v long")
    counting = module.microbatch("t", vnode_count=1)
    counts = counting.pstate("timers-x", Map(str, int))
    counting.source(depot).aggregate(counts["k"], agg.count_distinct("v"))
    timed = module.microbatch("t-distinct", vnode_count=1)
    fired = timed.pstate("x", Map(str, int))

    def later(row, fired, timers):
        timers.at(0)

    def on_timer(timer, fired, timers):
        fired[timer.key] = 1

    rows = timed.source(depot)
    rows.process(later, key="k", states=[fired], on_timer=on_timer, name=name)
    if name is None:
        with pytest.raises(DeclarationError, match="under one name, _t-distinct-timers-x") as told:
            TopologyTestDriver(module, engine="inline")
        assert 'name="reminders"' in told.value.hint
        return
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot("d").append({"k": "a", "v": 1})
        driver.run_until_idle()
        assert driver.pstate("timers-x").get() == driver.pstate("x").get() == {"a": 1}
