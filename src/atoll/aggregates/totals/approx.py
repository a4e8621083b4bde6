"""``agg.approx_count_distinct`` and ``agg.approx_percentile``: small states for large questions.

The state of a distinct count is a HyperLogLog sketch of Apache DataSketches; that of percentiles
is a histogram whose buckets grow with the values (a UDDSketch). Both obey the law of aggregates
to the byte: a state depends on the values alone, not on how they were cut into parts or in which
order they came, so a retry on other workers writes the same bytes. What is approximate is only
what a reader is shown of them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from atoll.aggregates.base import Aggregator, Packing, expression, in_words
from atoll.aggregates.finish import OpaqueFinish, item_of, kind_of_node
from atoll.errors import DeclarationError
from atoll.schema import List, Scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from atoll.aggregates.kernels.distinct import Counter
    from atoll.aggregates.kernels.histograms import Histograms
    from atoll.schema import Node


RSD_DEFAULT = 0.05
RSD_MIN, RSD_MAX = 0.001, 0.09
_DEVIATION = 1.04
"""The relative standard deviation of a sketch of one register; it falls with their root."""

ERROR_DEFAULT = 0.01
ERROR_MIN, ERROR_MAX = 0.0001, 0.5


class _Kernel(Protocol):
    """Counts values into sketches, and unites those."""

    def count(self, column: pa.Array, starts: NDArray[np.int64] | None) -> pa.Array:
        """The sketch of each group's values; each row a group if None."""

    def reduce(self, states: pa.Array, starts: NDArray[np.int64]) -> pa.Array:
        """The union of each group's sketches."""

    def merge(self, old: pa.Array, new: pa.Array) -> pa.Array:
        """The union of both, row by row."""


@dataclass(frozen=True)
class _Sketch(Aggregator):
    """What both share: one opaque column that a reader never sees."""

    opaque: ClassVar[bool] = True

    @property
    @abstractmethod
    def _kernel(self) -> _Kernel:
        """What counts; only of a bound aggregate."""

    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:  # noqa: ARG002 - bound
        """A sketch of each row's value."""
        return [self._kernel.count(columns[0], None)]

    def reduce(self, states: Sequence[pa.Array], starts: NDArray[np.int64]) -> list[pa.Array]:
        """The union of each group's sketches."""
        return [self._kernel.reduce(states[0], starts)]

    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:
        """The union of both."""
        return [self._kernel.merge(old[0], new[0])]

    def fold(
        self,
        columns: Sequence[pa.Array],
        node: Node,  # noqa: ARG002 - bound
        order: NDArray[np.int64],
        starts: NDArray[np.int64],
    ) -> list[pa.Array]:
        """One sketch for each group."""
        from atoll.aggregates.kernels.segments import taken

        return [self._kernel.count(taken(columns[0], order), starts)]


class Estimate(OpaqueFinish):
    """Of a sketch, whose size is hidden: about how many distinct values it saw."""

    word: ClassVar[str] = "distinct"
    keeps: ClassVar[str] = "a sketch of distinct values"

    def suits(self) -> bool:
        """Ints, of a sketch of a known size."""
        return self.hidden is not None and kind_of_node(self.node) == "int"

    def shown(self, state: bytes) -> int:
        """The estimate."""
        from atoll.aggregates.kernels.distinct import estimate

        return estimate(bytes(state))


class Percentiles(OpaqueFinish):
    """Of a histogram the value near a rank, or the list of several; hidden: error and ranks."""

    word: ClassVar[str] = "percentile"
    keeps: ClassVar[str] = "a histogram"

    def suits(self) -> bool:
        """A float, or a list of floats."""
        shown = item_of(self.node) or self.node
        return self.hidden is not None and kind_of_node(shown) == "float"

    def shown(self, state: bytes) -> Any:
        """One value, or the list of them; None of no values."""
        from atoll.aggregates.kernels.histograms import percentiles

        error, *wanted = map(float, str(self.hidden).split(";"))
        values = percentiles(bytes(state), error, wanted)
        return values[0] if values and isinstance(self.node, Scalar) else values


@dataclass(frozen=True)
class ApproxCountDistinct(_Sketch):
    """About how many distinct values; never null, zero where all are."""

    registers_log: int
    """The binary logarithm of the number of registers."""
    packing: Packing | None = None
    kind: Node | None = None
    """The schema of the values, once bound."""

    word: ClassVar[str] = "approx_count_distinct"
    null_skips: ClassVar[int | None] = 0

    def finisher(self, input_types: Sequence[pa.DataType]) -> str:  # noqa: ARG002 - all alike
        """With the size of the sketch: sketches of two sizes are two kinds of state."""
        return Estimate.text(self.registers_log)

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:
        """An int."""
        self._kind(input_types)
        return Scalar("int")

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:
        """Values of any type, into an int."""
        self._kind(input_types)
        if not (isinstance(node, Scalar) and node.kind == "int"):
            raise self.refusal(f"gives an int, the PState holds {node}", "declare int there")

    def _kind(self, input_types: Sequence[pa.DataType]) -> Node:
        from atoll.arrow_types import node_of

        return node_of(input_types[0])

    def bind(self, node: Node, input_types: Sequence[pa.DataType], packing: Packing) -> Aggregator:
        """With the schema of the values."""
        self.check(node, input_types)
        return replace(self, packing=packing, kind=self._kind(input_types))

    @property
    def _kernel(self) -> Counter:
        from atoll.aggregates.kernels.distinct import Counter

        assert self.packing is not None, "sketches are bound before they run"
        assert self.kind is not None, "sketches are bound before they run"
        return Counter(str(self), self.registers_log, self.kind, self.packing)


@dataclass(frozen=True)
class ApproxPercentile(_Sketch):
    """Values near those at some ranks; null where all are."""

    percentages: tuple[float, ...]
    alone: bool
    relative_error: float

    word: ClassVar[str] = "approx_percentile"
    null_skips: ClassVar[int | None] = 0

    def __str__(self) -> str:
        """As written, with one percentage or several."""
        shown = self.percentages[0] if self.alone else list(self.percentages)
        return f"{self.word}({self.inputs[0]}, {shown})"

    def finisher(self, input_types: Sequence[pa.DataType]) -> str:  # noqa: ARG002 - all alike
        """With the error and the percentages."""
        return Percentiles.text(";".join(map(repr, (self.relative_error, *self.percentages))))

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:
        """A float, or of several percentages a list of them."""
        self._check_numbers(input_types)
        return Scalar("float", optional=True) if self.alone else List(Scalar("float"))

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:
        """Numbers, into a float or a list of floats."""
        self._check_numbers(input_types)
        held = node if self.alone else node.item if isinstance(node, List) else None
        if not (isinstance(held, Scalar) and held.kind == "float"):
            wanted = "float" if self.alone else "List(float)"
            raise self.refusal(
                f"gives {'a float' if self.alone else 'a list of floats'}, the PState holds {node}",
                f"declare {wanted} there",
            )

    def _check_numbers(self, input_types: Sequence[pa.DataType]) -> None:
        from atoll.aggregates.totals.sums import NUMBERS
        from atoll.arrow_types import kind_of

        if kind_of(input_types[0]) not in NUMBERS:
            raise self.refusal(
                f"needs numbers, its input is {in_words(input_types[0])}", "cast it to a number"
            )

    @property
    def _kernel(self) -> Histograms:
        from atoll.aggregates.kernels.histograms import Histograms

        return Histograms(self.relative_error)


def approx_count_distinct(expr: str, rsd: float = RSD_DEFAULT) -> ApproxCountDistinct:
    """About how many distinct values of ``expr`` there are, nulls left out.

    Args:
        expr: The expression; of any type.
        rsd: The greatest relative standard deviation of the estimate, as Spark has it: about two
            of three estimates are nearer than that, 19 of 20 nearer than twice that. A sketch
            takes at most ``(1.04 / rsd) ** 2`` bytes, rounded up to a power of two.

    Raises:
        DeclarationError: When ``rsd`` is out of range.
    """
    if not _is_number(rsd) or not RSD_MIN <= rsd <= RSD_MAX:
        raise DeclarationError(
            f"agg.approx_count_distinct with rsd={rsd!r}",
            hint=f"give the relative standard deviation, from {RSD_MIN} to {RSD_MAX}",
        )
    registers_log = math.ceil(2 * math.log2(_DEVIATION / rsd))
    return ApproxCountDistinct((expression(expr, "approx_count_distinct"),), registers_log)


def approx_percentile(
    expr: str, percentage: float | Iterable[float], *, relative_error: float = ERROR_DEFAULT
) -> ApproxPercentile:
    """Values near those at the given ranks: ``approx_percentile("ms", [0.5, 0.99])``.

    The percentile ``p`` of ``n`` values is the value at rank ``max(ceil(p * n), 1)`` when they
    are sorted, as in Spark; what is shown differs from it by at most ``relative_error`` of it.

    Args:
        expr: A number; nulls are left out, NaN is the greatest.
        percentage: From 0 to 1, or several.
        relative_error: How far what is shown may be from the value, as a share of it. It holds
            while the values of a key fall into no more than 2048 buckets (with 0.01 that is
            twelve powers of ten, if each bucket is filled); beyond, it doubles step by step.

    Raises:
        DeclarationError: When a percentage or the error is out of range.
    """
    alone = isinstance(percentage, int | float)
    given = (percentage,) if isinstance(percentage, int | float) else tuple(percentage)
    if not given or not all(_is_number(each) and 0 <= each <= 1 for each in given):
        raise DeclarationError(
            f"agg.approx_percentile of {percentage!r}",
            hint="give a percentage from 0 to 1, or a list of some: [0.5, 0.99]",
        )
    if not _is_number(relative_error) or not ERROR_MIN <= relative_error <= ERROR_MAX:
        raise DeclarationError(
            f"agg.approx_percentile with relative_error={relative_error!r}",
            hint=f"give a share of the value, from {ERROR_MIN} to {ERROR_MAX}",
        )
    percentages = tuple(float(each) for each in given)
    inputs = (expression(expr, "approx_percentile"),)
    return ApproxPercentile(inputs, percentages, alone, float(relative_error))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
