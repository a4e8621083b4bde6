"""``changes`` as tasks run it: emit what the microbatch changed in a PState."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from atoll.arrow_types import arrow_type
from atoll.engine.binding.columns import distinct_columns, value_type
from atoll.engine.step import BoundStep, Phase
from atoll.schema import Map, Set
from atoll.steps.changes.declare import entry_keys

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from atoll.codec.values.leaf import LeafCodec
    from atoll.engine.step import Opening, Work
    from atoll.schema import Node, Scalar
    from atoll.steps.changes.declare import Changes
    from atoll.topology.binding import Binding


@dataclass(frozen=True)
class BoundChanges(BoundStep):
    """Emit what the microbatch changed in a PState."""

    pstate: str
    kinds: tuple[Scalar, ...]
    codec: LeafCodec | None
    emitted: pa.Schema

    phase: ClassVar[Phase] = Phase.CHANGES

    @property
    def emits(self) -> pa.Schema:
        """Keys, the old and the new value."""
        return self.emitted

    @property
    def runs_without_rows(self) -> bool:
        """It takes none."""
        return True

    def has_work(self, changed: Mapping[str, Collection[int]]) -> bool:
        """Whether an earlier job changed the PState."""
        return bool(changed.get(self.pstate))

    def opens(self, vnodes: set[int], opening: Opening) -> dict[str, Collection[int]]:
        """Those that earlier jobs changed; later steps of this one open theirs."""
        return {self.pstate: set(opening.owned(self.pstate)) & set(opening.changed(self.pstate))}

    def run(self, work: Work, rows: list[pa.Table]) -> None:
        """Compare what is open with what was."""
        from atoll.steps.changes.run import changes

        converter = functools.partial(work.converter, self.pstate)
        work.emit(self.tag, changes(self, work.writers(self.pstate), converter))


def changes_schema(step: Changes) -> pa.Schema:
    """The keys, ``old`` and ``new``.

    Raises:
        DeclarationError: When two columns would have one name, or a row cannot say the values.
    """
    kinds = entry_keys(step.pstate.node, step.place)
    fields = [pa.field(n, arrow_type(k)) for n, k in zip(step.key_names, kinds, strict=True)]
    value_kind = _changed_type(step.pstate.node, step)
    fields += [pa.field("old", value_kind), pa.field("new", value_kind)]
    return distinct_columns(pa.schema(fields), step)


def bound_changes(step: Changes, binding: Binding) -> BoundChanges:
    """The step as tasks run it.

    Raises:
        DeclarationError: When the PState holds several kinds of values.
    """
    kinds = entry_keys(step.pstate.node, step.place)
    sole = binding.specs[step.pstate.name].sole_codec()
    return BoundChanges(*binding.name(step), step.pstate.name, kinds, sole, binding.schemas[step])


def _changed_type(node: Node, step: Changes) -> pa.DataType:
    while isinstance(node, Map):
        node = node.value
    return pa.bool_() if isinstance(node, Set) else value_type(node, step)
