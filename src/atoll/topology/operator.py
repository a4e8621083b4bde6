"""What every operator of a topology is: a frozen node that names the nodes it reads from.

There are four kinds, told apart by what runs them:

* a :class:`RootOperator` brings rows in: a depot's range, or the rows that a state operator
  emitted earlier in the same microbatch;
* a :class:`ColumnOperator` is a step of Spark's own: it turns one DataFrame into another;
* a :class:`BatchOperator` is a step of Python's: it turns Arrow batches into Arrow batches, and
  consecutive ones are fused into one pass;
* a :class:`StateOperator` runs on the actor that owns the key, against state; ``append_to``
  ends there as well, though any actor may take its rows.

Operators are declarations: they hold no rows and import no engine. ``eq`` is identity, so that
the same step written twice stays two nodes of the graph.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from atoll.topology.declared import PStateDeclaration
    from atoll.topology.times import Times
    from atoll.topology.usercode import Rejects

__all__ = [
    "BatchOperator",
    "ColumnOperator",
    "Makes",
    "Operator",
    "RootOperator",
    "StateOperator",
]

Makes = Literal["one", "at most one", "any", "free"]
"""How many rows a step makes of each that it does not reject: as many as it likes (``any``); with
``free`` it may even leave rows that it was offered."""

_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True, eq=False)
class Operator(ABC):
    """One step of a topology."""

    inputs: tuple[Operator, ...]
    place: str
    """Where the user declared it (``file.py:12``), for error messages."""

    @property
    def title(self) -> str:
        """The operator's word, as users wrote it."""
        return _CAPITAL.sub("_", type(self).__name__).lower()


@dataclass(frozen=True, eq=False)
class RootOperator(Operator):
    """Brings rows into the dataflow; has no inputs."""


@dataclass(frozen=True, eq=False)
class ColumnOperator(Operator):
    """A step that Spark runs on columns.

    ``frames`` and the result are Spark DataFrames; they are typed ``Any`` because declarations
    must not import Spark.
    """

    @abstractmethod
    def apply(self, frames: Sequence[Any], parallelism: int) -> Any:
        """Build the DataFrame of this step from those of its inputs (nothing runs yet)."""


@dataclass(frozen=True, eq=False)
class BatchOperator(Operator):
    """A step that Python runs on Arrow batches, within one task, row order kept."""

    runs_own_code: ClassVar[bool] = False
    """Whether it is Atoll's alone and cheap, so that nobody can tell how often a row passes it."""

    makes: ClassVar[Makes] = "any"
    """What every attempt is held to: see :mod:`atoll.microbatch.accounts.audit`."""

    @abstractmethod
    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The columns that the step emits, given those of its inputs."""

    def at(self, times: Times) -> BatchOperator:
        """The step as it is in a microbatch of that time; itself where time means nothing to it."""
        return self

    @abstractmethod
    def run(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        rejects: Rejects | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Turn batches into batches; ``schema`` is the input's.

        Batches may carry their rows' origins as a hidden last column; what comes out then says
        as much as is known. Rows on which the user's function raises go to ``rejects``; without
        it they raise.

        Called once per task and attempt. May be called again for the same rows when a microbatch
        is retried, so what it emits should depend on the rows alone.
        """


@dataclass(frozen=True, eq=False)
class StateOperator(Operator):
    """A step that runs on the actors, by vnode of a key, against PStates."""

    @property
    @abstractmethod
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """The PStates that the step writes."""

    @property
    @abstractmethod
    def emits(self) -> bool:
        """Whether rows come out of the step."""
