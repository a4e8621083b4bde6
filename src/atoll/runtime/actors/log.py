"""The type ``log``: see the class."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec

from atoll.runtime.actors.interface import ActorType, Effect, Event, Given, Result, State
from atoll.runtime.events import compact


class LogParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Params of a log.

    Args:
        file: The name of a file, without a folder: the operator says where files of runtimes
            lie. Without a name events go to the service's own log.
        append: Whether a file that is there already is kept; else it begins anew with the first
            event of the runtime.
    """

    file: (
        Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}(\.[a-z0-9]{1,8})?$")]
        | None
    ) = None
    append: bool = False


class Log(ActorType[LogParams]):
    """Writes every event as a line of JSON; emits nothing.

    An effect of the kind ``file``, with ``file`` (a name or null), ``append`` and ``line``.
    """

    name = "log"
    params = LogParams
    effect = "file"
    emits = False
    example: ClassVar[dict[str, Any]] = {"file": "orders.jsonl", "append": True}

    def trigger(self, params: LogParams, state: State, event: Event, given: Given) -> Result:
        """A line."""
        request = {"file": params.file, "append": params.append, "line": compact(event)}
        return Result(state, (), (Effect("file", request, given.key),))
