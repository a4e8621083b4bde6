"""``lookup`` of elements, sets, maps and structs of these: what plain Python finds."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mistakes import refused

import atoll
from atoll import Map, Set, Struct, agg, start
from atoll.testing import TopologyTestDriver

OUT = (
    "n long, known boolean, near array<long>, counted map<long, long>, "
    "both struct<n: long, seen: array<long>>, everyone array<long>, top boolean"
)


def module_of():
    """A module whose rows write pairs, and others ask what is known of them."""
    module = atoll.Module("asking")
    source = module.depot("rows", "src long, dst long, gone boolean, n long", partitions=1)
    asks = module.depot("asks", "src long, dst long, n long", partitions=1)
    out = module.depot("out", OUT, partitions=1)
    mb = module.microbatch("mb", vnode_count=4)
    near = mb.pstate("near", Map(int, Set(int)))
    counted = mb.pstate("counted", Map(int, Map(int, int)))
    both = mb.pstate("both", Map(int, Struct(n=int, seen=Set(int))))
    everyone = mb.pstate("everyone", Set(int), is_global=True)
    top = mb.pstate("top", Set(int))
    rows = mb.source(source, start_from=start.beginning())
    rows.aggregate(near["src"], agg.collect_set("dst", remove="gone"))
    rows.aggregate(counted["src"], agg.count_values("dst"))
    rows.aggregate(both["src"], n=agg.count(), seen=agg.collect_set("dst"))
    rows.aggregate(everyone, agg.collect_set("src"))
    rows.aggregate(top, agg.collect_set("dst"))
    (
        mb.source(asks, start_from=start.beginning())
        .lookup(near["src + 0"]["dst"], "known")
        .lookup(near["src"], "near")
        .lookup(counted["src"], "counted")
        .lookup(both["src"], "both")
        .lookup(everyone, "everyone")
        .lookup(top["dst"], "top")
        .select("n", "known", "near", "counted", "both", "everyone", "top")
        .append_to(out)
    )
    asked = module.query("asked", src=int, dst=int)
    asked = asked.lookup(near["src + 0"]["dst"], "known").lookup(near["src"], "near")
    asked.lookup(counted["src"], "counted").lookup(both["src"], "both").returns()
    return module


class Plain:
    """The same with dicts and sets."""

    def __init__(self):
        self.near = defaultdict(set)
        self.counted = defaultdict(lambda: defaultdict(int))
        self.seen = defaultdict(set)
        self.rows = defaultdict(int)
        self.top = set()

    def of(self, src, dst):
        """What is known of a pair."""
        both = {"n": self.rows[src] or None, "seen": sorted(self.seen[src])}
        return {
            "known": dst in self.near[src],
            "near": sorted(self.near[src]),
            "counted": dict(self.counted[src]),
            "both": both,
        }

    def found(self, row):
        """What a row finds that asks."""
        everyone = sorted(each for each, count in self.rows.items() if count)
        known = self.of(row["src"], row["dst"])
        return {"n": row["n"], **known, "everyone": everyone, "top": row["dst"] in self.top}

    def microbatch(self, rows):
        """What they leave."""
        for row in rows:
            src, dst = row["src"], row["dst"]
            (self.near[src].discard if row["gone"] else self.near[src].add)(dst)
            self.counted[src][dst] += 1
            self.seen[src].add(dst)
            self.rows[src] += 1
            self.top.add(dst)


ROUNDS = st.lists(
    st.tuples(
        st.lists(
            st.tuples(st.integers(0, 2), st.integers(-1, 2), st.booleans()), min_size=1, max_size=6
        ),
        st.sampled_from(["nothing", "fail", "restart", "rescale"]),
    ),
    min_size=4,
    max_size=5,
)


@settings(max_examples=4, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(rounds=ROUNDS)
def test_it_finds_what_plain_python_finds(rounds):
    """Over attempts that fail after their work, restarts and rescaling; in a query, too."""
    with TopologyTestDriver(module_of(), engine="inline", parallelism=2) as driver:
        plain, expected = Plain(), []
        for number, (drawn, event) in enumerate(rounds):
            rows = [
                {"src": src, "dst": dst, "gone": gone, "n": 100 * number + at}
                for at, (src, dst, gone) in enumerate(drawn)
            ]
            asked = [{name: row[name] for name in ("src", "dst", "n")} for row in rows]
            driver.depot("asks").append(asked)
            driver.run_until_idle()
            expected += map(plain.found, asked)
            driver.depot("rows").append(rows)
            if event == "fail":
                driver.fail_next_attempt(after_work=True)
            elif event == "restart":
                driver.restart()
            elif event == "rescale":
                driver.cluster.add_worker(f"worker-{number}", 1 + number % 2)
            driver.run_until_idle()
            plain.microbatch(rows)
        out = driver.depot("out")
        found = out.read(0, 0, out.end_offsets()[0]).to_pylist()
        for row in found:
            row["counted"] = dict(row["counted"])
        assert sorted(found, key=lambda row: row["n"]) == expected
        for src in range(4):
            asked = driver.app.query("asked", src=src, dst=1)
            assert asked == {"src": src, "dst": 1, **plain.of(src, 1)}


def test_what_cannot_be_looked_up():
    """A whole partitioned PState, and what lies below an element."""
    module = atoll.Module("asking")
    mb = module.microbatch("mb")
    near = mb.pstate("near", Map(int, Set(int)))
    rows = mb.source(module.depot("rows", "src long, dst long"))
    with refused("near is partitioned", 'near["..."]'):
        rows.lookup(near, "all")
    with refused("an element of a set", "agg.collect_set(lit('x'))"):
        rows.aggregate(near["src"][atoll.lit("x")], agg.count())
    with pytest.raises(atoll.AtollError, match="the schema ends at"):
        near["src"]["dst"]["more"]
