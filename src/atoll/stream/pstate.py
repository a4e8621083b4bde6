"""A PState as its topology's author holds it: what was declared, and the stream of its changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from atoll.errors import DeclarationError
from atoll.steps.changes.declare import changes_of
from atoll.stream.stream import Stream, stream_of
from atoll.topology.declared import PStateDeclaration, V
from atoll.topology.usercode import declared_at

if TYPE_CHECKING:
    from atoll.topology.graph import Graph


@dataclass(frozen=True, eq=False, repr=False)
class PState(PStateDeclaration[V]):
    """Partitioned state with a schema, written by one topology and readable by all."""

    graph: Graph | None = field(default=None, repr=False)
    """Its topology's; None for a mirror."""

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what it takes to declare more: tasks declare nothing."""
        return {**self.__dict__, "graph": None, "declared_as": None}

    def changes(self, *key_names: str) -> Stream:
        """A stream of this PState's changes: each changed entry once per microbatch.

        Rows have the entry's keys (columns named ``key_names``; by default ``key``, ``key_2``,
        ...), ``old`` and ``new``: the values before and after the microbatch, null where absent.
        """
        place = declared_at(1)
        if self.graph is None:
            raise DeclarationError(
                f"changes of {self.name!r} cannot be read: it is a mirror",
                hint="append the changes to a depot there, and read a mirror of that depot",
                declared=place,
            )
        return stream_of(changes_of(self.graph, self, key_names, place))
