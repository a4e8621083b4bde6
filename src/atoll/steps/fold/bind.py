"""``group_by(...).agg(...)`` of Atoll's aggregates as tasks run it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from atoll.codec.values.leaf import LeafCodec
from atoll.engine.exchange.keyed import KeyElement
from atoll.errors import DeclarationError
from atoll.placement.mapping import Mapping
from atoll.steps.folding.fields import bound_field, key_kind, known_column, typed_field
from atoll.steps.folding.step import FoldedField, FoldingStep
from atoll.topology.usercode import placed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from atoll.engine.step import Packing, Work
    from atoll.steps.fold.declare import Fold
    from atoll.topology.binding import StepName

_VNODES_LEAST = 256


def group_mapping(units: Sequence[int]) -> Mapping:
    """Which unit folds which combinations of keys; the first one what has no keys."""
    return Mapping.even(max(_VNODES_LEAST, len(units)), units)


@dataclass(frozen=True)
class BoundFold(FoldingStep):
    """Fold rows into one row per combination of the keys; any actor may own a combination.

    ``elements`` are the keys, their columns in ``emitted`` come first, and then the fields'.
    """

    codecs: tuple[LeafCodec, ...]
    """How the state of each field becomes what a reader sees."""
    emitted: pa.Schema

    placing: ClassVar[slice] = slice(0, None)

    @property
    def fires(self) -> bool:
        """Whether a row comes out although none came in."""
        return not self.elements

    @property
    def runs_without_rows(self) -> bool:
        """Where it fires."""
        return self.fires

    @property
    def emits(self) -> pa.Schema:
        """A row per combination."""
        return self.emitted

    def mapping(self, packing: Packing) -> Mapping:
        """Any: no store belongs to its vnodes."""
        return group_mapping(packing.units)

    def run(self, work: Work, rows: list[pa.Table]) -> None:
        """Emit what the rows come to; of no rows one actor does."""
        from atoll.steps.fold.run import fold_rows, no_rows

        if rows:
            work.emit(self.tag, fold_rows(self, rows, work.refused))
        elif work.is_first():
            work.emit(self.tag, no_rows(self))


def fold_schema(step: Fold, rows: pa.Schema) -> pa.Schema:
    """The keys' columns as they are, then one per aggregate.

    Raises:
        DeclarationError: When a column is not there, or cannot be a key or be aggregated.
    """
    with placed(step.place):
        keys = [rows.field(known_column(rows, name)) for name in step.keys]
        for key in keys:
            key_kind(key)
        fields = [typed_field(each, rows) for each in step.fields]
    made = [pa.field(f.declared.name, f.codec.value_arrow_type) for f in fields]
    schema = pa.schema([*(key.remove_metadata() for key in keys), *made])
    if len(set(schema.names)) < len(schema.names):
        raise DeclarationError(
            f"agg would make two columns of one name: {', '.join(schema.names)}",
            hint="call the aggregate otherwise than a key",
            declared=step.place,
        )
    return schema


def bound_fold(step: Fold, name: StepName, rows: pa.Schema) -> BoundFold:
    """The step as tasks run it.

    Raises:
        DeclarationError: As :func:`fold_schema`.
    """
    emitted = fold_schema(step, rows)
    folded: list[FoldedField] = []
    codecs: list[LeafCodec] = []
    start = 0
    with placed(step.place):
        elements = tuple(
            KeyElement(column, None, key_kind(rows.field(column))) for column in step.keys
        )
        for each in (typed_field(declared, rows) for declared in step.fields):
            codec = each.codec
            stop = start + len(codec.columns)
            folded.append(bound_field(each, start, stop))
            codecs.append(codec)
            start = stop
    return BoundFold(*name, elements, tuple(folded), tuple(codecs), emitted)
