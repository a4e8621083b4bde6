"""The module that the fault scenarios run, its records, and the life of one process that runs it.

It has a bit of everything that can go wrong: two sources of several partitions, aggregates, state
whose order shows (a digest per key), a transfer between two keys over two jobs, changes that feed
a list, rows appended to a depot that a second topology reads. Microbatches are tiny, checkpoints,
tidying, rotation and trimming of depots happen all the time. Python and state steps only, so that
it runs without Spark.

Every record is a pure function of its number, and so is the depot partition that it goes to.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import atoll.cluster.deploy.lives
import atoll.cluster.depots
import atoll.cluster.upkeep.trimming
import atoll.depot.spec
from atoll import List, LocalCluster, Map, Struct, agg, path, start

__all__ = [
    "ALERTS",
    "DEPOTS",
    "MODULE",
    "TOPOLOGIES",
    "alert_of",
    "build",
    "digest",
    "drive",
    "key_of",
    "live",
    "record_of",
    "running",
    "state_of",
]

MODULE = "faults"
TOPOLOGIES = {"bank": ("totals", "trail", "funds", "sent", "received", "seen", "top")}
TOPOLOGIES["watch"] = ("alerted", "alert_trail")
DEPOTS = {"events": 3, "transfers": 2}
"""The depots that are appended to, and how many partitions they have."""
ALERTS = {"alerts": 2}
"""The depot that the first topology appends to."""

KEYS, ACCOUNTS, ALERT_FROM = 12, 10, 9
PER_ROUND = {"events": 6, "transfers": 4}
_SEGMENT_BYTES = 1_500
_OPTIONS = {
    "depot.microbatch.max.records": 1,
    "pstate.history.seconds": 0,
    "pstate.checkpoint.interval.commits": 5,
    "pstate.history.microbatches": 2,
    "topology.microbatch.retry.delay.max.millis": 20,
    "topology.microbatch.empty.sleep.time.millis": 20,
}


# Records ------------------------------------------------------------------------------------------


def record_of(depot: str, number: int) -> dict[str, int]:
    """The n-th record of a depot."""
    if depot == "events":
        key = number * 7919 % (KEYS // 3) * 3 + number % 3  # partitions take turns
        return {"n": number, "k": key, "v": number * 31 % 17 - 5}
    src = number * 7919 % (ACCOUNTS // 2) * 2 + number % 2
    dst = number * 104_729 % ACCOUNTS
    return {"n": number, "src": src, "dst": dst, "amount": number % 13 + 1}


def key_of(depot: str, record: dict[str, Any]) -> int:
    """What decides the partition: the key modulo the number of partitions."""
    return int(record["k"] if depot == "events" else record["src"])


def alert_of(transfer: Any) -> dict[str, int] | None:
    """What a transfer adds to the alerts, or None."""
    if transfer["amount"] < ALERT_FROM:
        return None
    return {"n": transfer["n"], "src": transfer["src"], "amount": transfer["amount"]}


def digest(before: int, number: int) -> int:
    """Follows numbers so that one lost, doubled or out of order gives another result."""
    return (before * 31 + number + 1) % 1_000_003


# The module ---------------------------------------------------------------------------------------


def _by_k(record: Any, partitions: int) -> int:
    return int(record["k"]) % partitions


def _by_src(record: Any, partitions: int) -> int:
    return int(record["src"]) % partitions


def _follow(row: Any, trail: Any) -> None:
    trail[row.k] = digest(trail.get(row.k, 0), row.n)


def _follow_alert(row: Any, trail: Any) -> None:
    trail[row.src] = digest(trail.get(row.src, 0), row.n)


def _debit(row: Any, funds: Any, sent: Any) -> Iterator[Any]:
    funds[row.src] = funds.get(row.src, 0) - row.amount
    sent[row.src] = sent.get(row.src, 0) + row.amount
    yield row


def _credit(row: Any, funds: Any, received: Any) -> None:
    funds[row.dst] = funds.get(row.dst, 0) + row.amount
    received[row.dst] = received.get(row.dst, 0) + row.amount


def _alerts(row: Any) -> Iterator[dict[str, int]]:
    alert = alert_of(row.asdict())
    if alert is not None:
        yield alert


def build(**options: int) -> atoll.Module:
    """The module; options of both topologies may be set."""
    module = atoll.Module(MODULE)
    events = module.depot(
        "events", "n long, k long, v long", partition_by=_by_k, partitions=3, retain_records=6
    )
    transfers = module.depot(
        "transfers",
        _TRANSFER,
        partition_by=_by_src,
        partitions=2,
        retain_records=6,
    )
    alerts = module.depot("alerts", _ALERT, partition_by=_by_src, partitions=2)
    _bank(module, events, transfers, alerts, {**_OPTIONS, **options})
    watch = module.microbatch("watch", vnode_count=16, options={**_OPTIONS, **options})
    seen = watch.source(alerts, start_from=start.beginning())
    alerted = watch.pstate("alerted", Map(int, int))
    seen.aggregate(alerted["src"], agg.sum("amount"))
    trail = watch.pstate("alert_trail", Map(int, int))
    seen.process(_follow_alert, key="src", states=[trail])
    return module


_TRANSFER = "n long, src long, dst long, amount long"
_ALERT = "n long, src long, amount long"


def _bank(
    module: atoll.Module, events: Any, transfers: Any, alerts: Any, options: dict[str, int]
) -> None:
    bank = module.microbatch("bank", vnode_count=16, options=options)
    totals = bank.pstate("totals", Map(int, Struct(sum=int, count=int)))
    trail = bank.pstate("trail", Map(int, int))
    funds = bank.pstate("funds", Map(int, int))
    sent = bank.pstate("sent", Map(int, int))
    received = bank.pstate("received", Map(int, int))
    seen = bank.pstate("seen", Map(int, int))
    top = bank.pstate("top", List(Struct(account=int, count=int)))
    first = bank.source(events, start_from=start.beginning())
    first.aggregate(totals["k"], sum=agg.sum("v"), count=agg.count())
    first.process(_follow, key="k", states=[trail])
    second = bank.source(transfers, start_from=start.beginning())
    debited = second.process(_debit, key="src", states=[funds, sent], emits=_TRANSFER)
    debited.process(_credit, key="dst", states=[funds, received])
    debited.flat_map(_alerts, emits=_ALERT).append_to(alerts)
    changes = second.aggregate(seen["src"], agg.count()).changes()
    ranked = {"account": "src", "count": "new"}
    changes.aggregate(top, agg.top_n(3, by="new", columns=ranked, id="src"))


# A process's life ---------------------------------------------------------------------------------


@contextlib.contextmanager
def tuned(segment_bytes: int = _SEGMENT_BYTES) -> Iterator[None]:
    """Depots rotate after so many bytes and are trimmed after every microbatch.

    Both bounds are larger in the product because smaller ones make no sense there.
    """
    known = atoll.cluster.depots.depot_spec
    places = (atoll.cluster.deploy.lives,)
    before = (atoll.depot.spec._SEGMENT_BYTES_LEAST, atoll.cluster.upkeep.trimming._INTERVAL_MS)
    atoll.depot.spec._SEGMENT_BYTES_LEAST = 1
    atoll.cluster.upkeep.trimming._INTERVAL_MS = 0

    def small(*declared: Any) -> Any:
        return dataclasses.replace(known(*declared), segment_bytes_max=segment_bytes)

    for place in places:
        place.depot_spec = small
    try:
        yield
    finally:
        for place in places:
            place.depot_spec = known
        atoll.depot.spec._SEGMENT_BYTES_LEAST = before[0]
        atoll.cluster.upkeep.trimming._INTERVAL_MS = before[1]


@contextlib.contextmanager
def running(
    root: Path | str, observer: Callable[..., None] | None = None, **options: int
) -> Iterator[Any]:
    """The app, deployed on a root."""
    with tuned(), LocalCluster(root, engine="inline", observer=observer) as cluster:
        yield cluster.deploy(build(**options))


def drive(app: Any, rounds: int) -> None:
    """Append and process until so many rounds are done, going on from what is there.

    Each line that it prints is true when it is printed: ``try`` before an append, ``acked`` after.
    Within a round one thing happens after the other, so that runs can be compared call by call.
    """
    found = {name: sum(app.depot(name).end_offsets()) for name in DEPOTS}
    say("found", found)
    for number in range(rounds):
        for name in app.topologies():
            app.topology(name).pause()
        for name, count in PER_ROUND.items():
            _append(app.depot(name), name, count * (number + 1))
        step(app, rounds=number + 1)


def step(app: Any, rounds: int) -> None:
    """Let the topologies process all that the first rounds have appended, one after the other."""
    for name, depots in (("bank", DEPOTS), ("watch", ALERTS)):
        topology = app.topology(name)
        topology.resume()
        topology.wait_processed(sum(sum(app.depot(each).end_offsets()) for each in depots), 120)
        topology.pause()
    say("done", rounds)


def _append(depot: Any, name: str, upto: int) -> None:
    """Calls of one to three records, the same calls in every run."""
    known = sum(depot.end_offsets())
    while known < upto:
        records = [record_of(name, n) for n in range(known, min(known + 1 + known % 3, upto))]
        say("try", {name: [known, len(records)]})
        appended = depot.append(records)
        assert appended.count == len(records)
        say("acked", {name: [known, len(records)]})
        known += len(records)


def live(
    root: str, rounds: int, observer: Callable[..., None] | None = None, **options: int
) -> None:
    """One life: go on, finish, tell the state; then stop, start again, and tell it once more."""
    with running(root, observer, **options) as app:
        drive(app, rounds)
        say("final", state_of(app))
    with running(root) as app:
        step(app, rounds)
        say("again", state_of(app))


def state_of(app: Any) -> dict[str, Any]:
    """The whole state in one canonical form, as JSON would give it back."""
    state: dict[str, Any] = {}
    for names in TOPOLOGIES.values():
        for name in names:
            if name == "top":
                state[name] = [each["count"] for each in app.pstate(name).get() or []]
            else:
                state[name] = {str(k): v for k, v in app.pstate(name).select(path.all())}
    canonical: dict[str, Any] = json.loads(json.dumps(state, sort_keys=True))
    return canonical


def say(word: str, value: Any) -> None:
    """One line, at once: what was printed before a SIGKILL stays printed.

    Line and line end go out in one write: a life's threads speak at the same time.
    """
    print(f"{word} {json.dumps(value, sort_keys=True)}\n", end="", flush=True)
