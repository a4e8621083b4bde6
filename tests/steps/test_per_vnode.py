"""PStates of one value in each vnode: against plain Python, over failures, restarts and moves."""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mistakes import refused

import atoll
from atoll import List, Map, Struct, agg, start
from atoll.codec.keys.elements import encode_element
from atoll.schema import Scalar
from atoll.testing import TopologyTestDriver

VNODES = 3


def put(row, users, total, last, kinds):
    """Counts by user and by vnode, remembers the last rows, and counts kinds in a map."""
    users[row.user] = users.get(row.user, 0) + 1
    total.update(lambda count: (count or 0) + row.n)
    total.value = total.get(0) + 1
    last.set({"user": row.user, "ns": [*(last.get({"ns": []})["ns"]), row.n][-3:]})
    kinds[row.n % 2] = kinds.get(row.n % 2, 0) + 1


def tell(row, total, kinds):
    """Tells what a vnode has, and forgets its kinds."""
    yield {"n": row.n, "total": total.get(), "kinds": sum(kinds.values())}
    kinds.clear()
    if row.n == 0:
        total.clear()


def module_of():
    """Rows by key, and others that go to every vnode."""
    module = atoll.Module("vnodes")
    rows = module.depot("rows", "user string, n long", partition_by="user", partitions=1)
    asks = module.depot("asks", "n long", partitions=1)
    out = module.depot("out", "n long, total long, kinds long", partitions=1)
    mb = module.microbatch("mb", vnode_count=VNODES)
    users = mb.pstate("users", dict[str, int])
    total = mb.pstate("total", int, per_vnode=True)
    last = mb.pstate("last", Struct(user=str, ns=List(int)), per_vnode=True)
    kinds = mb.pstate("kinds", Map(int, int), per_vnode=True)
    begin = start.beginning()
    states = [total, users, last, kinds]

    def in_order(row, total, users, last, kinds):
        put(row, users, total, last, kinds)

    mb.source(rows, start_from=begin).process(in_order, key="user", states=states)
    told = mb.source(asks, start_from=begin).to_all()
    told.process(tell, states=[total, kinds], emits="n long, total long, kinds long").append_to(out)
    module.query("total", vnode=int).lookup(total["vnode"], "total").returns("total")
    return module


def vnode_of(user):
    """Where a key lies."""
    return zlib.crc32(encode_element(user, Scalar("str"))) % VNODES


ROUND = st.tuples(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 9)), max_size=6),
    st.booleans(),
    st.sampled_from(["nothing", "fail", "restart", "rescale"]),
)


@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(rounds=st.lists(ROUND, min_size=4, max_size=5))
def test_each_vnode_has_a_value(rounds):
    """Read by vnode, by whole values, in functions and in a query."""
    with TopologyTestDriver(module_of(), engine="inline", parallelism=2) as driver:
        total, kinds, last = Counter(), defaultdict(Counter), {}
        told = []
        for number, (rows, asked, event) in enumerate(rounds):
            driver.depot("rows").append([{"user": user, "n": n} for user, n in rows])
            if event == "fail":
                driver.fail_next_attempt(after_work=True)
            elif event == "restart":
                driver.restart()
            elif event == "rescale":
                driver.cluster.add_worker(f"worker-{number}", 1)
            driver.run_until_idle()
            for user, n in rows:
                vnode = vnode_of(user)
                total[vnode] += n + 1
                kinds[vnode][n % 2] += 1
                before = last.get(vnode, {"ns": []})["ns"]
                last[vnode] = {"user": user, "ns": [*before, n][-3:]}
            if asked:
                driver.depot("asks").append([{"n": number}])
                driver.run_until_idle()
                found = [(total.get(v), sum(kinds[v].values())) for v in range(VNODES)]
                told += [(number, *each) for each in found]
                kinds.clear()
                if number == 0:
                    total.clear()
            assert driver.pstate("total").get() == dict(total)
            assert driver.pstate("last").get() == last
            held = {vnode: dict(each) for vnode, each in kinds.items() if each}
            assert driver.pstate("kinds").get() == held
        assert driver.app.query("total", vnode=1) == total.get(1)
        out = driver.depot("out")
        found = out.read(0, 0, out.end_offsets()[0]).to_pylist()
        assert Counter(tuple(row.values()) for row in found) == Counter(told)


def test_mistakes():
    """What says where a value lies is the row; only functions write it."""
    module = atoll.Module("vnodes")
    mb = module.microbatch("mb")
    rows = mb.source(module.depot("rows", "user string, n long"))
    for word, given_ in (("is_global", True), ("partition_by", hash), ("initial", 0)):
        with refused(f"so {word}= can say nothing"):
            mb.pstate("wrong", int, per_vnode=True, **{word: given_})
    total = mb.pstate("total", int, per_vnode=True)
    with refused("which only functions write", "states=[users, total]"):
        rows.aggregate(total["n"], agg.count())
    with refused("does not say which vnode's total it means", "to_all()"):
        rows.process(lambda row, total: None, key="user", states=[total])
    users = mb.pstate("users", Map(str, int))
    with refused("needs key= to reach"):
        rows.process(lambda row, users, total: None, states=[users, total])
    rows.to_vnode("n").process(lambda row, total: total.set(row.n), states=[total])
    with TopologyTestDriver(module, engine="inline"):
        pass
    with pytest.raises(atoll.AtollError, match="total is partitioned"):
        rows.lookup(total, "all")
