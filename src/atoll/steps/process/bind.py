"""``process`` as tasks run it: call the user's function with each row and the state handles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from atoll.engine.binding.keys import key_element
from atoll.engine.exchange.keyed import KeyedStep, KeyElement, chosen, vnodes, with_vnodes
from atoll.microbatch.accounts.entries import EndChart
from atoll.schema import Scalar, Set
from atoll.topology.rows import adds

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from atoll.engine.step import Opening, Packing, Work
    from atoll.placement.mapping import Mapping as OwnerMapping
    from atoll.pstate.spec import PStateSpec
    from atoll.steps.process.declare import Process
    from atoll.topology.binding import Binding
    from atoll.topology.times import Clock


@dataclass(frozen=True)
class BoundProcess(KeyedStep):
    """Call the user's function with each row and the state handles."""

    function: Callable[..., Any]
    key: KeyElement | None
    states: tuple[str, ...]
    rows: pa.Schema
    emitted: pa.Schema | None
    route: str = "key"
    """By the key; by the ``number`` in its column; or each row to ``all`` vnodes."""
    on_timer: Callable[..., Any] | None = None
    clock: Clock = ()
    timers: str | None = None
    """The PState of its timers; None: it has none."""
    hides_key: bool = False
    """Whether the key's column is in ``rows`` for the timers alone."""
    adds: bool = False
    """Whether what the function yields stands beside the columns of its row."""
    local: frozenset[str] = frozenset()
    """The states that have one value in each vnode."""

    sees_records: ClassVar[bool] = True
    counts_itself: ClassVar[bool] = True

    @property
    def agenda(self) -> tuple[str, Clock] | None:
        """Its timers."""
        return None if self.timers is None else (self.timers, self.clock)

    @property
    def pstates(self) -> tuple[str, ...]:
        """Every PState that it touches."""
        return self.states if self.timers is None else (*self.states, self.timers)

    @property
    def emits(self) -> pa.Schema | None:
        """What ``emits=`` declared."""
        return self.emitted

    @property
    def needs(self) -> Collection[str]:
        """All that the function sees, and the key."""
        key = None if self.key is None else self.key.column
        return self.rows.names if key is None else [*self.rows.names, key]

    @property
    def keyed_by(self) -> tuple[KeyElement, ...]:
        """Its key, where rows go by it."""
        return () if self.key is None or self.route != "key" else (self.key,)

    @property
    def runs_without_rows(self) -> bool:
        """When timers are due."""
        return self.timers is not None

    def mapping(self, packing: Packing) -> OwnerMapping:
        """That of all its states."""
        return packing.mapping(self.states[0])

    def opens(self, vnodes: set[int], opening: Opening) -> dict[str, Collection[int]]:
        """Those that rows came for, and those in which timers are due."""
        due = set() if self.timers is None else opening.due(self.timers)
        return dict.fromkeys(self.pstates, vnodes | due)

    def chart(self, pstates: Mapping[str, PStateSpec]) -> EndChart:
        """Its rows may go to every vnode."""
        copies = pstates[self.states[0]].vnode_count if self.route == "all" else 1
        return EndChart(self.tag, self.label, "each", copies=copies)

    def prepared(
        self, rows: pa.Table, vnode_count: int, *, tracked: bool, singly: bool
    ) -> pa.Table:
        """What the function sees."""
        from atoll.steps.process.run import numbered, to_every_vnode

        seen = chosen(rows, self.rows, tracked=tracked)
        if self.route == "all":
            return to_every_vnode(seen, vnode_count)
        if self.route == "number":
            assert self.key is not None
            return with_vnodes(seen, numbered(rows.column(self.key.column), vnode_count))
        return with_vnodes(seen, vnodes(self, self.keyed_by, rows, vnode_count))

    def run(self, work: Work, rows: list[pa.Table]) -> None:
        """Call the function, timers first."""
        from atoll.steps.process.run import process
        from atoll.steps.process.timers import Firing

        firing = None
        if self.timers is not None:
            times = work.times
            firing = Firing(times.of(self.clock), work.due(self.timers), times.microbatch_id)
        out = process(self, rows, work, firing)
        if firing is not None and self.timers is not None:
            work.agenda[self.timers] = firing.agenda
        if out is not None:
            work.emit(self.tag, out)


def bound_process(step: Process, binding: Binding) -> BoundProcess:
    """The step as tasks run it.

    Raises:
        DeclarationError: When the key is no column of the rows, or of another type.
    """
    rows = binding.rows(step)
    hides_key = step.timers is not None and step.key in step.computed
    hidden = set(step.computed) - ({step.key} if hides_key else set())
    seen = pa.schema([field for field in rows if field.name not in hidden])
    return BoundProcess(
        *binding.name(step),
        step.function,
        _key(step, rows),
        tuple(state.name for state in step.states),
        seen,
        None if step.emitted is None else step.schema([rows]),
        step.route,
        step.on_timer,
        step.clock,
        None if step.timers is None else step.timers.name,
        hides_key,
        step.emitted is not None and adds(step.emitted),
        frozenset(state.name for state in step.states if state.per_vnode),
    )


def _key(step: Process, rows: pa.Schema) -> KeyElement | None:
    """What says on which vnode a row is processed: its key, or a number; None without either."""
    if step.key is None:
        return None
    if step.route == "number":
        return key_element(step.key, Scalar("int"), rows, step)
    state = step.keyed_state
    kind = state.node.item if isinstance(state.node, Set) else state.node.key  # type: ignore[union-attr]
    return replace(key_element(step.key, kind, rows, step), partition_by=state.partition_by)
