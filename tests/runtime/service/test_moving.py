"""State by key moves with its keys when copies change: each event finds it, once, after any end."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from waiting import until

from atoll.cluster.local import LocalCluster
from atoll.errors import AtollError, BusyError, ConflictError, StorageError
from atoll.runtime.definition.read import read_definition
from atoll.runtime.engine.compile import INTAKE
from atoll.runtime.engine.keyed import owner_of
from atoll.runtime.engine.memory import Kept
from atoll.runtime.interpreter import Interpreter
from atoll.runtime.service import lives, moving, sending
from atoll.runtime.service.running import RunningRuntime
from atoll.runtime.service.runtimes import Runtimes

CHILD = Path(__file__).with_name("moving_child.py")
KEYS = [f"k{at}" for at in range(30)]


def keyed(*more, copies=1, **of_sum):
    """Statistics by key behind an entry point, and more actors by key."""
    stats = {"name": "sum", "type": "stats", "params": {"field": "v"}, **of_sum}
    actors = [{**each, "group": {"by": "k"}} for each in (stats, *more)]
    return {
        "name": "r",
        "actors": [{"name": "in", "type": "httpbroadcast"}, *actors],
        "links": [{"from": "in", "to": each["name"]} for each in actors],
        "distribution": {"copies": copies, "by": "k"},
    }


def states(running):
    """By actor and group what is kept, each of which lies in its owner and nowhere else."""
    running.wait_all()
    found = {}
    for copy, actors in running.places().items():
        for actor, instances in actors.items():
            for instance, groups in instances.items():
                for key, data in groups.items():
                    if instance >= 0 and key:
                        assert copy == owner_of(key[1:], running.program.copies)
                        kept = msgspec.json.decode(data, type=Kept)
                        found.setdefault(actor, {})[key[1:]] = kept
    return found


def counts(running):
    """By key how many events were counted."""
    found = states(running).get("sum", {})
    return {key: kept.state["count"] for key, kept in found.items()}


def events(count, seed=0):
    """So many events of many keys."""
    chance = random.Random(seed)
    return [{"k": chance.choice(KEYS), "v": chance.randrange(50)} for _ in range(count)]


def test_each_group_lies_in_the_copy_that_owns_it_and_counts_on(runtimes):
    """Out, in, and to as many copies as there are keys; nothing is lost, doubled or left."""
    runtime = runtimes.start(runtimes.create(keyed()))
    sent = Counter()
    for round_, copies in enumerate((4, 2, 30, 7, 1)):
        made = events(100, round_)
        runtimes.running(runtime).send("in", made)
        sent.update(each["k"] for each in made)
        runtime = runtimes.scale(runtime, copies, "move")
        assert runtime.copies == copies
        assert counts(runtimes.running(runtime)) == sent


WINDOW = {"name": "last", "type": "window", "params": {"method": "count", "number": 3}}
FSM = {
    "name": "fsm",
    "type": "fsm",
    "params": {"key": "v", "s0": "a", "table": {"a": {"1": "b"}, "b": {"2": "a"}}},
}
SLIDING = {"sliding-window": {"size": 4, "slide": 2}}
LOCAL = {"calc-local": True, "collect-local": {"update": SLIDING}}


@pytest.mark.parametrize("seed", range(3))
def test_after_moves_all_is_as_in_a_runtime_that_never_had_another_copy(runtimes, seed):
    """Types, lists of events and windows: equal to the interpreter's, group by group."""
    chance = random.Random(seed)
    given = keyed(WINDOW, FSM, state=LOCAL)
    plain = Interpreter(read_definition({**given, "distribution": {}}))
    runtime = runtimes.start(runtimes.create(given))
    for round_ in range(4):
        made = events(chance.randrange(60), 10 * seed + round_)
        runtimes.running(runtime).send("in", made)
        for each in made:
            plain.send("in", each)
        runtime = runtimes.scale(runtime, chance.randrange(1, 6), "move")
    found = states(runtimes.running(runtime))
    for name in ("sum", "last", "fsm"):
        wanted = dict(plain.states(name)[0])
        assert {key: _timeless(kept.state) for key, kept in found[name].items()} == {
            key: _timeless(each) for key, each in wanted.items()
        }


def _timeless(state):
    return {key: each for key, each in state.items() if key not in ("since", "due")}


def test_a_timer_goes_with_its_group_and_rings_once(runtimes):
    """A timeout that began in one copy ends in another, at its time."""
    given = keyed(timeout={"duration": 0.6, "mode": "exit"})
    runtime = runtimes.start(runtimes.create(given))
    runtimes.running(runtime).send("in", [{"k": key, "v": 1} for key in KEYS])
    runtime = runtimes.scale(runtime, 5, "move")
    running = runtimes.running(runtime)
    until(lambda: all(kept.state["resets"] == 1 for kept in states(running)["sum"].values()))
    assert len(states(running)["sum"]) == len(KEYS)
    assert {kept.state["state"]["count"] for kept in states(running)["sum"].values()} == {0}


def test_state_that_cannot_move_is_refused_with_the_reason_and_the_choices(runtimes):
    """And the choices of a request that says nothing hold it only where it can."""
    by_other = keyed()
    by_other["actors"][1]["group"] = {"by": "other"}
    runtime = runtimes.start(runtimes.create(by_other))
    with pytest.raises(ConflictError, match="'sum' is not grouped by 'k'") as refused:
        runtimes.scale(runtime, 2, "move")
    assert refused.value.context["choices"] == ["keep", "drop"]
    with pytest.raises(ConflictError) as refused:
        runtimes.scale(runtime, 2)
    assert refused.value.context["choices"] == ["keep", "drop"]
    other = runtimes.start(runtimes.create(keyed()))
    with pytest.raises(ConflictError) as refused:
        runtimes.scale(other, 2)
    assert refused.value.context["choices"] == ["keep", "drop", "move"]


def test_a_group_that_lies_in_two_copies_is_refused_and_all_goes_on(runtimes):
    """Events that were sent to a copy by its number made another state of the key."""
    runtime = runtimes.start(runtimes.create(keyed(copies=2)))
    running = runtimes.running(runtime)
    for copy in (1, 2):
        running.send("in", [{"k": "k1", "v": 1}], copy)
    with pytest.raises(ConflictError, match="group 'k1' of actor 'sum' has state in the copies 1 "):
        runtimes.scale(runtime, 3, "move")
    assert runtimes.find("r")[0].copies == 2
    running.send("in", [{"k": "k2", "v": 1}])
    running.wait_all()


def test_more_state_than_is_moved_at_once_is_refused(runtimes, monkeypatch):
    """It would be in memory and in one append."""
    monkeypatch.setattr(moving, "BYTES_MAX", 100)
    runtime = runtimes.start(runtimes.create(keyed()))
    runtimes.running(runtime).send("in", events(50))
    with pytest.raises(ConflictError, match="would move"):
        runtimes.scale(runtime, 4, "move")
    runtimes.running(runtime).send("in", events(1))


def test_state_of_a_runtime_that_rests_moves_before_its_next_event(runtimes):
    """One move at a time: the second would read what the first has not changed yet."""
    runtime = runtimes.start(runtimes.create(keyed()))
    made = events(60)
    runtimes.running(runtime).send("in", made)
    runtime = runtimes.stop(runtime)
    runtime = runtimes.scale(runtime, 3, "move")
    with pytest.raises(ConflictError, match="start it"):
        runtimes.scale(runtime, 5, "move")
    runtime = runtimes.start(runtime)
    assert counts(runtimes.running(runtime)) == Counter(each["k"] for each in made)


def test_events_that_come_meanwhile_wait_and_find_their_state(runtimes):
    """Nobody is refused, and each key has counted all of its events."""
    runtime = runtimes.start(runtimes.create(keyed()))
    ended, sent, errors = threading.Event(), Counter(), []

    def work():
        chance = random.Random(1)
        while not ended.is_set():
            key = chance.choice(KEYS)
            try:
                sending.send(runtimes, runtime, "in", [{"k": key, "v": 1}])
                sent[key] += 1
            except AtollError as error:
                errors.append(error)

    sender = threading.Thread(target=work)
    sender.start()
    try:
        for copies in (3, 1, 4, 2):
            runtimes.scale(runtime, copies, "move")
    finally:
        ended.set()
        sender.join(60)
    assert errors == []
    assert counts(runtimes.running(runtimes.find("r")[0])) == sent


def test_nobody_comes_in_before_the_state_is_on_its_way(runtimes, monkeypatch):
    """With the new copies there and their state not yet: an event would begin a second one."""
    refused, told = [], lives.told

    def looked_at(running):
        if running.registered.last == "scaled":
            with pytest.raises(BusyError) as busy:
                running.send("in", [{"k": "k1", "v": 1}])
            refused.append(busy.value)
        return told(running)

    monkeypatch.setattr(lives, "told", looked_at)
    runtime = runtimes.start(runtimes.create(keyed()))
    for copies in (2, 2, 1):
        runtimes.scale(runtime, copies, "move")
    assert len(refused) == 3
    runtimes.running(runtime).send("in", [{"k": "k1", "v": 1}])


def test_a_move_that_failed_is_made_before_anything_else_is_changed(runtimes, monkeypatch):
    """Else events would find no state, and nobody would know."""
    made = events(80)
    runtime = runtimes.start(runtimes.create(keyed()))
    runtimes.running(runtime).send("in", made)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lives, "told", _fails)
        with pytest.raises(StorageError):
            runtimes.scale(runtime, 4, "move")
        with pytest.raises(StorageError):
            runtimes.stop(runtime)
    with pytest.raises(BusyError):
        runtimes.running(runtime).send("in", made)
    runtime = runtimes.start(runtimes.stop(runtime))
    runtimes.running(runtime).send("in", made)
    assert counts(runtimes.running(runtime)) == Counter(each["k"] for each in made + made)


def _fails(*_):
    raise StorageError("the disk is full", hint="make room")


class Ended(BaseException):
    """The process ends here."""


def _ends(*_):
    raise Ended


def _appends_and_ends(self, name, number, records):
    if name == "life":
        APPEND(self, name, number, records)
        raise Ended
    return APPEND(self, name, number, records)


APPEND = RunningRuntime.append_once
STAGES = {
    "before": (lives.Lives, "follow", _ends),
    "deployed": (lives, "told", _ends),
    "told": (RunningRuntime, "append_once", _appends_and_ends),
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("copies", [(1, 4), (4, 1), (3, 5)])
def test_a_process_that_ends_in_between_leaves_the_move_to_the_next(tmp_path, stage, copies):
    """With the registry changed; with the new copies deployed; with all told."""
    first, then = copies
    made = events(80)
    cluster = LocalCluster(tmp_path, engine="inline")
    runtimes = Runtimes(cluster)
    runtimes.open()
    runtime = runtimes.start(runtimes.create(keyed(copies=first)))
    runtimes.running(runtime).send("in", made)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*STAGES[stage])
        with pytest.raises(Ended):
            runtimes.scale(runtime, then, "move")
    cluster.kill()
    runtimes.close()
    for _ in range(2):
        with LocalCluster(tmp_path, engine="inline") as cluster:
            runtimes = Runtimes(cluster)
            runtimes.open()
            running = runtimes.running(runtimes.find("r")[0])
            running.send("in", made)
            made = made + made
            assert counts(running) == Counter(each["k"] for each in made)
            taken = running.app.depot(INTAKE).read(0, 0, running.app.depot(INTAKE).end_offsets()[0])
            assert taken.column("kind").to_pylist().count("leave") == len({*range(first)})
            runtimes.close()


def test_kill_9_in_the_middle_of_moves_loses_and_doubles_nothing(tmp_path):
    """Lives that end anywhere; then each key has counted all of its events, in its own copy."""
    soak = os.environ.get("ATOLL_SOAK", "") not in {"", "0"}
    chance = random.Random(5)
    accepted = 0
    for life in range(60 if soak else 2):
        child = subprocess.Popen(
            [sys.executable, str(CHILD), str(tmp_path), str(life)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            text=True,
        )
        try:
            moves, wanted = 0, chance.randrange(1, 4)
            while moves < wanted:
                what, number = child.stdout.readline().split()
                moves += what == "copies"
                accepted += int(number) if what == "accepted" else 0
            for _ in range(chance.randrange(40)):  # on into the middle of the next one
                child.stdout.readline()
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
            child.stdout.close()
    with LocalCluster(tmp_path, engine="inline") as cluster:
        runtimes = Runtimes(cluster)
        runtimes.open()
        running = runtimes.running(runtimes.find("r")[0])
        found = counts(running)
        depot = running.app.depot(INTAKE)
        taken = depot.read(0, depot.start_offsets()[0], depot.end_offsets()[0])
        rows = zip(taken.column("kind").to_pylist(), taken.column("body").to_pylist(), strict=True)
        sent = Counter(msgspec.json.decode(body)["k"] for kind, body in rows if kind == "trigger")
        assert sent.total() >= accepted > 0
        assert found == sent
        runtimes.close()
