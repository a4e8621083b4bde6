"""Small modules that are rescheduled as RisingWave's scaling tests do it, with their numbers.

Which of theirs is which here is said in ``test_scaling_chaos.py``. Unless a test says otherwise
its cluster has three workers of two parallel units, 0 to 5.
"""

from __future__ import annotations

import random
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from chaos import Gate, entries, fragment, insert, move, move_all, table, two_tables, workers
from harness import seed

from atoll import LocalCluster, Map, Module, Set, agg, start
from atoll.errors import RescheduleError, UsageError
from atoll.placement.reschedule.change import UnitChange

# Plans --------------------------------------------------------------------------------------------


def test_emptying_two_of_three_workers(six):
    """The plan takes off exactly the units of the two that may get nothing, and adds none."""
    app = six.deploy(table()[0])
    two = app.cluster.info().workers[1:]
    app.cluster.cordon([each.id for each in two])
    plan = app.cluster.set_parallelism("t", "2", dry_run=True)
    leaving = UnitChange((), tuple(unit for each in two for unit in each.units))
    assert leaving.removed == (2, 3, 4, 5)
    assert plan.changes == dict.fromkeys(
        (fragment(app, name).id for name in ("source", "aggregate t")), leaving
    )


def test_a_singleton_leaves_its_worker(six):
    """One unit for one, and the one that it leaves was the worker's."""
    app = six.deploy(table()[0])
    move(app, {"aggregate total": "-[0]+[3]"})
    before = fragment(app, "aggregate total")
    six.lose_worker("w1")
    after = fragment(app, "aggregate total")
    assert before.units == (3,)
    assert len(after.units) == 1
    assert after.units[0] in (0, 1, 4, 5)
    insert(app, range(10))
    assert app.pstate("total").get() == 10


def _eight() -> Module:
    """Eight fragments on one PState, and one apart from them."""
    module, mb, _ = table()
    shared = mb.pstate("shared", Map(int, int))

    def step(row, shared):
        shared[row.v] = shared.get(row.v, 0) + 1

    for _ in range(8):
        mb.source(module.depots["rows"]).process(step, key="v", states=[shared])
    return module


def test_a_change_of_any_of_eight(six):
    """Resolved, the change of one that follows is exactly one of the root."""
    app = six.deploy(_eight())
    rng = random.Random(seed())
    group = app.cluster.info().group(fragment(app, "process step").id)
    assert len(group) == 8
    chosen = rng.choice(group[1:])
    plan = move_all(app, {chosen.id: UnitChange((), (1, 4))}, resolve=True)
    assert list(plan.changes) == [group[0].id]
    insert(app, range(20))
    assert entries(app, "shared") == dict.fromkeys(range(20), 8)


def test_two_changes_of_one_group(six):
    """Refused with both named; nothing has changed."""
    app = six.deploy(_eight())
    before = app.cluster.info()
    first, second = before.group(fragment(app, "process step").id)[2:4]
    changes = {first.id: UnitChange((), (0,)), second.id: UnitChange((), (1,))}
    with pytest.raises(RescheduleError) as raised:
        move_all(app, changes, resolve=True)
    assert raised.value.context["problem"] == "conflicting changes"
    assert raised.value.context["fragments"] == [first.id, second.id]
    assert app.cluster.info() == before


# Cordons ------------------------------------------------------------------------------------------


def test_a_new_topology_on_what_is_not_cordoned(six):
    """It gets exactly the units of the other workers; uncordoned, all of them."""
    app = six.deploy(table()[0])
    insert(app, range(10))
    app.cluster.cordon([1])
    app = six.deploy(two_tables())
    assert fragment(app, "aggregate second_t").units == (0, 1, 4, 5)
    assert fragment(app, "aggregate t").units == (0, 1, 2, 3, 4, 5)
    app.cluster.uncordon([1])
    assert fragment(app, "aggregate second_t").units == (0, 1, 2, 3, 4, 5)
    insert(app, range(10))
    assert entries(app, "second_t") == entries(app, "t") == dict.fromkeys(range(10), 2)


def test_a_new_step_on_old_state(six):
    """It runs where its state lies, on a cordoned worker too; on new state it keeps off.

    There such a view cannot be made at all. Here the actor that it needs is there already: the
    step joins the actors of its root, and nothing new is put anywhere.
    """
    app = six.deploy(table()[0])
    app.cluster.cordon([1])
    module, mb, _ = table()

    def view(row, t, fresh):
        fresh[row.v] = t.get(row.v, 0)

    def apart(row, alone):
        alone[row.v] = 1

    t = mb.graph.pstates["t"]
    source = mb.source(module.depots["rows"])
    source.process(view, key="v", states=[t, mb.pstate("fresh", Map(int, int))])
    source.process(apart, key="v", states=[mb.pstate("alone", Map(int, int))])
    app = six.deploy(module)
    assert fragment(app, "process view").units == fragment(app, "aggregate t").units
    assert set(fragment(app, "aggregate t").units) == {0, 1, 2, 3, 4, 5}
    assert fragment(app, "process apart").units == (0, 1, 4, 5)
    app.cluster.uncordon([1])
    assert fragment(app, "process apart").units == (0, 1, 2, 3, 4, 5)
    insert(app, range(30))
    assert set(entries(app, "fresh")) == set(entries(app, "alone")) == set(range(30))


# Joins, views on views ----------------------------------------------------------------------------


def _join() -> Module:
    """Two tables; a row of each looks for its partner in the other; both ends are united."""
    module = Module("join")
    mb = module.microbatch("join")
    sides = {}
    for name in ("left", "right"):
        depot = module.depot(f"{name}s", "v long", partition_by="v", partitions=2)
        sides[name] = (mb.source(depot), mb.pstate(name, Map(int, int)))

    def keep_left(row, left):
        left[row.v] = row.v * 2
        yield {"v": row.v}

    def keep_right(row, right):
        right[row.v] = row.v * 2
        yield {"v": row.v}

    def matched(row):
        if row.other is not None:
            yield {"v": row.v, "other": row.other}

    (lefts, left), (rights, right) = sides.values()
    from_left = lefts.process(keep_left, key="v", states=[left], emits="v long")
    from_right = rights.process(keep_right, key="v", states=[right], emits="v long")
    pair = "v long, other long"
    united = from_left.lookup(right["v"], "other").flat_map(matched, emits=pair)
    united = united.union(from_right.lookup(left["v"], "other").flat_map(matched, emits=pair))
    united.aggregate(mb.pstate("joined", Map(int, int))["v"], agg.sum("other"))
    return module


def test_a_join_through_five_changes(six):
    """In on one side, on both, out on one, on both, and the join itself: 100 keys after each."""
    app = six.deploy(_join())
    left, right = "process keep_left", "process keep_right"
    steps = [
        {left: "-[0,1,2]"},
        {left: "-[3]", right: "-[0,1,2]"},
        {left: "+[0]"},
        {left: "+[1,2,3]", right: "+[0,1,2]"},
        {"aggregate joined": "-[0,1]", "source": "-[1,2,3,4]"},
    ]
    for number, plans in enumerate(steps):
        move(app, plans)
        keys = range(number * 100, number * 100 + 100)
        for depot, part in (
            ("lefts", keys[:50]), ("rights", keys), ("lefts", keys[50:])
        ):  # half of them meet from either side  # fmt: skip
            app.depot(depot).append([{"v": key} for key in part])
            ends = sum(sum(app.depot(each).end_offsets()) for each in ("lefts", "rights"))
            app.topology("join").wait_processed(ends)
        assert entries(app, "joined") == {key: key * 2 for key in range(number * 100 + 100)}
    for name, root in (("lookup right", right), ("lookup left", left)):
        with pytest.raises(RescheduleError) as raised:
            move(app, {name: "-[5]"})
        assert raised.value.context["problem"] == "follows another"
        assert raised.value.context["root"] == fragment(app, root).id


def test_a_stream_that_two_steps_share(six):
    """In and out above both; what follows is refused unless it is resolved."""
    module, mb, stream = table()

    def clean(row, seen):
        seen[row.v] = seen.get(row.v, 0) + 1
        yield {"v": row.v, "odd": row.v % 2}

    seen = mb.pstate("seen", Map(int, int))
    shared = stream.process(clean, key="v", states=[seen], emits="v long, odd long")
    shared.aggregate(mb.pstate("by_parity", Map(int, int))["odd"], agg.sum("v"))
    shared.lookup(seen["v"], "times").aggregate(mb.pstate("times", int), agg.max("times"))
    app = six.deploy(module)
    for round_, plan in enumerate(("-[1,2,3]", "+[2,3]", "-[0,4,5]+[1]")):
        move(app, {"process clean": plan})
        insert(app, range(40))
        assert entries(app, "by_parity") == {
            parity: sum(range(parity, 40, 2)) * (round_ + 1) for parity in (0, 1)
        }
        assert app.pstate("times").get() == round_ + 1
    with pytest.raises(RescheduleError) as raised:
        move(app, {"lookup seen": "-[1]"})
    assert raised.value.context["problem"] == "follows another"
    move(app, {"lookup seen": "-[1]"}, resolve=True)
    assert fragment(app, "process clean").units == fragment(app, "lookup seen").units == (2, 3)


def _cascade(app: Any, name: str, sizes: tuple[int, int]) -> None:
    """On one unit with ten rows, on six with ten more; so many entries does the view have."""
    for plan, units, rows, size in (
        ("-[1,2,3,4,5]", 1, range(1, 11), sizes[0]),
        ("+[1,2,3,4,5]", 6, range(11, 21), sizes[1]),
    ):
        before = entries(app, name)
        move(app, {"aggregate t": plan})
        assert len(fragment(app, "aggregate t").units) == units
        assert len(fragment(app, "changes t").units) == units
        assert entries(app, name) == before
        insert(app, rows)
        assert len(entries(app, name)) == size


def test_a_cascade(six):
    """What reads a table's changes runs where the table does: 5 rows on one unit, 15 on six."""
    module, mb, _ = table()

    def view(row, m1):
        if row.v > 5:
            m1[row.v] = row.new

    m1 = mb.pstate("m1", Map(int, int))
    mb.graph.pstates["t"].changes("v").process(view, key="v", states=[m1])
    app = six.deploy(module)
    _cascade(app, "m1", (5, 15))
    assert entries(app, "m1") == {v: 1 for v in range(1, 21) if v > 5}


def test_a_diamond(six):
    """Five views over a table, two of them joined: no row, none after a change, then four."""
    module, mb, _ = table()
    m1, m2, m3, m4 = (mb.pstate(name, Map(int, int)) for name in ("m1", "m2", "m3", "m4"))

    def view_1(row, m1):
        if row.v > 5:
            m1[row.v] = row.new
            yield {"v": row.v}

    def view_2(row, m2):
        if row.v > 10:
            m2[row.v] = row.new
            yield {"v": row.v}

    def view_3(row, m3):
        if row.v < 15:
            m3[row.v] = 1
            yield {"v": row.v}

    def view_4(row, m4):  # the join: complete when both sides have come
        m4[row.v] = m4.get(row.v, 0) + 1
        if m4[row.v] == 2:
            yield {"v": row.v}

    changes = mb.graph.pstates["t"].changes("v")
    first = changes.process(view_1, key="v", states=[m1], emits="v long")
    second = changes.process(view_2, key="v", states=[m2], emits="v long")
    third = second.process(view_3, key="v", states=[m3], emits="v long")
    both = first.union(third).process(view_4, key="v", states=[m4], emits="v long")
    both.aggregate(mb.pstate("m5", Map(int, int))["v"], agg.count())
    app = six.deploy(module)
    _cascade(app, "m5", (0, 4))
    assert entries(app, "m5") == {v: 1 for v in range(1, 21) if v > 5 and 10 < v < 15}


# Singletons, filters, tables, sinks ---------------------------------------------------------------


def test_singletons_move_twice(six):
    """A count and a view on it, in one request: 10 rows, then 20."""
    module, mb, _ = table()
    changes = mb.graph.pstates["total"].changes()
    changes.aggregate(mb.pstate("copy", int), agg.max("new"))
    app = six.deploy(module)
    for count, units in ((10, (3, 5)), (20, (4, 2))):
        names = ("aggregate total", "aggregate copy")
        move(
            app,
            {
                name: f"-[{fragment(app, name).units[0]}]+[{unit}]"
                for name, unit in zip(names, units, strict=True)
            },
        )
        assert tuple(fragment(app, name).units[0] for name in names) == units
        assert insert(app, range(10)) == count
        assert app.pstate("total").get() == app.pstate("copy").get() == count


def test_a_filter_by_a_maximum(six):
    """Rows above the greatest of another table, which is inserted to, updated and emptied.

    The rows move, and so does the singleton that holds the maximum.
    """
    module, mb, _ = table()
    limits = module.depot("limits", "v long, add boolean")

    def limit(row, known, greatest):
        if row.add:
            known.add(row.v)
        else:
            known.discard(row.v)
        values = list(known)
        if values:
            greatest.set(values[-1])
        else:
            greatest.clear()

    known = mb.pstate("known", Set(int), is_global=True)
    greatest = mb.pstate("greatest", int)
    mb.source(limits).process(limit, states=[known, greatest])
    app = six.deploy(module)
    insert(app, (1, 2, 3))
    there: set[int] = set()
    steps = [
        ("-[1,2,3]", [(0, True)], []),
        ("-[4,5]+[1,2,3]", [(2, True)], [1, 2, 3]),
        ("-[1,2,3]+[4,5]", [(2, False), (1, True)], [3]),
        ("+[1,2,3]", [(0, False), (1, False)], [2, 3]),
        ("-[1]", [(1, True)], []),
    ]
    for number, (plan, changes, before) in enumerate(steps):
        unit = fragment(app, "process limit").units[0]
        to = (unit + number + 1) % 6
        move(app, {"aggregate t": plan, "process limit": f"-[{unit}]+[{to}]"})
        assert _above(app) == before
        app.depot("limits").append([{"v": v, "add": add} for v, add in changes])
        ends = (sum(app.depot(each).end_offsets()) for each in ("rows", "limits"))
        app.topology("t").wait_processed(sum(ends))
        for v, add in changes:
            there = there | {v} if add else there - {v}
        assert _above(app) == [v for v in (1, 2, 3) if there and v > max(there)]
    assert _above(app) == [2, 3]


def _above(app: Any) -> list[int]:
    greatest = app.pstate("greatest").get()
    return [v for v in sorted(entries(app, "t")) if greatest is not None and v > greatest]


def test_a_table_and_a_view_made_later(six):
    """A hundred rows after each of two changes; then a view that reads all of them."""
    app = six.deploy(table()[0])
    for number, plan in enumerate(("-[0,2,4]", "-[1]+[0,4]")):
        move(app, {"aggregate t": plan})
        insert(app, range(number * 100, number * 100 + 100))
    assert fragment(app, "aggregate t").units == (0, 3, 4, 5)
    app = six.deploy(two_tables())
    app.topology("second").wait_processed(200)
    assert fragment(app, "aggregate t").units == (0, 3, 4, 5)
    assert entries(app, "second_t") == entries(app, "t") == dict.fromkeys(range(200), 1)
    assert app.pstate("total").get() == 200


def _sink(partitions: int = 1, **options: Any) -> Module:
    """A table whose rows, and the changes of whose total, go to depots."""
    module, mb, stream = table(**options)
    out = module.depot("out", "v long", partition_by="v", partitions=partitions)
    stream.append_to(out)
    changed = module.depot("changed", "old long, new long", partitions=1)
    mb.graph.pstates["total"].changes().append_to(changed)
    return module


def _rows(app: Any, depot: str) -> list[list[dict[str, Any]]]:
    """All rows of a depot, by partition, in order."""
    ends = app.depot(depot).end_offsets()
    return [app.depot(depot).read(each, 0, end).to_pylist() for each, end in enumerate(ends)]


def test_rows_for_a_depot_keep_their_order(six):
    """1 to 9 over two changes: each row once and in order, each change follows the one before."""
    app = six.deploy(_sink())
    plans = [
        {},
        {"aggregate t": "-[1,2,3]", "aggregate total": "-[0]+[4]"},
        {"aggregate t": "-[0,5]+[2,3]", "aggregate total": "-[4]+[1]", "source": "-[0]"},
    ]
    for number, plan in enumerate(plans):
        if plan:
            move(app, plan)
        for v in range(number * 3 + 1, number * 3 + 4):
            insert(app, [v])
    (out,), (changed,) = _rows(app, "out"), _rows(app, "changed")
    assert [row["v"] for row in out] == list(range(1, 10))
    totals = [None, *range(1, 10)]
    assert [(row["old"], row["new"]) for row in changed] == list(pairwise(totals))


def test_ten_six_ten(folder):
    """Rows under way to a depot while its topology goes from ten units to six and back."""
    module = _sink(partitions=3, options={"depot.microbatch.max.records": 5})
    with workers(folder, 5) as cluster:
        app = cluster.deploy(module)
        for number, units in enumerate((10, 6, 10)):
            app.depot("rows").append([{"v": v} for v in range(number * 100, number * 100 + 100)])
            app.cluster.set_parallelism("t", str(units))
            assert len(fragment(app, "aggregate t").units) == units
        app.topology("t").wait_processed(300)
        out = _rows(app, "out")
        assert sorted(row["v"] for rows in out for row in rows) == list(range(300))


# Policies and workers -----------------------------------------------------------------------------


def test_parallelism_of_a_topology(six):
    """All six units unless told otherwise; 5; all again; another topology has its own."""
    module, _, _ = table()
    mb = module.microbatch("view", parallelism="5")
    mb.source(module.depots["rows"]).aggregate(mb.pstate("copy", Map(int, int))["v"], agg.count())
    app = six.deploy(module)
    assert _counts(app) == (6, 5)
    for topology, policy, counts in (
        ("t", "5", (5, 5)),
        ("t", "adaptive", (6, 5)),
        ("view", "4", (6, 4)),
        ("t", "5", (5, 4)),
    ):
        app.cluster.set_parallelism(topology, policy)
        assert _counts(app) == counts
    with pytest.raises(UsageError):  # their 0 says adaptive
        app.cluster.set_parallelism("t", "0")
    insert(app, range(50))
    assert entries(app, "t") == entries(app, "copy") == dict.fromkeys(range(50), 1)


def _counts(app: Any) -> tuple[int, int]:
    return tuple(len(fragment(app, name).units) for name in ("aggregate t", "aggregate copy"))


def test_workers_lost_and_back(six):
    """The one with the singleton goes: four units, the count stays; back: six again."""
    app = six.deploy(table()[0])
    move(app, {"aggregate total": "-[0]+[4]"})
    app.cluster.set_parallelism("t", "adaptive")
    insert(app, range(100))
    six.lose_worker("w2")
    assert fragment(app, "aggregate t").units == (0, 1, 2, 3)
    assert fragment(app, "aggregate total").units[0] < 4
    assert app.pstate("total").get() == len(entries(app, "t")) == 100
    insert(app, range(100, 150))
    assert app.pstate("total").get() == len(entries(app, "t")) == 150
    six.add_worker("w2", 2)
    assert fragment(app, "aggregate t").units == (0, 1, 2, 3, 4, 5)
    insert(app, range(150, 200))
    assert entries(app, "t") == dict.fromkeys(range(200), 1)


def test_a_worker_that_joins(folder):
    """Four units, then six, with rows on their way."""
    module = table(options={"depot.microbatch.max.records": 5})[0]
    with workers(folder, 2) as cluster:
        app = cluster.deploy(module)
        assert fragment(app, "aggregate t").units == (0, 1, 2, 3)
        app.depot("rows").append([{"v": v} for v in range(100)])
        cluster.add_worker("w2", 2)
        assert fragment(app, "aggregate t").units == (0, 1, 2, 3, 4, 5)
        app.topology("t").wait_processed(100)
        assert entries(app, "t") == dict.fromkeys(range(100), 1)


def test_fixed_spreads_and_custom_stays(six):
    """Three units are of three workers, of two when one is lost; what a person placed stays."""
    app = six.deploy(table(parallelism="3")[0])

    def workers_of() -> list[str]:
        info = app.cluster.info()
        found = [info.worker_of(unit) for unit in fragment(app, "aggregate t").units]
        return sorted(each.name for each in found)

    assert workers_of() == ["local", "w1", "w2"]
    six.lose_worker("w1")
    assert len(workers_of()) == 3
    assert set(workers_of()) == {"local", "w2"}
    move(app, {"aggregate t": f"-[{fragment(app, 'aggregate t').units[0]}]"})
    placed = fragment(app, "aggregate t").units
    assert app.cluster.info().policies == {"t": "custom"}
    for change in (partial(six.add_worker, "w1", 2), partial(six.add_worker, "w3", 2)):
        change()
        assert fragment(app, "aggregate t").units == placed
    app.cluster.set_parallelism("t", "adaptive")
    assert len(fragment(app, "aggregate t").units) == 8


def test_no_more_units_than_vnodes(folder):
    """Adaptive ends at 256 vnodes; 512 vnodes take 512 units, and no 513th."""
    module = Module("wide")
    rows = module.depot("rows", "v long", partition_by="v")
    for name, vnodes in (("usual", 256), ("wide", 512)):
        mb = module.microbatch(name, vnode_count=vnodes)
        mb.source(rows).aggregate(mb.pstate(f"{name}_t", Map(int, int))["v"], agg.count())
    with LocalCluster(folder, engine="inline", parallelism=520) as cluster:
        app = cluster.deploy(module)
        app.cluster.set_parallelism("wide", "512")
        for name, most in (("usual", 256), ("wide", 512)):
            placed = fragment(app, f"aggregate {name}_t")
            assert len(placed.units) == most
            spare = min(set(app.cluster.info().live_units()) - set(placed.units))
            with pytest.raises(RescheduleError) as raised:
                move_all(app, {placed.id: UnitChange((spare,), ())})
            assert raised.value.context["problem"] == "more units than vnodes"
            app.cluster.set_parallelism(name, str(most + 1))  # cut, where theirs is refused
            assert fragment(app, f"aggregate {name}_t").units == placed.units
        insert(app, range(600))
        assert entries(app, "usual_t") == entries(app, "wide_t") == dict.fromkeys(range(600), 1)


def test_more_than_there_are(six):
    """Seven, eight and nine are granted and are six until there are more."""
    app = six.deploy(table()[0])
    for wanted in (7, 8, 9):
        app.cluster.set_parallelism("t", str(wanted))
        assert len(fragment(app, "aggregate t").units) == 6
    six.add_worker("w3", 4)
    assert len(fragment(app, "aggregate t").units) == 9
    insert(app, range(40))
    assert entries(app, "t") == dict.fromkeys(range(40), 1)


def test_others_go_on(folder):
    """While one topology is held in the middle of a change, the other takes what comes.

    A worker that only the one used takes nothing from the other when it is lost: that one makes
    no microbatch for it.
    """
    gate = Gate("t")
    with workers(folder, observer=gate) as cluster:
        app = cluster.deploy(two_tables())
        second = app.topology("second")
        for name in ("source", "aggregate second_t"):
            found = [f for f in app.cluster.info().fragments if f.name == name]
            move_all(app, {found[-1].id: UnitChange((), (4, 5))})
        insert(app, range(10))
        with gate.holding(partial(move, app, {"aggregate t": "-[0,1,2]"})):
            app.depot("rows").append([{"v": v} for v in range(10, 30)])
            second.wait_processed(30)
            assert entries(app, "second_t") == dict.fromkeys(range(30), 1)
            assert entries(app, "t") == dict.fromkeys(range(10), 1)
        committed = second.status()["committed"]
        cluster.lose_worker("w2")
        assert set(fragment(app, "aggregate t").units) & {4, 5} == set()
        assert second.status()["committed"] == committed
        insert(app, range(30, 40))
        assert entries(app, "second_t") == entries(app, "t") == dict.fromkeys(range(40), 1)


def test_sources_four_three_seven(folder):
    """What reads the depots changes apart from the state, which stays; nothing is read twice."""
    module = table(options={"depot.microbatch.max.records": 5})[0]
    with workers(folder, 4) as cluster:
        app = cluster.deploy(module)
        state = fragment(app, "aggregate t")
        at = 0
        for units in (range(4), range(1, 4), range(7)):
            now, wanted = set(fragment(app, "source").units), set(units)
            app.depot("rows").append([{"v": v} for v in range(at, at + 60)])
            at += 60
            change = UnitChange(tuple(wanted - now), tuple(now - wanted))
            move_all(app, {fragment(app, "source").id: change})
            assert fragment(app, "source").units == tuple(units)
            assert fragment(app, "aggregate t") == state
        app.topology("t").wait_processed(at)
        assert entries(app, "t") == dict.fromkeys(range(at), 1)


@pytest.mark.parametrize("by", ["change", "loss"])
def test_while_a_new_topology_catches_up(six, by):
    """On one, two, three units, or after the loss of two workers of three: 30 rows, then 60."""
    app = six.deploy(table()[0])
    insert(app, range(30))
    module, _, _ = table()
    mb = module.microbatch("late", options={"depot.microbatch.max.records": 1})
    source = mb.source(module.depots["rows"], start_from=start.beginning())
    source.aggregate(mb.pstate("late_t", Map(int, int))["v"], agg.count())
    app = six.deploy(module)
    if by == "loss":
        six.lose_worker("w1")
        six.lose_worker("w2")
        assert fragment(app, "aggregate late_t").units == (0, 1)
    else:
        for units in ("1", "2", "3"):
            app.cluster.set_parallelism("late", units)
            assert len(fragment(app, "aggregate late_t").units) == int(units)
    app.topology("late").wait_processed(30)
    assert entries(app, "late_t") == dict.fromkeys(range(30), 1)
    insert(app, range(30, 60))
    assert entries(app, "late_t") == entries(app, "t") == dict.fromkeys(range(60), 1)
