"""What the crash tests run: transfers over two keys, counts, and a list fed by changes."""

from __future__ import annotations

import atoll
from atoll import List, Map, Struct, agg

ACCOUNTS = 23


def record_of(number: int) -> dict[str, int]:
    """The n-th transfer; a plain function of n, so that every run appends the same."""
    return {
        "id": number,
        "src": number * 7919 % ACCOUNTS,
        "dst": number * 104_729 % ACCOUNTS,
        "amount": number % 13 + 1,
    }


def build() -> atoll.Module:
    """Two jobs a microbatch, order-dependent steps, small microbatches."""
    module = atoll.Module("crash")
    transfers = module.depot(
        "transfers", "id long, src long, dst long, amount long", partition_by="src", partitions=3
    )
    options = {
        "depot.microbatch.max.records": 15,
        "pstate.history.seconds": 0,
        "pstate.checkpoint.interval.commits": 5,
        "topology.microbatch.small.max.records": 10,
    }
    mb = module.microbatch("bank", vnode_count=16, options=options)
    funds = mb.pstate("funds", Map(int, int))
    seen = mb.pstate("seen", Map(int, int))
    top = mb.pstate("top", List(Struct(account=int, count=int)))

    def debit(row, funds):
        funds[row.src] = funds.get(row.src, 0) - row.amount
        yield row

    def credit(row, funds):
        funds[row.dst] = funds.get(row.dst, 0) + row.amount

    source = mb.source(transfers)
    (
        source.process(
            debit, key="src", states=[funds], emits="id long, src long, dst long, amount long"
        ).process(credit, key="dst", states=[funds])
    )
    counted = source.aggregate(seen["src"], agg.count())
    counted.changes().aggregate(
        top, agg.top_n(3, by="new", columns={"account": "src", "count": "new"}, id="src")
    )
    return module


def expected(total: int) -> dict[str, object]:
    """The final state, by a plain Python fold."""
    funds = dict.fromkeys(range(ACCOUNTS), 0)
    seen: dict[int, int] = {}
    for number in range(total):
        record = record_of(number)
        funds[record["src"]] -= record["amount"]
        funds[record["dst"]] += record["amount"]
        seen[record["src"]] = seen.get(record["src"], 0) + 1
    return {"funds": funds, "seen": seen}
