"""Money moves between two accounts that live on different actors, exactly once or not at all.

``debit`` runs on the actor that owns the sender, ``credit`` on the one that owns the receiver.
Both take effect with the same microbatch.
"""

import atoll
from atoll import Map, Struct, agg

module = atoll.Module("bank")
transfers = module.depot(
    "transfers", "id string, src long, dst long, amount long", partition_by="src"
)
deposits = module.depot("deposits", "user long, amount long", partition_by="user")

mb = module.microbatch("banking")
sent = Struct(to=int, amount=int, ok=bool)
received = Struct(sender=int, amount=int, ok=bool)
funds = mb.pstate("funds", Map(int, int))
outgoing = mb.pstate("outgoing", Map(int, Map(str, sent)))
incoming = mb.pstate("incoming", Map(int, Map(str, received)))


def debit(row, funds, outgoing):
    """Take the money from the sender when there is enough."""
    ok = funds.get(row.src, 0) >= row.amount
    if ok:
        funds[row.src] -= row.amount
    outgoing[row.src][row.id] = {"to": row.dst, "amount": row.amount, "ok": ok}
    yield {**row.asdict(), "ok": ok}


def credit(row, funds, incoming):
    """Give it to the receiver."""
    if row.ok:
        funds[row.dst] = funds.get(row.dst, 0) + row.amount
    incoming[row.dst][row.id] = {"sender": row.src, "amount": row.amount, "ok": row.ok}


mb.source(deposits).aggregate(funds["user"], agg.sum("amount"))
(
    mb.source(transfers)
    .process(
        debit,
        key="src",
        states=[funds, outgoing],
        emits="id string, src long, dst long, amount long, ok boolean",
    )
    .process(credit, key="dst", states=[funds, incoming])
)
