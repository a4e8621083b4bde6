"""Sentences of Rama's documentation that no other test holds; the page of systems names them."""

from __future__ import annotations

import pytest

import atoll
from atoll import Map, Set, Struct, agg, path, start
from atoll.errors import DeployError
from atoll.testing import TopologyTestDriver

FIRST = start.beginning()


def beats(kind):
    """Counts what comes: of a tick, or of a depot that is declared so."""
    module = atoll.Module("beats")
    source = module.tick("d", "3 seconds") if kind == "tick" else module.depot("d", **kind)
    mb = module.microbatch("mb", vnode_count=1)
    mb.source(source).aggregate(mb.pstate("n", int), agg.count())
    return module


DEPOT = {"schema": "v long"}
GLOBAL = {**DEPOT, "is_global": True}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (DEPOT, "tick", "refused  depot:d"),
        ("tick", DEPOT, "refused  tick:d"),
        (DEPOT, GLOBAL, "refused  depot:d  (partitions are fixed: 4 deployed, 1 declared;"),
        (GLOBAL, DEPOT, "refused  depot:d  (partitions are fixed: 1 deployed, 4 declared;"),
    ],
)
def test_a_depot_and_a_tick_do_not_become_each_other(before, after, said):
    """Nor do a global and a partitioned depot; the version that runs goes on."""
    with TopologyTestDriver(beats(before)) as driver:
        assert said in str(driver.cluster.plan(beats(after)))
        with pytest.raises(DeployError):
            driver.update(beats(after))
        assert driver.pstate("n").get() is None


def test_a_path_without_a_key_goes_over_all_vnodes_in_order():
    """Client queries need no leading key; what the vnodes hold is merged by key."""
    module = atoll.Module("numbers")
    depot = module.depot("d", "k long", partition_by="k")
    mb = module.microbatch("mb", vnode_count=8)
    counts, seen = mb.pstate("counts", Map(int, int)), mb.pstate("seen", Set(int))
    rows = mb.source(depot, start_from=FIRST)
    rows.aggregate(counts["k"], agg.count())
    rows.aggregate(seen, agg.collect_set("k"))
    keys = range(-300, 300, 7)
    with TopologyTestDriver(module) as driver:
        driver.depot("d").append([{"k": key} for key in keys])
        driver.run()
        state = driver.pstate("counts")
        assert state.select(path.keys()) == [*keys]
        assert state.select(path.all()) == [(key, 1) for key in keys]
        assert state.select(path.sorted_range_to(0, limit=3)) == [{-20: 1, -13: 1, -6: 1}]
        assert state.select(path.last()) == [(keys[-1], 1)]
        assert [*state.iterate(path.keys())] == [*keys]
        assert driver.pstate("seen").select(path.sorted_range_from(-1, limit=2)) == [[1, 8]]


def kept(schema, *migration):
    """Keeps a number, or what a migration makes of it."""
    module = atoll.Module("kept")
    depot = module.depot("d", "k long, v long", partition_by="k")
    options = {"pstate.migration.vnodes.per.microbatch": 1}
    mb = module.microbatch("mb", vnode_count=4, options=options)
    state = mb.pstate("state", Map(int, schema))
    if migration:
        state.migrated(*migration)

    def put(row, state):
        state[row.k] = row.v if schema is int else str(row.v)

    mb.source(depot, start_from=FIRST).process(put, key="k", states=[state])
    return module


def test_a_migration_goes_on_though_it_is_left_out_and_another_follows_it():
    """Rama refuses the one and begins anew with the other; here the root keeps the function."""
    with TopologyTestDriver(kept(int)) as driver:
        driver.depot("d").append([{"k": key, "v": key} for key in range(40)])
        driver.run()
        driver.update(kept(str, "text", str))
        driver.update(kept(str))
        left = driver.status()["migrations"]["state"]
        assert left == {"id": "text", "vnodes_left": 4}
        assert driver.pstate("state").get(3) == "3"
        driver.update(kept(str, "loud", lambda text: text + "!"))
        assert driver.pstate("state").get(3) == "3!"
        driver.run_until_idle()
        assert driver.status()["migrations"] == {}
        driver.update(kept(str))
        driver.depot("d").append({"k": 41, "v": 41})
        driver.run()
        assert driver.pstate("state").select(path.map_vals()) == [
            *(f"{key}!" for key in range(40)),
            "41",
        ]


def fixed(migrated=False, **fields):
    """Keeps a sum in a struct of these fields."""
    module = atoll.Module("fixed")
    depot = module.depot("d", "k long, v long", partition_by="k")
    mb = module.microbatch("mb", vnode_count=2)
    state = mb.pstate("state", Map(int, Struct(**fields)))
    if migrated:
        state.migrated("more", lambda old: {**old, "b": 0})
    rows = mb.source(depot, start_from=FIRST)
    rows.aggregate(state["k"], **{name: agg.sum("v") for name in fields if fields[name] is int})
    return module


def test_a_struct_gets_a_field_by_a_migration_only():
    """One that is stored field by field gets none at all."""
    with TopologyTestDriver(fixed(a=int)) as driver:
        driver.depot("d").append({"k": 1, "v": 5})
        driver.run()
        with pytest.raises(DeployError, match=r"schema: .* is deployed"):
            driver.update(fixed(a=int, b=int))
        driver.update(fixed(a=int, b=int, migrated=True))
        assert driver.pstate("state").get(1) == {"a": 5, "b": 0}
    with TopologyTestDriver(fixed(a=int, tags=Set(str))) as driver:
        with pytest.raises(DeployError, match=r"structure: .* is deployed") as caught:
            driver.update(fixed(a=int, tags=Set(str), more=Map(str, int)))
        assert "migrated" not in caught.value.hint


def test_a_global_depot_has_one_partition_and_no_client_picks_one():
    """Where a record goes is the depot's affair, whoever appends it."""
    module = atoll.Module("shop")
    module.depot("global", "v long", is_global=True)
    module.depot("keyed", "k string", partition_by="k", partitions=8)
    with TopologyTestDriver(module) as driver:
        receipt = driver.depot("global").append([{"v": v} for v in range(10)])
        assert receipt.offsets == {0: (0, 10)}
        places = {tuple(driver.depot("keyed").append({"k": "a"}).offsets) for _ in range(5)}
        assert len(places) == 1
        with pytest.raises(TypeError, match="partition"):
            driver.depot("keyed").append({"k": "a"}, partition=1)


@pytest.mark.parametrize("track_size", [False, True])
def test_a_collection_is_renamed_with_all_below_it(track_size):
    """Sizes go along; what lay under the new name before is replaced."""
    module = atoll.Module("m")
    depot = module.depot("d", "a string, b string, new string", partition_by="a")
    mb = module.microbatch("mb", vnode_count=4)
    state = mb.pstate("state", Map(str, Map(str, Map(str, int))), track_size=track_size)

    def put(row, state):
        if row.new is None:
            state[row.a][row.b].update({row.b: 1, "x": 2})
        else:
            state.transform(path.key(row.a).map_key(row.b).term(lambda _: row.new))

    mb.source(depot, start_from=FIRST).process(put, key="a", states=[state])
    with TopologyTestDriver(module) as driver:
        for rows in ([("b",), ("c",), ("d",)], [("b", "e"), ("c", "d")]):
            records = [dict(zip(("a", "b", "new"), ("k", *each), strict=False)) for each in rows]
            driver.depot("d").append(records)
            driver.run()
        read = driver.pstate("state")
        assert read.get("k") == {"d": {"c": 1, "x": 2}, "e": {"b": 1, "x": 2}}
        sizes = [read.select_one(path.key("k", *keys).size()) for keys in ((), ("e",), ("b",))]
        assert sizes == [2, 2, 0]


@pytest.mark.parametrize("flipped", [False, True])
def test_sources_that_write_one_pstate_are_taken_in_the_order_of_their_declaration(flipped):
    """Rama says no order; here the later source sees what the earlier one wrote."""
    module = atoll.Module("m")
    depots = [module.depot(name, "k long, v string", partition_by="k") for name in "ab"]
    mb = module.microbatch("mb", vnode_count=4)
    all_of_it, last = mb.pstate("all", Map(int, list[str])), mb.pstate("last", Map(int, str))

    def put(row, state):
        state[row.k] = [*state.get(row.k, []), row.v]

    for depot in depots[::-1] if flipped else depots:
        rows = mb.source(depot, start_from=FIRST)
        rows.process(put, key="k", states=[all_of_it])
        rows.aggregate(last["k"], agg.last("v"))
    with TopologyTestDriver(module, parallelism=3) as driver:
        for name in "ab":
            driver.depot(name).append([{"k": key, "v": name} for key in range(20)])
        driver.microbatch()
        order = ["b", "a"] if flipped else ["a", "b"]
        assert driver.pstate("all").get() == dict.fromkeys(range(20), order)
        assert driver.pstate("last").get() == dict.fromkeys(range(20), order[-1])
