"""``agg.voided``: rows that delete the entry that their keys name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.aggregates.base import Aggregator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from atoll.schema import Node


@dataclass(frozen=True)
class Voided(Aggregator):
    """Deletes. That a row came is all there is to know: states have no columns."""

    word: ClassVar[str] = "voided"

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:  # noqa: ARG002 - none
        """There is none."""
        raise self.refusal("has no result", "it deletes entries of a PState")

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:  # noqa: ARG002 - none
        """Any value can be deleted, but not a part of one."""
        if not node.leaf:
            raise self.refusal(
                f"deletes one value, the PState holds {node}",
                "name the entry to delete; elements of a Set go with agg.remove_from_set",
            )

    def state_types(
        self,
        node: Node,  # noqa: ARG002 - nothing is kept
        input_types: Sequence[pa.DataType],  # noqa: ARG002
    ) -> tuple[pa.DataType, ...]:
        """None."""
        return ()

    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:  # noqa: ARG002
        """Nothing."""
        return []

    def reduce(self, states: Sequence[pa.Array], starts: NDArray[np.int64]) -> list[pa.Array]:  # noqa: ARG002
        """Nothing."""
        return []

    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:  # noqa: ARG002
        """Nothing."""
        return []


def voided() -> Voided:
    """Delete the entry: ``closed.aggregate(totals["user_id"], agg.voided())``.

    Of the steps of one topology that touch an entry in one microbatch, each runs in the order of
    the declarations, whatever the order of the rows. So what is left of a key that one microbatch
    both fills and voids depends on where microbatches are cut; where rows of both kinds may come
    close together, write a ``process`` step, which sees them in arrival order.
    """
    return Voided(())
