"""The table of roles: for every route who may call it, and what it is about.

A route that has no row here is not reachable at all, whoever calls; a test holds that every route
has one, and ``docs/reference/roles.md`` is written from it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from starlette.routing import compile_path

from atoll.access.roles import Role

__all__ = ["ROWS", "Effect", "Found", "Reach", "Row", "find_row"]


class Reach(StrEnum):
    """What of the modules a route is about."""

    NOTHING = "nothing"
    """None of them."""
    MODULE = "its module"
    """The one that its address names; for others it is not there."""
    SEEN = "what it may see"
    """All that the caller may see: the rest is left out."""
    ALL = "all modules"
    """All at once, so only who may see all."""


class Effect(StrEnum):
    """What a route does."""

    READS = "reads"
    APPENDS = "appends"
    CHANGES = "changes"


@dataclass(frozen=True, slots=True)
class Row:
    """One route.

    Attributes:
        method: Its method.
        template: Its address, as the route declares it.
        role: The least role that may call it; None for anybody.
        reach: What of the modules it is about.
        effect: What it does; what changes anything is written into the log of changes.
        noted: Members of its JSON body that the log of changes holds.
    """

    method: str
    template: str
    role: Role | None
    reach: Reach
    effect: Effect
    noted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """What an address means.

    Attributes:
        row: Its row; None where there is none for its method.
        methods: The methods that it has rows for.
        parameters: The parts of the address that are names.
    """

    row: Row | None
    methods: tuple[str, ...] = ()
    parameters: dict[str, str] | None = None


_MODULE = "/v1/modules/{module}"
_DEPOT = f"{_MODULE}/depots/{{depot}}"
_PSTATE = f"{_MODULE}/pstates/{{pstate}}"
_TOPOLOGY = f"{_MODULE}/topologies/{{topology}}"
_RUNTIME = "/api/runtimes/{reference}"
_ACTOR = f"{_RUNTIME}/actors/{{actor}}"


def _anybody(method: str, template: str, effect: Effect = Effect.READS) -> Row:
    return Row(method, template, None, Reach.NOTHING, effect)


def _reading(template: str, reach: Reach = Reach.MODULE, method: str = "GET") -> Row:
    return Row(method, template, Role.VIEWER, reach, Effect.READS)


def _appending(template: str) -> Row:
    return Row("POST", template, Role.OPERATOR, Reach.MODULE, Effect.APPENDS)


def _operating(template: str, *noted: str, reach: Reach = Reach.MODULE) -> Row:
    return Row("POST", template, Role.OPERATOR, reach, Effect.CHANGES, noted)


def _authoring(method: str, template: str, *noted: str, reach: Reach = Reach.MODULE) -> Row:
    return Row(method, template, Role.AUTHOR, reach, Effect.CHANGES, noted)


ROWS: tuple[Row, ...] = (
    _anybody("GET", "/"),
    _anybody("GET", "/favicon.ico"),
    _anybody("GET", "/page/{version}/{name:path}"),
    _anybody("GET", "/healthz"),
    _anybody("GET", "/readyz"),
    _reading("/metrics", Reach.ALL),
    _reading("/openapi.json", Reach.NOTHING),
    _anybody("GET", "/v1/session"),
    _anybody("POST", "/v1/session", Effect.CHANGES),
    _anybody("DELETE", "/v1/session", Effect.CHANGES),
    Row("GET", "/v1/audit", Role.ADMIN, Reach.ALL, Effect.READS),
    _reading("/v1/modules", Reach.SEEN),
    _reading("/v1/status", Reach.SEEN),
    _reading("/v1/live", Reach.SEEN),
    _reading(_MODULE),
    _reading(f"{_MODULE}/status"),
    _reading(f"{_MODULE}/graph"),
    _reading(f"{_MODULE}/story"),
    _reading(f"{_MODULE}/wait", method="POST"),
    _authoring("POST", f"{_MODULE}/deploy", "dry_run", "remove"),
    _reading(f"{_MODULE}/depots"),
    _reading(_DEPOT),
    _reading(f"{_DEPOT}/about"),
    _reading(f"{_DEPOT}/peek"),
    _reading(f"{_DEPOT}/records"),
    _appending(f"{_DEPOT}/records"),
    _reading(f"{_DEPOT}/source"),
    _operating(f"{_DEPOT}/source/pause"),
    _operating(f"{_DEPOT}/source/resume"),
    _reading(f"{_DEPOT}/wait", method="POST"),
    _reading(f"{_MODULE}/pstates"),
    _reading(_PSTATE),
    _reading(f"{_PSTATE}/get", method="POST"),
    _reading(f"{_PSTATE}/value"),
    _reading(f"{_PSTATE}/wait", method="POST"),
    _reading(f"{_PSTATE}/select", method="POST"),
    _reading(f"{_PSTATE}/walk", method="POST"),
    _reading(f"{_PSTATE}/vnodes"),
    _reading(f"{_PSTATE}/export"),
    _reading(f"{_PSTATE}/subscribe"),
    _reading(f"{_MODULE}/queries"),
    _reading(f"{_MODULE}/queries/{{query}}"),
    _reading(f"{_MODULE}/queries/{{query}}", method="POST"),
    _reading(f"{_MODULE}/topologies"),
    _reading(_TOPOLOGY),
    _reading(f"{_TOPOLOGY}/microbatch"),
    _reading(f"{_TOPOLOGY}/wait", method="POST"),
    _reading(f"{_TOPOLOGY}/microbatches"),
    _reading(f"{_TOPOLOGY}/microbatches/{{number}}"),
    _operating(f"{_TOPOLOGY}/pause"),
    _operating(f"{_TOPOLOGY}/resume"),
    _operating(f"{_TOPOLOGY}/checkpoint"),
    _operating(f"{_TOPOLOGY}/rollback", "to_microbatch", "keep_appended", "dry_run"),
    _operating(f"{_TOPOLOGY}/parallelism", "policy", "dry_run"),
    _reading(f"{_MODULE}/options"),
    _reading(f"{_MODULE}/options/known"),
    _operating(f"{_MODULE}/options", "option", "value", "topology", "depot", "pstate"),
    _reading(f"{_MODULE}/cluster"),
    _operating(f"{_MODULE}/cluster/reschedule", "changes", "plan", "dry_run"),
    # Workers run what all modules have.
    _operating(f"{_MODULE}/cluster/cordon", "workers", reach=Reach.ALL),
    _operating(f"{_MODULE}/cluster/uncordon", "workers", reach=Reach.ALL),
    _operating(f"{_MODULE}/cluster/remove", "workers", reach=Reach.ALL),
    _reading("/v1/cluster", Reach.ALL),
    _operating("/v1/cluster/reschedule", "changes", "plan", "dry_run", reach=Reach.ALL),
    _operating(
        "/v1/cluster/parallelism", "module", "topology", "policy", "dry_run", reach=Reach.ALL
    ),
    _operating("/v1/cluster/units", "units", reach=Reach.ALL),
    _operating("/v1/cluster/cordon", "workers", reach=Reach.ALL),
    _operating("/v1/cluster/leave", "workers", reach=Reach.ALL),
    _operating("/v1/cluster/uncordon", "workers", reach=Reach.ALL),
    _operating("/v1/cluster/remove", "workers", reach=Reach.ALL),
    _reading("/api/runtimes", Reach.SEEN),
    _authoring("POST", "/api/runtimes", "name", "owner", reach=Reach.ALL),
    _authoring("DELETE", "/api/runtimes", reach=Reach.ALL),
    _reading("/api/schema", Reach.NOTHING),
    _reading("/api/validate", Reach.NOTHING, "POST"),
    _reading(_RUNTIME),
    _authoring("PATCH", _RUNTIME, "status", "distribution", "state"),
    _authoring("DELETE", _RUNTIME),
    _reading(f"{_RUNTIME}/actors"),
    _reading(f"{_RUNTIME}/links"),
    _reading(f"{_RUNTIME}/stats"),
    _reading(f"{_RUNTIME}/snapshots"),
    _reading(_ACTOR),
    _reading(f"{_ACTOR}/stats"),
    _reading(f"{_RUNTIME}/{{actor}}/stats"),
    _appending(_ACTOR),
    _appending(f"{_ACTOR}/shunt"),
)
"""The table; of several rows whose address fits, the first counts, as among routes."""


def find_row(method: str, path: str) -> Found:
    """The row of a request."""
    methods: list[str] = []
    asked = "GET" if method == "HEAD" else method
    for row, pattern in _PATTERNS:
        match = pattern.match(path)
        if match is None:
            continue
        if row.method == asked:
            return Found(row, (), match.groupdict())
        methods.append(row.method)
    return Found(None, tuple(sorted(set(methods))))


_PATTERNS: tuple[tuple[Row, re.Pattern[str]], ...] = tuple(
    (row, compile_path(row.template)[0]) for row in ROWS
)
