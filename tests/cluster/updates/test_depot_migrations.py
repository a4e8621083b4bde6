"""Records of an older schema: every reader gets new ones, and offsets stay what they were."""

from __future__ import annotations

import random

import pytest

import atoll
from atoll import Map, agg, start
from atoll.cluster.local import LocalCluster
from atoll.errors import DeclarationError, DeployError, TopologyFailedError
from atoll.fsck.root import check_root
from atoll.testing import TopologyTestDriver

FIRST = start.beginning()
OLD = "k string, v long"
WIDE = "k string, v long, bonus long"
NEW = "key string, cents long NOT NULL, note string"
LAST = "key string, cents long NOT NULL, note string, big boolean NOT NULL"


def to_cents(record):
    """The first migration."""
    return {"key": record["k"], "cents": 100 * record["v"] + (record["bonus"] or 0)}


def with_size(record):
    """The second one: it fills the column that it adds."""
    return {**record, "note": record["note"] or "none", "big": record["cents"] > 1000}


def careful(record):
    """The first one, corrected."""
    return {"key": record["k"], "cents": 100 * (record["v"] or 0) + (record["bonus"] or 0)}


def version(number, *, read=to_cents, partitions=2, records=50, spark=False, again=()):
    """Sums by key, under the 1st schema, with a column more, and after one and two migrations."""
    ddl = (OLD, WIDE, NEW, LAST)[number - 1]
    key, value = ("k", "v") if number < 3 else ("key", "cents")
    module = atoll.Module("shop")
    rows = module.depot("rows", ddl, partition_by=key, partitions=partitions)
    log = module.depot("log", ddl, is_global=True)
    for depot in (rows, log):
        if number >= 3:
            depot.migrated("cents", read)
        if number >= 4:
            depot.migrated("size", with_size)
    options = {"depot.microbatch.max.records": records, "topology.microbatch.retry.max.attempts": 2}
    mb = module.microbatch("mb", vnode_count=4, options=options)
    source = mb.source(rows, start_from=FIRST)
    if spark:
        source = source.with_columns(**{value: f"{value} + 0"})
    source.aggregate(mb.pstate("sums", Map(str, int))[key], agg.sum(value))
    mb.source(rows, start_from=FIRST).append_to(log)
    for name in again:
        more = module.microbatch(name, vnode_count=3)
        found = more.source(rows, start_from=FIRST)
        found.aggregate(more.pstate(f"{name}_sums", Map(str, int))[key], agg.sum(value))
    return module


def converted(record):
    """What a record of any version is under the last schema, in plain Python."""
    if "k" in record:
        cents = 100 * record["v"] + (record.get("bonus") or 0)
        record = {"key": record["k"], "cents": cents, "note": None}
    return record if "big" in record else with_size(record)


def drawn_row(number, chance):
    """A record of a version."""
    key, value = chance.choice("abcdef"), chance.randrange(30)
    old = {"k": key, "v": value, **({"bonus": chance.randrange(9)} if number == 2 else {})}
    new = {"key": key, "cents": value, "note": chance.choice([None, "x"])}
    return old if number < 3 else {**new, **({"big": False} if number == 4 else {})}


def all_records(driver, name):
    """By partition what a depot holds."""
    depot = driver.depot(name)
    return [depot.read(p, 0, end).to_pylist() for p, end in enumerate(depot.end_offsets())]


def together(partitions):
    """The records of all partitions."""
    return [record for each in partitions for record in each]


def in_order(records):
    """Records as a set that counts."""
    return sorted(records, key=repr)


@pytest.mark.parametrize("seed", range(3))
def test_four_versions_of_a_depot_with_failures_restarts_and_rollbacks(tmp_path, seed):
    """Random cuts, records that wait over an update, and one schema in the end for all."""
    chance = random.Random(seed)
    declared = {"partitions": chance.choice([1, 3]), "records": chance.choice([3, 7, 50])}
    kept, totals = [], {}
    with TopologyTestDriver(version(1, **declared), root=tmp_path) as driver:
        for number in (1, 2, 3, 4):
            if number > 1:
                before = driver.depot("rows").end_offsets()
                driver.update(version(number, **declared))
                assert driver.depot("rows").end_offsets() == before
            for _ in range(2):
                rows = [drawn_row(number, chance) for _ in range(chance.randrange(1, 9))]
                driver.depot("rows").append(rows)
                kept += [converted(row) for row in rows]
                if chance.random() < 0.5:
                    driver.fail_next_attempt(after_work=True)
                driver.run()
                if chance.random() < 0.4:
                    driver.restart()
        driver.run_until_idle()
        assert in_order(together(all_records(driver, "rows"))) == in_order(kept)
        assert in_order(all_records(driver, "log")[0]) == in_order(kept)
        # a topology that comes last reads everything under the last schema
        driver.update(version(4, **declared, again=("late",)))
        driver.run_until_idle()
        for row in kept:
            totals[row["key"]] = totals.get(row["key"], 0) + row["cents"]
        assert driver.pstate("late_sums").get() == totals
    assert check_root(tmp_path).findings == []


def test_records_read_again_after_a_rollback_are_migrated():
    """They were processed under the old schema once, and now are under the new one."""
    with TopologyTestDriver(version(1)) as driver:
        driver.depot("rows").append({"k": "a", "v": 1})
        driver.run()
        driver.depot("rows").append({"k": "a", "v": 2})
        driver.run()
        assert driver.pstate("sums").get() == {"a": 3}
        driver.update(version(2))
        driver.update(version(3))
        driver.topology("mb").rollback(1, keep_appended=True)
        driver.topology("mb").resume()
        driver.run_until_idle()
        assert driver.pstate("sums").get() == {"a": 1 + 200}


@pytest.mark.parametrize("delivered", [True, False])
def test_rows_owed_over_a_migration_are_delivered_once_and_migrated(tmp_path, delivered):
    """The life before was killed right after the delivery, or right after the commit."""
    with TopologyTestDriver(version(2), root=tmp_path) as driver:
        driver.depot("rows").append([{"k": "a", "v": 1, "bonus": 5}] * 3)
        while driver.step() != ("publish" if delivered else "commit"):
            pass
        driver.cluster.kill()
    with TopologyTestDriver(version(3), root=tmp_path) as driver:
        driver.depot("rows").append({"key": "a", "cents": 7, "note": "n"})
        driver.run_until_idle()
        old, new = {"key": "a", "cents": 105, "note": None}, {"key": "a", "cents": 7, "note": "n"}
        assert all_records(driver, "log") == [[old, old, old, new]]
        assert driver.pstate("sums").get() == {"a": 3 + 7}


def test_the_plan_names_it_and_the_same_id_is_the_same_migration(tmp_path):
    """It may be left out later; readers still need it."""
    with TopologyTestDriver(version(2), root=tmp_path) as driver:
        driver.depot("rows").append({"k": "a", "v": 1})
        plan = driver.cluster.plan(version(3))
        assert [(c.effect, c.part, c.detail) for c in plan.changes] == [
            ("migrated", "depot:rows", "cents"),
            ("migrated", "depot:log", "cents"),
            ("changed", "depot:rows", "new records go by key, not 'k'"),
            (
                "changed",
                "pstate:sums",
                (
                    "changed in meaning: sum(v) by k before, sum(cents) by key now; "
                    "what is stored stays as it is"
                ),
            ),
        ]
        driver.update(version(3))
        assert driver.cluster.plan(version(3)).changes == ()
        driver.restart()
        module = atoll.Module("shop")
        module.depot("rows", NEW, partition_by="key", partitions=2)
        driver.update(module, remove=["topology:mb", "depot:log"])
        assert together(all_records(driver, "rows")) == [{"key": "a", "cents": 100, "note": None}]


@pytest.mark.parametrize(
    ("first", "module", "why"),
    [
        (1, lambda: version(4), "two new migrations, cents and size"),
        (
            2,
            lambda: version(3, read=lambda record: None),
            "partition 0, offset 0: it returned None",
        ),
        (2, lambda: version(3, read=lambda record: {"key": "a"}), "failed at .*cents"),
        (2, lambda: version(3, read=lambda record: record["x"]), "KeyError: 'x'"),
    ],
)
def test_what_cannot_be_is_refused_and_the_old_version_goes_on(first, module, why):
    """When the first hundred records show it."""
    with TopologyTestDriver(version(first, partitions=2)) as driver:
        rows = [{"k": k, "v": 1} for k in "abcdefgh"]
        driver.depot("rows").append(rows)
        with pytest.raises(DeployError, match=why):
            driver.update(module())
        driver.depot("rows").append(rows)
        driver.run_until_idle()
        assert driver.pstate("sums").get("a") == 2


def test_a_migration_without_another_schema_is_refused():
    """Nothing would tell which records it is for."""
    with TopologyTestDriver(version(1)) as driver:
        module = atoll.Module("shop")
        module.depot("rows", OLD, partition_by="k", partitions=2).migrated("same", dict)
        with pytest.raises(DeployError, match="migration same changes nothing"):
            driver.update(module, remove=["topology:mb", "depot:log"])


def test_a_record_that_fails_later_stops_the_topology_until_the_function_is_corrected():
    """It is named exactly; the corrected function comes under the same id."""
    with LocalCluster(engine="inline") as cluster:
        app = cluster.deploy(version(2, partitions=1))
        app.pause()
        app.depot("rows").append([{"k": "a", "v": 1}] * 120 + [{"k": "a", "v": None}])
        app = cluster.update(version(3, partitions=1))
        app.resume()
        where = "migration 'cents' of depot 'rows' failed at partition 0, offset 120: TypeError"
        with pytest.raises(TopologyFailedError, match=where):
            app.topology("mb").wait_processed(121)
        app = cluster.update(version(3, partitions=1, read=careful))
        app.topology("mb").wait_processed(121)
        assert app.pstate("sums").get("a") == 12_000


def test_a_mirror_of_a_migrated_depot_reads_all_of_it(tmp_path):
    """What was appended before and after; while it is mirrored the schema is held."""
    reader = atoll.Module("reader")
    rows = reader.mirror_depot("shop", "rows", NEW)
    mb = reader.microbatch("mb", vnode_count=2)
    sums = mb.pstate("sums", Map(str, int))
    mb.source(rows, start_from=FIRST).aggregate(sums["key"], agg.sum("cents"))
    with TopologyTestDriver(version(2), root=tmp_path) as owner:
        owner.depot("rows").append({"k": "a", "v": 1})
        owner.update(version(3))
        owner.depot("rows").append({"key": "a", "cents": 7})
        with TopologyTestDriver(reader, root=tmp_path) as second:
            second.run_until_idle()
            assert second.pstate("sums").get() == {"a": 107}
            with pytest.raises(DeployError, match="module 'reader' mirrors the depot 'rows'"):
                owner.update(version(4))


def test_declarations_that_cannot_be():
    """Each with the user's line."""
    module = atoll.Module("shop")
    rows = module.depot("rows", OLD)
    rows.migrated("one", dict)
    mirror = module.mirror_depot("other", "rows", OLD)
    for depot, id_, function, why in (
        (rows, "one", dict, "it has a migration 'one'"),
        (rows, " ", dict, "no id"),
        (mirror, "one", dict, "it is a mirror"),
        (rows, "two", lambda: None, "migrated"),
    ):
        with pytest.raises(DeclarationError, match=why) as caught:
            depot.migrated(id_, function)
        assert "test_depot_migrations.py" in str(caught.value.context["declared"])


@pytest.mark.parametrize("back", [True, False])
def test_a_deployment_that_died_before_it_stood_is_made_again_or_not(tmp_path, monkeypatch, back):
    """The depots had been opened with the new schema; the old version can still go on."""

    def dies(*_):
        raise KeyboardInterrupt

    with TopologyTestDriver(version(2), root=tmp_path) as driver:
        driver.depot("rows").append({"k": "a", "v": 1})
        with monkeypatch.context() as patched:
            patched.setattr("atoll.cluster.deploy.lives.save_deployment", dies)
            patched.setattr(
                "atoll.cluster.deploy.deploying.Deploying._bring_back", lambda *args: args[-1]
            )
            with pytest.raises(KeyboardInterrupt):
                driver.update(version(3))
        driver.cluster.kill()
    if back:
        with TopologyTestDriver(version(2), root=tmp_path) as driver:
            driver.depot("rows").append({"k": "a", "v": 2})
    with TopologyTestDriver(version(3), root=tmp_path) as driver:
        driver.depot("rows").append({"key": "a", "cents": 7})
        driver.run_until_idle()
        assert driver.pstate("sums").get() == {"a": 100 + 200 * back + 7}
    assert check_root(tmp_path).findings == []


@pytest.mark.slow
def test_spark_tasks_migrate_what_they_read():
    """Older and newer records in one microbatch."""
    with TopologyTestDriver(version(2, spark=True)) as driver:
        driver.depot("rows").append([{"k": k, "v": 1, "bonus": 1} for k in "abc"])
        driver.update(version(3, spark=True))
        driver.depot("rows").append([{"key": k, "cents": 1} for k in "bcd"])
        driver.run_until_idle()
        assert driver.pstate("sums").get() == {"a": 101, "b": 102, "c": 102, "d": 1}
