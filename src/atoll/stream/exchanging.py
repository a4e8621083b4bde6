"""The steps of a stream that only bring rows to tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from atoll.steps.exchanges.hash_by import HashBy
from atoll.steps.exchanges.place_by import PlaceBy
from atoll.steps.exchanges.shuffle import Shuffle
from atoll.steps.exchanges.to_all import ToAll
from atoll.steps.exchanges.to_global import ToGlobal
from atoll.steps.rows.numbered import NUMBER, Numbered
from atoll.stream.typed import of_rows
from atoll.topology.flow import Flow, after
from atoll.topology.usercode import declared_at

if TYPE_CHECKING:
    from atoll.topology.operator import Operator

S = TypeVar("S")


class Exchanging(Flow, ABC, Generic[S]):
    """Rows that can be brought elsewhere; ``S`` is the stream of them."""

    __slots__ = ()

    @abstractmethod
    def _then(self, operator: Operator) -> S:
        """The stream after an operator."""

    def hash_by(self, *expressions: str) -> S:
        """Bring rows with equal values to one task. State steps do this by themselves."""
        return self._then(HashBy((self.operator,), declared_at(1), expressions))

    def shuffle(self) -> S:
        """Spread rows evenly over the tasks; ends their append order."""
        return self._then(Shuffle((self.operator,), declared_at(1)))

    def to_global(self) -> S:
        """Bring all rows to one task."""
        return self._then(ToGlobal((self.operator,), declared_at(1)))

    def to_all(self) -> S:
        """A copy of each row to every task; before a ``process`` without key to every vnode."""
        return self._then(ToAll((self.operator,), declared_at(1)))

    def to_vnode(self, expression: str) -> S:
        """Bring rows to the task of a number; before a ``process`` without key to that vnode."""
        return self._then(PlaceBy((self.operator,), declared_at(1), expression, "to_vnode"))

    def partition_by(self, function: Callable[[Any], int]) -> S:
        """As ``to_vnode``, by a Python function from row to int."""
        place = declared_at(1)
        calling = of_rows(self, function, "partition_by", place)
        numbered = after(self.graph, Numbered((self.operator,), place, calling, "partition_by"))
        step = PlaceBy((numbered.operator,), place, NUMBER, "partition_by", drops=True)
        return self._then(step)

    def _repr_html_(self) -> str:
        """The topology drawn, for a notebook."""
        from atoll.stream.drawing import draw

        return draw([self.graph], self.graph.depots())
