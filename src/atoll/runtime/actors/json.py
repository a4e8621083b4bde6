"""The type ``json``: see the class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from atoll.runtime.actors.interface import (
    ActorType,
    BatchGiven,
    BatchResult,
    Event,
    Given,
    Result,
    State,
)
from atoll.runtime.batches import column_of, to_batch
from atoll.runtime.paths import Path, parse_path
from atoll.runtime.problems import Problem
from atoll.runtime.templates import check_template, expression_in, fill

_WRITTEN = {b"null": b"written"}


class JsonParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Params of a json.

    Args:
        template: The object to emit; a text that is nothing but ``${path}`` stands for the
            event's value there.
    """

    template: dict[str, Any]


class Json(ActorType[JsonParams]):
    """Emits an object made by a template for every event.

    What a path does not find is null. See [templates](../concepts/runtimes.md#templates).
    """

    name = "json"
    params = JsonParams
    example: ClassVar[dict[str, Any]] = {
        "template": {"kind": "order", "total": "${order.total}", "first": "${order.lines[0]}"}
    }

    def check(self, params: JsonParams) -> Iterator[Problem]:
        """Every expression can be read."""
        yield from check_template(params.template, "/template")

    def keeps(self, params: JsonParams, field: str) -> bool:
        """What the template says of it."""
        written = "${" + field + "}"
        return field.isidentifier() and params.template.get(field) == written

    def trigger(self, params: JsonParams, state: State, event: Event, given: Given) -> Result:
        """The template, filled."""
        return Result(state, (fill(params.template, event),))

    def batch(
        self, params: JsonParams, events: pa.RecordBatch, given: BatchGiven
    ) -> BatchResult | None:
        """Columns put together, where every path leads through objects and the rest is constant."""
        made = _object(params.template, events)
        if made is None:
            return None
        arrays, fields = made
        batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
        return BatchResult(batch, np.arange(events.num_rows), {})


def _object(
    template: dict[str, Any], events: pa.RecordBatch
) -> tuple[list[pa.Array], list[pa.Field]] | None:
    """The columns of an object of the template; None when it must be filled row by row."""
    arrays, fields = [], []
    for name, value in template.items():
        array = _column(value, events)
        if array is None:
            return None
        arrays.append(array)
        fields.append(pa.field(name, array.type, metadata=_WRITTEN))
    return (arrays, fields) if arrays else None


def _column(value: Any, events: pa.RecordBatch) -> pa.Array | None:
    if isinstance(value, dict):
        made = _object(value, events)
        return pa.StructArray.from_arrays(made[0], fields=made[1]) if made else None
    if isinstance(value, list):
        return None
    expression = expression_in(value) if isinstance(value, str) else None
    if expression is None:
        constant = to_batch([{"value": value}])
        if constant is None:
            return None
        return constant.column(0).take(pa.array(np.zeros(events.num_rows, np.int64)))
    path = parse_path(expression)
    return _found(path, events) if path else None


def _found(path: Path, events: pa.RecordBatch) -> pa.Array | None:
    """What lies at a path of names; None for a path with brackets, or through arrays."""
    if any(inner is not None for _, inner in path):
        return None
    (first, _), *rest = path
    column = column_of(events, first)
    for name, _ in rest:
        if column is None or pt.is_list(column.type):
            break
        if not pt.is_struct(column.type):
            return pa.nulls(events.num_rows)
        at = column.type.get_field_index(name)
        column = column.flatten()[at] if at >= 0 else pa.nulls(events.num_rows)
    if column is None:
        return pa.nulls(events.num_rows)
    return None if pt.is_list(column.type) and rest else column
