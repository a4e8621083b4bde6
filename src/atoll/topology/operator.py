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

from atoll.errors import DeclarationError
from atoll.topology.expressions import has_star

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from atoll.pstate.spec import PStateSpec
    from atoll.topology.binding import Binding, Kept
    from atoll.topology.declared import DepotDeclaration, PStateDeclaration
    from atoll.topology.querying.step import Done, InQuery
    from atoll.topology.times import Times
    from atoll.topology.usercode import Rejects

Makes = Literal["one", "at most one", "any", "free"]
"""How many rows a step makes of each that it does not reject: as many as it likes (``any``); with
``free`` it may even leave rows that it was offered."""

EXCHANGED = "leave the step out: state steps bring rows to their key by themselves"
"""What to do in the place of a step that only brings rows elsewhere."""

_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True, eq=False)
class Operator(ABC):
    """One step of a topology."""

    inputs: tuple[Operator, ...]
    place: str
    """Where the user declared it (``file.py:12``), for error messages."""

    in_queries: ClassVar[bool] = False
    """Whether a query may have it: it needs no Spark and writes nothing."""

    instead: ClassVar[str] = "write to state in a topology"
    """What a query does in place of a step that it may not have."""

    keeps_rows: ClassVar[bool] = False
    """Whether rows behind it are objects of the class that they were before."""

    drawn: ClassVar[bool] = True
    """Whether drawings show it: a user wrote it as a step of its own."""

    known_by_name: ClassVar[bool] = False
    """Whether its field ``name`` is the one under which commits know what it keeps."""

    @property
    def title(self) -> str:
        """The operator's word, as users wrote it."""
        return _CAPITAL.sub("_", type(self).__name__).lower()

    @property
    def detail(self) -> str:
        """What drawings show beside the title: of a step with a function its name."""
        name = getattr(getattr(self, "function", None), "__name__", "")
        return "" if name == "<lambda>" else name

    @property
    def caption(self) -> str:
        """How drawings call it."""
        return f"{self.title} {self.detail}".strip()

    @property
    def reads(self) -> tuple[PStateDeclaration, ...]:
        """The PStates that it reads and does not write."""
        return ()

    @property
    def asks(self) -> str | None:
        """The query of the module that it asks."""
        return None

    @property
    def fires(self) -> bool:
        """Whether a row comes out although none came in."""
        return False

    @property
    def holds_back(self) -> bool:
        """Whether rows come out later than they came, so that by their watermark they are late."""
        return False

    @property
    def sees_records(self) -> bool:
        """Whether it asks which records its rows are of: a user's function may raise on one."""
        return False

    @property
    def watermark(self) -> tuple[str, str] | None:
        """The watermark that rows have from here on: its name in commits, and what it is of."""
        return None

    def in_query(self, query: InQuery) -> Done:
        """The columns after it in a query, and how a query does it; it may be ``in_queries``.

        Raises:
            DeclarationError: When the columns that reach it do not fit, or only Spark can do it.
        """
        from atoll.topology.querying.step import as_they_are

        return query.rows, as_they_are


@dataclass(frozen=True, eq=False)
class RootOperator(Operator):
    """Brings rows into the dataflow; has no inputs."""


@dataclass(frozen=True, eq=False)
class ColumnOperator(Operator):
    """A step that Spark runs on columns.

    ``frames`` and the result are Spark DataFrames; they are typed ``Any`` because declarations
    must not import Spark.
    """

    unites: ClassVar[bool] = False
    """Whether rows of all its inputs pass it as they are, their columns brought in line."""

    compiles: ClassVar[bool] = False
    """Whether tasks and queries run it by itself where its expressions are certified."""

    steers: ClassVar[bool] = False
    """Whether a ``process`` right behind it takes over what it says, and it need not run."""

    makes_rows: ClassVar[bool] = False
    """Whether what comes out are no rows that came in: aggregates, pairs, distinct ones."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The expressions of users in it."""
        return ()

    @property
    def computed(self) -> tuple[tuple[str, str], ...]:
        """What it computes of each row: how its user knows it, and the expression."""
        return tuple((text, text) for text in self.texts)

    def carrying(self, column: str, names: Sequence[str]) -> ColumnOperator | None:
        """The step as it passes on a column that users do not know of.

        Args:
            column: The column.
            names: Those that they know, before the step.

        Returns:
            None when the step cannot be trusted to pass it, or a user's expression might meet it.
        """
        return None if self.makes_rows or any(map(has_star, self.texts)) else self

    def in_task(self, rows: pa.Schema, made: pa.Schema | None = None) -> BatchOperator:
        """The step as tasks and queries run it.

        Args:
            rows: The columns before it; of a union those of one branch.
            made: Those that come out, where Spark or other branches have said; else they are
                found.

        Raises:
            NotCertifiedError: When Spark has to run it, with the reason in words.
            DeclarationError: When it names a column that is not there.
        """
        from atoll.columns.types import NotCertifiedError

        raise NotCertifiedError(f"{self.title}, which is a step of Spark's")

    def in_query(self, query: InQuery) -> Done:
        """As in a task, on all rows."""
        if not self.compiles:
            return super().in_query(query)
        from atoll.topology.querying.step import in_batches

        made = self.certified(query.rows)
        return made.schema(query.inputs), in_batches(made)

    def certified(self, rows: pa.Schema) -> BatchOperator:
        """The step as queries run it, which have no Spark.

        Raises:
            DeclarationError: When one of its expressions is not certified.
        """
        from atoll.columns.types import NotCertifiedError

        try:
            return self.in_task(rows)
        except NotCertifiedError as error:
            raise self.needs_spark(error) from None

    def needs_spark(self, why: Exception) -> DeclarationError:
        """What to say of the step in a query, where only Spark can run it."""
        return DeclarationError(
            f"{self.title} computes what only Spark can, and a query runs without it: {why}",
            hint="write it in other words, or compute it in Python: map, where(lambda row: ...)",
            declared=self.place,
        )

    @property
    def is_hidden(self) -> bool:
        """Whether no user wrote it: it computes what a state step needs."""
        return False

    @property
    def why_spark(self) -> str:
        """Why only Spark can run it, where nothing more is known."""
        return "is a column step, which only Spark can run"

    @property
    def without_spark(self) -> str:
        """What to do in its place where there is no Spark."""
        return "write the step in Python: map, flat_map, where(function)"

    @abstractmethod
    def apply(self, frames: Sequence[Any], parallelism: int) -> Any:
        """Build the DataFrame of this step from those of its inputs (nothing runs yet)."""


@dataclass(frozen=True, eq=False)
class BatchOperator(Operator):
    """A step that Python runs on Arrow batches, within one task, row order kept."""

    in_queries: ClassVar[bool] = True

    passes: ClassVar[bool] = False
    """Whether each batch passes as it is, so that nobody has to run it."""

    rejects_carefully: ClassVar[bool] = False
    """Whether it sets rows aside in careful attempts alone; in others it fails on them."""

    is_side: ClassVar[bool] = False
    """Whether the state step behind it takes rows from several sides, of which it marks one."""

    runs_own_code: ClassVar[bool] = False
    """Whether it is Atoll's alone and cheap, so that nobody can tell how often a row passes it."""

    sees_batches: ClassVar[bool] = False
    """Whether its user's function sees whole batches, and not their rows."""

    makes: ClassVar[Makes] = "any"
    """What every attempt is held to: see :mod:`atoll.microbatch.accounts.audit`."""

    def in_query(self, query: InQuery) -> Done:
        """As in a task, on all rows."""
        from atoll.topology.querying.step import in_batches

        return self.schema(query.inputs), in_batches(self)

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
    """A step that runs on the actors, by vnode of a key, against PStates.

    It says all about itself: to the graph by what it writes, reads and emits, to a deployment by
    :meth:`bind`, whose result says the rest to tasks.
    """

    keeps_records: ClassVar[bool] = True
    """Whether rows that it emits are each of one record, which they may say."""

    writes_values: ClassVar[bool] = False
    """Whether it puts whole values into its PStates, so that nothing beside them can be kept."""

    @property
    @abstractmethod
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """The PStates that the step writes."""

    @property
    @abstractmethod
    def emits(self) -> bool:
        """Whether rows come out of the step."""

    @property
    def placed_by(self) -> tuple[PStateDeclaration, ...]:
        """The PStates whose vnodes say where it runs; of none when any actor takes its rows."""
        return self.writes

    @property
    def fragment(self) -> str:
        """What placement calls the fragment that ends in it."""
        return f"{self.title} {self.placed_by[0].name}"

    @property
    def follows(self) -> PStateDeclaration | None:
        """A PState whose writers all run before it."""
        return None

    @property
    def appends_to(self) -> DepotDeclaration | None:
        """The depot that its rows go to."""
        return None

    @property
    def hands_out(self) -> str | None:
        """The sink that its rows go to."""
        return None

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The columns that it emits, given those of its inputs; none when it emits no rows.

        Raises:
            DeclarationError: When they do not fit the step.
        """
        import pyarrow as pa

        return pa.schema([])

    def hidden_specs(self, inputs: Sequence[pa.Schema]) -> dict[str, PStateSpec]:
        """The PStates of its own that no user declared: their schemas follow from the types.

        Raises:
            DeclarationError: As :meth:`schema`.
        """
        return {}

    def keeps(self, inputs: Sequence[pa.Schema]) -> tuple[Kept, ...]:
        """What it keeps in the values of PStates that users declared, beside what they see.

        Raises:
            DeclarationError: When an aggregate does not fit the types.
        """
        return ()

    def bind(self, binding: Binding) -> tuple[Any, ...]:
        """The step as tasks run it: a :class:`~atoll.engine.step.BoundStep`, or several.

        Raises:
            DeclarationError: When the columns that reach it do not fit.
        """
        raise AssertionError(f"{self.title} is no step of a topology")
