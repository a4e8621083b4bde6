"""Arguments of queries as JSON has them; the query's parameters say what they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atoll.errors import PathError, UsageError
from atoll.objects import plain
from atoll.path.wire import plain_value


def plain_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by name.

    Raises:
        UsageError: When one is of a type that no parameter has; the message names it.
    """
    told = {}
    for name, value in given.items():
        try:
            told[name] = plain_value(plain(value))
        except PathError as error:
            raise UsageError(
                f"the argument {name!r} cannot be sent: {error.message}",
                hint="see the query's parameters",
                argument=name,
            ) from None
    return told
