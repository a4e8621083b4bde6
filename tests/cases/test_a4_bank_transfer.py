"""A4: one record changes state at two keys; a transfer without cover changes nothing."""

from __future__ import annotations

import atoll
from atoll import Map, Struct, agg, path

TRANSFER = "id string, src long, dst long, amount long"


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


def make_module(shape):
    """Funds by user, and the transfers of each from both sides."""
    module = atoll.Module("bank")
    transfers = module.depot("transfers", TRANSFER, partition_by="src", partitions=shape.partitions)
    deposits = module.depot(
        "deposits", "user long, amount long", partition_by="user", partitions=shape.partitions
    )
    mb = module.microbatch("banking", vnode_count=shape.vnodes)
    funds = mb.pstate("funds", Map(int, int))
    outgoing = mb.pstate("outgoing", Map(int, Map(str, Struct(to=int, amount=int, ok=bool))))
    incoming = mb.pstate("incoming", Map(int, Map(str, Struct(sender=int, amount=int, ok=bool))))

    mb.source(deposits).aggregate(funds["user"], agg.sum("amount"))
    (
        mb.source(transfers)
        .process(debit, key="src", states=[funds, outgoing], emits=f"{TRANSFER}, ok boolean")
        .process(credit, key="dst", states=[funds, incoming])
    )
    return module


def _deposit(app, *rows):
    app.depot("deposits").append([{"user": user, "amount": amount} for user, amount in rows])


def _transfer(app, *rows):
    names = ("id", "src", "dst", "amount")
    app.depot("transfers").append([dict(zip(names, each, strict=True)) for each in rows])


def _sent(app, user):
    rows = app.pstate("outgoing").select(path.key(user).all())
    return {name: (each["to"], each["amount"], each["ok"]) for name, each in rows}


def _received(app, user):
    rows = app.pstate("incoming").select(path.key(user).all())
    return {name: (each["sender"], each["amount"], each["ok"]) for name, each in rows}


def test_bank_transfer(run, shape):
    """Four transfers, one of them refused, each processed before the next is made."""
    run.deploy(shape.example("bank_transfer.py") or make_module(shape)).cut()
    _deposit(run.app, (0, 200), (1, 100), (2, 100))
    run.app.topology("banking").wait_processed(3)
    transfers = [
        ("alice->bob1", 0, 1, 50),
        ("alice->charlie1", 0, 2, 160),
        ("alice->charlie2", 0, 2, 25),
        ("charlie->bob1", 2, 1, 10),
    ]
    for count, each in enumerate(transfers, 4):
        run.disturb()
        _transfer(run.app, each)
        run.app.topology("banking").wait_processed(count)

    assert [run.app.pstate("funds").get(user) for user in range(3)] == [125, 160, 115]
    assert _sent(run.app, 0) == {
        "alice->bob1": (1, 50, True),
        "alice->charlie1": (2, 160, False),
        "alice->charlie2": (2, 25, True),
    }
    assert _sent(run.app, 2) == {"charlie->bob1": (1, 10, True)}
    assert _received(run.app, 1) == {
        "alice->bob1": (0, 50, True),
        "charlie->bob1": (2, 10, True),
    }
    assert _received(run.app, 2) == {
        "alice->charlie1": (0, 160, False),
        "alice->charlie2": (0, 25, True),
    }


def test_longer_script(run, shape):
    """Two deposits of one user, an exact balance, refused and unknown senders."""
    run.deploy(shape.example("bank_transfer.py") or make_module(shape)).cut()
    a, b, c, unknown = 1, 2, 3, 99
    _deposit(run.app, (a, 200), (a, 50), (b, 100), (c, 75))
    run.app.topology("banking").wait_processed(4)
    run.disturb()
    _transfer(
        run.app,
        ("t1", a, b, 50),
        ("t2", c, b, 75),
        ("t3", a, b, 999),
        ("t4", c, b, 10),
        ("t5", unknown, b, 10),
    )
    run.app.topology("banking").wait_processed(9)
    _transfer(run.app, ("t6", a, c, 30))
    run.app.topology("banking").wait_processed(10)

    funds = run.app.pstate("funds")
    assert [funds.get(user) for user in (a, b, c)] == [170, 225, 30]
    assert funds.get(unknown, default=0) == 0
    assert {name: ok for name, (*_, ok) in _sent(run.app, a).items()} == {
        "t1": True,
        "t3": False,
        "t6": True,
    }
    assert {name: ok for name, (*_, ok) in _sent(run.app, c).items()} == {"t2": True, "t4": False}
    assert list(_received(run.app, b)) == ["t1", "t2", "t3", "t4", "t5"]
    assert list(_received(run.app, c)) == ["t6"]
    assert _received(run.app, unknown) == {}
