"""Sinks of a module: what they get, when they fail, and what becomes of them over its life."""

from __future__ import annotations

import threading

import pytest
from collecting_sink import Collecting, Forgetful, Server

import atoll
from atoll import LocalCluster, agg, start
from atoll.errors import (
    DamageError,
    DeclarationError,
    DeployError,
    SinkError,
    UsageError,
)
from atoll.fsck.root import check_root
from atoll.sinks import Folder
from atoll.testing import TopologyTestDriver

BEGINNING = start.beginning()


def shop(*sinks, changes=(), columns=None, options=None, name="shop"):
    """Hands out its orders to sinks, and what they change of a count to others."""
    module = atoll.Module(name)
    orders = module.depot("orders", "id long, item string", partition_by="item", partitions=2)
    mb = module.microbatch("mb", vnode_count=4, options=options)
    counts = mb.pstate("counts", dict[str, int])
    rows = mb.source(orders, start_from=BEGINNING)
    rows.aggregate(counts["item"], agg.count())
    for number, sink in enumerate(sinks):
        out = rows if columns is None else rows.select(*columns)
        out.write_to(sink, name=f"sink{number}")
    for number, sink in enumerate(changes):
        counts.changes("item").write_to(sink, name=f"changes{number}")
    return module


def order(driver, *ids):
    """One microbatch."""
    driver.depot("orders").append([{"id": n, "item": f"i{n % 3}"} for n in ids])
    driver.microbatch()


def ids(server):
    """What the server holds, sorted."""
    return sorted(row["id"] for row in server.rows)


def test_rows_come_after_the_commit_in_order_once():
    """A parcel per microbatch that had rows; numbers without gap, ids of microbatches."""
    server = Server()
    with TopologyTestDriver(shop(Collecting(server))) as driver:
        order(driver, 1, 2, 3)
        assert server.rows == []
        assert driver.write_sinks() == 1
        order(driver, 4)
        order(driver, 5, 6)
        assert driver.write_sinks() == 2
        assert driver.write_sinks() == 0
    assert list(range(1, 7)) == ids(server)
    assert [(p.number, p.microbatch) for p in server.seen] == [(1, 1), (2, 2), (3, 3)]
    assert [p.records for p in server.seen] == [3, 1, 2]


def test_changes_say_the_keys_and_follow_the_pstate():
    """Old and new per key; a sink that applies them holds what the PState holds."""
    server = Server()
    with TopologyTestDriver(shop(changes=[Collecting(server)])) as driver:
        for numbers in ((0, 1, 2), (3, 4), (5,)):
            order(driver, *numbers)
        driver.write_sinks()
        held = {}
        for row in server.rows:
            assert held.get(row["item"]) == row["old"]
            held[row["item"]] = row["new"]
        assert driver.pstate("counts").get() == held


@pytest.mark.parametrize("between", [1, 2, 3, 4, 5])
def test_a_restart_anywhere_loses_and_doubles_nothing(between):
    """A life ends after each numbered step of a microbatch, with and without the sink at work."""
    server = Server()
    with TopologyTestDriver(shop(Collecting(server))) as driver:
        order(driver, 1, 2)
        driver.depot("orders").append([{"id": 3, "item": "x"}])
        for _ in range(between):
            driver.step()
        driver.restart()
        driver.run_until_idle()
        driver.write_sinks()
        order(driver, 4)
        driver.restart()
        driver.write_sinks()
        driver.restart()
        assert driver.write_sinks() == 0
    assert ids(server) == [1, 2, 3, 4]


def test_a_lost_answer_is_found_out_from_the_target():
    """The target holds more than is noted: it is noted, not written again."""
    server = Server(loses_answer={1, 2})
    with TopologyTestDriver(shop(Collecting(server))) as driver:
        order(driver, 1)
        with pytest.raises(ConnectionError):
            driver.write_sinks()
        order(driver, 2)
        with pytest.raises(ConnectionError):
            driver.write_sinks()
        driver.restart()
        assert driver.write_sinks() == 0
        assert driver.status()["sinks"]["sink0"]["last_written"]["number"] == 2
    assert ids(server) == [1, 2]


def test_what_waits_outlives_the_commits_that_made_it(tmp_path):
    """The topology tidies as ever; the rows stay until the sink takes them, and go then."""
    server = Server(fails=lambda _: ConnectionError("down"))
    options = {"pstate.history.seconds": 0, "pstate.checkpoint.interval.commits": 2}
    root = tmp_path / "root"
    with TopologyTestDriver(shop(Collecting(server), options=options), root=root) as driver:
        for number in range(30):
            order(driver, number)
        with pytest.raises(ConnectionError):
            driver.write_sinks()
        assert driver.status()["sinks"]["sink0"]["waiting_microbatches"] == 30
        assert len(list((root / "shop/mb/sinks/sink0/rows").iterdir())) >= 30
        assert len(list((root / "shop/mb/appends").iterdir())) < 10
        server.fails = lambda _: None
        assert driver.write_sinks() == 30
        assert list((root / "shop/mb/sinks/sink0/rows").iterdir()) == []
        assert len(list((root / "shop/mb/sinks/sink0/parcels").iterdir())) == 1
        assert check_root(root).findings == []
    assert list(range(30)) == ids(server)


def test_a_failing_sink_is_seen_and_others_go_on():
    """Why, since when, how often and when again; the other one has all."""
    server, other = Server(fails=lambda _: SinkError("no room", hint="make some")), Server()
    with TopologyTestDriver(shop(Collecting(server), Collecting(other))) as driver:
        order(driver, 1)
        for _ in range(2):
            with pytest.raises(SinkError, match="no room"):
                driver.write_sinks()
        status = driver.status()["sinks"]["sink0"]
        assert status["state"] == "failing"
        assert (status["error"]["message"], status["error"]["hint"]) == ("no room", "make some")
        assert status["error"]["code"] == "E-SINK"
        assert (status["error"]["count"], status["failures"]) == (2, 2)
        assert status["error"]["next_try_ms"] == status["error"]["at_ms"] + 100
        assert status["waiting_records"] == 1
        assert ids(other) == [1]
        server.fails = lambda _: None
        driver.write_sinks()
        status = driver.status()["sinks"]["sink0"]
        assert (status["state"], status["error"]) == ("running", None)
        assert status["last_failure"]["message"] == "no room"


def test_a_sink_without_a_number_gets_a_parcel_again_when_a_life_died():
    """At least once: what was noted is not written again, what was not is."""
    server = Server()
    with TopologyTestDriver(shop(Forgetful(server))) as driver:
        order(driver, 1)
        driver.write_sinks()
        driver.restart()
        assert driver.write_sinks() == 0
        order(driver, 2)
        delivery = driver.app.sinks.of("mb")["sink0"]._delivery
        taking = delivery.box.take
        delivery.box.take = lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            driver.write_sinks()
        delivery.box.take = taking
        driver.restart()
        driver.write_sinks()
    assert [p.number for p in server.seen] == [1, 2, 2]
    assert ids(server) == [1, 2]


def test_a_target_that_forgot_or_knows_too_much_is_refused():
    """Another server, or one or the root from an older copy: nothing is written, and it is told."""
    server = Server()
    with TopologyTestDriver(shop(Collecting(server))) as driver:
        for number in (1, 2, 3):
            order(driver, number)
        driver.write_sinks()
        order(driver, 4)
        server.last = 2
        driver.restart()
        with pytest.raises(SinkError, match="holds parcels up to 2, but 3 were written"):
            driver.write_sinks()
        server.last = 7
        with pytest.raises(SinkError, match="up to 7, but only 4 were ever made"):
            driver.write_sinks()
        server.last = 3
        driver.write_sinks()
    assert ids(server) == [1, 2, 3, 4]


def test_a_slow_sink_delays_nothing():
    """While it hangs the topology commits, the other sink writes, and closing does not wait."""
    slow, quick = Server(gate=threading.Event()), Server()
    with LocalCluster(engine="inline", parallelism=1) as cluster:
        app = cluster.deploy(shop(Collecting(slow), Collecting(quick)))
        for number in range(5):
            app.depot("orders").append([{"id": number, "item": "x"}])
            app.topology("mb").wait_processed(number + 1)
        wait_until(lambda: len(ids(quick)) == 5)
        assert app.status()["topologies"]["mb"]["sinks"]["sink0"]["waiting_records"] == 5
        slow.gate.set()
        wait_until(lambda: len(ids(slow)) == 5)
        wait_until(
            lambda: app.status()["topologies"]["mb"]["sinks"]["sink0"]["waiting_records"] == 0
        )


def wait_until(holds, seconds=20.0):
    """Wait for a condition."""
    until = threading.Event()
    for _ in range(int(seconds / 0.01)):
        if holds():
            return
        until.wait(0.01)
    raise AssertionError("it did not come to that")


def test_a_sink_that_works_again_catches_up_by_itself():
    """The thread tries again after a while."""
    tries = []

    def fails(number):
        tries.append(number)
        return ConnectionError("down") if len(tries) < 4 else None

    server = Server(fails=fails)
    with LocalCluster(engine="inline", parallelism=1) as cluster:
        app = cluster.deploy(shop(Collecting(server)))
        app.depot("orders").append([{"id": 1, "item": "x"}])
        wait_until(lambda: ids(server) == [1])
    assert tries == [1, 1, 1, 1]


def test_no_more_is_made_when_too_much_waits():
    """Nothing is dropped: the topology waits, says for which sink, and goes on."""
    server = Server(fails=lambda _: ConnectionError("down"))
    options = {"topology.sinks.max.records": 3}
    with TopologyTestDriver(shop(Collecting(server), options=options)) as driver:
        order(driver, 1, 2)
        order(driver, 3)
        driver.depot("orders").append([{"id": 4, "item": "x"}])
        assert driver.step() == "failed"
        error = driver.status()["error"]
        assert error["code"] == "E-BACKLOG"
        assert "3 rows wait for sink 'sink0'" in error["message"]
        server.fails = lambda _: None
        driver.write_sinks()
        driver.run_until_idle()
        driver.write_sinks()
    assert ids(server) == [1, 2, 3, 4]


# Rollbacks ----------------------------------------------------------------------------------------


def test_a_rollback_is_refused_unless_what_was_written_stays():
    """Rows cannot be taken back; kept, the new microbatches write again under a new timeline."""
    server = Server()
    with TopologyTestDriver(shop(Collecting(server))) as driver:
        for number in (1, 2, 3):
            order(driver, number)
        driver.write_sinks()
        with pytest.raises(UsageError, match=r"appended rows to depots or sinks"):
            driver.topology("mb").rollback(1)
        driver.topology("mb").rollback(1, keep_appended=True)
        driver.topology("mb").resume()
        driver.run_until_idle()
        driver.write_sinks()
    assert [(p.number, p.timeline, p.microbatch) for p in server.seen] == [
        (1, 0, 1),
        (2, 0, 2),
        (3, 0, 3),
        (4, 1, 2),
    ]
    assert ids(server) == [1, 2, 2, 3, 3]


def test_a_rollback_behind_what_a_sink_follows_is_refused():
    """The target would keep what the PState no longer has; without the sink it goes."""
    server = Server()
    with TopologyTestDriver(shop(changes=[Collecting(server)])) as driver:
        for number in (1, 2, 3):
            order(driver, number)
        driver.write_sinks()
        with pytest.raises(UsageError, match="changed a PState that sinks follow: changes0"):
            driver.topology("mb").rollback(1, keep_appended=True)
        driver.topology("mb").rollback(3)
        driver.topology("mb").resume()
        driver.update(shop(), remove=["sink:changes0"])
        driver.topology("mb").rollback(1, keep_appended=True)
        assert driver.pstate("counts").get() == {"i1": 1}


# Updates ------------------------------------------------------------------------------------------


def test_an_update_adds_keeps_and_removes_sinks(tmp_path):
    """A new one begins with the next microbatch; one that goes must be named, and stays gone."""
    first, second = Server(), Server()
    root = tmp_path / "root"
    with TopologyTestDriver(shop(Collecting(first)), root=root) as driver:
        order(driver, 1)
        driver.update(shop(Collecting(first), Collecting(second)))
        order(driver, 2)
        driver.write_sinks()
        assert (ids(first), ids(second)) == ([1, 2], [2])
        order(driver, 3)
        with pytest.raises(DeployError, match="sink 'sink1': no longer declared"):
            driver.update(shop(Collecting(first)))
        driver.update(shop(Collecting(first)), remove=["sink:sink1"])
        assert not (root / "shop/mb/sinks/sink1").exists()
        driver.write_sinks()
        assert (ids(first), ids(second)) == ([1, 2, 3], [2])
        with pytest.raises(DeployError, match="a name is not given twice"):
            driver.update(shop(Collecting(first), Collecting(second)))


def test_a_sink_cannot_become_another_one(tmp_path):
    """Kind, and what the sink says must stay: both are refused before anything changes."""
    with TopologyTestDriver(shop(Collecting(Server()))) as driver:
        with pytest.raises(DeployError, match="its kind is fixed: collecting is deployed, folder"):
            driver.update(shop(Folder(str(tmp_path / "x"))))
        module = shop()
        counts = module.pstates()["counts"]
        counts.changes("item").write_to(Collecting(Server()), name="sink0")
        with pytest.raises(DeployError, match="its input is fixed: rows is deployed, changes of"):
            driver.update(module)
        with pytest.raises(DeployError, match="its mode is fixed: rows is deployed, upsert"):
            driver.update(shop(Collecting(Server(), "upsert")))


def test_rows_of_older_columns_come_with_their_own():
    """A parcel that was made before an update has the columns of its time."""
    server = Server(fails=lambda _: ConnectionError("down"))
    with TopologyTestDriver(shop(Collecting(server), columns=["id"])) as driver:
        order(driver, 1)
        driver.update(shop(Collecting(server), columns=["id", "item"]))
        order(driver, 2)
        server.fails = lambda _: None
        driver.write_sinks()
    assert [p.schema.names for p in server.seen] == [["id"], ["id", "item"]]


def test_each_sink_of_each_root_has_an_identity_of_its_own():
    """Two roots with the same names never take over each other's numbers."""
    server = Server()
    for _ in range(2):
        with TopologyTestDriver(shop(Collecting(server), Collecting(server))) as driver:
            order(driver, 1)
            server.last, server.parcels = 0, {}
            driver.restart()
            for each in driver.app.sinks.of("mb").values():
                server.last = 0
                each.write()
    assert len(set(server.identities)) == 4


# Declaring ----------------------------------------------------------------------------------------


def test_what_cannot_be_declared():
    """No sink, a name twice in a topology or a module, and columns that the sink refuses."""
    module = shop(Collecting(Server()))
    rows = module.topologies["mb"].source(module.depots["orders"], start_from=BEGINNING)
    with pytest.raises(DeclarationError, match="write_to takes a sink, not 'x'"):
        rows.write_to("x", name="x")
    with pytest.raises(DeclarationError, match="cannot name a sink"):
        rows.write_to(Collecting(Server()), name="a.b")
    with pytest.raises(DeclarationError, match="sink 'sink0' is declared twice"):
        rows.write_to(Collecting(Server()), name="sink0")
    other = module.microbatch("other", vnode_count=2)
    other.source(module.depots["orders"]).write_to(Collecting(Server()), name="sink0")
    with pytest.raises(DeclarationError, match="sink 'sink0' is declared twice"):
        TopologyTestDriver(module)
    with pytest.raises(SinkError, match="no column item here"):
        TopologyTestDriver(shop(Collecting(Server(refuses="item"))))


def test_a_damaged_parcel_is_told_by_its_sink_alone(tmp_path):
    """The status of all else is there, and says which file it is; restored, it goes on."""
    server, other = Server(), Server()
    root = tmp_path / "root"
    with TopologyTestDriver(shop(Collecting(server), Collecting(other)), root=root) as driver:
        order(driver, 1)
    parcel = next((root / "shop/mb/sinks/sink0/parcels").iterdir())
    whole = parcel.read_bytes()
    parcel.write_bytes(whole[:-1] + b"x")
    with TopologyTestDriver(shop(Collecting(server), Collecting(other)), root=root) as driver:
        sinks = driver.status()["sinks"]
        assert sinks["sink0"]["error"]["code"] == "E-DAMAGE"
        assert sinks["sink1"]["error"] is None
        with pytest.raises(DamageError):
            driver.write_sinks()
        assert ids(other) == [1]
        parcel.write_bytes(whole)
        driver.write_sinks()
        assert ids(server) == [1]


def test_status_and_metrics_say_how_sinks_are():
    """A line each at the command line, families of metrics over HTTP."""
    from atoll.cli.commands.status import _sink
    from atoll.server.collectors.sinks import SinkFamilies

    server = Server(fails=lambda _: SinkError("no room", hint="make some"))
    with TopologyTestDriver(shop(Collecting(server))) as driver:
        order(driver, 1, 2)
        with pytest.raises(SinkError):
            driver.write_sinks()
        told = driver.status()["sinks"]["sink0"]
        line = _sink("shop/mb", "sink0", told, told["oldest_ms"] + 3_000)
        behind, *error = line.splitlines()
        assert behind.endswith(" is 1 microbatch behind, 2 rows, the oldest for 3 s")
        assert error == ["it fails: no room", "to do: make some", " code: E-SINK"]
        families = SinkFamilies()
        families.add("shop", "mb", driver.status())
        found = {each.name: each.samples[0].value for each in families.all()}
        assert found["atoll_sink_records_waiting"] == 2
        assert found["atoll_sink_failing"] == found["atoll_sink_failures"] == 1
        server.fails = lambda _: None
        driver.write_sinks()
        told = driver.status()["sinks"]["sink0"]
        assert _sink("shop/mb", "sink0", told, 0) == (
            "shop/mb: sink sink0 (collecting, exactly once) has all; last written: microbatch 1"
        )


def test_rows_that_spark_has_made_come_with_their_columns_alone(cluster, tmp_path):
    """After a step of Spark's, and in its types; what says which record a row is of stays here."""
    module = atoll.Module("shop")
    orders = module.depot("orders", "id long, item string", partition_by="item", partitions=2)
    mb = module.microbatch("mb", vnode_count=2)
    rows = mb.source(orders, start_from=BEGINNING)
    made = rows.transform(lambda frame: frame.selectExpr("id", "array(upper(item)) AS items"))
    server = Server()
    made.write_to(Collecting(server), name="out")
    app = cluster.deploy(module)
    app.depot("orders").append([{"id": n, "item": "a"} for n in range(5)])
    wait_until(lambda: ids(server) == list(range(5)), seconds=60.0)
    assert server.rows[0] == {"id": server.rows[0]["id"], "items": ["A"]}
