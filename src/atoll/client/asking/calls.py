"""One request as plain data, and whether it may be sent again: decided without a connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from atoll.client.errors import ServiceUnreachableError
from atoll.errors import AtollError, FencedError, StoppedError

T = TypeVar("T")

WAIT_SECONDS_MAX = 300.0
"""So long one request waits at most; a client that waits longer asks again."""

_PAUSE_SECONDS = 0.1
_PAUSE_SECONDS_MAX = 2.0


class Again(Enum):
    """When a request may be sent once more."""

    ALWAYS = "always"
    """It changes nothing, or comes to the same when it is done twice."""
    UNSENT = "unsent"
    """Only when the service cannot have got it."""
    STOPPED = "stopped"
    """Then, or when the service says that the module did not take it."""


@dataclass(frozen=True)
class Call(Generic[T]):
    """What is asked of a service.

    Attributes:
        method: The verb.
        parts: The address: the names between the slashes, as they are.
        read: Makes what the caller gets of the data that is answered.
        params: What stands behind the question mark.
        json: Plain data to send; None for no body.
        content: Or a body as it is; called for each time that it is sent.
        headers: Further headers.
        values: Whether the answer's values are wanted as they are, not as JSON.
        again: When it may be sent once more.
        wait_seconds: How long the service is to wait; None when it does not.
        wait_in_body: Whether that is said in the body.
    """

    method: str
    parts: tuple[str, ...]
    read: Callable[[Any], T]
    params: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    content: Callable[[], Iterable[bytes]] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    values: bool = False
    again: Again = Again.ALWAYS
    wait_seconds: float | None = None
    wait_in_body: bool = True

    @property
    def path(self) -> str:
        """The address as it is sent."""
        return "/" + "/".join(quote(part, safe="") for part in self.parts)

    def within(self, seconds: float | None) -> tuple[dict[str, str], Any]:
        """The parameters and the data when it is to wait so long."""
        params = dict(self.params)
        if seconds is None:
            return params, self.json
        told = min(max(seconds, 0.001), WAIT_SECONDS_MAX)
        if self.wait_in_body:
            return params, {**self.json, "timeout_seconds": told}
        return {**params, "timeout_seconds": repr(told)}, self.json


class LostAnswerError(ServiceUnreachableError):
    """The connection went away after the request was sent: it may have been obeyed."""


def pause_before_next(
    call: Call[Any], error: AtollError, attempt: int, left_seconds: float
) -> float | None:
    """How long to wait before a request is sent again; None when it is not to be.

    Args:
        call: The request.
        error: What came of it.
        attempt: How often it was sent, from 1.
        left_seconds: For how long it may still be tried.
    """
    unsent = isinstance(error, ServiceUnreachableError) and not isinstance(error, LostAnswerError)
    passing = isinstance(error, ServiceUnreachableError | StoppedError | FencedError)
    refused = isinstance(error, StoppedError) and call.again is Again.STOPPED
    if not passing or not (unsent or refused or call.again is Again.ALWAYS):
        return None
    pause = min(_PAUSE_SECONDS * 2 ** (attempt - 1), _PAUSE_SECONDS_MAX)
    return pause if pause < left_seconds else None
