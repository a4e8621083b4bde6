"""Compiles a definition to a module: see the package for how its parts fit together."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from atoll.depot.start import beginning
from atoll.module import Module
from atoll.runtime.definition.structs import Definition
from atoll.runtime.engine.copies import copy_functions
from atoll.runtime.engine.intake import INTAKE_DDL, vnode_of_copy
from atoll.runtime.engine.leaving import LEAVING_DDL
from atoll.runtime.engine.packing import PACKED_DDL, packer
from atoll.runtime.engine.program import RuntimeProgram, program_of
from atoll.runtime.snapshots.counting import every_ms
from atoll.runtime.snapshots.step import calculator_function
from atoll.schema import Map

if TYPE_CHECKING:
    from atoll.module import Microbatch
    from atoll.stream.stream import Stream


TOPOLOGY, INTAKE, EVENTS_LOG, EFFECTS = "run", "intake", "events", "effects"

CALCULATOR = "calculator"
"""The PState of the batch state calculator."""

_TICK_MS_LEAST, _TICK_MS_MOST = 100, 1_000
_INTAKE_DAYS = 1
_LOG_DAYS = 7
_DAY_SECONDS = 86_400

_EVENTS_DDL = (
    "direction string, actor string, copy long, instance long, number long, at long, event string"
)
_EFFECTS_DDL = "actor string, copy long, instance long, at long, key string, effect string"

_COUNTING_DDL = "kind string, actor string, number long, at long, body string"
_COUNTING_COLUMNS = {
    "kind": "kind",
    "actor": "actor",
    "number": "number",
    "at": "at",
    "body": "body",
}
_EVENTS_COLUMNS = {
    "direction": "kind",
    "actor": "actor",
    "copy": "copy",
    "instance": "instance",
    "number": "number",
    "at": "at",
    "event": "body",
}
_EFFECTS_COLUMNS = {
    "actor": "actor",
    "copy": "copy",
    "instance": "instance",
    "at": "at",
    "key": "key",
    "effect": "body",
}


def module_of(module_name: str, name: str, definition: Definition, copies: int) -> Module:
    """The module that a runtime is.

    Args:
        module_name: What the module is called.
        name: What identities of the runtime's events begin with.
        definition: What was declared.
        copies: How many copies it has now.
    """
    program = program_of(name, definition, copies)
    given = msgspec.json.encode(definition.given)
    module = Module(module_name)
    intake = module.depot(
        INTAKE, INTAKE_DDL, is_global=True, retain_seconds=_INTAKE_DAYS * _DAY_SECONDS
    )
    topology = module.microbatch(TOPOLOGY)
    keyed: dict[str, Any] = {"partition_by": vnode_of_copy}
    states = topology.pstate("states", Map(int, Map(str, Map(int, Map(str, str)))), **keyed)
    counts = topology.pstate("statistics", Map(int, Map(str, Map(str, int))), **keyed)
    answers = topology.pstate("answers", Map(int, Map(str, str)), **keyed)
    run_copy, run_timers = copy_functions(name, given, copies)
    leaves = program.logs or program.effects
    packed = topology.source(intake, start_from=beginning()).map_batches(
        packer(copies), emits=PACKED_DDL
    )
    left = packed.process(
        run_copy,
        key="copy",
        states=[states, counts, answers],
        emits=LEAVING_DDL if leaves else None,
        on_timer=run_timers if program.timed else None,
        name="clock" if program.timed else None,
    )
    if leaves:
        _leave(module, topology, program, left, given)
    return module


def _count(
    module: Module, topology: Microbatch, program: RuntimeProgram, left: Stream, given: bytes
) -> None:
    """What the copies tell the batch state calculator, and the clock."""
    kept = topology.pstate(CALCULATOR, Map(str, str), is_global=True)
    rows = left.map_batches(
        _only(("register", "count", "offer"), _COUNTING_COLUMNS), emits=_COUNTING_DDL
    )
    every = [every_ms(each.batch) for each in program.batch.values() if each.batch is not None]
    if any(every):
        least = max(min(each for each in every if each), _TICK_MS_LEAST)
        tick = module.tick("clock", dt.timedelta(milliseconds=min(least, _TICK_MS_MOST)))
        rows = rows.union(topology.source(tick).map_batches(_ticks, emits=_COUNTING_DDL))
    rows.process(calculator_function(program.name, given, program.copies), states=[kept])


def _ticks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Ticks as rows for the calculator: for every actor."""
    for batch in batches:
        at = pc.cast(pc.cast(batch.column("at"), pa.timestamp("ms", "UTC"), safe=False), pa.int64())
        columns = {
            "kind": pa.array(["tick"] * batch.num_rows),
            "actor": pa.array([""] * batch.num_rows),
            "number": batch.column("tick"),
            "at": at,
            "body": pa.array(["{}"] * batch.num_rows),
        }
        yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _leave(
    module: Module, topology: Microbatch, program: RuntimeProgram, left: Stream, given: bytes
) -> None:
    """What leaves the copies goes to the depots, and to the batch state calculator."""
    if program.logs:
        log = module.depot(
            EVENTS_LOG, _EVENTS_DDL, is_global=True, retain_seconds=_LOG_DAYS * _DAY_SECONDS
        )
        chosen = _only(("incoming", "outgoing"), _EVENTS_COLUMNS)
        left.map_batches(chosen, emits=_EVENTS_DDL).append_to(log)
    if program.batch:
        _count(module, topology, program, left, given)
    if program.effects:
        effects = module.depot(
            EFFECTS, _EFFECTS_DDL, is_global=True, retain_seconds=_LOG_DAYS * _DAY_SECONDS
        )
        chosen = _only(("effect",), _EFFECTS_COLUMNS)
        left.map_batches(chosen, emits=_EFFECTS_DDL).append_to(effects)


def _only(
    kinds: tuple[str, ...], columns: dict[str, str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A batch step: the rows of some kinds, and some columns under other names."""

    def only(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wanted = pa.array(kinds)
        for batch in batches:
            rows = batch.filter(pc.is_in(batch.column("kind"), wanted))
            yield pa.RecordBatch.from_arrays(
                [rows.column(source) for source in columns.values()], names=list(columns)
            )

    return only
