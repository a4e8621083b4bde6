"""What ``/openapi.json`` says: FastAPI's description, with every status that can come."""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI

from atoll.codec.values.exchange import VALUES
from atoll.server.problems import MEDIA_TYPE

_PROBLEM = {
    "type": "object",
    "description": "Why a request was not answered as asked (RFC 9457).",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string", "description": "Names the kind of problem."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What was wrong."},
        "code": {"type": "string", "description": "Atoll's own stable code: E-NOT-FOUND."},
        "hint": {"type": "string", "description": "What to do about it."},
        "context": {"type": "object", "description": "Where it was wrong."},
    },
}
_ANY = (400, 401, 403, 404, 405, 406, 408, 422, 429, 500, 503)
_WRITE = (409, 413, 415, 504)
_WAITING = re.compile(r"/(subscribe|records|export|value)$")
_OWN_SHAPE = {"/healthz": (503,), "/readyz": (503,)}
"""Routes whose answer has a status of no success and yet its own shape."""
_TEXT = ("/metrics",)
_AS_VALUES = re.compile(r"/pstates/\{pstate\}/(get|select|value)$|/queries/\{query\}$")
"""Routes that answer with values as they are to who asks for them."""
_PRODUCER: dict[str, dict[str, Any]] = {
    "Atoll-Producer-Id": {"type": "string", "minLength": 1, "maxLength": 160},
    "Atoll-Producer-Sequence": {"type": "string", "pattern": "^[0-9]{1,18}$"},
    "Atoll-Producer-Epoch": {"type": "string", "pattern": "^[0-9]{1,18}$"},
}
_APPEND = "/v1/modules/{module}/depots/{depot}/records"


def describing(application: FastAPI) -> Callable[[], dict[str, Any]]:
    """Makes the description, once."""
    plain = application.openapi

    def described() -> dict[str, Any]:
        if application.openapi_schema is None:
            application.openapi_schema = completed(plain())
        return application.openapi_schema

    return described


def completed(schema: dict[str, Any]) -> dict[str, Any]:
    """The description with the statuses of problems, their type, and the producer's headers."""
    components = schema.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas["Problem"] = _PROBLEM
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    components["responses"] = {
        str(status): {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in (*_ANY, *_WRITE)
    }
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            _complete(path, method, operation)
    return schema


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    responses = operation.setdefault("responses", {})
    statuses = _ANY if method == "get" and not _WAITING.search(path) else (*_ANY, *_WRITE)
    for status in statuses:
        if status not in _OWN_SHAPE.get(path, ()):
            responses[str(status)] = {"$ref": f"#/components/responses/{status}"}
    content = responses.get("200", {}).get("content", {})
    if path in _TEXT:
        content["text/plain"] = {"schema": {"type": "string"}}
        content.pop("application/json", None)
    if _AS_VALUES.search(path):
        content[VALUES] = {"schema": {"type": "string", "format": "binary"}}
    if path.endswith("/value"):
        responses["304"] = {"description": "What the client knows is the last commit."}
    for status in _OWN_SHAPE.get(path, ()):
        responses[str(status)] = {
            "description": "It is not so; the answer says why.",
            "content": {"application/json": {"schema": {"type": "object"}}},
        }
    if path == _APPEND and method == "post":
        operation.setdefault("parameters", []).extend(
            {"name": name, "in": "header", "required": False, "schema": kind}
            for name, kind in _PRODUCER.items()
        )
