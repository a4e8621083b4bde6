"""The steps of a query that read state, or ask another query."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from atoll.engine.exchange.packing import KeyedPacker, unpack
from atoll.errors import PathError, UserCodeError
from atoll.path import Path
from atoll.placement.mapping import Mapping
from atoll.pstate.select import iterate
from atoll.queries.tables import taken
from atoll.steps.fold.bind import group_mapping
from atoll.steps.fold.run import fold_rows, no_rows
from atoll.steps.lookup.run import look_up
from atoll.topology.rows import ORIGIN, ORIGIN_FIELD, Row, batch_from_rows, rows_of
from atoll.topology.usercode import Step, calling

if TYPE_CHECKING:
    from atoll.pstate.spec import PStateSpec
    from atoll.pstate.view import MigratedVnode, VnodeView
    from atoll.queries.answers import Asks
    from atoll.queries.bound import BoundAsk
    from atoll.queries.run import Reading, Run
    from atoll.queries.select_from import SelectFrom
    from atoll.steps.fold.bind import BoundFold
    from atoll.steps.lookup.bind import BoundLookup

_UNIT = 0


def looking_up(step: BoundLookup, spec: PStateSpec, emitted: pa.Schema) -> Run:
    """Adds an entry's value to each row: the rows of a vnode with one read.

    The vnodes are read one after the other: in threads that share Python's lock it takes longer.
    """

    def run(tables: list[pa.Table], reading: Reading) -> pa.Table:
        packer = KeyedPacker(step, Mapping.even(spec.vnode_count, (_UNIT,)))
        packed = _packed(packer, tables[0])
        if packed is None:
            return emitted.empty_table()
        view = reading.view(step.pstate)

        def vnode(number: int) -> VnodeView | MigratedVnode:
            reading.check()
            return view.vnode(number)

        with step.blamed():
            return look_up(step, [packed], vnode)

    return run


def folding(step: BoundFold) -> Run:
    """One row per combination of the keys."""

    def run(tables: list[pa.Table], _reading: Reading) -> pa.Table:
        packed = _packed(KeyedPacker(step, group_mapping((_UNIT,))), tables[0])
        with step.blamed():
            if packed is not None:
                return fold_rows(step, [packed])
            return no_rows(step) if step.fires else step.emitted.empty_table()

    return run


def _packed(packer: KeyedPacker, rows: pa.Table) -> pa.Table | None:
    for batch in rows.to_batches():
        packer.add(batch)
    for _, blob in packer.finish():
        return unpack(blob)
    return None


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

    return _beside(values_of, step, step.added, emitted)


def asking(step: Asks, emitted: pa.Schema) -> Run:
    """The answer's rows beside each row; nulls beside it when a single row is missing."""
    question = Question(step.query, step.arguments, step.added.names)
    return _beside(question.answers, step, step.added, emitted)


class Question(NamedTuple):
    """What a step asks for each row, and the columns that the answer fills."""

    query: str
    arguments: tuple[tuple[str, str], ...]
    names: list[str]

    def answers(self, row: Row, reading: Reading) -> list[dict[str, Any]]:
        """The values of the columns, for each row of the answer."""
        arguments = {name: row[column] for name, column in self.arguments}
        asked = reading.queries[self.query].returned
        rows = reading.ask(self.query, arguments)
        if not rows and asked.rows == "one":
            return [dict.fromkeys(self.names)]
        if asked.column is not None:
            (name,) = self.names
            return [{name: each[asked.column]} for each in rows]
        return [{name: each[name] for name in self.names} for each in rows]


def answered(step: BoundAsk, rows: pa.Table, reading: Reading) -> pa.Table:
    """The rows of a topology with the answers beside them; what says their origin stays last."""
    question = Question(step.query, step.arguments, step.added.names)
    plain = rows.select(step.rows.names)
    made = _beside(question.answers, step, step.added, step.emitted, rows)
    return made([plain], reading)


def _beside(
    values_of: Callable[[Row, Reading], Iterable[dict[str, Any]]],
    step: Step,
    added: pa.Schema,
    emitted: pa.Schema,
    tracked: pa.Table | None = None,
) -> Run:
    """For each row as many rows as it has values, the values' columns last.

    Where ``tracked`` are the same rows with their origins, those come out behind.
    """

    def run(tables: list[pa.Table], reading: Reading) -> pa.Table:
        parents: list[int] = []
        made: list[dict[str, Any]] = []
        number = 0
        for batch in tables[0].to_batches():
            for row in rows_of(batch):
                reading.check()
                for values in values_of(row, reading):
                    parents.append(number)
                    made.append(values)
                number += 1
        columns = batch_from_rows(made, added, step.title, step.place).columns
        kept = taken(tables[0], parents).columns
        table = pa.Table.from_arrays([*kept, *columns], schema=emitted)
        if tracked is None or ORIGIN not in tracked.column_names:
            return table
        origins = tracked.column(ORIGIN).take(pa.array(parents, pa.int64()))
        return table.append_column(ORIGIN_FIELD, origins)

    return run


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
