"""Looks at a root from outside, while nothing runs on it, and checks what must always hold.

It reads what is on disk: depots, commits, plans, file names, and the state through a reader's
door. What it compares with comes from the oracle, which shares no code with Atoll. Each failure
begins with the invariant's name:

    I1   what was acknowledged is there, once, in order       I6   nothing stale is visible
    I2   what was not is there whole or not at all            I7   rows for depots arrive once
    I3   state = fold of the committed records                I8   recovering twice changes nothing
    I4   commits without gaps, ranges that follow each other  I11  nothing is left lying about
    I5   conserved totals are conserved; time moves forward   I12  (that the fault happened: the
                                                                   suites assert it themselves)
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import oracle
from scenario import ALERTS, DEPOTS, MODULE, TOPOLOGIES, say

import atoll
from atoll import path
from atoll.ddl import parse_ddl
from atoll.depot.reader import DepotReader
from atoll.errors import NotFoundError
from atoll.microbatch.commits.history import latest_commit, plan_objects, read_commit
from atoll.microbatch.commits.objects import Commit, decode_plan
from atoll.microbatch.plans.attempts import attempt_objects, plan_tried
from atoll.storage.folders import depot_folder
from atoll.storage.local import LocalStore

__all__ = ["Told", "check", "check_clean", "check_commits", "told_by", "violation"]


@dataclass
class Told:
    """What the lives of a root have said so far.

    Attributes:
        acked: For each depot how many records were acknowledged.
        tried: For each depot how many more the last life had handed over without an answer.
        committed: For each topology the last commit that somebody has seen.
    """

    acked: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DEPOTS, 0))
    tried: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DEPOTS, 0))
    committed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TOPOLOGIES, 0))

    def hear(self, output: str) -> Told:
        """Take in what one more life has printed.

        What the life before it handed over without an answer may be there until a life has looked:
        one that died before it said what it found leaves that open.
        """
        for line in output.splitlines():
            word, _, text = line.partition(" ")
            if word == "try":
                for depot, (_, count) in json.loads(text).items():
                    self.tried[depot] = count
            elif word == "acked":
                for depot, (known, count) in json.loads(text).items():
                    self.acked[depot], self.tried[depot] = known + count, 0
            elif word == "found":
                self.acked.update(json.loads(text))
                self.tried = dict.fromkeys(DEPOTS, 0)
            elif word == "committed":
                self.committed.update(json.loads(text))
        return self

    def as_json(self) -> dict[str, Any]:
        """For a child's arguments."""
        return {"acked": self.acked, "tried": self.tried, "committed": self.committed}


def told_by(*outputs: str) -> Told:
    """What several lives have said, in their order."""
    told = Told()
    for output in outputs:
        told.hear(output)
    return told


def violation(holds: object, invariant: str, what: str, *details: object) -> None:
    """Raise an AssertionError that begins with the invariant's name unless it holds."""
    if not holds:
        raise AssertionError(f"{invariant}: {what}: " + "; ".join(map(str, details)))


def check(root: str, told: dict[str, Any], *, finished: bool = False) -> None:
    """Check everything, then print ``committed {...}`` for :class:`Told`.

    Args:
        root: The root; it may be that nothing has been deployed there yet.
        told: What is known from outside (:meth:`Told.as_json`).
        finished: Whether all was processed and nothing was killed since: then nothing unfinished
            may be left either.
    """
    known = Told(**told)
    store = LocalStore(Path(root).resolve())
    try:
        connected = atoll.connect(root, MODULE)
    except NotFoundError:
        violation(not any(known.acked.values()), "I1", "records without a module", known.acked)
        say("committed", known.committed)
        return
    _depots(store, connected, known)
    commits = {
        name: check_commits(store, MODULE, name, known.committed[name]) for name in TOPOLOGIES
    }
    alerts = _alerts(store, connected, commits, finished=finished)
    _state(connected, commits, alerts)
    if finished:
        check_clean(store, MODULE, commits)
    say("committed", {name: each[-1].id if each else 0 for name, each in commits.items()})


# Depots -------------------------------------------------------------------------------------------


def _reader(store: LocalStore, connected: Any, depot: str) -> DepotReader:
    schema = parse_ddl(connected.deployment.depots[depot].ddl)
    return DepotReader(depot_folder(store.root, MODULE, depot), schema)


def _depots(store: LocalStore, connected: Any, known: Told) -> None:
    for depot, partitions in DEPOTS.items():
        reader = _reader(store, connected, depot)
        starts, ends = list(reader.start_offsets()), list(reader.end_offsets())
        total = sum(ends)
        whole = (known.acked[depot], known.acked[depot] + known.tried[depot])
        invariant = "I1" if total < whole[0] else "I2"
        violation(total in whole, invariant, f"{depot} holds {total} records", "allowed", whole)
        violation(ends == oracle.ends_of(depot, total), "I1", f"{depot} has other partitions", ends)
        for partition in range(partitions):
            expected = oracle.first_records(depot, _only(ends, partition))[starts[partition] :]
            found = reader.read(partition, starts[partition], ends[partition]).to_pylist()
            violation(found == expected, "I1", f"{depot} partition {partition}", found, expected)


def _only(ends: Sequence[int], partition: int) -> list[int]:
    return [end if index == partition else 0 for index, end in enumerate(ends)]


def _alerts(
    store: LocalStore,
    connected: Any,
    commits: Mapping[str, list[Commit]],
    *,
    finished: bool,
) -> list[list[dict[str, int]]]:
    """The rows appended by the first topology, by partition, checked against its commits."""
    reader = _reader(store, connected, "alerts")
    ends = reader.end_offsets() or (0,) * ALERTS["alerts"]
    rows = [reader.read(p, 0, end).to_pylist() if end else [] for p, end in enumerate(ends)]
    bank = commits["bank"]
    allowed = [oracle.alerts_of(bank[-1].ends() if bank else {})]
    if bank and not finished:  # the last commit's rows may still be owed
        starts = {name: [start for start, _ in each] for name, each in bank[-1].ranges.items()}
        allowed.append(oracle.alerts_of(starts))
    by_key = _by_src([row for each in rows for row in each])
    violation(by_key in map(_by_src, allowed), "I7", "rows appended by bank", by_key, allowed)
    for partition, each in enumerate(rows):
        wrong = [row for row in each if row["src"] % ALERTS["alerts"] != partition]
        violation(not wrong, "I7", "rows in the wrong partition", wrong)
    return rows


def _by_src(rows: Sequence[Mapping[str, int]]) -> dict[int, list[tuple[int, int]]]:
    found: dict[int, list[tuple[int, int]]] = {}
    for row in rows:
        found.setdefault(row["src"], []).append((row["n"], row["amount"]))
    return dict(sorted(found.items()))


# Commits ------------------------------------------------------------------------------------------


def check_commits(
    store: LocalStore, module: str, topology: str, known: int, ticks: Sequence[str] = ()
) -> list[Commit]:
    """The commits that are there, oldest first, checked one against the other.

    Args:
        store: The root.
        module: Whose.
        topology: Its topology.
        known: The last commit that somebody has seen.
        ticks: Its sources that do not go on where they were.
    """
    last = latest_commit(store, module, topology)
    violation(last.id >= known, "I5", f"{topology} went back", last.id, known)
    if last.id == 0:
        return []
    commits = [
        read_commit(store, module, topology, each) for each in range(last.floor, last.id + 1)
    ]
    names = store.list(f"{module}/{topology}/commits")
    numbers = [int(name.rsplit("/", 1)[-1]) for name in names]
    # what lies below the floor may still be there, when tidying was killed
    violation(
        [n for n in numbers if n >= last.floor] == [each.id for each in commits],
        "I4",
        f"commits of {topology}",
        numbers,
    )
    violation(len(set(numbers)) == len(numbers), "I4", f"commits of {topology}", numbers)
    for before, after in itertools.pairwise(commits):
        _follows(topology, before, after, ticks)
    if commits[0].id == 1:
        first = [each for name, each in commits[0].ranges.items() if name not in ticks]
        violation(all(s == 0 for each in first for s, _ in each), "I4", "a start", first)
        violation(commits[0].processed == commits[0].records, "I4", "the count", commits[0].id)
    plans = plan_objects(store, module, topology)
    for number in plans.numbers(last.floor):
        plan = decode_plan(plans.read(number))
        violation(number <= last.id + 1, "I4", f"a plan ahead of {topology}", number, last.id)
        made = next((each for each in commits if each.id == number), None)
        violation(
            made is None or made.ranges == plan.ranges, "I4", "plan and commit differ", number
        )
    return commits


def _follows(topology: str, before: Commit, after: Commit, ticks: Sequence[str]) -> None:
    about = f"{topology} {before.id} and {after.id}"
    violation(after.id == before.id + 1, "I4", about)
    violation(after.epoch >= before.epoch, "I6", f"{about}: an older life", after.epoch)
    violation(after.processed == before.processed + after.records, "I4", f"{about}: the count")
    for depot, ranges in after.ranges.items():
        starts = [start for start, _ in ranges]
        violation(
            depot in ticks or starts == before.ends()[depot],
            "I4",
            f"{about}: {depot}",
            starts,
            before.ends(),
        )
        violation(all(end >= start for start, end in ranges), "I4", about, ranges)


# State --------------------------------------------------------------------------------------------


def _state(
    connected: Any, commits: Mapping[str, list[Commit]], alerts: list[list[dict[str, int]]]
) -> None:
    ends = {name: each[-1].ends() if each else {} for name, each in commits.items()}
    counted = ends["watch"].get("alerts", [0] * len(alerts))
    seen = [row for rows, end in zip(alerts, counted, strict=True) for row in rows[:end]]
    expected = {**oracle.bank(ends["bank"]), **oracle.watch(seen)}
    for topology, names in TOPOLOGIES.items():
        for name in names:
            found = _read(connected, name)
            violation(found == expected[name], "I3", f"{name} of {topology}", found, expected[name])
    funds = _read(connected, "funds")
    violation(sum(funds.values()) == 0, "I5", "the sum of all funds", funds)
    sent, received = _read(connected, "sent"), _read(connected, "received")
    violation(sum(sent.values()) == sum(received.values()), "I5", "sent and received")


def _read(connected: Any, name: str) -> Any:
    pstate = connected.pstate(name)
    if name == "top":
        return [each["count"] for each in pstate.get() or []]
    return {str(key): value for key, value in pstate.select(path.all())}


# Leftovers ----------------------------------------------------------------------------------------


def check_clean(store: LocalStore, module: str, commits: Mapping[str, list[Commit]]) -> None:
    """Nothing but what the commits name, and no file that was never finished."""
    unfinished = [
        os.path.join(folder, name)  # noqa: PTH118
        for folder, _, names in os.walk(store.root)
        for name in names
        if name.startswith(".tmp-") or Path(folder).name == "staging"
    ]
    violation(not unfinished, "I11", "unfinished files", unfinished)
    for topology, each in commits.items():
        kept = {name for commit in each for name in _named(commit)}
        found = {
            name
            for name in store.list(f"{module}/{topology}")
            if not {"commits", "plans", "attempts", "pauses"} & set(name.split("/"))
        }
        violation(found <= kept, "I11", f"orphans of {topology}", sorted(found - kept))
        violation(kept <= found, "I1", f"files of {topology} are missing", sorted(kept - found))
        floor = each[-1].floor if each else 0
        tried = [plan_tried(n) for n in attempt_objects(store, module, topology).numbers()]
        violation(not tried or min(tried) >= floor, "I11", f"attempts of {topology}", tried, floor)
        for folder in ("plans", "commits"):
            numbers = [
                int(n.rsplit("/", 1)[-1]) for n in store.list(f"{module}/{topology}/{folder}")
            ]
            low = [number for number in numbers if number < floor]
            violation(not low, "I11", f"{folder} of {topology} below the floor {floor}", low)
    parked = store.list("local/exchange")
    violation(not parked, "I11", "parked rows", parked)


def _named(commit: Commit) -> list[str]:
    names = [each.file.name for each in commit.appends]
    for part in commit.pstates.values():
        names += [log.file.name for job in part.logs for log in job]
        names += [checkpoint.file.name for checkpoint in part.checkpoints]
    return names
