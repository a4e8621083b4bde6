"""A state step as tasks run it: everything that a packing task and an actor ask of it.

A declared step makes one when its module is deployed (``bind``), and it is shipped with the
program. A packing task asks which columns it needs and gives it rows through its packer; an actor
asks which vnodes to open, and runs it. What runs is imported when it is first needed.

So a new step is a folder: nothing here, and nobody who asks, knows which steps there are.
"""

from __future__ import annotations

import enum
from abc import ABC
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from atoll.errors import AtollError
from atoll.microbatch.accounts.entries import EndChart, Packs

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.engine.exchange.tally import PackCounts
    from atoll.microbatch.commits.objects import Ranges
    from atoll.placement.mapping import Mapping as OwnerMapping
    from atoll.pstate.converter import Converter
    from atoll.pstate.spec import PStateSpec
    from atoll.pstate.store.vnode_writer import VnodeWriter
    from atoll.pstate.view import PStateView
    from atoll.topology.operator import Makes
    from atoll.topology.times import Clock, Times
    from atoll.topology.usercode import Rejects


class Phase(enum.IntEnum):
    """When an actor runs a step."""

    MIRRORS = 0
    """Before a store is open for writing: it reads what other topologies wrote.

    Two topologies that read each other must not wait for each other's stores.
    """
    LOOK_UP = 1
    """It reads what was there before the others write."""
    RUN = 2
    CHANGES = 3
    """It reads what the others wrote."""
    HAND_ON = 4
    """Once all stores are committed and closed."""


class Packer(Protocol):
    """Collects the rows of one step in one task, and packs them for actors."""

    counts: PackCounts

    def add(self, batch: pa.RecordBatch) -> None:
        """Take one batch; batches come in row order."""

    def finish(self, only: Collection[int] | None = None) -> Iterator[tuple[int, pa.Buffer]]:
        """The blobs, by unit: of all units, or of those whose actors pack for themselves."""


@dataclass(frozen=True)
class Packing:
    """What a packing task tells the steps that it packs rows for.

    Attributes:
        units: Whose actors there are.
        sequence: The task's number: rows that any actor may take go to them in turn.
        mapping: Which unit owns each vnode of a PState.
        tracked: The operators whose rows say which record they are of.
        ranges: What the microbatch reads.
        careful: Whether the attempt finds the rows that cannot be processed.
        rejects: Where a careful attempt sends those; None in others.
        combine_rows_max: How many rows to collect before they are folded; all when None.
    """

    units: tuple[int, ...]
    sequence: int
    mapping: Callable[[str], OwnerMapping]
    tracked: Collection[int]
    ranges: Ranges
    careful: bool = False
    rejects: Rejects | None = None
    combine_rows_max: int | None = None

    @property
    def turn(self) -> int:
        """The unit whose turn it is to take what any may."""
        return self.units[self.sequence % len(self.units)]


class Opening(Protocol):
    """What an actor knows before its stores are open."""

    def owned(self, pstate: str) -> Collection[int]:
        """The vnodes of a PState that are its own."""

    def due(self, pstate: str) -> set[int]:
        """Those of them in which something is due."""

    def changed(self, pstate: str) -> Collection[int]:
        """The vnodes that earlier jobs of the attempt changed."""


class Work(Protocol):
    """What an actor offers the steps that it runs."""

    id: int
    """The microbatch's."""
    times: Times
    pstates: Mapping[str, PStateSpec]
    """Those that the topology writes."""
    rejects: Rejects | None
    """Where rows go that a user's function refuses; None: they fail the attempt."""
    refused: Rejects | None
    """Where a careful attempt sends rows that cannot be processed; None in others."""
    flush_entries_max: Mapping[str, int]
    agenda: dict[str, dict[int, int]]
    """For each PState of timed steps and vnode when something is due next."""
    watermarks: dict[str, dict[str, int]]
    """How far each watermark is by these rows alone, by depot partition."""
    dropped: dict[str, int]
    """How many rows lie in no open window and were dropped, by step."""

    def tables(self, tag: int) -> list[pa.Table]:
        """The rows that came for a step, in the order of the tasks that packed them."""

    def parts(self, tag: int) -> Sequence[tuple[int, pa.Table]]:
        """The same, each with its task's number."""

    def writer(self, pstate: str, vnode: int) -> VnodeWriter:
        """The open store of a vnode."""

    def writers(self, pstate: str) -> dict[int, VnodeWriter]:
        """All open stores of a PState, by vnode in order."""

    def converter(self, pstate: str, vnode: int) -> Converter | None:
        """What makes values before the microbatch those of the present schema; None: they are."""

    def view(self, pstate: str) -> PStateView:
        """A PState as of the commit before, also one that another topology writes."""

    def due(self, pstate: str) -> set[int]:
        """The vnodes of its own in which something is due."""

    def is_first(self) -> bool:
        """Whether what has no key belongs to this actor."""

    def is_tracked(self, tag: int) -> bool:
        """Whether rows that a step emits say which record they are of."""

    def count(self, tag: int, rows: int) -> None:
        """Tell how many rows a step took that counts them itself."""

    def emit(self, tag: int, rows: pa.Table, sequence: int | None = None) -> None:
        """Rows for later steps; with a number they are a task's, and stay apart."""

    def append(
        self, tag: int, depot: str, rows: pa.Table, sequence: int, kind: str = "rows"
    ) -> None:
        """Rows for a depot or a sink, of a kind as in a commit."""


@dataclass(frozen=True)
class BoundStep(ABC):
    """A state step as the tasks run it. ``tag`` is the operator's number in its topology."""

    tag: int
    title: str
    place: str

    phase: ClassVar[Phase] = Phase.RUN
    packs: ClassVar[Packs] = "each"
    """Whether actors get the rows, or what they were ``folded`` to, or what is ``told`` of them."""
    gives: ClassVar[Makes] = "any"
    """How many rows come out for each that went in."""
    counts_itself: ClassVar[bool] = False
    """Whether it tells how many rows it took; else it takes all that come, or none."""
    keyed: ClassVar[bool] = True
    """Whether its rows go to the actors of their vnodes, and say these."""

    @property
    def label(self) -> str:
        """What accounts call it."""
        return f"{self.title} ({self.place})"

    @property
    def when(self) -> Phase:
        """The phase in which an actor runs it."""
        return self.phase

    @property
    def agenda(self) -> tuple[str, Clock] | None:
        """The PState in which it keeps what is due later, and what time that goes by."""
        return None

    @property
    def emits(self) -> pa.Schema | None:
        """The columns of the rows that it emits; None when it emits none."""
        return None

    @property
    def needs(self) -> Collection[str]:
        """The columns of its rows that it uses, so that no others are moved to it."""
        return ()

    @property
    def runs_without_rows(self) -> bool:
        """Whether it has something to do although no row came."""
        return False

    def has_work(self, changed: Mapping[str, Collection[int]]) -> bool:
        """Whether it has, by what earlier jobs of the attempt changed."""
        return False

    def mapping(self, packing: Packing) -> OwnerMapping:
        """Which unit takes the rows of each vnode."""
        raise AssertionError(f"rows of {self.label} go to any actor")

    def packer(self, packing: Packing) -> Packer | None:
        """What collects its rows in a task; None when it takes none."""
        return None

    def opens(self, vnodes: set[int], opening: Opening) -> dict[str, Collection[int]]:
        """The vnodes to open for it, by PState; ``vnodes`` are those of the rows that came."""
        return {}

    def chart(self, pstates: Mapping[str, PStateSpec]) -> EndChart:
        """What it is known to do with rows, for who audits an attempt."""
        return EndChart(self.tag, self.label, self.packs, gives=self.gives)

    def run(self, work: Work, rows: list[pa.Table]) -> None:
        """Do what the step does.

        Raises:
            AtollError: When the user's code, the state or a row is at fault.
        """
        raise NotImplementedError

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Let errors raised inside name this step, where they name none yet."""
        try:
            yield
        except AtollError as error:
            error.context.setdefault("operator", self.title)
            error.context.setdefault("declared", self.place)
            raise
