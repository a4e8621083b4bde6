"""One migration of one leaf of a PState, as the deployment keeps it."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from atoll.codec.values.leaf import LeafCodec


@dataclass(frozen=True)
class Migration:
    """What was declared, with what is needed to read the values of before.

    Attributes:
        id: The name that the user gave it.
        generation: That of a vnode whose entries have been through it.
        position: The leaf, by the names of the struct fields on the way to it.
        before: The codec of the leaf's values before.
        function: From the value before to the value after, pickled by value.
    """

    id: str
    generation: int
    position: tuple[str, ...]
    before: LeafCodec
    function: bytes

    def to_json(self) -> dict[str, Any]:
        """As plain data; :meth:`from_json` reads it."""
        return {
            "id": self.id,
            "generation": self.generation,
            "at": list(self.position),
            "before": self.before.to_json(),
            "function": base64.b64encode(self.function).decode("ascii"),
        }

    @classmethod
    def from_json(cls, data: Any) -> Migration:
        """What :meth:`to_json` wrote."""
        return cls(
            data["id"],
            int(data["generation"]),
            tuple(data["at"]),
            LeafCodec.from_json(data["before"]),
            base64.b64decode(data["function"]),
        )
