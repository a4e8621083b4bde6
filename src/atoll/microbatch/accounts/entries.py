"""What tasks count of the rows that they hand on: the entries of a microbatch's accounts.

Every hand-over is counted at both ends, by different code: what was planned and what was read,
what left one step and what reached the next, what was packed for an actor and what came out of
the blobs there, what a step took and what it left. The tasks count and decide nothing; whether
it adds up is decided from these entries alone (:mod:`atoll.microbatch.accounts.audit`).

Steps are known by their numbers in the topology, a state step's tag being one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from atoll.topology.operator import Makes


REJECTS = -2
"""The tag of rejected rows."""

PART_TASKS = 1 << 20
"""How far the numbers of two packing tasks are apart that belong to different parts of a job.

The first part reads, each other one packs what comes out of one column step. Spark may run tasks
of several parts as one, under one number of its own.
"""

STEP_TASKS = 1 << 40
"""Task numbers from here on are of tasks that report rejected rows alone, and pack none."""


# What tasks tell ----------------------------------------------------------------------------------


class RowsRead(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Rows that a task read: of a depot partition by offsets, of a staged file by positions."""

    origin: int
    part: str
    """The depot partition's number, or the file's name."""
    start: int
    end: int
    absent: int = 0
    """How many of these offsets have no record: only those of a log that others keep."""

    @property
    def rows(self) -> int:
        """How many rows went on."""
        return self.end - self.start - self.absent


class ChainRows(msgspec.Struct, frozen=True, array_like=True):
    """How many rows passed a chain of steps."""

    chain: int
    """Which of the job's."""
    rows: list[int]
    """How many went in, and how many came out of each step."""
    aside: list[int]
    """How many each step rejected."""


class PackedRows(msgspec.Struct, frozen=True, array_like=True):
    """What a packer made of the rows for one state step."""

    tag: int
    taken: int
    left_out: int
    """Rows that add nothing: a key of theirs is null that none can be."""
    aside: int
    """Rows that it rejected."""
    made: int
    """What is left when rows of one key were combined."""
    packed: dict[int, int]
    """The same by the unit that they are for."""


class TaskAccounts(msgspec.Struct, frozen=True, array_like=True):
    """All that one packing task counted."""

    task: int
    reads: list[RowsRead] = []
    chains: list[ChainRows] = []
    packed: list[PackedRows] = []


class Parcel(msgspec.Struct, frozen=True, array_like=True, order=True):
    """One blob, as whoever packed it and whoever got it say what it is."""

    task: int
    tag: int
    size: int
    crc: int


class Waybill(msgspec.Struct, frozen=True, array_like=True):
    """What one task packed for one unit in an attempt's job; it travels beside the blobs."""

    attempt: tuple[int, int, int, int]
    """Epoch, id, version, job."""
    task: int
    alone: bool
    """Whether the actor reads for itself, and nobody packs for it."""
    unit: int
    parcels: list[Parcel]
    rows: dict[int, int]
    """How many rows the blobs hold, by tag."""
    told: TaskAccounts | None = None
    """What the task counted altogether: told to one actor."""
    step_ms: dict[str, float] = {}
    """How long the task was at each step, by name: told to one actor."""


class ActorAccounts(msgspec.Struct, frozen=True, array_like=True):
    """All that one actor counted, and what the packing tasks told it."""

    alone: bool
    tasks: list[int]
    """The packing tasks whose waybills came."""
    told: list[TaskAccounts]
    received: dict[int, int]
    """How many rows came out of the blobs, by tag."""
    executed: dict[int, int]
    """How many rows the steps took, by tag."""
    emitted: dict[int, int]
    """How many rows the steps gave, by tag."""
    aside: dict[int, int] = {}
    """How many rows the steps rejected, by tag."""
    changed: dict[str, int] = {}
    """How many entries the stores' transactions changed, by PState."""
    step_ms: dict[str, float] = {}
    """How long it was at each step, by name, and the packing tasks that told it."""


class StepRows(msgspec.Struct, frozen=True, array_like=True):
    """What a commit says of one step's rows."""

    step: str
    """Its word and where it was declared."""
    rows: int
    """How many it took."""
    out: int
    """How many it made of them, or handed on."""
    dropped: int = 0
    """How many it left out by its own doing, where it makes at most one row of each."""
    rejected: int = 0


# What is known before -----------------------------------------------------------------------------


@dataclass(frozen=True)
class StepChart:
    """A step of a chain; rows that it rejects count for none."""

    number: int
    name: str
    makes: Makes


@dataclass(frozen=True)
class ChainChart:
    """A chain of a job."""

    origin: int
    name: str
    reads: bool
    """Whether its rows are read by the packing tasks; else they come from column steps."""
    steps: tuple[StepChart, ...]
    ends: tuple[int, ...]
    repeated: int = 0
    """How many of its first steps have their rejected rows reported elsewhere."""


Packs = Literal["each", "folded", "told"]


@dataclass(frozen=True)
class EndChart:
    """A state step of a job: where the rows of its chains come to."""

    tag: int
    name: str
    packs: Packs
    """Whether it gets the rows, or what they were combined to, or only what is to tell of them."""
    copies: int = 1
    """To how many vnodes each row goes."""
    gives: Makes = "any"
    """What comes out for a row."""
    depot: str | None = None
    """Where the rows go when it appends them."""
    counts: str | None = None
    """What the number of its rows is called, where that is what it tells."""


@dataclass(frozen=True)
class JobChart:
    """What a job is known to do with rows."""

    index: int
    origins: dict[int, str | None]
    """What it reads: the depot or tick; None for an earlier step's staged rows."""
    chains: tuple[ChainChart, ...]
    ends: tuple[EndChart, ...]

    @property
    def counted(self) -> set[int]:
        """The origins that packing tasks read; the others are read for column steps alone."""
        return {chain.origin for chain in self.chains if chain.reads}
