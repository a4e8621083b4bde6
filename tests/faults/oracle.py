"""What the state must be: a plain Python fold over the records, which shares nothing with Atoll.

It takes how many records of each depot partition count, and knows by itself which records those
are: the n-th record and its partition are pure functions of n.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scenario import ACCOUNTS, DEPOTS, KEYS, alert_of, digest, key_of, record_of

__all__ = ["alerts_of", "bank", "first_records", "partition_records", "watch"]

Ends = Mapping[str, Sequence[int]]
"""For each depot, by depot partition, how many records count."""


def partition_records(depot: str, partition: int) -> Iterator[dict[str, int]]:
    """The records of a depot partition, in order, without end."""
    number, count = 0, DEPOTS[depot]
    while True:
        record = record_of(depot, number)
        if key_of(depot, record) % count == partition:
            yield record
        number += 1


def first_records(depot: str, ends: Sequence[int]) -> list[dict[str, int]]:
    """The records that count, partition after partition."""
    found = []
    for partition, end in enumerate(ends):
        records = partition_records(depot, partition)
        found += [next(records) for _ in range(end)]
    return found


def ends_of(depot: str, total: int) -> list[int]:
    """How many of the first ``total`` records each partition holds."""
    ends = [0] * DEPOTS[depot]
    for number in range(total):
        ends[key_of(depot, record_of(depot, number)) % DEPOTS[depot]] += 1
    return ends


def bank(ends: Ends) -> dict[str, Any]:
    """The state of the first topology."""
    totals: dict[str, dict[str, int]] = {}
    trail: dict[str, int] = {}
    for event in first_records("events", ends.get("events", ())):
        known = totals.setdefault(str(event["k"]), {"sum": 0, "count": 0})
        known["sum"] += event["v"]
        known["count"] += 1
        trail[str(event["k"])] = digest(trail.get(str(event["k"]), 0), event["n"])
    funds: dict[str, int] = {}
    sent: dict[str, int] = {}
    received: dict[str, int] = {}
    seen: dict[str, int] = {}
    for transfer in first_records("transfers", ends.get("transfers", ())):
        src, dst, amount = str(transfer["src"]), str(transfer["dst"]), transfer["amount"]
        _add(funds, src, -amount)
        _add(sent, src, amount)
        _add(funds, dst, amount)
        _add(received, dst, amount)
        _add(seen, src, 1)
    assert len(totals) <= KEYS
    assert len(funds) <= ACCOUNTS
    return {
        "totals": totals,
        "trail": trail,
        "funds": funds,
        "sent": sent,
        "received": received,
        "seen": seen,
        "top": sorted(seen.values(), reverse=True)[:3],
    }


def alerts_of(ends: Ends) -> list[dict[str, int]]:
    """The rows that the first topology appends; in order for each ``src``."""
    transfers = first_records("transfers", ends.get("transfers", ()))
    return [alert for alert in map(alert_of, transfers) if alert is not None]


def watch(alerts: Sequence[Mapping[str, int]]) -> dict[str, Any]:
    """The state of the second topology, given the alerts that count."""
    alerted: dict[str, int] = {}
    trail: dict[str, int] = {}
    for alert in alerts:
        src = str(alert["src"])
        _add(alerted, src, alert["amount"])
        trail[src] = digest(trail.get(src, 0), alert["n"])
    return {"alerted": alerted, "alert_trail": trail}


def _add(counts: dict[str, int], key: str, amount: int) -> None:
    counts[key] = counts.get(key, 0) + amount
