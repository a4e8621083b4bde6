"""``over``: equal to a plain walk over each key's rows, however it runs; it keeps what it needs."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

import atoll
from atoll import Map, Struct, agg, start
from atoll.errors import AtollError, DeclarationError, DeployError
from atoll.testing import TopologyTestDriver

ROWS = 4
RECORD = "k string, v long, s string, n long"
COLUMNS = {
    "mean": agg.avg("v"),
    "least": agg.min("v"),
    "texts": agg.collect_list("s"),
    "known": agg.count("s"),
    "all": agg.count(),
    "double": agg.sum("v * 2"),
    "before": agg.lag("v"),
    "earlier": agg.lag("s", 6),
}
MADE = {
    "mean": float | None,
    "least": int | None,
    "texts": list[str],
    "known": int,
    "all": int,
    "double": int | None,
    "before": int | None,
    "earlier": str | None,
}


def make_module(columns=COLUMNS, *, rows=ROWS, partitions=1):
    """A module that keeps what the step made of each row."""
    module = atoll.Module("over")
    depot = module.depot("rows", RECORD, partition_by="k", partitions=partitions)
    mb = module.microbatch("mb", vnode_count=4, options={"pstate.history.microbatches": 20})
    out = mb.pstate("out", Map(int, Struct(**{name: MADE[name] for name in columns})))
    given = mb.source(depot, start_from=start.beginning()).over("k", rows=rows, **columns)
    given.aggregate(out["n"], **{name: agg.last(name) for name in columns})
    return module


class Walk:
    """The same, row by row."""

    def __init__(self):
        self.rows, self.out = defaultdict(list), {}

    def add(self, row):
        """One row, after those of its key before it."""
        mine = self.rows[row["k"]]
        mine.append(row)
        last = mine[-ROWS:]
        values = [each["v"] for each in last if each["v"] is not None]
        texts = [each["s"] for each in last if each["s"] is not None]
        self.out[row["n"]] = {
            "mean": sum(values) / len(values) if values else None,
            "least": min(values, default=None),
            "texts": texts,
            "known": len(texts),
            "all": len(last),
            "double": sum(values) * 2 if values else None,
            "before": mine[-2]["v"] if len(mine) > 1 else None,
            "earlier": mine[-7]["s"] if len(mine) > 6 else None,
        }


def drawn(dice, count, first):
    """Of few keys, one of them null, with nulls in the values."""
    return [
        {
            "k": dice.choice(["a", "b", "c", None]),
            "v": dice.choice([None, *range(-5, 6)]),
            "s": dice.choice([None, "x", "y", "zz"]),
            "n": first + n,
        }
        for n in range(count)
    ]


@pytest.mark.parametrize(("partitions", "seed", "expanded"), [(1, 1, 7), (3, 2, 1_000_000)])
def test_it_is_a_plain_walk(monkeypatch, partitions, seed, expanded):
    """Over attempts that fail after their work, restarts, rescaling and rollbacks."""
    from atoll.steps.last_rows import run

    monkeypatch.setattr(run, "_EXPANDED_MAX", expanded)
    dice, walk, rows = random.Random(seed), Walk(), 0
    module = make_module(partitions=partitions)
    with TopologyTestDriver(module, engine="inline", parallelism=2) as driver:
        for turn in range(6):
            more = drawn(dice, dice.randrange(1, 30), rows)
            rows += len(more)
            driver.depot("rows").append(more)
            for row in more:
                walk.add(row)
            match turn:
                case 1 | 4:
                    driver.fail_next_attempt(after_work=True)
                case 2:
                    driver.step()
                    driver.step()
                    driver.restart()
                case 3:
                    driver.cluster.add_worker("late", 2)
            while driver.microbatch(max_records=dice.randrange(3, 20)):
                pass
            if turn == 4:
                driver.topology("mb").rollback(driver.status()["committed"] - 2)
                driver.topology("mb").resume()
                driver.run_until_idle()
            assert driver.pstate("out").get() == walk.out
        (kept,) = (each for name, each in driver.app._pstates.items() if "last-rows" in name)
        counts = [sum(1 for _ in kept.view().vnode(vnode).scan()) for vnode in range(4)]
        assert sum(counts) == sum(min(len(each), 6) for each in walk.rows.values())


def test_nothing_is_kept_of_no_rows_before():
    """Over the row itself alone."""
    columns = {"all": agg.count(), "mean": agg.avg("v")}
    with TopologyTestDriver(make_module(columns, rows=1), engine="inline") as driver:
        driver.depot("rows").append(drawn(random.Random(3), 9, 0))
        driver.run_until_idle()
        assert {row["all"] for row in driver.pstate("out").get().values()} == {1}
        (kept,) = (each for name, each in driver.app._pstates.items() if "last-rows" in name)
        assert not any(True for vnode in range(4) for _ in kept.view().vnode(vnode).scan())


def test_mistakes_are_refused_where_they_are_made():
    """With a hint."""
    module = atoll.Module("wrong")
    mb = module.microbatch("mb")
    rows = mb.source(module.depot("rows", RECORD))
    out = mb.pstate("out", Map(int, int))
    for made in (
        lambda: rows.over("", rows=2, n=agg.count()),
        lambda: rows.over("k", rows=0, n=agg.count()),
        lambda: rows.over("k", rows=2),
        lambda: rows.over("k", rows=2, n="count(*)"),
        lambda: agg.lag("v", 0),
        lambda: rows.agg(before=agg.lag("v")),
        lambda: rows.aggregate(out["n"], agg.lag("v")),
        lambda: rows.over("k", rows=2, m=agg.merge_map("m")),
    ):
        with pytest.raises(DeclarationError) as caught:
            made()
        assert caught.value.hint


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda rows, out: rows.over("k", rows=2, v=agg.count()), "second column 'v'"),
        (lambda rows, out: rows.over("nobody", rows=2, c=agg.count()), "nobody"),
    ],
)
def test_what_does_not_fit_is_refused_at_deploy(declare, message):
    """A column that is there twice, or not at all."""
    module = atoll.Module("wrong")
    mb = module.microbatch("mb")
    out = mb.pstate("out", Map(int, int))
    made = declare(mb.source(module.depot("rows", RECORD)), out)
    if hasattr(made, "materialize"):
        made.aggregate(out["n"], agg.count())
    with (
        atoll.LocalCluster(engine="inline") as cluster,
        pytest.raises((DeclarationError, DeployError), match=message),
    ):
        cluster.deploy(module)


def test_an_update_finds_it_again():
    """Its rows go on where they were; more rows, or other columns, are another meaning."""
    columns = {"all": agg.count(), "before": agg.lag("v")}
    with TopologyTestDriver(make_module(columns), engine="inline") as driver:
        driver.depot("rows").append([{"k": "a", "v": v, "s": None, "n": v} for v in range(3)])
        driver.run_until_idle()
        driver.update(make_module(columns))
        driver.depot("rows").append([{"k": "a", "v": v, "s": None, "n": v} for v in range(3, 5)])
        driver.run_until_idle()
        out = driver.pstate("out").get()
        assert [row["all"] for row in out.values()] == [1, 2, 3, 4, 4]
        assert [row["before"] for row in out.values()] == [None, 0, 1, 2, 3]
        with pytest.raises(AtollError, match=r"over\(k\) of rows"):
            driver.update(make_module(columns, rows=9))


@pytest.mark.parametrize("at_once", [True, False])
def test_a_total_that_does_not_fit_sets_its_row_aside(at_once):
    """The rows behind it go over those that were taken, wherever microbatches are cut."""
    module = atoll.Module("aside")
    dead = module.dead_letter_depot("dead")
    depot = module.depot("rows", RECORD, partition_by="k", partitions=1)
    mb = module.microbatch("mb", vnode_count=4, dead_letter=dead)
    out = mb.pstate("out", Map(int, int))
    given = mb.source(depot, start_from=start.beginning()).over("k", rows=2, total=agg.sum("v"))
    given.aggregate(out["n"], agg.last("total"))
    high = 2**63 - 1
    values = [("a", high), ("a", 5), ("b", 1), ("a", -1), ("b", high), ("b", 2), ("a", 7)]
    rows = [{"k": k, "v": v, "s": None, "n": n} for n, (k, v) in enumerate(values)]
    with TopologyTestDriver(module, engine="inline") as driver:
        for part in [rows] if at_once else [[row] for row in rows]:
            driver.depot("rows").append(part)
            driver.run_until_idle()
        assert driver.pstate("out").get() == {0: high, 2: 1, 3: high - 1, 5: 3, 6: 6}
        assert sum(driver.depot("dead").end_offsets()) == 2
