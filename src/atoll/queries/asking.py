"""A query that asks another one, and the steps of a topology that ask one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from atoll.queries.beside import beside

if TYPE_CHECKING:
    from atoll.queries.answers import Asks
    from atoll.queries.bound import BoundAsk
    from atoll.topology.querying.step import Reading, Run
    from atoll.topology.rows import Row


def asking(step: Asks, emitted: pa.Schema) -> Run:
    """The answer's rows beside each row; nulls beside it when a single row is missing."""
    question = Question(step.query, step.arguments, step.added.names)
    return beside(question.answers, step, step.added, emitted)


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
    made = beside(question.answers, step, step.added, step.emitted, rows)
    return made([plain], reading)
