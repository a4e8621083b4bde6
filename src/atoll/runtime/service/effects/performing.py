"""Performs effects of the kinds ``http`` and ``sql``: one request, one outcome, nothing raised.

Where a request may go, and how it goes there, is said in :mod:`atoll.outside`.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

from atoll.outside.asking import ask_http
from atoll.runtime.actors.sql import rewritten
from atoll.runtime.service.effects.outside import Database, Outside

_ROWS_MAX = 10_000


def perform_http(request: dict[str, Any], key: str, outside: Outside) -> dict[str, Any]:
    """The answer to a request: ``status``, ``reason``, ``headers``, ``body``; or ``error``.

    Args:
        request: ``method``, ``url``, ``headers`` and ``body``.
        key: The idempotency key, sent as a header: a request may come twice.
        outside: Which URLs may be asked.

    Raises:
        Transient: When the other side could not be reached, or says that it cannot now.
    """
    headers = {**request["headers"], "Idempotency-Key": key}
    return ask_http(request["method"], request["url"], headers, request["body"], outside.rules)


def perform_sql(request: dict[str, Any], outside: Outside) -> dict[str, Any]:
    """The rows of a statement as ``rows``, null where it gives none; or ``error``."""
    database = outside.databases.get(request["database"])
    if database is None:
        return {"error": f"no database {request['database']!r} is configured"}
    try:
        statement, values = _bound(request["statement"], request["parameters"], database)
        with closing(database.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(statement, values)
            rows = None
            if cursor.description is not None:
                names = [column[0] for column in cursor.description]
                found = cursor.fetchmany(_ROWS_MAX)
                rows = [
                    {name: _plain(value) for name, value in zip(names, row, strict=True)}
                    for row in found
                ]
            connection.commit()
            return {"rows": rows}
    except Exception as error:  # noqa: BLE001 - each driver has errors of its own
        return {"error": str(error)[:500]}


def _bound(
    statement: str, values: dict[str, Any], database: Database
) -> tuple[str, dict[str, Any] | list[Any]]:
    """The statement and its values as the driver wants them; quoted texts stay as they are."""
    if database.paramstyle == "named":
        return statement, values
    if database.paramstyle == "pyformat":
        text = rewritten(
            statement, lambda name: f"%({name})s", lambda part: part.replace("%", "%%")
        )
        return text, values
    order: list[Any] = []

    def written(name: str) -> str:
        order.append(values[name])
        return "?"

    return rewritten(statement, written), order


def _plain(value: Any) -> Any:
    """A value of a row as JSON knows it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.hex() if isinstance(value, bytes | memoryview) else str(value)
