"""A Python function per row, with state: ``stream.process(debit, key="src", states=[funds])``.

The function runs on the actor that owns the row's key and receives the row and one handle per
state. What it writes takes effect with the microbatch or not at all. It may yield rows for the
steps after it, which may use another key: that is how one record changes state at two places.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from atoll.topology.operator import StateOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.topology.declared import PStateDeclaration
    from atoll.topology.times import Clock

__all__ = ["Process"]


@dataclass(frozen=True, eq=False)
class Process(StateOperator):
    """Calls ``function(row, *handles)`` for each row, rows of one key in append order.

    ``key`` is the column of the input that holds the key; None when every state is global, and
    where ``route`` says otherwise how rows find their vnode.
    """

    function: Callable[..., Any]
    key: str | None
    states: tuple[PStateDeclaration, ...]
    emitted: pa.Schema | None
    computed: tuple[str, ...]
    """Columns made only to hold the key; the function does not see them."""
    route: Literal["key", "number", "all"] = "key"
    """By the key; by the number in the column ``key``; or each row to every vnode."""
    on_timer: Callable[..., Any] | None = None
    """Called when a timer is due; None: the step has no timers."""
    clock: Clock = ()
    """What time its timers go by."""
    timers: PStateDeclaration | None = None
    """Where they are kept."""

    @property
    def title(self) -> str:
        """As users write it: ``update`` is a process step of one path."""
        return str(getattr(self.function, "step_word", "process"))

    @property
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """The states of its own topology: it may write any of them."""
        return self.states if self.timers is None else (*self.states, self.timers)

    @property
    def emits(self) -> bool:
        """Whether ``emits=`` was declared."""
        return self.emitted is not None
