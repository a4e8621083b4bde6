"""What a microbatch changed in a PState, each changed entry once, with old and new value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.errors import DeclarationError
from atoll.schema import Map, Node, Scalar, Set
from atoll.topology.flow import Flow, after
from atoll.topology.operator import StateOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from atoll.engine.step import BoundStep
    from atoll.topology.binding import Binding
    from atoll.topology.declared import PStateDeclaration
    from atoll.topology.graph import Graph


@dataclass(frozen=True, eq=False)
class Changes(StateOperator):
    """Emits after the last step of the microbatch that writes the PState.

    It costs no second read: the old values are those of the reverse log.
    """

    keeps_records: ClassVar[bool] = False

    pstate: PStateDeclaration
    key_names: tuple[str, ...]

    @property
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """Nothing."""
        return ()

    @property
    def emits(self) -> bool:
        """One row per changed entry."""
        return True

    @property
    def reads(self) -> tuple[PStateDeclaration, ...]:
        """The PState."""
        return (self.pstate,)

    @property
    def placed_by(self) -> tuple[PStateDeclaration, ...]:
        """Where it lies."""
        return (self.pstate,)

    @property
    def of_sets(self) -> bool:
        """Whether an entry is an element of a set, there or not."""
        node: Node = self.pstate.node
        while isinstance(node, Map):
            node = node.value
        return isinstance(node, Set)

    @property
    def follows(self) -> PStateDeclaration:
        """The PState, whose changes are whole once all have written it."""
        return self.pstate

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The entry's keys, the old and the new value."""
        from atoll.steps.changes.bind import changes_schema

        return changes_schema(self)

    def bind(self, binding: Binding) -> tuple[BoundStep, ...]:
        """One step, which takes no rows."""
        from atoll.steps.changes.bind import bound_changes

        return (bound_changes(self, binding),)


def changes_of(
    graph: Graph, pstate: PStateDeclaration, key_names: tuple[str, ...], place: str
) -> Flow:
    """The rows of a PState's changes."""
    keys = entry_keys(pstate.node, place)
    names = key_names or tuple(
        "key" if index == 0 else f"key_{index + 1}" for index in range(len(keys))
    )
    if len(names) != len(keys):
        raise DeclarationError(
            f"entries of {pstate.name} have {len(keys)} keys, not {len(names)}",
            hint=f"name {len(keys)} columns in changes(...)",
            declared=place,
        )
    return after(graph, Changes((), place, pstate, names))


def entry_keys(node: Node, place: str) -> tuple[Scalar, ...]:
    """The keys of one stored entry: those of the maps on the way, and a set's element."""
    keys: list[Scalar] = []
    while isinstance(node, Map):
        keys.append(node.key)
        node = node.value
    if isinstance(node, Set):
        keys.append(node.item)
    elif not node.leaf:
        raise DeclarationError(
            "changes of structs whose fields are stored apart have no common columns",
            hint="put the fields whose changes you need into a PState of their own",
            declared=place,
        )
    return tuple(keys)
