"""One topology reads one depot several times: each branch sees every record once."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest

import atoll
from atoll import List, Map, agg, start
from atoll.testing import TopologyTestDriver


@pytest.mark.parametrize("seed", range(4))
def test_two_sources_of_one_depot_read_the_same_records(seed):
    """Random cuts, failures and restarts; sums, lists and a union against a plain recount."""
    chance = random.Random(seed)
    module = atoll.Module("twice")
    depot = module.depot(
        "rows", "k string, v long", partition_by="k", partitions=chance.choice([1, 3])
    )
    mb = module.microbatch(
        "mb",
        vnode_count=chance.choice([1, 8]),
        options={"depot.microbatch.max.records": chance.choice([1, 4, 100])},
    )
    sums, lists, both = (
        mb.pstate("sums", Map(str, int)),
        mb.pstate("lists", Map(str, List(int))),
        mb.pstate("both", Map(str, int)),
    )
    first = mb.source(depot, start_from=start.beginning())
    second = mb.source(depot, start_from=start.beginning())
    first.aggregate(sums["k"], agg.sum("v"))
    negative = second.map(lambda row: {"k": row.k, "v": -row.v}, emits="k string, v long")
    negative.aggregate(lists["k"], agg.collect_list("v"))
    first.union(negative).aggregate(both["k"], agg.count())
    wanted: Counter[str] = Counter()
    listed: defaultdict[str, list[int]] = defaultdict(list)
    with TopologyTestDriver(module, parallelism=chance.choice([1, 2])) as driver:
        for _ in range(6):
            rows = [(chance.choice("abc"), chance.randrange(9)) for _ in range(7)]
            driver.depot("rows").append([{"k": k, "v": v} for k, v in rows])
            for key, value in rows:
                wanted[key] += value
                listed[key].append(-value)
            if chance.random() < 0.5:
                driver.fail_next_attempt(after_work=True)
            if chance.random() < 0.3:
                driver.restart()
            driver.run_until_idle()
        assert driver.pstate("sums").get() == dict(wanted)
        assert driver.pstate("lists").get() == dict(listed)
        assert driver.pstate("both").get() == {k: 2 * len(v) for k, v in listed.items()}
        assert driver.status()["processed"] == 42  # records, not rows
