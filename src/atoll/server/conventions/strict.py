"""Bodies and parameters read as they stand: nothing passes for something else.

``0`` is no ``false``, ``"5"`` no number, and an object that names a member twice is refused: a
reader who takes the first and one who takes the last would do different things.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Query
from fastapi.routing import APIRoute
from pydantic import BaseModel, BeforeValidator, ConfigDict
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response


def _flag(value: object) -> object:
    """A boolean, or the text of one in an address."""
    if isinstance(value, str):
        if value not in ("true", "false"):
            raise ValueError("must be true or false")
        return value == "true"
    return value


Flag = Annotated[bool, BeforeValidator(_flag), Query()]
"""A parameter of an address that is ``true`` or ``false``."""


class StrictModel(BaseModel):
    """A body in which nothing is turned into another type, and nothing unknown is passed over."""

    model_config = ConfigDict(extra="forbid", strict=True)


class StrictRoute(APIRoute):
    """A route whose JSON body names no member twice."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Read the body strictly."""
        handler = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handler(_StrictRequest(request.scope, request.receive))

        return strict


class _StrictRequest(Request):
    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = json.loads(await self.body(), object_pairs_hook=_members)
        return self._json


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise HTTPException(400, f"the body names {twice[:100]!r} twice")
    return found
