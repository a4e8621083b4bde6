"""Rows that topologies append to depots: each exactly once, whatever was repeated on the way."""

from __future__ import annotations

import inspect
import random
import threading
from collections import defaultdict
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import atoll
from atoll import Map, agg
from atoll.cluster.delivery import Delivery
from atoll.cluster.local import LocalCluster
from atoll.engine.exchange.appended import write_durably
from atoll.errors import DamageError, DeclarationError, StorageError
from atoll.microbatch.commits.history import commit_objects, read_commit
from atoll.microbatch.commits.objects import AppendedRows
from atoll.storage.local import LocalStore

ORDERS = "k string, n long"
TOTALS = "k string, n long, total long"
DIRECT, EXCHANGED = 20_000, 0


@pytest.fixture
def inline(tmp_path):
    """A cluster without Spark, on a folder of its own."""
    with LocalCluster(tmp_path / "root", engine="inline") as running:
        yield running


def _rows(depot):
    """All records of a depot, depot partition by depot partition."""
    return [
        row
        for partition, (start, end) in enumerate(
            zip(depot.start_offsets(), depot.end_offsets(), strict=True)
        )
        for row in depot.read(partition, start, end).to_pylist()
    ]


def _sorted(rows):
    return sorted(rows, key=lambda row: sorted((k, str(v)) for k, v in row.items()))


def _add_up(row, totals):
    totals[row.k] = totals.get(row.k, 0) + row.n
    yield {"k": row.k, "n": row.n, "total": totals[row.k]}


def _pass(row):
    return row.asdict()


def _copying(partitions=1):
    """A module whose one topology copies a depot into another, without any state."""
    module = atoll.Module("copying")
    orders = module.depot("orders", ORDERS, is_global=True)
    copies = module.depot("copies", ORDERS, partitions=partitions)
    mb = module.microbatch("mb")
    mb.source(orders).map(_pass, emits=ORDERS).append_to(copies)
    return module


# On Spark -----------------------------------------------------------------------------------------


def test_a_chain_of_two_topologies_is_a_fold(cluster):
    """Process, append, and aggregate what was appended, over random cuts of random records."""
    _chain(cluster, seed=0)


@pytest.mark.parametrize("seed", range(8))
def test_a_chain_of_two_topologies_is_a_fold_without_spark(inline, seed):
    """The same tasks, many more cuts."""
    _chain(inline, seed)


def _chain(cluster, seed):
    choice = random.Random(seed)
    limit = choice.choice([7, 50, 1000])
    module = atoll.Module(f"chain{seed}")
    orders = module.depot("orders", ORDERS, partition_by="k", partitions=3)
    totals = module.depot("totals", TOTALS, partition_by="k", partitions=2)
    options = {"depot.microbatch.max.records": limit}
    first = module.microbatch("first", vnode_count=8, options=options)
    sums = first.pstate("sums", Map(str, int))
    added = first.source(orders).process(_add_up, key="k", states=[sums], emits=TOTALS)
    added.append_to(totals)
    second = module.microbatch("second", vnode_count=8, options=options)
    seen = second.pstate("seen", Map(str, Map(int, int)))
    highest = second.pstate("highest", Map(str, int))
    rows = second.source(totals)
    rows.aggregate(seen["k"]["total"], agg.count())
    rows.aggregate(highest["k"], agg.last("total"))
    app = cluster.deploy(module)

    records = [{"k": f"k{choice.randrange(9)}", "n": choice.randrange(1, 5)} for _ in range(150)]
    begin = 0
    while begin < len(records):
        count = choice.randrange(1, 60)
        app.depot("orders").append(records[begin : begin + count])
        begin += count
    app.topology("first").wait_processed(len(records), 180)
    app.topology("second").wait_processed(len(records), 180)

    running, expected, each_total = defaultdict(int), [], defaultdict(lambda: defaultdict(int))
    for record in records:
        running[record["k"]] += record["n"]
        expected.append({**record, "total": running[record["k"]]})
        each_total[record["k"]][running[record["k"]]] += 1
    note = f"seed {seed}, limit {limit}"
    assert _sorted(_rows(app.depot("totals"))) == _sorted(expected), note
    assert app.pstate("seen").get() == {k: dict(v) for k, v in each_total.items()}, note
    assert app.pstate("highest").get() == dict(running), note


@pytest.mark.parametrize("small", [DIRECT, EXCHANGED], ids=["direct", "exchanged"])
def test_several_ends_in_one_topology_without_state(cluster, small):
    """Column steps, Python steps and the source itself, to one depot and to another."""
    module = atoll.Module("ends")
    orders = module.depot("orders", ORDERS)
    whole = module.depot("whole", "n double, k string, note string")
    some = module.depot("some", ORDERS, partition_by=lambda row, count: row["n"] % count)
    mb = module.microbatch("mb", options={"topology.microbatch.small.max.records": small})
    rows = mb.source(orders)
    rows.select("k", "CAST(n AS int) AS n").append_to(whole)
    rows.where("n > 5").append_to(some)
    rows.where("n > 5").map(_pass, emits=ORDERS).where("n < 8").append_to(some)
    plain = module.microbatch("plain", options={"topology.microbatch.small.max.records": small})
    straight = module.depot("straight", ORDERS)
    plain.source(orders).append_to(straight)
    app = cluster.deploy(module)

    records = [{"k": f"k{n}", "n": n} for n in range(10)]
    for begin, end in [(0, 3), (3, 7), (7, 10)]:
        app.depot("orders").append(records[begin:end])
    app.topology("mb").wait_processed(len(records))
    app.topology("plain").wait_processed(len(records))

    assert _sorted(_rows(app.depot("straight"))) == _sorted(records)
    noted = [{"n": float(each["n"]), "k": each["k"], "note": None} for each in records]
    assert _sorted(_rows(app.depot("whole"))) == _sorted(noted)
    high = [each for each in records if each["n"] > 5]
    twice = [*high, *(each for each in high if each["n"] < 8)]
    assert _sorted(_rows(app.depot("some"))) == _sorted(twice)
    for partition, end in enumerate(app.depot("some").end_offsets()):
        values = app.depot("some").read(partition, 0, end).column("n").to_pylist()
        assert all(n % 4 == partition for n in values)


def test_the_order_of_a_depot_partition_is_kept(cluster):
    """Over several reading tasks, and behind a column step."""
    module = atoll.Module("order")
    orders = module.depot("orders", ORDERS, is_global=True)
    copies = module.depot("copies", ORDERS, is_global=True)
    odd = module.depot("odd", ORDERS, is_global=True)
    mb = module.microbatch("mb")
    rows = mb.source(orders)
    rows.map(_pass, emits=ORDERS).append_to(copies)
    rows.where("n % 2 = 1").append_to(odd)
    app = cluster.deploy(module)
    count = 15_000
    app.depot("orders").append([{"k": "k", "n": n} for n in range(count)])
    app.topology("mb").wait_processed(count)

    commit = read_commit(LocalStore(cluster.root), "order", "mb", 1)
    tasks = [each.depot for each in commit.appends]
    assert (tasks.count("copies"), tasks.count("odd")) == (2, 2), "one task read it all"
    assert [row["n"] for row in _rows(app.depot("copies"))] == list(range(count))
    assert [row["n"] for row in _rows(app.depot("odd"))] == list(range(1, count, 2))


# Without Spark: what is repeated ------------------------------------------------------------------


def test_an_attempt_that_is_run_again_appends_once(inline, tmp_path):
    """The first attempt dies when one actor has written its rows; they count for nothing."""
    module = atoll.Module("again")
    orders = module.depot("orders", ORDERS, is_global=True)
    copies = module.depot("copies", ORDERS)
    mb = module.microbatch("mb", vnode_count=8)
    rows = mb.source(orders).map(_pass, emits=ORDERS)
    rows.append_to(copies)
    folder = inline.root / "again" / "mb" / "appends"
    left = []

    def fail_once(row, sums):
        if not left and folder.is_dir():
            left.extend(each.name for each in folder.iterdir())
            raise ValueError(row.k)
        sums[row.k] = row.n

    rows.process(fail_once, key="k", states=[mb.pstate("sums", Map(str, int))])
    app = inline.deploy(module)
    records = [{"k": f"k{n}", "n": n} for n in range(40)]
    app.depot("orders").append(records)
    app.topology("mb").wait_processed(len(records))

    assert left, "no attempt died after an actor had written"
    store = LocalStore(inline.root)
    commit = read_commit(store, "again", "mb", 1)
    assert commit.version > 1
    assert not {each.file.name.rsplit("/", 1)[1] for each in commit.appends} & set(left)
    assert _sorted(_rows(app.depot("copies"))) == _sorted(records)
    app = inline.deploy(module)
    names = {each.file.name for each in commit.appends}
    assert set(store.list("again/mb/appends")) == names, "the next life drops what nobody names"
    assert len(_rows(app.depot("copies"))) == len(records)


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("count", [2, 500])
def test_a_commit_that_is_delivered_again_is_appended_once(inline, partitions, count):
    """By the same process and by the next one, wherever the rows are placed the second time."""
    app = inline.deploy(_copying(partitions))
    for n in range(3):
        app.depot("orders").append([{"k": f"k{each}", "n": n} for each in range(count)])
        app.topology("mb").wait_processed(count * (n + 1))
    store = LocalStore(inline.root)
    before = _rows(app.depot("copies"))
    assert len(before) == 3 * count
    for deployed in (False, True):
        life = inline.deploy(_copying(partitions)) if deployed else app
        deliver = Delivery(store, {"copies": life.depot("copies")}, "copying", "mb")
        last = commit_objects(store, "copying", "mb").numbers()[-1]
        for commit_id in range(1, last + 1):
            commit = read_commit(store, "copying", "mb", commit_id)
            assert commit.appends
            deliver(commit)
        assert _rows(life.depot("copies")) == before


def test_a_large_commit_is_delivered_in_parts(inline):
    """What is read of a file at a time has a bound, and it is all one append."""
    app = inline.deploy(_copying())
    count = 70_000
    rows = pa.table({"k": pa.repeat(pa.scalar("k"), count), "n": pa.array(range(count))})
    app.depot("orders").append(rows)
    app.topology("mb").wait_processed(count)
    store = LocalStore(inline.root)
    commit = read_commit(store, "copying", "mb", 1)
    deliver = Delivery(store, {"copies": app.depot("copies")}, "copying", "all_in_one")
    joined = AppendedRows("copies", write_durably(store, "joined.arrow", rows))
    deliver(msgspec.structs.replace(commit, appends=[joined]))
    assert [row["n"] for row in _rows(app.depot("copies"))] == [*range(count), *range(count)]
    parts = list(deliver.records([joined]))
    assert [each.batch.num_rows for each in parts] == [65_536, count - 65_536]


def test_a_commit_from_before_a_rollback_counts_as_delivered(inline):
    """A later life delivers it again, when commits of a later timeline are in the depot already."""
    app = inline.deploy(_copying())
    app.depot("orders").append([{"k": "a", "n": 1}])
    app.topology("mb").wait_processed(1)
    store = LocalStore(inline.root)
    commit = read_commit(store, "copying", "mb", 1)
    deliver = Delivery(store, {"copies": app.depot("copies")}, "copying", "mb")
    deliver(msgspec.structs.replace(commit, id=2, timeline=1))
    for again in (commit, msgspec.structs.replace(commit, id=2, timeline=1)):
        deliver(again)
    assert [row["n"] for row in _rows(app.depot("copies"))] == [1, 1]


def test_the_longest_names_can_append(inline):
    """The producer's id holds both, the module's and the topology's."""
    module = atoll.Module("m" * 63)
    orders = module.depot("orders", ORDERS)
    module.microbatch("t" * 63).source(orders).append_to(module.depot("copies", ORDERS))
    app = inline.deploy(module)
    app.depot("orders").append({"k": "a", "n": 1})
    app.topology("t" * 63).wait_processed(1)
    assert _rows(app.depot("copies")) == [{"k": "a", "n": 1}]


def test_microbatches_without_rows_append_nothing(inline):
    """And the ones after them do, though numbers were left out."""
    module = atoll.Module("gaps")
    orders = module.depot("orders", ORDERS)
    big = module.depot("big", ORDERS)
    mb = module.microbatch("mb")
    mb.source(orders).flat_map(
        lambda row: [row.asdict()] if row.n > 1 else [], emits=ORDERS
    ).append_to(big)
    app = inline.deploy(module)
    for index, n in enumerate([2, 0, 1, 3]):
        app.depot("orders").append({"k": "a", "n": n})
        app.topology("mb").wait_processed(index + 1)
    store = LocalStore(inline.root)
    kept = [len(read_commit(store, "gaps", "mb", each).appends) for each in (1, 2, 3, 4)]
    assert kept == [1, 0, 0, 1]
    assert sorted(row["n"] for row in _rows(app.depot("big"))) == [2, 3]


def test_a_topology_may_append_to_its_own_source(inline):
    """Each row comes back one smaller, until none is left."""
    module = atoll.Module("cycle")
    numbers = module.depot("numbers", "n long")
    mb = module.microbatch("mb")
    counts = mb.pstate("counts", Map(int, int))
    rows = mb.source(numbers)
    rows.aggregate(counts["n"], agg.count())
    rows.flat_map(lambda row: [{"n": row.n - 1}] if row.n else [], emits="n long").append_to(
        numbers
    )
    app = inline.deploy(module)
    app.depot("numbers").append([{"n": 5}, {"n": 3}])
    app.topology("mb").wait_processed(10)
    assert app.pstate("counts").get() == {5: 1, 4: 1, 3: 2, 2: 2, 1: 2, 0: 2}


# Deliveries that fail -----------------------------------------------------------------------------


def test_a_delivery_that_fails_is_repeated_before_the_commit_is_published(inline, monkeypatch):
    """Twice the disk is full; nobody sees the commit until its rows are in the depot."""
    tried, real = [], Delivery.__call__

    def full_disk(self, commit):
        published = app.topology("mb").status()["committed"]
        tried.append((commit.id, published, len(_rows(app.depot("copies")))))
        if len(tried) <= 2:
            raise StorageError("the disk refused: no space", hint="make room", errno=28)
        return real(self, commit)

    monkeypatch.setattr(Delivery, "__call__", full_disk)
    app = inline.deploy(_copying())
    app.depot("orders").append([{"k": "a", "n": 1}])
    app.topology("mb").wait_processed(1)
    assert tried == [(1, 0, 0)] * 3
    assert _rows(app.depot("copies")) == [{"k": "a", "n": 1}]


def test_what_a_life_owed_the_next_one_delivers(inline, monkeypatch):
    """It died between the commit and the delivery: the commit stands, so the rows come."""
    asked = threading.Event()

    def never(self, commit):
        asked.set()
        raise StorageError("the disk refused: no space", hint="make room", errno=28)

    with monkeypatch.context() as patched:
        patched.setattr(Delivery, "__call__", never)
        app = inline.deploy(_copying())
        app.depot("orders").append([{"k": "a", "n": 1}, {"k": "b", "n": 2}])
        assert asked.wait(30)
        app.close()
        inline.apps.clear()
    store = LocalStore(inline.root)
    assert commit_objects(store, "copying", "mb").numbers() == [1]
    app = inline.deploy(_copying())
    app.depot("orders").append([{"k": "c", "n": 3}])
    app.topology("mb").wait_processed(3)
    assert [row["n"] for row in _rows(app.depot("copies"))] == [1, 2, 3]


@pytest.mark.parametrize("harm", ["cut", "flipped", "gone"])
def test_a_damaged_file_is_named_and_nothing_of_it_appended(inline, harm):
    """Size, checksum and presence are checked before the first row goes."""
    app = inline.deploy(_copying())
    app.depot("orders").append([{"k": "a", "n": 1}])
    app.topology("mb").wait_processed(1)
    store = LocalStore(inline.root)
    commit = read_commit(store, "copying", "mb", 1)
    name = commit.appends[0].file.name
    path, data = inline.root / name, (inline.root / name).read_bytes()
    if harm == "gone":
        path.unlink()
    else:
        path.write_bytes(data[:-1] if harm == "cut" else data[:-1] + bytes([data[-1] ^ 1]))
    deliver = Delivery(store, {"copies": app.depot("copies")}, "copying", "other")
    with pytest.raises(DamageError) as caught:
        deliver(commit)
    assert caught.value.context["file"] == name
    assert len(_rows(app.depot("copies"))) == 1


# At deploy ----------------------------------------------------------------------------------------


def _line():
    frame = inspect.currentframe().f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


@pytest.mark.parametrize(
    ("emits", "words"),
    [
        ("k string, n string", "holds long in column 'n', and the rows hold string"),
        ("k string, n long, z int", "has no column 'z'"),
        ("n long", "needs a value in column 'k'"),
    ],
)
def test_columns_that_do_not_fit_are_refused(inline, emits, words):
    """Before anything is made, on the line of the append_to."""
    module = atoll.Module("misfit")
    orders = module.depot("orders", ORDERS)
    copies = module.depot("copies", "k string NOT NULL, n long")
    mb = module.microbatch("mb")
    rows = mb.source(orders).map(_pass, emits=emits)
    place = _line()
    rows.append_to(copies)
    with pytest.raises(DeclarationError, match=words) as caught:
        inline.deploy(module)
    assert caught.value.context["declared"].rpartition(":")[0] == place.rpartition(":")[0]
    assert int(caught.value.context["declared"].rpartition(":")[2]) == (
        int(place.rpartition(":")[2]) + 1
    )
    assert not (inline.root / "misfit").exists()


def test_a_depot_of_a_module_of_the_same_name_is_refused(inline):
    """It would never be opened: the deployed module has none of that name."""
    module, twin = atoll.Module("twin"), atoll.Module("twin")
    orders = module.depot("orders", ORDERS)
    module.microbatch("mb").source(orders).append_to(twin.depot("copies", ORDERS))
    with pytest.raises(DeclarationError, match="not of this module") as caught:
        inline.deploy(module)
    assert caught.value.context["declared"].startswith("test_append_to.py:")


def test_rows_of_two_column_steps_keep_apart(tmp_path):
    """Spark may run the tasks behind both as one; each writes files of its own all the same."""
    module = atoll.Module("two-ways")
    orders, big = module.depot("orders", ORDERS), module.depot("big", ORDERS)
    mb = module.microbatch("mb")
    totals = mb.pstate("totals", Map(str, int))
    source = mb.source(orders)
    both = source.select("k", "n + 1 AS n").union(source.where("n > 1").select("k", "n * 10 AS n"))
    both.append_to(big)
    both.materialize().aggregate(totals["k"], agg.sum("n"))
    with LocalCluster(tmp_path / "root", engine="spark", parallelism=2) as cluster:
        app = cluster.deploy(module)
        app.depot("orders").append([{"k": "a", "n": n} for n in range(6)])
        app.topology("mb").wait_processed(6, timeout_seconds=180)
        expected = [*range(1, 7), 20, 30, 40, 50]
        assert sorted(row["n"] for row in _rows(app.depot("big"))) == expected
        assert app.pstate("totals").get("a") == sum(expected)
