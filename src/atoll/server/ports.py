"""What the service needs of a deployed module, as protocols.

The cluster's ``App`` satisfies them; the tests' small one does too, around real depots. Everything
here may be called from any thread, and may block: routes call it off the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from atoll.codec.records.codec import Checked, RecordCodec, Refusal
from atoll.depot import Producer
from atoll.errors import AtollError
from atoll.path import Path
from atoll.placement.info import ClusterInfo
from atoll.placement.reschedule.change import Change
from atoll.placement.reschedule.plan import Plan
from atoll.schema import Node
from atoll.server.reading_ports import QueriesPort, SubscriptionPort

__all__ = [
    "AppPort",
    "AppendedPort",
    "ClusterPort",
    "Deployer",
    "DepotPort",
    "DepotSpecPort",
    "OnInvalid",
    "OptionsPort",
    "PStatePort",
    "PStateSpecPort",
    "TopologyPort",
]


OnInvalid = Literal["none", "keep"]
"""What is kept of a call in which a record is refused: nothing, or the good ones."""


class AppendedPort(Protocol):
    """What one append did."""

    @property
    def count(self) -> int:
        """The records kept."""
        ...

    @property
    def offsets(self) -> Mapping[int, tuple[int, int]]:
        """Per depot partition the first offset given and the one after the last."""
        ...

    @property
    def refusals(self) -> Sequence[Refusal]:
        """The first refused records."""
        ...

    @property
    def refused_count(self) -> int:
        """All refused records."""
        ...

    @property
    def duplicate(self) -> bool:
        """Whether the producer's append was stored before."""
        ...


class DepotSpecPort(Protocol):
    """What a depot was declared as."""

    @property
    def name(self) -> str:
        """Its name within the module."""
        ...

    @property
    def schema(self) -> Any:
        """Its records' Arrow schema."""
        ...

    @property
    def partitions(self) -> int:
        """How many depot partitions it has."""
        ...


class DepotPort(Protocol):
    """A depot to append to."""

    @property
    def spec(self) -> DepotSpecPort:
        """Its declaration."""
        ...

    def codec_for(self, producer: Producer | None) -> RecordCodec:
        """What checks the records of an append."""
        ...

    def append_stream(
        self,
        batches: Iterable[Checked],
        on_invalid: OnInvalid = "none",
        *,
        producer: Producer | None = None,
    ) -> AppendedPort:
        """Append all batches as one call, in bounded memory.

        Raises:
            RecordsRefusedError: With ``on_invalid="none"``, when any record was refused; nothing
                of the call is kept then.
            ProducerError: When the producer's number does not fit its earlier ones.
        """
        ...

    def start_offsets(self) -> Sequence[int]:
        """Per depot partition the first offset still kept."""
        ...

    def end_offsets(self) -> Sequence[int]:
        """Per depot partition the offset after the last record."""
        ...


class PStateSpecPort(Protocol):
    """What a PState was declared as."""

    @property
    def node(self) -> Node:
        """Its schema."""
        ...

    @property
    def topology(self) -> str:
        """The one topology that writes it."""
        ...

    @property
    def vnode_count(self) -> int:
        """Into how many vnodes it is divided."""
        ...


class PStatePort(Protocol):
    """A PState to read: always its external view, the state at the last commit."""

    @property
    def spec(self) -> PStateSpecPort:
        """Its declaration."""
        ...

    def as_of(self, microbatch: int) -> PStatePort:
        """The PState as it was after an earlier microbatch.

        Raises:
            UsageError: When that cannot be read (any more, or yet).
        """
        ...

    def select(self, path: Path) -> list[Any]:
        """Every value that the path navigates to.

        Raises:
            PathError: When the path does not fit the schema.
        """
        ...

    def select_one(self, path: Path) -> Any:
        """The one value that the path navigates to.

        Raises:
            PathError: When it navigates to none or to several.
        """
        ...


class TopologyPort(Protocol):
    """A topology to watch, pause and resume."""

    def pause(self) -> None:
        """Finish the microbatch that runs and start no other; returns when it is done."""
        ...

    def resume(self) -> None:
        """Go on, also after a failure."""
        ...

    def rollback(self, to_microbatch: int, *, keep_appended: bool = False) -> None:
        """Go back to the state after an earlier microbatch; the topology is paused then.

        Raises:
            UsageError: When it cannot go back so far, or appended rows stand in the way.
        """
        ...

    def checkpoint(self) -> int:
        """Write what changed to checkpoints; the commit that holds them."""
        ...

    def status(self) -> dict[str, Any]:
        """Id, version, step, state, processed, lag, durations, rate and error, JSON-able."""
        ...


class ClusterPort(Protocol):
    """A module's workers and fragments, to look at and to change; each change all or nothing."""

    def describe(self) -> dict[str, Any]:
        """Revision, policies, workers, fragments and the fragment-by-unit matrix, JSON-able."""
        ...

    def info(self) -> ClusterInfo:
        """The revision that stands."""
        ...

    def reschedule(
        self,
        changes: Mapping[int, Change],
        *,
        revision: int,
        resolve: bool = False,
        dry_run: bool = False,
    ) -> Plan:
        """Change which units run some fragments; returns when microbatches have committed there.

        Raises:
            RescheduleError: When it cannot be; nothing has changed then.
        """
        ...

    def set_parallelism(self, topology: str, policy: str, *, dry_run: bool = False) -> Plan:
        """Let a policy decide how many units a topology gets.

        Raises:
            UsageError: When there is no such policy.
            NotFoundError: When there is no such topology.
            RescheduleError: When it could not be; nothing has changed then.
        """
        ...

    def cordon(self, workers: Iterable[int]) -> object:
        """Give these workers no new actors."""
        ...

    def uncordon(self, workers: Iterable[int]) -> object:
        """Let these workers get new actors again."""
        ...

    def remove(self, workers: Iterable[int]) -> object:
        """Forget workers.

        Raises:
            RescheduleError: When actors run there.
        """
        ...


class OptionsPort(Protocol):
    """A module's options, to look at and to set; kept over restarts."""

    def set(
        self,
        option: str,
        value: int,
        *,
        topology: str | None = None,
        depot: str | None = None,
        pstate: str | None = None,
    ) -> None:
        """Set one, from the next microbatch on.

        Raises:
            DeclarationError: When there is no such option, or it cannot have the value.
            UsageError: When it cannot be set there.
            NotFoundError: When there is no such topology, depot or PState.
        """
        ...

    def unset(
        self,
        option: str,
        *,
        topology: str | None = None,
        depot: str | None = None,
        pstate: str | None = None,
    ) -> None:
        """Take back what was set there; raises as :meth:`set`."""
        ...

    def describe(self) -> dict[str, Any]:
        """What is set, what is declared, and what stands for each topology, JSON-able."""
        ...


class Deployer(Protocol):
    """Deploys a module again from its code, wherever whoever started the service said it is."""

    @property
    def app(self) -> AppPort:
        """The module as it runs now, or what stands for it while it does not."""
        ...

    def __call__(self, *, remove: Sequence[str], dry_run: bool) -> dict[str, Any]:
        """Deploy, unless it is a dry run; the plan of what changes, JSON-able.

        Raises:
            DeployError: When the new version does not fit what is deployed, or cannot be started.
            DeclarationError: When it has a mistake.
            UsageError: When its code cannot be loaded, or what to remove cannot be.
        """
        ...


class AppPort(Protocol):
    """A deployed module. Looking up a name that it lacks raises ``NotFoundError``."""

    @property
    def name(self) -> str:
        """The module's name."""
        ...

    @property
    def failure(self) -> AtollError | None:
        """Why it does not run; None while it does."""
        ...

    @property
    def cluster(self) -> ClusterPort:
        """Who is in its cluster, and what runs where."""
        ...

    @property
    def options(self) -> OptionsPort:
        """Its options."""
        ...

    @property
    def queries(self) -> QueriesPort:
        """Its queries."""
        ...

    def depots(self) -> Sequence[str]:
        """The names of its depots."""
        ...

    def pstates(self) -> Sequence[str]:
        """The names of its PStates."""
        ...

    def topologies(self) -> Sequence[str]:
        """The names of its topologies."""
        ...

    def depot(self, name: str) -> DepotPort:
        """The depot of that name."""
        ...

    def pstate(self, name: str) -> PStatePort:
        """The PState of that name."""
        ...

    def subscribe(
        self,
        pstate: str,
        path: Path | None = None,
        *,
        after: str | int | None = None,
        page_entries: int = ...,
    ) -> SubscriptionPort:
        """The changes of one value of a PState, commit by commit.

        Raises:
            PathError: When the path does not fit the schema.
            UsageError: When ``after`` is no position.
        """
        ...

    def wait_committed(
        self, depot: str, ends: Mapping[int, int] | None = None, *, timeout_seconds: float = ...
    ) -> Mapping[str, int]:
        """Wait until the topologies that read the depot have committed its records.

        Raises:
            WaitTimeoutError: When it takes longer.
        """
        ...

    def wait_fresh(self, pstate: str, *, timeout_seconds: float = ...) -> int:
        """Wait until the PState shows all that the depots of its topology hold now.

        Raises:
            WaitTimeoutError: When it takes longer.
        """
        ...

    def topology(self, name: str) -> TopologyPort:
        """The topology of that name."""
        ...

    def status(self) -> dict[str, Any]:
        """Everything about the module that changes, JSON-able."""
        ...
