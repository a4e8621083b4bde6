"""How what an aggregate keeps becomes what a reader sees: its *finish*.

Some aggregates keep more than they show: a mean is kept as a sum and a count, the latest value
with its order, an estimate as a sketch. Each of them says by a :class:`Finish` of its own what
the physical columns of its state are, and what a reader sees of them. The codec of a leaf, which
stands above the aggregates, asks it and knows no aggregate by name.

A finish is stored as its *word*, with what follows a colon where the aggregate keeps states of
several kinds: ``avg:int``, ``ordered:datetime``, ``percentile:0.01;0.5``. So words stay as they are
once a release has written them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.schema import List, Scalar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from atoll.aggregates.base import LeafForm
    from atoll.schema import Node


@dataclass(frozen=True, slots=True)
class Unpacking:
    """How what lies in a store becomes values again.

    Aggregates stand below the codec, so it hands this to the finish, as whoever runs an aggregate
    hands it a :class:`~atoll.aggregates.base.Packing`.
    """

    column: Callable[[Node, pa.Array], pa.Array]
    """A physical column that hides nothing, as a reader sees it."""
    value: Callable[[Node, Any], Any]
    """The same of the plain form of one cell."""
    array: Callable[[Node, Sequence[Any]], pa.Array]
    """Values of a schema as a column that a reader sees."""
    unpack: Callable[[Node, bytes], Any]
    """The value that an opaque cell holds."""
    plain: Callable[[bytes], Any]
    """What an opaque cell holds as lists and numbers, without a schema."""
    element: Callable[[bytes], Any]
    """One element of a set, or key of a map, from its bytes."""
    elements: Callable[[Sequence[bytes], Scalar], pa.Array]
    """A column of them."""
    leaf: Callable[[Node, Mapping[str, str]], LeafForm]
    """The form of the states inside of a state, by their schema and the finishes of its fields."""


@dataclass(frozen=True)
class Finish(ABC):
    """How the state of one field becomes what a reader sees.

    A subclass is known by its :attr:`word` as soon as its module is imported; ``atoll.agg``
    imports those of all aggregates.
    """

    node: Node
    """What a reader sees."""
    hidden: str | None
    """What follows the colon of the word: it tells states of several kinds apart."""
    unpacking: Unpacking = field(compare=False, repr=False)

    word: ClassVar[str]
    """How it is stored. Never changed, and never given to another one."""

    keeps: ClassVar[str]
    """What is stored, as a message says it: ``a sum and a count``."""

    hidden_default: ClassVar[str | None] = None
    """What ``hidden`` is where nothing follows the word."""

    def __init_subclass__(cls) -> None:
        """Make it known by its word."""
        if "word" in cls.__dict__:
            assert cls.word not in _KNOWN, f"two finishes are called {cls.word}"
            _KNOWN[cls.word] = cls

    @classmethod
    def text(cls, hidden: object = None) -> str:
        """How it is written down, with what tells its states apart."""
        return cls.word if hidden is None else f"{cls.word}:{hidden}"

    @abstractmethod
    def suits(self) -> bool:
        """Whether there is such a state of a field with that schema."""

    @property
    def state(self) -> tuple[Scalar | None, ...]:
        """The scalar of each physical column of the state; None for one of opaque bytes."""
        return (None,)

    @property
    def value_arrow_type(self) -> pa.DataType:
        """The type of :meth:`column`."""
        from atoll.arrow_types import value_type

        return value_type(self.node)

    @abstractmethod
    def column(self, columns: Sequence[pa.Array]) -> pa.Array:
        """What a reader sees of these physical columns, row by row; null where there is nothing."""

    @abstractmethod
    def value(self, cells: Sequence[Any]) -> Any:
        """The same of one row.

        Args:
            cells: The plain form of each cell: a number, text or bytes; days of a date,
                microseconds of an instant; None is null.
        """


class OpaqueFinish(Finish):
    """Of a state that is one column of bytes, looked at row by row."""

    def column(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Each row for itself."""
        import pyarrow as pa

        states = columns[0].to_pylist()
        shown = [None if data is None else self.shown(data) for data in states]
        return pa.array(shown, self.value_arrow_type, from_pandas=False)

    def value(self, cells: Sequence[Any]) -> Any:
        """None where there is no state."""
        (data,) = cells
        return None if data is None else self.shown(data)

    @abstractmethod
    def shown(self, state: bytes) -> Any:
        """What a reader sees of one state."""


_KNOWN: dict[str, type[Finish]] = {}


def known_finish(word: str) -> type[Finish] | None:
    """The finish of that word, once its aggregate has been imported; None when there is none."""
    return _KNOWN.get(word)


def simple_kind(word: str | None) -> bool:
    """Whether that is the kind of a scalar, as orders are of."""
    from atoll.arrow_types import SCALAR_TYPES

    return word in SCALAR_TYPES


def kind_of_node(node: Node) -> str | None:
    """The kind of a scalar; None of anything else."""
    return node.kind if isinstance(node, Scalar) else None


def item_of(node: Node) -> Node | None:
    """What the members of a list are; None of anything else."""
    return node.item if isinstance(node, List) else None
