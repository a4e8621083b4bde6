"""What steps share that call a function with each row and declare what it gives by ``emits=``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atoll.topology.operator import BatchOperator

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class CallingOperator(BatchOperator):
    """Calls a Python function with each row."""

    function: Callable[..., Any]
    emitted: pa.Schema

    @property
    def sees_records(self) -> bool:
        """Its function may raise."""
        return True

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """What ``emits=`` declared."""
        from atoll.topology.rows import given_columns

        return given_columns(self.emitted, inputs[0])
