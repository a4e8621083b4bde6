"""What runtimes may do outside, as the operator says: nothing but files of their own by default."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from atoll.errors import UsageError
from atoll.outside.urls import UrlRules


@dataclass(frozen=True)
class Database:
    """A database that statements may be run on.

    Attributes:
        connect: Opens a connection of Python's DB-API.
        paramstyle: How its driver writes parameters: ``named``, ``pyformat`` or ``qmark``.
    """

    connect: Callable[[], Any]
    paramstyle: str = "named"


@dataclass(frozen=True)
class Outside:
    """What runtimes may reach.

    Attributes:
        rules: Which URLs may be asked; none by default.
        databases: By the name that a definition gives.
        files: Where files that ``log`` writes lie, in a folder per runtime; below the root when
            None.
    """

    rules: UrlRules = field(default_factory=UrlRules)
    databases: Mapping[str, Database] = field(default_factory=dict)
    files: Path | None = None


_HOST = re.compile(r"(\*|(\*\.)?[a-z0-9_.-]+|[0-9a-f:]+)\Z")
_LOCAL = re.compile(r"([a-z0-9_.-]+|\[[0-9a-f:.]+\]):[0-9]{1,5}\Z")


class _HttpGiven(msgspec.Struct, forbid_unknown_fields=True):
    hosts: list[str] = []
    ports: list[int] = []
    local: list[str] = []


class _SqlGiven(msgspec.Struct, forbid_unknown_fields=True):
    sqlite: str


class _Given(msgspec.Struct, forbid_unknown_fields=True):
    http: _HttpGiven = msgspec.field(default_factory=_HttpGiven)
    sql: dict[str, _SqlGiven] = {}
    files: str | None = None


def read_outside(path: Path) -> Outside:
    """What a JSON file of the operator allows.

    ``{"http": {"hosts": ["api.example.com"], "ports": [8443], "local": ["127.0.0.1:9000"]},
    "sql": {"shop": {"sqlite": "/data/shop.db"}}, "files": "/data/logs"}``; all may be absent.

    Raises:
        UsageError: When it cannot be read.
    """
    try:
        given = msgspec.json.decode(path.read_bytes(), type=_Given)
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(
            f"{path} does not say what runtimes may do outside: {error}",
            hint='write {"http": {"hosts": [...]}, "sql": {"name": {"sqlite": "file"}}}',
        ) from None
    http = given.http
    _check_names(path, "hosts", http.hosts, _HOST, "a host as api.example.com, *.example.com or *")
    _check_names(path, "local", http.local, _LOCAL, "a target as 127.0.0.1:9000")
    rules = UrlRules(frozenset(http.hosts), frozenset(http.ports), frozenset(http.local))
    databases = {name: Database(_sqlite(each.sqlite)) for name, each in given.sql.items()}
    return Outside(rules, databases, None if given.files is None else Path(given.files))


def _check_names(path: Path, field: str, names: list[str], form: re.Pattern[str], how: str) -> None:
    """Refuse what could match no address: it would look as if it were allowed."""
    wrong = [each for each in names if not form.match(each)]
    if wrong:
        raise UsageError(
            f"{path} has {wrong[0]!r} in {field!r} of 'http', which no address can match",
            hint=f"write {how}, in lower case",
        )


def _sqlite(file: str) -> Callable[[], Any]:
    return lambda: sqlite3.connect(file, timeout=10.0)
