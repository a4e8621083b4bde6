"""Columns added to a depot: older records have null there, and everything goes on."""

from __future__ import annotations

import pytest

import atoll
from atoll import Map, agg, start
from atoll.errors import DeployError
from atoll.fsck.root import check_root
from atoll.testing import TopologyTestDriver

FIRST = start.beginning()


def shop(ddl="k string, v long", log="k string, v long"):
    """Sums by key what comes, the bonus too, and appends it to a log."""
    module = atoll.Module("shop")
    rows = module.depot("rows", ddl, partition_by="k", partitions=2)
    out = module.depot("log", log, is_global=True)
    mb = module.microbatch("mb", vnode_count=4)
    sums = mb.pstate("sums", Map(str, int))

    def paid(row):
        bonus = row.asdict().get("bonus") or 0
        more = {"bonus": bonus} if "bonus" in log else {}
        return {"k": row.k, "v": row.v + bonus, **more}

    found = mb.source(rows, start_from=FIRST).map(paid, emits=log)
    found.aggregate(sums["k"], agg.sum("v"))
    found.append_to(out)
    return module


WIDER = "k string, v long, bonus long"


@pytest.mark.parametrize("processed", [True, False])
def test_older_records_have_null_in_new_columns(tmp_path, processed):
    """Whether they were processed before the update or wait for it, and after a restart."""
    with TopologyTestDriver(shop(), root=tmp_path) as driver:
        driver.depot("rows").append([{"k": k, "v": 1} for k in "aab"])
        if processed:
            driver.run_until_idle()
        wider = shop(WIDER, WIDER)
        (rows, log) = driver.cluster.plan(wider).changes
        assert (rows.effect, rows.detail) == (
            "changed",
            "new columns, null in older records: bonus",
        )
        assert log.part == "depot:log"
        driver.update(wider)
        driver.depot("rows").append([{"k": "a", "v": 1, "bonus": 10}, {"k": "b", "v": 1}])
        driver.run_until_idle()
        assert driver.pstate("sums").get() == {"a": 13, "b": 2}
        driver.restart()
        found = [
            record
            for partition, end in enumerate(driver.depot("rows").end_offsets())
            for record in driver.depot("rows").read(partition, 0, end).to_pylist()
        ]
        assert sorted((r["k"], r["bonus"] or 0) for r in found) == [
            ("a", 0), ("a", 0), ("a", 10), ("b", 0), ("b", 0),
        ]  # fmt: skip
        logged = driver.depot("log").read(0, 0, 5).to_pylist()
        assert [each["bonus"] is None for each in logged] == [processed] * 3 + [False] * 2
    assert check_root(tmp_path).findings == []


@pytest.mark.parametrize("delivered", [True, False])
def test_rows_owed_to_a_depot_that_got_columns_are_delivered_once(tmp_path, delivered):
    """The life before was killed right after the delivery, or right after the commit."""
    with TopologyTestDriver(shop(), root=tmp_path) as driver:
        driver.depot("rows").append([{"k": "a", "v": 1}] * 3)
        while driver.step() != ("publish" if delivered else "commit"):
            pass
        driver.cluster.kill()
    with TopologyTestDriver(shop(WIDER, WIDER), root=tmp_path) as driver:
        driver.depot("rows").append({"k": "a", "v": 1, "bonus": 2})
        driver.run_until_idle()
        logged = driver.depot("log").read(0, 0, 4).to_pylist()
        assert [each["bonus"] for each in logged] == [None, None, None, 2]
        assert driver.depot("log").end_offsets() == (4,)
        assert driver.pstate("sums").get("a") == 6


@pytest.mark.parametrize(
    "ddl",
    [
        "k string, v long, bonus long NOT NULL",
        "k string, bonus long, v long",
        "k string",
        "k string, v string",
        "k string, v string, bonus long",
    ],
)
def test_other_changes_of_a_schema_are_refused(tmp_path, ddl):
    """Not null, in between, removed, of another type."""
    with TopologyTestDriver(shop(), root=tmp_path) as driver:
        module = atoll.Module("shop")
        module.depot("rows", ddl, partitions=2)
        with pytest.raises(DeployError, match="the schema of a depot is fixed"):
            driver.cluster.update(module)


def test_a_column_cannot_be_taken_back(tmp_path):
    """What was appended since has it."""
    with (
        TopologyTestDriver(shop(WIDER, WIDER), root=tmp_path) as driver,
        pytest.raises(DeployError, match="depot 'rows': the schema"),
    ):
        driver.update(shop())
