"""Any DataFrame code of the user's: ``stream.transform(lambda frame: ...)``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.topology.operator import ColumnOperator

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, eq=False)
class Transform(ColumnOperator):
    """The function sees the rows of one microbatch (or of an earlier step in it), no more.

    It runs on the driver once per microbatch to build the plan, and must return a DataFrame. A
    step in it that moves rows between tasks (a join, a sort) ends their append order.
    """

    instead: ClassVar[str] = "write the step in Python: map, flat_map, map_batches"

    function: Callable[[Any], Any]

    @property
    def title(self) -> str:
        """As users write it: the step that needs it, where they wrote no ``transform``."""
        return str(getattr(self.function, "step_word", "transform"))

    def carrying(self, column: str, names: Sequence[str]) -> ColumnOperator | None:
        """Only where the code is Atoll's own, which names its columns."""
        return self if getattr(self.function, "keeps_origins", False) else None

    def apply(self, frames: Sequence[Any], parallelism: int) -> Any:
        """What the user's function builds."""
        return self.function(frames[0])
