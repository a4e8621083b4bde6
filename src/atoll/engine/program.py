"""A topology as tasks need it: bound to schemas, codecs and folders, ready to be shipped.

A :class:`Program` is made once per deployment and says everything that does not change from one
microbatch to the next; a :class:`JobSpec` says the rest. Both are pickled, the program by value
with the user's functions in it.
"""

from __future__ import annotations

import functools
from collections import abc
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from atoll.placement.mapping import Mapping
from atoll.placement.placement import NOWHERE, Placement
from atoll.storage.folders import RootFolders
from atoll.storage.places import Place
from atoll.topology.times import Clock, Times

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.depot.logs.followed import LogReader
    from atoll.depot.migration import DepotMigration
    from atoll.depot.segments.blocks import BlockRef
    from atoll.engine.step import BoundStep
    from atoll.microbatch.commits.objects import Ranges
    from atoll.pstate.spec import PStateSpec
    from atoll.pstate.store.history import FileRef, Prior
    from atoll.topology.operator import BatchOperator


@dataclass(frozen=True)
class TaskChain:
    """Steps of tasks from an origin (an operator's number) to the state steps that they feed."""

    origin: int
    origin_schema: pa.Schema
    steps: tuple[BatchOperator, ...]
    ends: tuple[int, ...]
    """The tags of the state steps that its rows are packed for."""
    numbers: tuple[int, ...] = ()
    """The steps' numbers in the topology."""
    repeated: int = 0
    """How many of its first steps run over the same rows elsewhere, where they are reported."""
    reads: bool = True
    """Whether the task reads the origin's rows; else Spark brings them, from column steps."""


@dataclass(frozen=True)
class JobProgram:
    """One Spark job of the topology."""

    index: int
    chains: tuple[TaskChain, ...]
    steps: tuple[BoundStep, ...]
    """The state steps, in declared order."""
    reporting: frozenset[int] = frozenset()
    """The Python steps before column steps that report their rejected rows in this job."""
    fires: bool = False
    """Whether a step of it makes rows although it reads none, so that it always runs."""

    def step(self, tag: int) -> BoundStep:
        """The state step of that tag."""
        return next(each for each in self.steps if each.tag == tag)

    def clocks(self) -> dict[str, Clock]:
        """For each PState in which a step keeps what is due later what time it goes by."""
        return dict(each.agenda for each in self.steps if each.agenda is not None)

    def columns_needed(self, chains: abc.Iterable[TaskChain]) -> frozenset[str] | None:
        """Which columns of their origin's rows some chains use; None when they may use any.

        A chain with steps may: a step of the user's is handed whole rows.
        """
        names: set[str] = set()
        for chain in chains:
            if chain.steps:
                return None
            for tag in chain.ends:
                names.update(self.step(tag).needs)
        return frozenset(names)

    def emitting(self) -> dict[int, pa.Schema]:
        """The schemas of the rows that its state steps emit, by tag."""
        return {each.tag: each.emits for each in self.steps if each.emits is not None}


@dataclass(frozen=True)
class Program:
    """Everything about a topology that stays the same from one microbatch to the next."""

    module: str
    topology: str
    folders: RootFolders
    pstates: dict[str, PStateSpec]
    jobs: tuple[JobProgram, ...]
    depots: dict[int, tuple[str, pa.Schema]]
    """For each source operator its depot's name and schema."""
    placement: Placement = NOWHERE
    """Which unit owns each vnode of each PState."""
    tracked: frozenset[int] = frozenset()
    """The operators whose rows say which record they came from: a user's function may see them."""
    mirrors: dict[str, PStateSpec] = field(default_factory=dict)
    """The PStates that it reads and another topology writes; those of other modules by
    ``module.name``."""
    depot_migrations: dict[str, tuple[DepotMigration, ...]] = field(default_factory=dict)
    """What older records of its depots go through, by the depot's name."""
    logs: dict[str, LogReader] = field(default_factory=dict)
    """What reads those of its depots that are logs which others keep, by the depot's name."""
    dead_letter: str | None = None
    """The depot for rows on which a user's function raises; None: they fail the attempt."""

    @property
    def root(self) -> Place:
        """The place of all that lasts."""
        return self.folders.root

    @property
    def local(self) -> Path:
        """The folder of the vnode stores, on the host that asks."""
        return self.folders.local

    @functools.cached_property
    def units(self) -> tuple[int, ...]:
        """The units that run its actors; Spark's partition ``i`` of actors is unit ``units[i]``."""
        return self.placement.units

    def tracking(self, operators: abc.Iterable[int]) -> Program:
        """The same program, of which the rows of these operators say which record they are of."""
        return replace(self, tracked=frozenset(operators))

    def placed(self, placement: Placement) -> Program:
        """The same program on a placement."""
        return replace(self, placement=placement)

    def clocks(self) -> dict[str, Clock]:
        """For each PState of a timed step what time it goes by."""
        return {name: clock for job in self.jobs for name, clock in job.clocks().items()}

    def mapping(self, pstate: str) -> Mapping:
        """Which unit takes the rows for each vnode of a PState; of a mirror any may."""
        mirror = self.mirrors.get(pstate)
        if mirror is None:
            return self.placement.mappings[pstate]
        return _even(mirror.vnode_count, self.units)

    def owned(self, pstate: str, unit: int) -> tuple[int, ...]:
        """The vnodes of a PState that a unit owns.

        One that no step of the topology touches any more is part of no fragment; it is divided
        evenly among the units.
        """
        mapping = self.placement.mappings.get(pstate)
        if mapping is None:
            mapping = _even(self.pstates[pstate].vnode_count, self.units)
        return mapping.vnodes(unit)


def _even(vnode_count: int, units: tuple[int, ...]) -> Mapping:
    """A mapping that nobody keeps: the same whenever it is asked for."""
    return Mapping.even(vnode_count, units[:vnode_count])


@dataclass(frozen=True)
class Split:
    """A run of rows of one origin, to be read in order by one task."""

    origin: int
    blocks: tuple[BlockRef, ...] = ()
    files: tuple[FileRef, ...] = ()
    first: int = 0
    """The number of its first row among the microbatch's records; not for files."""
    rows_max: int | None = None
    """How many rows to hand on at once at most; blocks only."""
    tick: tuple[int, int] | None = None
    """A tick's number and its time in milliseconds, instead of blocks and files."""


@dataclass(frozen=True)
class JobSpec:
    """One job of one attempt."""

    epoch: int
    id: int
    version: int
    job: int
    committed: int
    """The commit that this microbatch follows."""
    splits: tuple[tuple[Split, ...], ...]
    """For each reading task its splits; the tasks' order is the rows' order."""
    priors: dict[str, tuple[Prior, ...]] = field(default_factory=dict)
    """For each PState what earlier jobs of this attempt wrote."""
    prior_vnodes: dict[str, frozenset[int]] = field(default_factory=dict)
    """For each PState the vnodes that earlier jobs of this attempt changed."""
    checkpoint_vnodes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    timeline: int = 0
    """The timeline that the microbatch belongs to."""
    ranges: Ranges = field(default_factory=dict)
    """What the microbatch reads, to say where a row came from."""
    flush_entries_max: dict[str, int] = field(default_factory=dict)
    """For each PState how many entries that a function wrote may wait for the store."""
    combine_rows_max: int | None = None
    """How many rows a task collects before it folds them."""
    times: Times = field(default_factory=Times)
    """What time it is: fixed by the plan."""
    due: dict[str, frozenset[int]] = field(default_factory=dict)
    """For each private PState of a timed step the vnodes in which something is due."""
    migrate_vnodes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """For each PState the vnodes to rewrite although no row comes for them."""
    migrated_vnodes: dict[str, frozenset[int]] = field(default_factory=dict)
    """For each PState the vnodes that earlier jobs of this attempt rewrote."""
    mirrors: dict[str, int] = field(default_factory=dict)
    """For each other topology (``module/topology``) the commit as of which it is read."""
    careful: bool = False
    """Whether to find the rows that cannot be processed, which an attempt before met."""
