"""What goes wrong between a client and a service, and a service's problems as the errors they were.

A problem that the service answers with becomes the error that it was there, with its hint and
context, so that a program sees the same kinds and words wherever the mistake was found.
"""

from __future__ import annotations

from typing import Any

from atoll import errors
from atoll.errors import AtollError

__all__ = ["ServiceError", "ServiceUnreachableError", "error_of"]


class ServiceUnreachableError(AtollError):
    """Nothing answers at the service's address, or it went away in the middle."""

    code = "E-UNREACHABLE"


class ServiceError(AtollError):
    """What answers is no Atoll, or it failed in a way that it has no words for."""

    code = "E-SERVICE"


def error_of(problem: dict[str, Any]) -> AtollError:
    """The error that a problem was made from; one of the same code where the kind is not known."""
    code = str(problem["code"])
    kinds = {kind.code: kind for kind in map(errors.__dict__.get, errors.__all__) if kind}
    kinds |= {kind.code: kind for kind in (ServiceUnreachableError, ServiceError)}
    kind = kinds.get(code) or type("RemoteError", (AtollError,), {"code": code})
    context = problem.get("context")
    context = context if isinstance(context, dict) else {}
    reserved = {"message", "hint", "self"}
    context = {str(key): value for key, value in context.items() if key not in reserved}
    error: AtollError = kind(str(problem.get("detail", "")), hint=problem.get("hint"), **context)
    return error
