"""Rows that reading tasks pack before an attempt asks for them.

While a microbatch commits, the tasks may read and pack what the next one is expected to read. No
plan stands for that yet, so it is a guess. What was packed is used by an attempt that asks for
exactly the same: the same program on the same placement, the same blocks in the same shares, under
the same id and timeline, with the same options and, as far as a step looks at it, at the same
time. An attempt that asks for anything else drops it and reads for itself. It is used once: an
attempt made again reads again.

What was packed has no attempt. The waybills, which name one, are made when it is used; so what an
actor is given says by itself which attempt it is of, and is counted as ever.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from atoll.engine.exchange.blobs import carried
from atoll.engine.exchange.feeding import fed
from atoll.topology.times import Times

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.engine.exchange.waybills import Packers
    from atoll.engine.program import JobSpec, Program
    from atoll.topology.operator import BatchOperator

_TOPOLOGIES_MAX = 4
"""Topologies that share a process keep their rows there; those of the oldest are dropped."""

Packed = tuple[int, int, "pa.Buffer | str"]
"""Unit, tag, and the rows or their file."""


@dataclass(frozen=True)
class Share:
    """What one reading task packed before an attempt asked for it.

    Attributes:
        packers: Its packers, which know what they counted.
        blobs: The rows, without the waybills.
        only: The units whose actors pack for themselves; None when it is for all units.
    """

    packers: Packers
    blobs: list[Packed]
    only: tuple[int, ...] | None = None

    def parcels(self, spec: JobSpec) -> list[Packed]:
        """The rows and the waybills, for the actors of an attempt."""
        return [*self.blobs, *self.packers.waybills(spec, self.only)]


Shares = Mapping[int, Share]
"""By the number of the reading task."""


def share_ahead(program: Program, spec: JobSpec, index: int, *, parks: bool = False) -> Share:
    """What one reading task packs; ``parks`` large blobs, as they travel between processes."""
    packers = fed(program, spec, [index], index)
    blobs: list[Packed] = [
        (unit, tag, carried(program, spec, rows) if parks else rows)
        for unit, tag, rows in packers.packed()
    ]
    return Share(packers, blobs)


def alone_ahead(program: Program, spec: JobSpec, units: Collection[int]) -> Share:
    """What the actors of a process pack for themselves of all that is read."""
    packers = fed(program, spec, range(len(spec.splits)))
    only = tuple(units)
    return Share(packers, list(packers.packed(only)), only)


def is_foreseeable(program: Program, spec: JobSpec) -> bool:
    """Whether another microbatch at a later time would pack the same of the same records."""
    later = replace(spec.times, now_ms=spec.times.now_ms + 1)
    return _seen(program, spec, spec.times) == _seen(program, spec, later)


class ReadAhead:
    """What the tasks of one process have packed before an attempt asked for it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()

    def keep(self, program: Program, spec: JobSpec, shares: Shares) -> None:
        """Keep what was packed, in the place of what the topology had before."""
        name = (program.module, program.topology)
        self._kept[name] = _Kept(program, _reading(program, spec), shares)
        self._kept.move_to_end(name)
        while len(self._kept) > _TOPOLOGIES_MAX:
            self._kept.popitem(last=False)

    def take(self, program: Program, spec: JobSpec, only: tuple[int, ...] | None = None) -> Shares:
        """What was packed of exactly what an attempt reads; nothing is kept any more.

        Args:
            program: The topology.
            spec: The job.
            only: The units whose actors pack for themselves; None when tasks pack for all.
        """
        kept = self._kept.pop((program.module, program.topology), None)
        if kept is None or kept.program is not program:
            return {}
        if any(share.only != only for share in kept.shares.values()):
            return {}
        return kept.shares if kept.reading == _reading(program, spec) else {}


@dataclass(frozen=True)
class _Kept:
    program: Program
    reading: tuple[JobSpec, Any]
    shares: Shares


def _reading(program: Program, spec: JobSpec) -> tuple[JobSpec, Any]:
    """All that decides what reading tasks pack: the job, but for what only actors look at.

    It leaves out by name, so that what a job says some day counts until somebody has thought.
    """
    same = replace(
        spec,
        epoch=0,
        version=0,
        times=Times(),
        checkpoint_vnodes={},
        flush_entries_max={},
        due={},
        migrate_vnodes={},
        mirrors={},
    )
    return same, _seen(program, spec, spec.times)


def _seen(program: Program, spec: JobSpec, times: Times) -> list[dict[str, Any]]:
    """What the steps of reading tasks see of the time: the fields that it changes, by step."""
    chains = program.jobs[spec.job].chains
    return [_changed(step, step.at(times)) for chain in chains for step in chain.steps]


def _changed(step: BatchOperator, now: BatchOperator) -> dict[str, Any]:
    if now is step:
        return {}
    values = ((each.name, getattr(now, each.name)) for each in fields(step))
    return {name: value for name, value in values if value is not getattr(step, name)}
