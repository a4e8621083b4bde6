"""``select_from`` in a query: one row per value that the path of a row leads to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from atoll.errors import PathError, UserCodeError
from atoll.path import Path
from atoll.pstate.select import iterate
from atoll.queries.beside import beside
from atoll.topology.rows import Row
from atoll.topology.usercode import calling

if TYPE_CHECKING:
    from atoll.pstate.spec import PStateSpec
    from atoll.queries.select_from import SelectFrom
    from atoll.topology.querying.step import Reading, Run


def selecting(step: SelectFrom, spec: PStateSpec, emitted: pa.Schema) -> Run:
    """One row per value that the path of a row leads to."""

    def values_of(row: Row, reading: Reading) -> Iterable[dict[str, Any]]:
        with calling(step, row):
            path = step.function(row)
        if not isinstance(path, Path):
            raise UserCodeError(
                f"the function of select_from gave {path!r}, not a path",
                hint="return path.key(row.user), or path.stop() for no value",
                operator=step.title,
                declared=step.place,
            )
        try:
            for value in reading.checked(iterate(reading.view(step.pstate.name), spec, path)):
                yield _columns_of(value, step)
        except PathError as error:
            error.context.setdefault("operator", step.title)
            error.context.setdefault("declared", step.place)
            raise

    return beside(values_of, step, step.added, emitted)


def _columns_of(value: Any, step: SelectFrom) -> dict[str, Any]:
    names = step.added.names
    if len(names) == 1:
        return {names[0]: value}
    parts: Iterable[Any] | None = None
    if isinstance(value, dict):
        parts = [value.get(name) for name in names]
    elif isinstance(value, tuple | list) and len(value) == len(names):
        parts = value
    if parts is not None:
        return dict(zip(names, parts, strict=True))
    raise UserCodeError(
        f"select_from met {value!r}, which does not fill the columns {', '.join(names)}",
        hint="a pair of all() fills two columns; a struct those named like its fields",
        operator=step.title,
        declared=step.place,
    )
