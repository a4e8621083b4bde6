"""What children do with the timed scenario: live, die, suffer from a disk, look at a root."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

from checker import check_clean, check_commits, violation
from deaths import _watched
from interpose import Call, Interposer
from scenario import say
from timed_scenario import (
    MODULE,
    OUTPUTS,
    STATES,
    Life,
    as_json,
    everything,
    live,
    living,
    reader,
    records_of,
    state_of,
)

import atoll
from atoll.errors import AtollError, NotFoundError
from atoll.storage.local import LocalStore

__all__ = ["at_call", "at_point", "check", "finish", "suffer", "undisturbed"]

_TICKS = ("tick",)
_REFUSALS_BEFORE_CLEARING, _REFUSALS_MAX = 3, 20


def undisturbed(root: str, rounds: int) -> None:
    """Live, and tell what there is after each commit; and what could disturb such a life."""
    kinds: Counter[str] = Counter()
    points: Counter[str] = Counter()
    after: dict[str, list[Any]] = {name: [_shown(None, name)] for name in STATES}

    def count(call: Call) -> None:
        kinds[call.kind] += 1

    def reached(name: str, visits: int) -> None:
        points[name] = visits

    def look(life: Life, topology: str, number: int) -> None:
        assert number == len(after[topology])
        after[topology].append(_shown(life.driver, topology))

    with Interposer(root) as calls, _watched(reached):
        calls.on_call = count
        with living(root, rounds, look) as life:
            life.run()
            say("final", everything(life))
    say("calls", [calls.calls, kinds])
    say("points", points)
    say("after", after)


def _shown(owner: Any, topology: str) -> dict[str, Any]:
    """What a topology has made: its PStates, and what it has appended."""
    states = {} if owner is None else state_of(owner)
    outputs = OUTPUTS if topology == "timed" else ()
    return as_json(
        {
            **{name: states.get(name, {}) for name in STATES[topology]},
            **{name: [] if owner is None else records_of(owner.depot(name)) for name in outputs},
        }
    )


# Deaths -------------------------------------------------------------------------------------------


def at_call(root: str, rounds: int, number: int, torn: bool = False) -> None:
    """Live until the storage layer is about to make its n-th call; then die instead."""
    with Interposer(root) as calls:

        def tell(call: Call) -> None:
            if call.number == number:
                say("dying", [call.kind, call.path, call.target])

        calls.on_call = tell
        calls.kill_at(number, torn=torn)
        with living(root, rounds) as life:
            life.run()


def at_point(root: str, rounds: int, point: str, visit: int) -> None:
    """Live until a point of the protocol is reached for the n-th time; then die there."""

    def reached(name: str, count: int) -> None:
        if name == point and count == visit:
            say("dying", [name, count])
            os.kill(os.getpid(), signal.SIGKILL)

    with _watched(reached), living(root, rounds) as life:
        life.run()


def suffer(root: str, rounds: int, number: int, error: int, times: int) -> None:
    """Live on a disk that refuses so many calls from the n-th on.

    Microbatches are tried again, within the life; an append or an update that was refused ends it.
    After three lives that were ended so the disk works.
    """
    refusals = 0
    with Interposer(root) as calls:
        calls.fail_at(number, error, times)
        while True:
            try:
                with living(root, rounds) as life:
                    life.run()
                break
            except AtollError as refused:
                refusals += 1
                say("refused", [refused.code, refused.message])
                assert refusals < _REFUSALS_MAX, "it is refused for ever"
                if refusals >= _REFUSALS_BEFORE_CLEARING:
                    calls.clear()
        assert not calls.reused, f"a file was used after its fsync had failed: {calls.reused[0]}"
    say("suffered", [calls.faults, refusals])


def finish(root: str, rounds: int) -> None:
    """The life after; then what is never left over when all is done."""
    live(root, rounds)
    check(root, None, finished=True)


# What lies there ----------------------------------------------------------------------------------


def check(root: str, after: dict[str, list[Any]] | None, finished: bool = False) -> None:
    """Commits follow each other, and what is shown is what the last commit shows in any life.

    Args:
        root: The root; it may be that nothing has been deployed there yet.
        after: What an undisturbed life showed after each commit; None to compare nothing.
        finished: Whether all was done: then nothing unfinished may be left either.
    """
    store = LocalStore(Path(root).resolve())
    try:
        connected = atoll.connect(root, MODULE)
    except NotFoundError:
        return
    commits = {
        name: check_commits(store, MODULE, name, 0, _TICKS if name == "timed" else ())
        for name in STATES
    }
    if finished:
        check_clean(store, MODULE, commits)
    if after is None:
        return
    shown = state_of(connected)
    for topology, names in STATES.items():
        last = commits[topology][-1].id if commits[topology] else 0
        for name in names:
            wanted = after[topology][last][name]
            violation(shown[name] == wanted, "I3", f"{name} after {last}", shown[name], wanted)
        if topology != "timed":
            continue
        for name in OUTPUTS:  # what the last commit appends may still be owed
            found = json.loads(json.dumps(records_of(reader(root, name))))
            allowed = [after[topology][each][name] for each in {last, max(0, last - 1)}]
            violation(found in allowed, "I7", f"{name} after {last}", found, allowed)
