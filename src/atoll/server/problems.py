"""Errors as problem details (RFC 9457): every answer that is no success has this one shape.

``type`` names the kind of error, ``code`` is Atoll's own stable code, ``detail`` says what was
wrong, ``hint`` what to do next, ``context`` where it was wrong. A fault of the service itself is
caught by the guard around the application, logged with its request id and answered without any
detail: a stack trace never leaves it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import Scope

from atoll import errors
from atoll.client.errors import ServiceUnreachableError
from atoll.errors import AtollError
from atoll.logs import get_logger
from atoll.server.render import render_json

MEDIA_TYPE = "application/problem+json"

_log = get_logger(__name__)

_STATUS: tuple[tuple[type[AtollError], HTTPStatus], ...] = (
    (errors.RecordsRefusedError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (errors.FillingError, HTTPStatus.CONFLICT),
    (errors.NotFoundError, HTTPStatus.NOT_FOUND),
    (errors.UnauthenticatedError, HTTPStatus.UNAUTHORIZED),
    (errors.ForbiddenError, HTTPStatus.FORBIDDEN),
    (errors.ThrottledError, HTTPStatus.TOO_MANY_REQUESTS),
    (errors.PathError, HTTPStatus.BAD_REQUEST),
    (errors.BudgetError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (errors.QueryError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (errors.UserCodeError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (errors.UsageError, HTTPStatus.BAD_REQUEST),
    (errors.DefinitionError, HTTPStatus.BAD_REQUEST),
    (errors.DeclarationError, HTTPStatus.BAD_REQUEST),
    (errors.ConflictError, HTTPStatus.CONFLICT),
    (errors.DepotError, HTTPStatus.CONFLICT),
    (errors.StateError, HTTPStatus.CONFLICT),
    (errors.DeployError, HTTPStatus.CONFLICT),
    (errors.RescheduleError, HTTPStatus.CONFLICT),
    (errors.TopologyFailedError, HTTPStatus.CONFLICT),
    (errors.BusyError, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.StoppedError, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.FencedError, HTTPStatus.SERVICE_UNAVAILABLE),
    (ServiceUnreachableError, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.StorageError, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.WaitTimeoutError, HTTPStatus.GATEWAY_TIMEOUT),
)
"""The status of each kind, most special first; every other kind is a 500."""

_NOT_NOW = frozenset({"unavailable", "no workers"})
"""What keeps every reschedule out for a while, and says nothing about this one."""

_HTTP_CODES = {
    HTTPStatus.BAD_REQUEST: ("E-USAGE", "look at /openapi.json for what the route takes"),
    HTTPStatus.FORBIDDEN: ("E-FORBIDDEN", "use the address that the service was started for"),
    HTTPStatus.NOT_FOUND: ("E-NOT-FOUND", "look at /openapi.json for the routes"),
    HTTPStatus.NOT_ACCEPTABLE: ("E-USAGE", "leave the Accept header out, or accept JSON"),
    HTTPStatus.METHOD_NOT_ALLOWED: ("E-USAGE", "the Allow header lists the methods"),
    HTTPStatus.REQUEST_TIMEOUT: ("E-TIMEOUT", "send the body without long pauses"),
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: ("E-TOO-LARGE", ""),
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: (
        "E-MEDIA-TYPE",
        "set Content-Type to application/json; /openapi.json lists what else a route takes",
    ),
}


def problem_of(
    status: int, code: str, detail: str, hint: str | None = None, context: Any = None
) -> dict[str, Any]:
    """The members of one problem, absent ones left out."""
    problem: dict[str, Any] = {
        "type": f"urn:atoll:error:{code.lower()}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
    }
    if hint:
        problem["hint"] = hint
    if context:
        problem["context"] = context
    return problem


def problem_response(problem: dict[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """The problem as an answer."""
    return Response(
        render_json(problem),
        status_code=problem["status"],
        media_type=MEDIA_TYPE,
        headers=dict(headers or {}),
    )


def install_problems(app: FastAPI) -> None:
    """Make every error that a route raises on purpose leave it as a problem."""
    app.add_exception_handler(AtollError, _on_atoll_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)


def _status_of(error: AtollError) -> HTTPStatus:
    if isinstance(error, errors.RescheduleError) and error.context.get("problem") in _NOT_NOW:
        return HTTPStatus.SERVICE_UNAVAILABLE
    for kind, status in _STATUS:
        if isinstance(error, kind):
            return status
    return HTTPStatus.INTERNAL_SERVER_ERROR


def problem_for(error: AtollError) -> dict[str, Any]:
    """The problem that an error is."""
    return problem_of(_status_of(error), error.code, error.message, error.hint, error.context)


def _on_atoll_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, AtollError)
    status = _status_of(error)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.error("request-failed", path=request.url.path, error=str(error))
    return problem_response(_as_asked(request, problem_for(error)))


def problem_answer(
    scope: Scope, problem: dict[str, Any], headers: Mapping[str, str] | None = None
) -> Response:
    """The problem as an answer to a request that no route has seen."""
    return problem_response(_as_asked(Request(scope), problem), headers)


def _as_asked(request: Request, problem: dict[str, Any]) -> dict[str, Any]:
    """The problem; below ``/api`` with the members that Coral's clients look at besides."""
    if not request.url.path.startswith("/api/"):
        return problem
    told = (problem.get("context") or {}).get("problems", ())
    texts = [f"{each.get('path', '')}: {each.get('what')}".removeprefix(": ") for each in told]
    action = f"{request.method} {request.url.path}"[:200]
    more = {"action": action, "success": False, "reason": problem["detail"]}
    return {**problem, **more, "errors": texts or [problem["detail"]]}


def smaller(path: str) -> str:
    """What to do about a body that is too large for a route."""
    if not path.startswith("/api/"):
        return "send many records as application/x-ndjson, which is streamed and has no limit"
    return "send many events in several requests, each as application/x-ndjson of at most 16 MiB"


def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code, hint = _HTTP_CODES.get(HTTPStatus(error.status_code), ("E-USAGE", ""))
    if error.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        hint = smaller(request.url.path)
    problem = problem_of(error.status_code, code, str(error.detail), hint)
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_methods(request))
    return problem_response(_as_asked(request, problem), headers)


def _methods(request: Request) -> list[str]:
    """All that an address can be asked; the router names those of the first route only."""
    routes: Iterable[Route] = request.app.state.routes
    path = request.url.path
    found = (each.methods or () for each in routes if each.path_regex.match(path))
    return sorted({method for methods in found for method in methods})


def _on_invalid_request(request: Request, error: Exception) -> Response:
    """Name each wrong part of the request, without echoing what was sent."""
    assert isinstance(error, RequestValidationError)
    wrong = [_wrong_part(item) for item in error.errors()]
    first = wrong[0] if wrong else {"at": "body", "problem": "cannot be read"}
    named = first["problem"].endswith(_NO_NAME)
    hint = _NAMES if named else "look at /openapi.json for what the route takes"
    below_api = request.url.path.startswith("/api/")
    problem = problem_of(
        HTTPStatus.BAD_REQUEST if below_api else HTTPStatus.UNPROCESSABLE_ENTITY,
        "E-USAGE",
        f"{first['at']}: {first['problem']}",
        hint,
        {"wrong": wrong},
    )
    return problem_response(_as_asked(request, problem))


_NO_NAME = "can be called so"
_NAMES = "use 1 to 63 letters, digits, - and _, beginning with a letter or digit"


def _wrong_part(item: Mapping[str, Any]) -> dict[str, str]:
    """A part of a request and what is wrong with it; a name without the pattern of names."""
    place, problem = item["loc"], item["msg"]
    if place[0] == "path" and item["type"] == "string_pattern_mismatch":
        problem = f"no {place[-1]} {_NO_NAME}"
    return {"at": ".".join(map(str, place)), "problem": problem}
