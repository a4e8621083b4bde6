"""What the processes on real Spark run: money moved in two jobs, sums, last values, column steps.

Every result is the same however the records are cut into microbatches, and order-dependent ones
depend only on the order within one depot partition. So a plain fold over the depot, partition by
partition, is an oracle, and a run that nobody disturbed ends in the same state.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import atoll
from atoll import Map, agg, path
from atoll.ddl import parse_ddl
from atoll.depot.reader import DepotReader
from atoll.storage.folders import depot_folder

MODULE = "bank"
TOPOLOGY = "mb"
DEPOT = "transfers"
SCHEMA = "id long, src long, dst long, amount long"
PARTITIONS = 3
ACCOUNTS = 23
STATES = ("funds", "seen", "last_id", "by_size")
RECORDS_MAX = 15
"""Of one depot partition in one microbatch: small, so that there are many."""


def record_of(number: int) -> dict[str, int]:
    """The n-th transfer; a plain function of n, so that every run appends the same."""
    return {
        "id": number,
        "src": number * 7919 % ACCOUNTS,
        "dst": number * 104_729 % ACCOUNTS,
        "amount": number % 13 + 1,
    }


def _debit(row, funds):
    """Take it from the payer, and pass the transfer on."""
    funds[row.src] = funds.get(row.src, 0) - row.amount
    yield row


def credit(row, funds):
    """Give it to the payee, in the next job of the same microbatch."""
    funds[row.dst] = funds.get(row.dst, 0) + row.amount


def sized_by_python(row):
    """What the column steps do, for the engine without Spark."""
    if row.amount > 3:
        yield {"size": row.amount // 4, "weight": row.id % 5}


def build(inside=None, *, columns=True, **options: int) -> atoll.Module:
    """The module.

    Args:
        inside: Called for every transfer, in the middle of the first state step.
        columns: Whether with column steps, which only Spark can run.
        **options: Options by their names, with ``__`` for dots.
    """

    def debit(row, funds):
        if inside is not None:
            inside(row)
        yield from _debit(row, funds)

    module = atoll.Module(MODULE)
    transfers = module.depot(DEPOT, SCHEMA, partition_by="src", partitions=PARTITIONS)
    chosen = {
        "depot.microbatch.max.records": RECORDS_MAX,
        "pstate.history.seconds": 1,
        "pstate.checkpoint.interval.commits": 20,
        "topology.microbatch.small.max.records": 20,
        **{name.replace("__", "."): value for name, value in options.items()},
    }
    mb = module.microbatch(TOPOLOGY, vnode_count=16, options=chosen, columns="spark")
    funds = mb.pstate("funds", Map(int, int))
    seen = mb.pstate("seen", Map(int, int))
    last_id = mb.pstate("last_id", Map(int, int))
    by_size = mb.pstate("by_size", Map(int, int))
    source = mb.source(transfers, start_from=atoll.start.beginning())
    source.process(debit, key="src", states=[funds], emits=SCHEMA).process(
        credit, key="dst", states=[funds]
    )
    source.aggregate(seen["src"], agg.count())
    source.aggregate(last_id["src"], agg.last("id"))
    if columns:
        sized = source.where("amount > 3").select("amount div 4 AS size", "id % 5 AS weight")
    else:
        sized = source.flat_map(sized_by_python, emits="size long, weight long")
    sized.aggregate(by_size["size"], agg.sum("weight"))
    return module


def fold(records: Iterable[Mapping[str, int]]) -> dict[str, dict[int, int]]:
    """The state after the records, by a plain Python fold that shares no code with Atoll."""
    state: dict[str, dict[int, int]] = {name: {} for name in STATES}
    for record in records:
        src, dst, amount = record["src"], record["dst"], record["amount"]
        state["funds"][src] = state["funds"].get(src, 0) - amount
        state["funds"][dst] = state["funds"].get(dst, 0) + amount
        state["seen"][src] = state["seen"].get(src, 0) + 1
        state["last_id"][src] = record["id"]
        if amount > 3:
            size = amount // 4
            state["by_size"][size] = state["by_size"].get(size, 0) + record["id"] % 5
    return state


def stored(root: Path) -> list[list[dict[str, Any]]]:
    """What the depot holds, by partition, in order of offsets."""
    reader = DepotReader(depot_folder(root, MODULE, DEPOT), parse_ddl(SCHEMA))
    ends = reader.end_offsets()
    return [
        reader.read(partition, start, end).to_pylist() if end > start else []
        for partition, (start, end) in enumerate(zip(reader.start_offsets(), ends, strict=True))
    ]


def shown(root: Path) -> dict[str, dict[int, int]]:
    """The state as a reader outside the running process sees it now."""
    connected = atoll.connect(root, MODULE)
    return {name: dict(connected.pstate(name).select(path.all())) for name in STATES}


def fingerprint(state: Mapping[str, Mapping[int, int]]) -> str:
    """One hash of a state, whatever the order of its keys."""
    plain = {name: sorted(entries.items()) for name, entries in sorted(state.items())}
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()
