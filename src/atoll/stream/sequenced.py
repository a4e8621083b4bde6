"""The steps of a stream that look at the rows of a key that came before."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from atoll.steps.last_rows.declare import over
from atoll.topology.flow import Flow
from atoll.topology.usercode import declared_at

if TYPE_CHECKING:
    from atoll.aggregates.base import Aggregator
    from atoll.topology.operator import Operator

S = TypeVar("S")


class Sequenced(Flow, ABC, Generic[S]):
    """Rows of which those of a key have an order: that of their arrival."""

    __slots__ = ()

    @abstractmethod
    def _then(self, operator: Operator) -> S:
        """The stream after an operator."""

    def over(
        self,
        key: str | Sequence[str],
        *,
        rows: int = 1,
        name: str | None = None,
        **columns: Aggregator,
    ) -> S:
        """Add columns over each row and the rows of its key that came right before it.

        ``over("seller", rows=10, mean=agg.avg("price"), before=agg.lag("price"))`` is SQL's
        ``ROWS BETWEEN 9 PRECEDING AND CURRENT ROW``, by arrival: rows of one key from one depot
        partition come in append order.

        Args:
            key: An expression over the row, or several; null is a value like others.
            rows: Over how many rows the aggregates go, the row itself counted.
            name: What to call what is kept, where that of two steps would not be told apart.
            columns: The aggregates by the names of their columns, and ``agg.lag(...)``.

        Raises:
            DeclarationError: When there are no columns, or one is no aggregate.
        """
        return self._then(over(self, key, rows, columns, name, declared_at(1)))
