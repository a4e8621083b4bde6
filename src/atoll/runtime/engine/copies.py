"""The two functions of the step that runs a copy: for its records, and for its timers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from atoll.runtime.engine.columns import ROWS_LEAST, Columns, read_columns
from atoll.runtime.engine.intake import COPIES_MAX, FOR_ALL, FOR_ONE
from atoll.runtime.engine.keyed import owner_of
from atoll.runtime.engine.leaving import Leaving
from atoll.runtime.engine.memory import (
    Failure,
    Kept,
    Life,
    Memory,
    Offer,
    group_key,
    group_value,
)
from atoll.runtime.engine.packing import unpacked
from atoll.runtime.engine.passing import Arrivals, Origin, Passing, Wave
from atoll.runtime.engine.program import RuntimeProgram, program_of

Leaves = Iterator[dict[str, Any]]


@lru_cache(maxsize=64)
def loaded_program(name: str, given: bytes, copies: int) -> RuntimeProgram:
    """The program of a definition that was found right before; read once per process."""
    from atoll.runtime.definition.read import read_definition

    return program_of(name, read_definition(msgspec.json.decode(given)), copies)


def copy_functions(
    name: str, given: bytes, copies: int
) -> tuple[Callable[..., Leaves], Callable[..., Leaves]]:
    """What ``process`` calls for each row of a copy's records, and for its timers.

    Args:
        name: Of the runtime, for identities.
        given: Its definition as JSON.
        copies: How many copies there are.
    """

    def run_copy(row: Any, states: Any, statistics: Any, answers: Any, *timers: Any) -> Leaves:
        program = loaded_program(name, given, copies)
        memory = Memory(states[row.copy], statistics[row.copy], answers[row.copy])
        run = CopyRun(program, row.copy, memory)
        run.take(unpacked(row.records))
        return run.leave(*timers)

    def run_timers(timer: Any, states: Any, statistics: Any, answers: Any, timers: Any) -> Leaves:
        copy = timer.key
        program = loaded_program(name, given, copies)
        memory = Memory(states[copy], statistics[copy], answers[copy])
        run = CopyRun(program, copy, memory)
        if copy <= copies and memory.life().running:
            run.tick(timers.now_ms)
        return run.leave(timers)

    return run_copy, run_timers


class CopyRun:
    """One call of one copy.

    Args:
        program: The runtime.
        copy: Which copy, from 1.
        memory: What it keeps.
    """

    def __init__(self, program: RuntimeProgram, copy: int, memory: Memory) -> None:
        """Nothing is taken."""
        self.program = program
        self.copy = copy
        self.memory = memory
        self.leaving = Leaving(copy)
        self.passing = Passing(program, copy, memory, self.leaving)

    def take(self, records: pa.RecordBatch) -> None:
        """Take records in order; those for all copies divide the events into waves."""
        if self._take_columns(records):
            return
        columns = {
            name: records.column(name).to_pylist() for name in ("kind", "actor", "at", "id", "body")
        }
        wave = Wave()
        bodies = msgspec.json.decode("[" + ",".join(columns["body"]) + "]")
        rows = zip(*(columns[name] for name in ("kind", "actor", "at", "id")), bodies, strict=True)
        for kind, actor, at, name, body in rows:
            if kind in FOR_ALL or kind in FOR_ONE:
                self.passing.pass_wave(wave)
                wave = Wave()
                self._control(kind, actor, at, body)
                continue
            found = self.program.actors.get(actor)
            if found is None:  # the intake refuses it; a record of an older definition may remain
                self.memory.count("", "unknown", 1)
            elif kind == "answer":
                wave.add(Origin(at), found.targets, body)
                self.memory.count(actor, "answers", 1)
            else:
                wave.add(Origin(at, name), (actor,), body)
        self.passing.pass_wave(wave)

    def _take_columns(self, records: pa.RecordBatch) -> bool:
        """Take records as columns: many events, all for one actor that can; whether that is so."""
        if records.num_rows < ROWS_LEAST or self.program.one_by_one:
            return False
        kinds, actors = (pc.unique(records.column(name)).to_pylist() for name in ("kind", "actor"))
        actor = self.program.actors.get(actors[0])
        if kinds != ["trigger"] or len(actors) > 1 or actor is None or not actor.plain:
            return False
        batch = read_columns(records.column("body"))
        if batch is None:
            return False
        wave = Wave(Arrivals(records.column("at").to_pylist()))
        places = np.arange(records.num_rows, dtype=np.int64)
        wave.columns[actor.name] = [Columns(places, batch)]
        self.passing.pass_wave(wave)
        return True

    def tick(self, now_ms: int) -> None:
        """Do what is due by the clock, actor by actor, and pass on what that emits."""
        for name, actor in self.program.actors.items():
            if not actor.timed:
                continue
            wave = Wave()
            for instance, result in self.passing.instances[name].ticks(now_ms):
                self.passing.asked(actor, instance, now_ms, result.effects)
                for event in result.emitted:
                    wave.add(Origin(now_ms), actor.targets, event)
                    if actor.declared.log.outgoing:
                        self.leaving.log("outgoing", name, instance, 0, now_ms, event)
                self.memory.count(name, "emitted", len(result.emitted))
            self.passing.pass_wave(wave)

    def leave(self, timers: Any = None) -> Leaves:
        """Write back what is kept, set the timers, and give what leaves."""
        if timers is not None and self.memory.life().running:
            for instances in self.passing.instances.values():
                if instances.actor.timed:
                    for due in set(instances.due()):
                        timers.at(due)
        left = list(self.leaving.taken())
        for actor, reason in self.leaving.unwritable:
            self.memory.count(actor, "failure", 1)
            self.memory.fail(actor, Failure(reason, 0))
        self.memory.write()
        return iter(left)

    def _control(self, kind: str, actor: str, at: int, body: Any) -> None:
        """Take a record that is no event."""
        match kind:
            case "offer":
                self._offered(actor, at, msgspec.convert(body, Offer))
            case "drop":
                self.memory.drop()
            case "leave":
                self._let_go()
            case "take":
                self._take_over(actor, body)
            case _:
                self._live(kind, at, body)

    def _offered(self, actor: str, at: int, offer: Offer) -> None:
        """Let all instances go on from a snapshot."""
        if self.memory.take_offer(actor, offer):
            self.memory.count(actor, "snapshots", 1)
        if self.copy == 1:
            told = {"number": offer.number, "by": offer.by, "events": offer.events}
            self.leaving.offered(actor, offer.number, at, told)

    def _live(self, kind: str, at: int, body: Any) -> None:
        """Start or stop."""
        life, revision = self.memory.life(), body["revision"]
        if revision <= life.revision:
            return
        self.memory.live(Life(kind == "start", revision, at))
        for name, batch in self.program.batch.items() if kind == "start" else ():
            self.leaving.registered(name, batch.declared.copies, self.program.copies, at)
        if kind == "start" and (not life.running or self.copy >= body.get("from", COPIES_MAX)):
            for instances in self.passing.instances.values():
                if instances.actor.starts or instances.actor.timed:
                    instances.started(at)

    def _let_go(self) -> None:
        """Forget the groups that another copy owns; they come to it as records behind this one."""
        for name, actor in self.program.actors.items():
            for instance, key in list(self.memory.keys(name)) if actor.stateful else ():
                group = group_value(key)
                if group is not None and owner_of(group, self.program.copies) != self.copy:
                    self.memory.forget(name, instance, key)

    def _take_over(self, actor: str, body: Any) -> None:
        """Keep groups that another copy let go.

        One that is here already stays as it is: a move is refused where a group lies in two copies.
        """
        instances = self.passing.instances[actor]
        for group, data in body["groups"].items():
            key = group_key(group)
            if self.memory.kept(actor, body["instance"], key) is None:
                instances.keep(body["instance"], key, msgspec.json.decode(data, type=Kept))
