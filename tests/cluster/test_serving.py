"""Serving reads: by groups of vnodes, from one vnode where the key is known, never held up.

A scan of a whole PState is divided as the fragment is that writes it, in groups of vnodes that
are disjoint and cover it. A read with a known key touches the key's vnode and no other. Readers
know nothing of a reschedule: one that is in the middle is no reason to wait, and shows nothing.
"""

from __future__ import annotations

import json
import os
import queue
import random
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from chaos import Gate, fragment, move, move_all, random_changes, workers

import atoll
from atoll import LocalCluster, Map, Module, agg, path
from atoll.codec.keys.elements import encode_element
from atoll.pstate.store.environment import EnvironmentCache
from atoll.pstate.view import PStateView

SOURCE = Path(__file__).parents[2] / "src"
VNODES = 16
KEYS = 60


def _counts() -> Module:
    """How often each pair came, and how many there are."""
    module = Module("serving")
    rows = module.depot("rows", "k string, n long", partition_by="k", partitions=2)
    mb = module.microbatch("mb", vnode_count=VNODES)
    source = mb.source(rows)
    source.aggregate(mb.pstate("pairs", Map(str, Map(int, int)))["k"]["n"], agg.count())
    source.aggregate(mb.pstate("total", int, initial=0), agg.count())
    return module


def _rows(times: int = 3) -> list[dict[str, object]]:
    return [{"k": f"k{n % KEYS}", "n": n // KEYS} for n in range(KEYS * times)]


def _feed(app, rows):
    app.depot("rows").append(rows)
    app.topology("mb").wait_processed(sum(app.depot("rows").end_offsets()))


def _vnode(pstate, key):
    return pstate.spec.vnode_of(encode_element(key, pstate.spec.node.key))


# Scans --------------------------------------------------------------------------------------------


def _partitions(app, name):
    """What Spark would be told of a scan: the reader, and its Spark partitions."""
    from atoll.spark.datasource import AtollDataSource

    options = {"root": str(app.store.root), "module": app.name, "pstate": name}
    source = AtollDataSource(options)
    reader = source.reader(source.schema())
    return reader, reader.partitions()


def test_a_scan_has_as_many_groups_as_the_fragment_has_actors(tmp_path):
    """They are disjoint, cover all vnodes, are even, and each reads the entries of its vnodes."""
    rows = _rows()
    with workers(tmp_path / "root", 4) as cluster:
        app = cluster.deploy(_counts())
        _feed(app, rows)
        spec = app.pstate("pairs").spec
        for plan in ("-[1,3,5]", "-[0,2,4,6]", "+[0,1,2,3]", "+[4,5,6]"):
            move(app, {"aggregate pairs": plan})
            units = len(fragment(app, "aggregate pairs").units)
            reader, groups = _partitions(app, "pairs")
            assert len(groups) == units
            assert sorted(v for each in groups for v in each.vnodes) == list(range(VNODES))
            sizes = [len(each.vnodes) for each in groups]
            assert max(sizes) - min(sizes) <= 1
            found = Counter()
            for each in groups:
                for batch in reader.read(each):
                    for row in batch.to_pylist():
                        key = encode_element(row["key"], spec.node.key)
                        assert spec.vnode_of(key) in each.vnodes
                        found[row["key"], row["key_2"]] += row["value"]
            assert found == Counter((row["k"], row["n"]) for row in rows)
        assert [each.vnodes for each in _partitions(app, "total")[1]] == [(0,)]


def test_all_groups_of_a_scan_show_the_commit_that_was_the_last_when_it_was_planned(tmp_path):
    """Also when records and a reschedule come between the reading of one and of the next."""
    first = _rows()
    with workers(tmp_path / "root") as cluster:
        app = cluster.deploy(_counts())
        _feed(app, first)
        reader, groups = _partitions(app, "pairs")
        found = Counter()
        for number, each in enumerate(groups):
            if number == 1:
                _feed(app, _rows(1))
                move(app, {"aggregate pairs": "-[0,1]"})
            for batch in reader.read(each):
                for row in batch.to_pylist():
                    found[row["key"], row["key_2"]] += row["value"]
    assert len(groups) == 6
    assert found == Counter((row["k"], row["n"]) for row in first)


@pytest.mark.slow
def test_a_dataframe_has_a_spark_partition_per_actor(tmp_path):
    """Spark reads each vnode in one Spark partition: of five, of two, of three."""
    rows = _rows()
    with LocalCluster(tmp_path / "root") as cluster:
        app = cluster.deploy(_counts())
        cluster.add_worker("more", 3)
        _feed(app, rows)
        pstate = app.pstate("pairs")
        for plan, units in ((None, 5), ("-[0,1,3]", 2), ("+[1]", 3)):
            if plan:
                move(app, {"aggregate pairs": plan})
            parts = app.dataframe("pairs").rdd.glom().collect()
            assert len(parts) == units == len(fragment(app, "aggregate pairs").units)
            read = [((row.key, row.key_2), row.value) for part in parts for row in part]
            assert dict(read) == Counter((row["k"], row["n"]) for row in rows)
            assert len(dict(read)) == len(read)
            vnodes = [{_vnode(pstate, row.key) for row in part} for part in parts]
            assert sum(map(len, vnodes)) == len(set.union(*vnodes))


# Reads with a known key ---------------------------------------------------------------------------


class _Touched:
    """Which vnodes this thread's reads look at, and which stores they acquire."""

    def __init__(self, monkeypatch, name):
        self.looked, self.acquired = set(), []
        mine, vnode, acquire = threading.get_ident(), PStateView.vnode, EnvironmentCache.acquire

        def looking(view, number):
            if threading.get_ident() == mine and view._pstate == name:
                self.looked.add(number)
            return vnode(view, number)

        def acquiring(cache, folder, **options):
            if threading.get_ident() == mine and Path(folder).parent.name == name:
                self.acquired.append(int(Path(folder).name))
            return acquire(cache, folder, **options)

        monkeypatch.setattr(PStateView, "vnode", looking)
        monkeypatch.setattr(EnvironmentCache, "acquire", acquiring)

    def by(self, read):
        """What came of a read, the vnodes looked at, and those whose stores were acquired."""
        self.looked, self.acquired = set(), []
        return read(), self.looked, self.acquired


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A module that has processed its rows and was rescheduled, inline."""
    with workers(tmp_path_factory.mktemp("served")) as cluster:
        app = cluster.deploy(_counts())
        _feed(app, _rows())
        move(app, {"aggregate pairs": "-[0,3]"})
        yield app


KNOWN = {
    "get": lambda pstate, key: (pstate.get(key, 1), 1),
    "get a map": lambda pstate, key: (pstate.get(key), {0: 1, 1: 1, 2: 1}),
    "key": lambda pstate, key: (pstate.select_one(path.key(key, 2)), 1),
    "all below": lambda pstate, key: (pstate.select(path.key(key).map_vals()), [1, 1, 1]),
    "range below": lambda pstate, key: (
        pstate.select(path.key(key).sorted_range(1, 3).keys()),
        [1, 2],
    ),
    "must": lambda pstate, key: (pstate.select(path.must(key).keys()), [0, 1, 2]),
    "size": lambda pstate, key: (pstate.select_one(path.key(key).size()), 3),
    "as of": lambda pstate, key: (pstate.as_of(pstate.view().commit_id).get(key, 0), 1),
}


@pytest.mark.parametrize("how", ["app", "connect"])
@pytest.mark.parametrize("read", KNOWN)
def test_a_known_key_touches_one_vnode(served, monkeypatch, how, read):
    """The key's; its store is acquired, and no other. From the app and from elsewhere."""
    reader = served if how == "app" else atoll.connect(served.store.root, served.name)
    pstate = reader.pstate("pairs")
    touched = _Touched(monkeypatch, "pairs")
    for number in range(0, KEYS, 7):
        key = f"k{number}"
        (found, expected), looked, acquired = touched.by(partial(KNOWN[read], pstate, key))
        assert found == expected
        assert looked == set(acquired) == {_vnode(pstate, key)}


def test_a_key_that_is_not_there_touches_one_vnode(served, monkeypatch):
    """It is looked for where it would be."""
    pstate = served.pstate("pairs")
    touched = _Touched(monkeypatch, "pairs")
    found, looked, acquired = touched.by(lambda: pstate.get("nobody", 1))
    assert found is None
    assert looked == set(acquired) == {_vnode(pstate, "nobody")}


def test_several_known_keys_touch_their_vnodes(served, monkeypatch):
    """And no other; what names no key touches all of them."""
    pstate = served.pstate("pairs")
    touched = _Touched(monkeypatch, "pairs")
    keys = ["k3", "k4", "k5"]
    wanted = {_vnode(pstate, key) for key in keys}
    _, looked, acquired = touched.by(
        lambda: [value for key in keys for value in pstate.select(path.key(key).map_vals())]
    )
    assert looked == set(acquired) == wanted
    found, looked, _ = touched.by(lambda: pstate.select(path.keys()))
    assert len(found) == KEYS
    assert looked == set(range(VNODES))


def test_a_process_that_reads_one_key_opens_one_store(served):
    """In a fresh process nothing but the key's vnode is opened."""
    script = (
        "import sys, atoll; from atoll.pstate.store.environment import shared_environments\n"
        "pstate = atoll.connect(sys.argv[1], sys.argv[2]).pstate('pairs')\n"
        "found = pstate.get(sys.argv[3], 1)\n"
        "import json; print(json.dumps([found, list(shared_environments()._open)]))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, str(served.store.root), served.name, "k8"],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )
    found, opened = json.loads(ended.stdout)
    assert found == 1
    wanted = served.pstate("pairs")._stores.path("pairs", _vnode(served.pstate("pairs"), "k8"))
    assert opened == [wanted]


@pytest.mark.filterwarnings("ignore:.*multi-threaded")  # what Python 3.12 says of such a fork
def test_a_fork_of_the_process_disturbs_no_read(served):
    """A child that forgets the parent's open stores must not touch what they share.

    Spark's JVM is started with such a fork, and so are the processes of ``multiprocessing``. A
    read that is under way keeps its place among the store's readers, and later ones find theirs.
    """
    pstate = served.pstate("pairs")
    keys = [f"k{n}" for n in range(KEYS)]
    assert [pstate.get(key, 1) for key in keys] == [1] * KEYS
    environments = pstate._stores.environments
    held = environments.acquire(pstate._stores.path("pairs", _vnode(pstate, "k0")))
    try:
        with held.lmdb.begin():
            before = held.lmdb.readers()
            subprocess.run(["true"], preexec_fn=str, check=True)
            assert held.lmdb.readers() == before
    finally:
        environments.release(held)
    assert [pstate.get(key, 1) for key in keys] == [1] * KEYS


# Reading during a reschedule ----------------------------------------------------------------------

ACCOUNTS = 12


def _bank() -> Module:
    """Transfers in two jobs of one microbatch: the sum of all funds is 0 in every commit."""
    module = Module("bank")
    depot = module.depot("rows", "src long, dst long, amount long", partition_by="src")
    mb = module.microbatch("mb", vnode_count=VNODES, options={"depot.microbatch.max.records": 2})
    funds = mb.pstate("funds", Map(int, int))
    total = mb.pstate("total", int, initial=0)

    def debit(row, funds):
        funds[row.src] = funds.get(row.src, 0) - row.amount
        yield row

    def credit(row, funds):
        funds[row.dst] = funds.get(row.dst, 0) + row.amount

    source = mb.source(depot)
    moved = source.process(
        debit, key="src", states=[funds], emits="src long, dst long, amount long"
    )
    moved.process(credit, key="dst", states=[funds])
    source.aggregate(total, agg.sum("amount"))
    return module


def _transfers(count):
    return [
        {"src": n * 7 % ACCOUNTS, "dst": (n * 5 + 1) % ACCOUNTS, "amount": n % 9 + 1}
        for n in range(count)
    ]


def _folded(transfers):
    funds = Counter()
    for each in transfers:
        funds[each["src"]] -= each["amount"]
        funds[each["dst"]] += each["amount"]
    touched = {each[side] for each in transfers for side in ("src", "dst")}
    return {account: funds[account] for account in touched}


def _first(app, ends):
    """The records before these offsets, as they were appended."""
    depot = app.depot("rows")
    return [row for part, end in enumerate(ends) for row in depot.read(part, 0, end).to_pylist()]


def test_readers_do_not_wait_for_a_change_and_see_nothing_of_it(tmp_path):
    """In its middle, the new owners having written, all reads give the last commit at once.

    From the app, from elsewhere, as of a commit, and as a scan; appends are taken as well. The
    cluster describes itself as it was. Then the change stands, and the next commit is whole.
    """
    gate = Gate("mb")
    transfers = _transfers(160)
    with workers(tmp_path / "root", observer=gate) as cluster, ThreadPoolExecutor(1) as thread:
        app = cluster.deploy(_bank())
        _feed(app, transfers[:40])
        state = app._loops["mb"].status
        info = app.cluster.info()

        def change():
            app.depot("rows").append(transfers[40:140])
            move(app, {"process debit": "-[0,1,4]"})

        def trying():
            return state.state.placing is not None and state.state.placing.tried

        with gate.holding(change, trying):
            commit = app._loops["mb"].published
            assert state.state.plan.id == commit.id + 1
            assert any(start < end for start, end in state.state.plan.ranges["rows"])
            known = _folded(_first(app, commit.ends()["rows"]))
            funds = app.pstate("funds")
            elsewhere = atoll.connect(app.store.root, app.name).pstate("funds")
            readers = [funds, funds.as_of(commit.id), elsewhere]
            for row in transfers[140:]:
                thread.submit(_read_all, app, readers, known).result(120)
                assert app.cluster.info() == info
                assert app.cluster.describe()["revision"] == info.revision
                thread.submit(app.depot("rows").append, [row]).result(120)
            assert app._loops["mb"].published is commit
        assert fragment(app, "process debit").units == (2, 3, 5)
        app.topology("mb").wait_processed(len(transfers))
        _read_all(app, [funds, elsewhere], _folded(transfers))
        assert app.pstate("total").get() == sum(each["amount"] for each in transfers)


def _read_all(app, readers, known):
    """Every way of reading gives these funds, whose sum is 0."""
    assert sum(known.values()) == 0
    for reader in readers:
        assert dict(reader.select(path.all())) == known
        for account in range(ACCOUNTS):
            assert reader.get(account) == known.get(account)
    scan, groups = _partitions(app, "funds")
    found = [row for g in groups for batch in scan.read(g) for row in batch.to_pylist()]
    assert {row["key"]: row["value"] for row in found} == known


def test_every_read_between_random_changes_is_of_one_commit(tmp_path):
    """A thread that only reads: the sum never differs, commits never go back, no read fails.

    The changes wait for it, so that it reads at a commit after each of them.
    """
    rng = random.Random(5)
    transfers = _transfers(200)
    stop, read_at = threading.Event(), queue.SimpleQueue()
    with workers(tmp_path / "root") as cluster, ThreadPoolExecutor(1) as thread:
        app = cluster.deploy(_bank())

        def read():
            seen, newest = set(), 0
            while not stop.is_set():
                view = app.pstate("funds").view()
                assert view.commit_id >= newest
                newest = view.commit_id
                assert sum(dict(app.pstate("funds").select(path.all())).values()) == 0
                if newest not in seen:
                    seen.add(newest)
                    read_at.put(newest)

        reading = thread.submit(read)
        try:
            for first in range(0, len(transfers), 20):
                app.depot("rows").append(transfers[first : first + 20])
                chosen = rng.sample(app.cluster.info().roots(), 2)
                move_all(app, random_changes(rng, app, chosen))
                app.topology("mb").wait_processed(first + 20)
                committed = app.topology("mb").status()["committed"]
                while read_at.get(timeout=120) < committed:
                    pass
        finally:
            stop.set()
            reading.result(120)
        assert dict(app.pstate("funds").select(path.all())) == _folded(transfers)
