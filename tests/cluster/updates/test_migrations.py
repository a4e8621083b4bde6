"""Values of an older schema: seen as new ones at once, and rewritten bit by bit."""

from __future__ import annotations

import random
import re

import pytest

import atoll
from atoll import List, Map, Struct, agg, start
from atoll.cluster.local import LocalCluster
from atoll.errors import DeclarationError, DeployError, StateError, UsageError, UserCodeError
from atoll.fsck.root import check_root
from atoll.testing import TopologyTestDriver

FIRST = start.beginning()
ROWS = "k string, n string, v long"
OLD = Map(str, Map(str, int))
NEW = Map(str, Map(str, Struct(text=str, doubled=int)))


def to_struct(value):
    """The first migration."""
    return {"text": str(value), "doubled": 2 * value}


def shouted(value):
    """The second migration."""
    return {**value, "text": value["text"] + "!"}


def version(number, *, vnodes=8, slices=1, fixed=None):
    """Version 1 keeps the last value, 2 a struct of it, 3 shouts; all emit their changes."""
    module = atoll.Module("kept")
    rows = module.depot("rows", ROWS, partition_by="k", partitions=2)
    log = module.depot("log", "k string, n string, old string, new string", is_global=True)
    mb = module.microbatch(
        "mb", vnode_count=vnodes, options={"pstate.migration.vnodes.per.microbatch": slices}
    )
    state = mb.pstate("state", OLD if number == 1 else NEW)
    if number >= 2:
        state.migrated("to-struct", fixed or to_struct)
    if number >= 3:
        state.migrated("shout", shouted)

    def keep(row, state):
        if row.v < 0:
            state[row.k].pop(row.n, None)
            return
        value = row.v if number == 1 else to_struct(row.v)
        state[row.k][row.n] = shouted(value) if number >= 3 else value

    mb.source(rows, start_from=FIRST).process(keep, key="k", states=[state])
    state.changes("k", "n").map(
        lambda row: {"k": row.k, "n": row.n, "old": repr(row.old), "new": repr(row.new)},
        emits="k string, n string, old string, new string",
    ).append_to(log)
    return module


def wanted(known, number):
    """What the version shows of the plain values."""
    shown = {}
    for (key, name), value in sorted(known.items()):
        now = value if number == 1 else to_struct(value)
        shown.setdefault(key, {})[name] = shouted(now) if number == 3 else now
    return shown


def fill(driver, known, chance, count=12):
    """Append random rows, and keep what they say."""
    rows = []
    for _ in range(count):
        key, name = f"k{chance.randrange(14)}", chance.choice("abc")
        value = chance.randrange(-2, 50)
        rows.append({"k": key, "n": name, "v": value})
        if value < 0:
            known.pop((key, name), None)
        else:
            known[key, name] = value
    driver.depot("rows").append(rows)


def left(driver):
    """How many vnodes are behind."""
    return driver.status()["migrations"].get("state", {}).get("vnodes_left", 0)


def check_reads(driver, root, shown):
    """Whole, by key and by both keys, from this process and as another one would."""
    state = driver.pstate("state")
    assert state.get() == shown
    assert atoll.connect(root, "kept").pstate("state").get() == shown
    for key, names in shown.items():
        assert state.get(key) == names
        assert {name: state.get(key, name) for name in names} == names


def disturb(driver, root, chance):
    """Now and then a new life, lost stores, a worker that joins."""
    if chance.random() < 0.3:
        driver.restart()
    if chance.random() < 0.3:
        for path in (root / "local" / "state").rglob("data.mdb"):
            path.unlink()
    if chance.random() < 0.3:
        driver.cluster.add_worker(f"w{chance.randrange(100)}", 1)


@pytest.mark.parametrize("seed", range(6))
def test_every_reader_sees_new_values_while_they_are_rewritten(tmp_path, seed):
    """Random writes, failures, restarts, lost stores and rollbacks while two updates go on."""
    chance = random.Random(seed)
    declared = {"vnodes": chance.choice([1, 5, 16]), "slices": chance.choice([1, 3])}
    known: dict[tuple[str, str], int] = {}
    with TopologyTestDriver(version(1, **declared), root=tmp_path) as driver:
        for _ in range(3):
            fill(driver, known, chance)
            driver.run_until_idle()
        assert driver.pstate("state").get() == wanted(known, 1)
        processed = driver.status()["processed"]
        for number in (2, 3):
            driver.update(version(number, **declared))
            assert driver.status()["processed"] == processed
            for _ in range(4):
                check_reads(driver, tmp_path, wanted(known, number))
                if chance.random() < 0.7:
                    fill(driver, known, chance, count=chance.choice([1, 5]))
                if chance.random() < 0.4:
                    driver.fail_next_attempt(after_work=True)
                driver.run()
                disturb(driver, tmp_path, chance)
            processed = driver.status()["processed"]
        driver.run_until_idle()
        assert left(driver) == 0
        assert driver.status()["migrations"] == {}
        assert driver.pstate("state").get() == wanted(known, 3)
    assert check_root(tmp_path, stores=True).findings == []


def test_an_idle_topology_rewrites_slice_by_slice():
    """Microbatches without records; readers as of one see the same before and after."""
    with TopologyTestDriver(version(1)) as driver:
        driver.depot("rows").append(
            [{"k": f"k{number}", "n": "a", "v": number} for number in range(40)]
        )
        driver.run_until_idle()
        driver.update(version(2, slices=3))
        counts = [left(driver)]
        shown = driver.pstate("state").get()
        while driver.microbatch() is not None:
            counts.append(left(driver))
            assert driver.pstate("state").get() == shown
        assert counts == [8, 5, 2, 0]
        assert driver.status()["processed"] == 40
        last = driver.status()["committed"]
        assert driver.pstate("state").as_of(last - 2).get() == shown
        assert driver.changes("state") == []
        assert driver.depot("log").end_offsets() == (40,)  # a rewrite is no change
        driver.topology("mb").rollback(last - 2)
        assert left(driver) == 5
        assert driver.pstate("state").get() == shown


def test_changes_are_between_values_of_the_new_schema():
    """The first write after the update finds the old value converted."""
    with TopologyTestDriver(version(1)) as driver:
        driver.depot("rows").append([{"k": "a", "n": n, "v": 1} for n in "xy"])
        driver.run_until_idle()
        driver.update(version(2))
        driver.depot("rows").append([{"k": "a", "n": "x", "v": 5}, {"k": "a", "n": "y", "v": 1}])
        driver.run_until_idle()
        (seen,) = driver.depot("log").read(0, 2, 3).to_pylist()
        assert "'doubled': 2" in seen["old"] or "doubled=2" in seen["old"]
        assert "10" in seen["new"]
        assert driver.depot("log").end_offsets() == (3,)  # y was written as it was


def test_an_aggregate_goes_on_with_migrated_totals():
    """A count becomes cents: the rows after the update are added to the converted total."""

    def counting(factor):
        module = atoll.Module("sums")
        rows = module.depot("rows", "k string, v long", partition_by="k")
        mb = module.microbatch("mb", vnode_count=4)
        total = mb.pstate("total", Map(str, int))
        if factor > 1:
            total.migrated("cents", lambda value: value * factor)
        mb.source(rows, start_from=FIRST).aggregate(total["k"], agg.sum("v"))
        return module

    with TopologyTestDriver(counting(1)) as driver:
        driver.depot("rows").append([{"k": k, "v": 2} for k in "aab"])
        driver.run_until_idle()
        driver.update(counting(100))
        assert driver.pstate("total").get() == {"a": 400, "b": 200}
        driver.depot("rows").append([{"k": "a", "v": 7}])
        driver.run_until_idle()
        assert driver.pstate("total").get() == {"a": 407, "b": 200}
        driver.update(counting(100))  # the same id again changes nothing
        driver.update(counting(1))  # nor does leaving it out
        driver.run_until_idle()
        assert driver.pstate("total").get() == {"a": 407, "b": 200}


def parse(song):
    """``Title ft. Somebody`` taken apart, idempotent like the vendor's."""
    name, *rest = re.split(r"\s*(?:ft|feat)\.*\s*", song, maxsplit=1)
    return {"name": name, "featured": [each.strip() for each in rest[0].split(",")] if rest else []}


def test_the_music_catalogue():
    """Rama's acceptance case: songs as strings become structs with their guests."""

    def catalogue(number):
        module = atoll.Module("MusicCatalogModule")
        albums = module.depot("albums", "artist string, name string, songs array<string>")
        mb = module.microbatch("albums", vnode_count=4)
        song = str if number == 1 else Struct(name=str, featured=List(str))
        state = mb.pstate("catalogue", Map(str, Map(str, List(song))))

        def read(songs):
            return [parse(each) for each in songs]

        if number == 2:
            state.migrated("parse-song-data", read)

        def add(row, state):
            songs = list(row.songs)
            state[row.artist][row.name] = songs if number == 1 else read(songs)

        mb.source(albums, start_from=FIRST).process(add, key="artist", states=[state])
        return module

    with TopologyTestDriver(catalogue(1)) as driver:
        song = "Have The Heart ft. Dolly Parton"
        driver.depot("albums").append(
            {"artist": "Post Malone", "name": "F-1 Trillion", "songs": [song]}
        )
        driver.run_until_idle()
        assert driver.pstate("catalogue").get("Post Malone") == {"F-1 Trillion": [song]}
        driver.update(catalogue(2))
        (found,) = driver.pstate("catalogue").get("Post Malone", "F-1 Trillion")
        assert found == {"name": "Have The Heart", "featured": ["Dolly Parton"]}
        driver.depot("albums").append(
            {"artist": "Frank Ocean", "name": "Channel Orange", "songs": ["White feat. John Mayer"]}
        )
        driver.run_until_idle()
        (found,) = driver.pstate("catalogue").get("Frank Ocean", "Channel Orange")
        assert found == {"name": "White", "featured": ["John Mayer"]}
        assert driver.status()["processed"] == 2


def picky(value):
    """Knows no 13."""
    if value == 13:
        raise ValueError("unlucky")
    return to_struct(value)


def test_a_function_that_fails_is_refused_or_stops_the_topology_with_the_key():
    """What a sample finds is refused at deploy; what it misses names its key, and can be mended."""
    with TopologyTestDriver(version(1, vnodes=1)) as driver:
        driver.depot("rows").append([{"k": "bad", "n": "a", "v": 13}])
        driver.run_until_idle()
        with pytest.raises(DeployError, match=r"failed at 'bad', 'a': ValueError: unlucky"):
            driver.update(version(2, vnodes=1, fixed=picky))
        assert driver.pstate("state").get("bad", "a") == 13
        driver.depot("rows").append(
            [{"k": f"a{number:04}", "n": "a", "v": 1} for number in range(150)]
        )
        driver.run_until_idle()
        driver.update(version(2, vnodes=1, fixed=picky))  # the sample ends before it
        assert driver.pstate("state").get("a0001", "a") == to_struct(1)
        with pytest.raises(UserCodeError, match="failed at 'bad', 'a'"):
            driver.pstate("state").get("bad", "a")
        with pytest.raises(atoll.errors.TopologyFailedError):
            driver.microbatch()
        error = driver.status()["error"]
        assert (error["code"], error["context"]["key"]) == ("E-USER-CODE", "'bad', 'a'")
        driver.update(version(2, vnodes=1))
        driver.run_until_idle()
        assert driver.pstate("state").get("bad", "a") == to_struct(13)


def test_a_reader_from_before_the_update_is_told_to_connect_again(tmp_path):
    """It knows neither the new schema nor the function."""
    with TopologyTestDriver(version(1), root=tmp_path) as driver:
        driver.depot("rows").append([{"k": "a", "n": "a", "v": 1}])
        driver.run_until_idle()
        before = atoll.connect(tmp_path, "kept").pstate("state")
        assert before.get("a", "a") == 1
        driver.update(version(2))
        assert before.get("a", "a") == 1  # nothing is rewritten yet
        driver.run_until_idle()
        with pytest.raises(StateError, match="migrated to another schema"):
            before.get("a", "a")


def module_with(node, *migrations, name="m", **settings):
    """One PState, written by nobody's rows."""
    module = atoll.Module(name)
    rows = module.depot("rows", "k string")
    mb = module.microbatch("mb", vnode_count=4)
    state = mb.pstate("state", node, **settings)
    for each in migrations:
        state.migrated(*each[:2], **(each[2] if len(each) > 2 else {}))
    mb.source(rows).process(lambda row, state: None, key="k", states=[state])
    return module


@pytest.mark.parametrize(
    ("before", "now", "problem"),
    [
        ((Map(str, int),), (Map(str, str),), "schema: .* is deployed"),
        ((Map(str, int),), (Map(str, Map(str, int)),), "structure"),
        ((Map(str, int),), (Map(str, Map(str, int)), ("m", str)), "changes more than its values"),
        ((Map(str, int),), (Map(str, int), ("a", abs), ("b", abs)), "two new migrations"),
    ],
)
def test_what_cannot_be_migrated_is_refused(tmp_path, before, now, problem):
    """The running version goes on."""
    with LocalCluster(tmp_path, engine="inline") as cluster:
        cluster.deploy(module_with(*before))
        with pytest.raises((DeployError, DeclarationError), match=problem):
            cluster.update(module_with(*now))
        assert cluster.apps["m"].topology("mb").status()["state"] == "running"


def test_mistakes_are_found_where_they_are_declared():
    """Each with the line."""
    for migrations, problem in (
        ([("a", abs), ("a", abs)], "it has a migration 'a'"),
        ([("", abs)], "no id"),
        ([("a", 7)], "takes a function"),
        ([("a", abs, {"at": "nowhere"})], "no value at 'nowhere'"),
    ):
        with pytest.raises(DeclarationError, match=problem) as caught:
            module_with(Map(str, int), *migrations)
        assert "test_migrations.py" in caught.value.context["declared"]
    with pytest.raises(UsageError):
        atoll.testing.TopologyTestDriver(version(1)).update(module_with(Map(str, int)))


def test_a_spark_scan_shows_new_values_in_the_middle_of_a_migration(cluster):
    """Spark's own processes load the function from the root; the topology runs as Spark jobs."""
    app = cluster.deploy(version(1))
    app.depot("rows").append([{"k": f"k{n}", "n": "a", "v": n} for n in range(20)])
    app.topology("mb").wait_processed(20)
    app = cluster.update(version(2))
    app.pause()
    shown = {
        row["key"]: row["value"].asDict()
        for row in app.dataframe("state").select("key", "value").collect()
    }
    assert shown == {f"k{n}": to_struct(n) for n in range(20)}
    app.resume()
    app.depot("rows").append([{"k": "k3", "n": "a", "v": 33}])
    app.topology("mb").wait_processed(21)
    assert app.pstate("state").get("k3", "a") == to_struct(33)
    assert app.pstate("state").get("k4", "a") == to_struct(4)
