"""Money moves between two accounts that live on different actors, exactly once or not at all.

``debit`` runs on the actor that owns the sender, ``credit`` on the one that owns the receiver.
Both take effect with the same microbatch.
"""

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

import atoll
from atoll import agg


@dataclass
class Transfer:
    """Money to move."""

    id: str
    src: int
    dst: int
    amount: int


@dataclass
class Deposit:
    """Money that comes in."""

    user: int
    amount: int


@dataclass
class Sent:
    """What became of a transfer, as the sender sees it."""

    to: int
    amount: int
    ok: bool


@dataclass
class Received:
    """The same, as the receiver sees it."""

    sender: int
    amount: int
    ok: bool


module = atoll.Module("bank")
transfers = module.depot("transfers", Transfer, partition_by="src")
deposits = module.depot("deposits", Deposit, partition_by="user")

mb = module.microbatch("banking")
funds = mb.pstate("funds", dict[int, int])
outgoing = mb.pstate("outgoing", dict[int, dict[str, Sent]])
incoming = mb.pstate("incoming", dict[int, dict[str, Received]])

Funds = MutableMapping[int, int]
Outgoing = MutableMapping[int, MutableMapping[str, Sent]]
Incoming = MutableMapping[int, MutableMapping[str, Received]]


def debit(row: Transfer, funds: Funds, outgoing: Outgoing) -> Iterator[dict[str, Any]]:
    """Take the money from the sender when there is enough."""
    ok = funds.get(row.src, 0) >= row.amount
    if ok:
        funds[row.src] -= row.amount
    outgoing[row.src][row.id] = Sent(row.dst, row.amount, ok)
    yield {"ok": ok}


def credit(row: atoll.Row, funds: Funds, incoming: Incoming) -> None:
    """Give it to the receiver."""
    if row.ok:
        funds[row.dst] = funds.get(row.dst, 0) + row.amount
    incoming[row.dst][row.id] = Received(row.src, row.amount, row.ok)


mb.source(deposits).aggregate(funds["user"], agg.sum("amount"))
(
    mb.source(transfers)
    .process(debit, key="src", states=[funds, outgoing], emits="*, ok boolean")
    .process(credit, key="dst", states=[funds, incoming])
)
