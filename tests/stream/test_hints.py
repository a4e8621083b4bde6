"""Hints are followed: what one says to write is accepted, to the deployment.

Each row is a mistake, a part of its hint, and the declaration that does what the hint says.
"""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from mistakes import Mistake, World

from atoll import List, Map, Set, Struct, agg, path
from atoll.arrow_types import node_of
from atoll.errors import AtollError


def seen(row, sets):
    """Whether the set of the row's key has the row's number."""
    yield {"k": row.k, "known": row.n in sets[row.k]}


def counted(row, counts):
    """Counts, and says nothing."""
    counts[row.k] = counts.get(row.k, 0) + 1


def timed(row, counts, timers):
    """Counts, and sets a timer."""
    counts[row.k] = counts.get(row.k, 0) + 1
    timers.at(0)


def rung(timer, counts, timers):
    """A timer is due."""


def in_set(w):
    """What reads a set from Python."""
    return w.rows.process(seen, key="k", states=[w.sets], emits="k string, known boolean")


def all_of_set(row):
    """The path to the elements of a set."""
    return path.key(row.k).all()


READING = {
    "an element of a set, written": Mistake(
        lambda w: w.rows.aggregate(w.sets["k"]["n"], agg.count()),
        'aggregate(sets["k"], agg.collect_set("n"))',
        lambda w: w.rows.aggregate(w.sets["k"], agg.collect_set("n")),
    ),
    "an element of a set, to go on": Mistake(
        lambda w: w.rows.aggregate(w.sets["k"]["n"], agg.voided()),
        'lookup(sets["k"]["n"], "known")',
        lambda w: w.rows.lookup(w.sets["k"]["n"], "known").where("known"),
    ),
    "a whole PState": Mistake(
        lambda w: w.rows.lookup(w.sets, "all"),
        'look up one of its values: sets["..."]',
        lambda w: w.rows.lookup(w.sets["k"], "all"),
    ),
    "an inner join with an element": Mistake(
        lambda w: w.rows.join(w.sets["k"]["n"], column="known"),
        'lookup(sets["k"]["n"], "known").where("known")',
        lambda w: w.rows.lookup(w.sets["k"]["n"], "known").where("known"),
    ),
    "an inner join with a set": Mistake(
        lambda w: w.rows.join(w.sets["k"]),
        'lookup(sets["k"], "sets").where("size(sets) > 0")',
        lambda w: w.rows.lookup(w.sets["k"], "sets").where("size(sets) > 0"),
    ),
    "another topology's state": Mistake(
        lambda w: w.more.process(counted, key="k", states=[w.counts]),
        "write lookup(...) or join(...)",
        lambda w: w.more.lookup(w.counts["k"], "c"),
    ),
    "another module's state": Mistake(
        lambda w: w.rows.lookup(World("other").counts["k"], "c"),
        "module.mirror_pstate('other', 'counts', Map(str, int))",
        lambda w: w.module.mirror_pstate("other", "counts", Map(str, int)),
    ),
}

AGGREGATES = {
    "a set that loses elements, as a column": Mistake(
        lambda w: w.rows.group_by("k").agg(s=agg.collect_set("n", remove="n > 1")),
        'aggregate(sets["k"], agg.collect_set("v", remove="removed"))',
        lambda w: w.rows.aggregate(w.sets["k"], agg.collect_set("n", remove="n > 1")),
    ),
    "a function that says no type, as a column": Mistake(
        lambda w: w.rows.agg(s=agg.combine(0, max, "n", lift=abs)),
        "agg.combine(..., gives=int)",
        lambda w: w.rows.agg(s=agg.combine(0, max, "n", lift=abs, gives=int)),
    ),
    "a function by rows in a map that is a column": Mistake(
        lambda w: w.rows.agg(m=agg.map("k", agg.accumulate(max, "n", initial=0, gives=int))),
        "by one more key, or use agg.combine",
        lambda w: (
            w.rows.group_by("k").agg(m=agg.accumulate(max, "n", initial=0, gives=int)),
            w.rows.agg(m=agg.map("k", agg.combine(0, max, "n"))),
        ),
    ),
    "a function by rows in a session": Mistake(
        lambda w: (
            w.rows.with_watermark("at", "1 hour", name="other")
            .session_window("at", "1 hour")
            .aggregate_windows("k", m=agg.accumulate(max, "n", initial=0, gives=int))
        ),
        "use an aggregate that combines: agg.combine",
        lambda w: (
            w.rows.with_watermark("at", "1 hour", name="other")
            .session_window("at", "1 hour")
            .aggregate_windows("k", m=agg.combine(0, max, "n"))
        ),
    ),
    "a set by Spark SQL in a query": Mistake(
        lambda w: w.query(n=int).agg("collect_set(n) AS s").returns("s"),
        'agg(s=agg.collect_set("n"))',
        lambda w: w.query(n=int).agg(s=agg.collect_set("n")).returns("s"),
    ),
    "a distinct count by Spark SQL, where there is no Spark": Mistake(
        lambda w: w.rows.group_by("k").agg("count(DISTINCT n) AS kinds"),
        'agg(kinds=agg.count_distinct("n"))',
        lambda w: w.rows.group_by("k").agg(kinds=agg.count_distinct("n")),
    ),
    "Spark SQL in a query": Mistake(
        lambda w: w.query(n=int).agg("stddev(n) AS s").returns("s"),
        'agg(total=agg.sum("v"))',
        lambda w: w.query(n=int).agg(s=agg.sum("n")).returns("s"),
    ),
    "a set in a session": Mistake(
        lambda w: w.rows.session_window("at", "1 hour").aggregate(
            w.state(
                Map(str, Map(dt.datetime, Map(dt.datetime, Struct(n=int, vs=Set(int))))),
            )["k"]["window_start"]["window_end"],
            n=agg.count(),
            vs=agg.collect_set("n"),
        ),
        "agg.collect_list",
        lambda w: w.rows.session_window("at", "1 hour").aggregate(
            w.state(
                Map(str, Map(dt.datetime, Map(dt.datetime, Struct(n=int, vs=List(int))))),
            )["k"]["window_start"]["window_end"],
            n=agg.count(),
            vs=agg.collect_list("n"),
        ),
    ),
    "one value into a struct": Mistake(
        lambda w: w.rows.aggregate(w.stats["k"], agg.max_by("n", "at")),
        "aggregate(..., n=agg.max_by('n', 'at'))",
        lambda w: w.rows.aggregate(
            w.stats["k"], n=agg.max_by("n", "at"), total=agg.max_by("n", "at")
        ),
    ),
    "another type": Mistake(
        lambda w: w.rows.aggregate(w.counts["k"], agg.max("at")),
        "declare datetime there",
        lambda w: w.rows.aggregate(w.state(Map(str, dt.datetime))["k"], agg.max("at")),
    ),
    "a list of another type": Mistake(
        lambda w: w.rows.aggregate(w.state(Map(str, List(str)))["k"], agg.collect_list("n")),
        "declare List(int) there",
        lambda w: w.rows.aggregate(w.state(Map(str, List(int)))["k"], agg.collect_list("n")),
    ),
    "a value into a map": Mistake(
        lambda w: w.rows.aggregate(w.nested["k"], agg.count()),
        'nested["k"]["..."], or agg.map("...", agg.count())',
        lambda w: (
            w.rows.aggregate(w.nested["k"]["k"], agg.count()),
            w.rows.aggregate(w.nested["k"], agg.map("k", agg.count())),
        ),
    ),
    "a value into a struct stored apart": Mistake(
        lambda w: w.rows.aggregate(w.mixed["k"], agg.count()),
        'aggregate(mixed["k"], seen=..., n=...)',
        lambda w: w.rows.aggregate(w.mixed["k"], seen=agg.collect_set("n"), n=agg.count()),
    ),
    "a list into a set": Mistake(
        lambda w: w.rows.aggregate(w.sets["k"], agg.collect_list("n")),
        "agg.collect_set goes into a Set",
        lambda w: w.rows.aggregate(w.sets["k"], agg.collect_set("n")),
    ),
}

FUNCTIONS = {
    "timers without on_timer": Mistake(
        lambda w: w.rows.process(timed, key="k", states=[w.counts]),
        "give on_timer=",
        lambda w: w.rows.process(timed, key="k", states=[w.counts], on_timer=rung),
    ),
    "a handle too many": Mistake(
        lambda w: w.rows.process(timed, key="k", states=[w.counts]),
        "write it as function(row, counts)",
        lambda w: w.rows.process(counted, key="k", states=[w.counts]),
    ),
    "on_timer without timers": Mistake(
        lambda w: w.rows.process(counted, key="k", states=[w.counts], on_timer=rung),
        "write it as function(row, counts, timers)",
        lambda w: w.rows.process(timed, key="k", states=[w.counts], on_timer=rung),
    ),
    "an on_timer of a row": Mistake(
        lambda w: w.rows.process(timed, key="k", states=[w.counts], on_timer=counted),
        "write it as on_timer(timer, counts, timers)",
        lambda w: w.rows.process(timed, key="k", states=[w.counts], on_timer=rung),
    ),
    "rows after a step that emits none": Mistake(
        lambda w: w.rows.process(counted, key="k", states=[w.counts]).map(dict, emits="k string"),
        'emits="',
        lambda w: in_set(w).map(lambda row: {"k": row.k}, emits="k string"),
    ),
}

STEPS = {
    "a union with what aggregate returns": Mistake(
        lambda w: w.rows.union(w.rows.aggregate(w.counts["k"], agg.count())),
        "take the changes()",
        lambda w: w.counts.changes("k").union(
            w.rows.aggregate(w.counts["k"], agg.count()).changes()
        ),
    ),
    "two keys of one name": Mistake(
        lambda w: w.rows.group_by("k", "k").agg(n=agg.count()),
        "AS big",
        lambda w: (
            w.query(k=str).select("k", "k AS big").group_by("k", "big").agg(n=agg.count()).returns()
        ),
    ),
    "an initial map": Mistake(
        lambda w: w.mb.pstate("start", Map(str, int), initial={}),
        "a map or set begins empty",
        lambda w: w.mb.pstate("start", Map(str, int)),
    ),
    "no key": Mistake(
        lambda w: w.rows.process(counted, states=[w.counts]),
        'key="user_id"',
        lambda w: w.rows.process(counted, key="k", states=[w.counts]),
    ),
    "no key, all vnodes": Mistake(
        lambda w: w.rows.process(counted, states=[w.counts]),
        "or to_all() right before it",
        lambda w: w.rows.to_all().process(counted, states=[w.counts]),
    ),
    "no key, by a function": Mistake(
        lambda w: w.rows.process(counted, states=[w.counts]),
        "partition_by(...)",
        lambda w: w.rows.partition_by(lambda row: row.n).process(counted, states=[w.counts]),
    ),
    "no states": Mistake(
        lambda w: w.rows.process(lambda row: None, key="k", states=[]),
        "use map or flat_map",
        lambda w: w.rows.flat_map(lambda row: [], emits="k string"),
    ),
    "one state, not in a list": Mistake(
        lambda w: w.rows.process(counted, key="k", states=w.counts),
        "states=[...]",
        lambda w: w.rows.process(counted, key="k", states=[w.counts]),
    ),
    "an incremental join of another kind": Mistake(
        lambda w: w.rows.incremental_join(w.more.select("k"), on="k", how="outer apply"),
        "use inner, left, right, full, semi or anti",
        lambda w: w.rows.incremental_join(w.rows.select("k"), on="k", how="full"),
    ),
    "a bound of time without a watermark": Mistake(
        lambda w: w.rows.incremental_join(w.rows.select("k"), on="k", within="1 hour", at="at"),
        'with_watermark("at", "10 seconds")',
        lambda w: w.rows.with_watermark("at", "10 seconds").incremental_join(
            w.rows.select("k", "at AS seen").with_watermark("seen", "10 seconds"),
            on="k",
            within="1 hour",
            at=("at", "seen"),
        ),
    ),
    "changes that were filtered before a join": Mistake(
        lambda w: w.rows.incremental_join(w.counts.changes("k").where("new > 1"), on="k"),
        'select("k", "new AS value")',
        lambda w: w.rows.incremental_join(
            w.counts.changes("k").where("new > 1").select("k", "new AS value"), on="k"
        ),
    ),
    "a unique side of changes": Mistake(
        lambda w: w.rows.incremental_join(w.counts.changes("k"), on="k", unique="right"),
        "leave unique= out",
        lambda w: w.rows.incremental_join(w.counts.changes("k"), on="k"),
    ),
    "event timers without a watermark": Mistake(
        lambda w: w.rows.process(timed, key="k", states=[w.counts], on_timer=rung, timers="event"),
        'with_watermark("at", "10 seconds")',
        lambda w: w.rows.with_watermark("at", "10 seconds").process(
            timed, key="k", states=[w.counts], on_timer=rung, timers="event"
        ),
    ),
    "windows without a watermark": Mistake(
        lambda w: w.rows.window("at", "2 hours").aggregate_windows("k", n=agg.count()),
        'put with_watermark("at", "10 seconds") before window',
        lambda w: (
            w.rows.with_watermark("at", "10 seconds")
            .window("at", "2 hours")
            .aggregate_windows("k", n=agg.count())
        ),
    ),
    "aggregates of windows as Spark's": Mistake(
        lambda w: w.windows.aggregate_windows("k", "collect_set(n) AS ns"),
        'aggregate_windows("user", n=agg.count())',
        lambda w: w.windows.aggregate_windows("k", n=agg.count()),
    ),
    "a query that returns twice": Mistake(
        lambda w: [q.returns("n") for q in [w.query(n=int)] * 2],
        "union or join",
        lambda w: [q.union(q).returns("n", rows="all") for q in [w.query(n=int)]],
    ),
    "a query that returns nothing": Mistake(
        lambda w: w.query(n=int).select("n"),
        'returns("column")',
        lambda w: w.query(n=int).select("n").returns("n"),
    ),
    "a condition for what sees nulls": Mistake(
        lambda w: w.rows.aggregate(w.counts["k"], agg.last("n").where("n > 1")),
        "stream.where(...).aggregate(...)",
        lambda w: w.rows.where(lambda row: row.n > 1).aggregate(w.counts["k"], agg.last("n")),
    ),
    "a top of ids that are not shown": Mistake(
        lambda w: agg.top_n(3, "n", {"at": "at"}, id="k"),
        "add the id to columns",
        lambda w: agg.top_n(3, "n", {"at": "at", "k": "k"}, id="k"),
    ),
    "descending without an order": Mistake(
        lambda w: agg.limit(3, "n", descending=True),
        'order_by="at"',
        lambda w: agg.limit(3, "n", order_by="at", descending=True),
    ),
    "a combiner that is no identity": Mistake(
        lambda w: w.rows.aggregate(w.counts["k"], agg.combine(1, lambda a, b: a + b, "n")),
        "agg.accumulate begins with any value",
        lambda w: w.rows.aggregate(
            w.counts["k"], agg.accumulate(lambda a, b: a + b, "n", initial=1)
        ),
    ),
    "a lookup beside a column of that name": Mistake(
        lambda w: w.rows.lookup(w.counts["k"], "n"),
        "choose another column name",
        lambda w: w.rows.lookup(w.counts["k"], "m"),
    ),
    "a PState by its name": Mistake(
        lambda w: w.rows.aggregate("counts", agg.count()),
        "give what pstate(...) of this topology returned",
        lambda w: w.rows.aggregate(w.counts["k"], agg.count()),
    ),
    "a depot by its name": Mistake(
        lambda w: w.rows.append_to("rows"),
        "give what module.depot(...) returned",
        lambda w: w.rows.append_to(
            w.module.depot("more", "k string, n long, at timestamp, tags array<string>")
        ),
    ),
    "Spark SQL and aggregates at once": Mistake(
        lambda w: w.rows.group_by("k").agg("sum(n) AS s", n=agg.count()),
        'agg(total=agg.sum("v"))',
        lambda w: w.rows.group_by("k").agg(s=agg.sum("n"), n=agg.count()),
    ),
    "an aggregate without a name": Mistake(
        lambda w: w.rows.group_by("k").agg(agg.count()),
        'agg(total=agg.sum("v"))',
        lambda w: w.rows.group_by("k").agg(total=agg.sum("n")),
    ),
    "a path that is none": Mistake(
        lambda w: w.query(k=str).select_from(w.counts["k"], all_of_set, emits="n long").returns(),
        "the path goes into the function",
        lambda w: (
            w.query(k=str)
            .select_from(w.counts, lambda row: path.key(row.k), emits="n long")
            .returns()
        ),
    ),
    "a column of a query that is not there": Mistake(
        lambda w: w.query(k=str).returns("m"),
        "they have k",
        lambda w: w.query(k=str).returns("k"),
    ),
    "an answer in other columns": Mistake(
        lambda w: (w.query(k=str).returns("k"), w.rows.query("asked", k="k", emits="m long")),
        'write emits="m string"',
        lambda w: (w.query(k=str).returns("k"), w.rows.query("asked", k="k", emits="m string")),
    ),
}

SPARK_ONLY = {
    "a condition that removes": Mistake(
        lambda w: w.rows.aggregate(w.sets["k"], agg.collect_set("n", remove="cbrt(n) > 1")),
        "compute it as a column before: map(function, emits=...)",
        lambda w: w.rows.map(
            lambda row: {"k": row.k, "n": row.n, "gone": not row.n > 1},
            emits="k string, n long, gone boolean",
        ).aggregate(w.sets["k"], agg.collect_set("n", remove="gone")),
    ),
    "a step of Spark's": Mistake(
        lambda w: w.rows.where("cbrt(n) > 1").aggregate(w.counts["k"], agg.count()),
        "where(function)",
        lambda w: w.rows.where(lambda row: row.n > 1).aggregate(w.counts["k"], agg.count()),
    ),
    "an exchange": Mistake(
        lambda w: w.rows.hash_by("k").aggregate(w.counts["k"], agg.count()),
        "leave the step out",
        lambda w: w.rows.aggregate(w.counts["k"], agg.count()),
    ),
}

OBJECTS = {
    "what group_by returns": Mistake(
        lambda w: w.rows.group_by("k").count(),
        ".agg(...)",
        lambda w: w.rows.group_by("k").agg(n=agg.count()),
    ),
    "what aggregate returns": Mistake(
        lambda w: w.rows.aggregate(w.counts["k"], agg.count()).map(dict, emits="k string"),
        ".changes().map(...)",
        lambda w: (
            w.rows.aggregate(w.counts["k"], agg.count())
            .changes()
            .map(lambda row: {"k": row.k}, emits="k string")
        ),
    ),
    "a stream, as Spark's": Mistake(
        lambda w: w.rows.groupBy("k"),
        ".group_by(...)",
        lambda w: w.rows.group_by("k").agg(n=agg.count()),
    ),
    "a stream, as others'": Mistake(
        lambda w: w.rows.filter(lambda row: row.n > 1),
        ".where(...)",
        lambda w: w.rows.where(lambda row: row.n > 1),
    ),
    "a stream, misspelt": Mistake(
        lambda w: w.rows.agregate(w.counts["k"], agg.count()),
        ".aggregate(...)",
        lambda w: w.rows.aggregate(w.counts["k"], agg.count()),
    ),
}

TYPES = {
    "list": Mistake(lambda w: w.state(list), "list[", lambda w: w.state(list[int])),
    "dict": Mistake(
        lambda w: w.state(Map(str, dict)),
        "dict[str, int]",
        lambda w: w.state(Map(str, dict[str, int])),
    ),
    "set": Mistake(lambda w: w.state(set), "set[str]", lambda w: w.state(set[str])),
    "complex": Mistake(lambda w: w.state(complex), "float", lambda w: w.state(float)),
}

ALL = {
    f"{kind}: {name}": mistake
    for kind, table in {
        "reading": READING,
        "aggregates": AGGREGATES,
        "functions": FUNCTIONS,
        "steps": STEPS,
        "inline": SPARK_ONLY,
        "objects": OBJECTS,
        "types": TYPES,
    }.items()
    for name, mistake in table.items()
}


@pytest.mark.parametrize("name", ALL)
def test_a_hint_says_what_is_accepted(name):
    """The mistake is refused by then, with that hint; what the hint says can be deployed."""
    mistake = ALL[name]
    with pytest.raises(AtollError) as caught:
        _deployed(mistake.wrong)
    assert mistake.hint in caught.value.hint, caught.value
    _deployed(mistake.right, mirrors="mirror_pstate" in mistake.hint)


def _deployed(declare, *, mirrors=False):
    world = World()
    declare(world)
    if not mirrors:  # which need another module to be deployed first
        world.deployed()


def test_the_order_of_several_values_is_a_list_of_terms():
    """The hint for an order that is a struct works as it stands."""
    order = pa.struct([("newest", pa.int64()), ("b", pa.string())])
    for made in (agg.min_by, agg.max_by):
        with pytest.raises(AtollError) as caught:
            made("v", "struct(-a AS newest, b)").check(node_of(pa.int64()), [pa.int64(), order])
        assert 'by=["-at", "id"]' in caught.value.hint
        kinds = [pa.int64(), pa.timestamp("us", "UTC"), pa.string()]
        made("v", by=["-at", "id"]).check(node_of(pa.int64()), kinds)
