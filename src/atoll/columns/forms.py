"""The list of what is certified: each family says its operators and functions here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from atoll.columns.tree import Literal, Node
from atoll.columns.types import NotCertifiedError


class Reading(Protocol):
    """What a family may ask of who reads the expression."""

    text: str
    """All of it."""

    def node(self, expression: Any) -> Node:
        """A part of the expression, typed."""

    def to(self, node: Node, kind: pa.DataType) -> Node:
        """A node as a value of a type that holds all of its values."""


Build = Callable[[Reading, Any], Node]


@dataclass(frozen=True)
class Form:
    """One thing that can be written.

    Attributes:
        family: Of which it is one.
        written: How it is written.
        types: Of what it is certified.
        build: Makes a node of what sqlglot read.
    """

    family: str
    written: str
    types: str
    build: Build


FORMS: dict[str, list[Form]] = {}
"""By the name that sqlglot gives what it reads, or that of a function that it does not know."""


def certified(family: str, written: str, types: str, *names: str) -> Callable[[Build], Build]:
    """Say that what a function builds is certified.

    Args:
        family: The heading it stands under.
        written: How users write it.
        types: Of which types.
        names: What sqlglot calls it.
    """

    def note(build: Build) -> Build:
        for name in names:
            FORMS.setdefault(name, []).append(Form(family, written, types, build))
        return build

    return note


def arguments(e: Any, count: int = 1) -> list[Any]:
    """The arguments of a function that sqlglot does not know.

    Raises:
        NotCertifiedError: When there are not so many.
    """
    if len(e.expressions) != count:
        raise NotCertifiedError(f"{e.name} of {len(e.expressions)} arguments")
    return list(e.expressions)


def fixed(reading: Reading, e: Any, what: str, kind: type) -> Any:
    """The value of an argument that has to be a literal.

    Raises:
        NotCertifiedError: When it is none, or of another type.
    """
    node = None if e is None else reading.node(e)
    if not isinstance(node, Literal) or type(node.value) is not kind:
        raise NotCertifiedError(f"{what} that is no literal")
    return node.value


def table() -> dict[str, list[tuple[str, str]]]:
    """All that is certified, by family: how it is written, and of which types.

    In the order of the source, whichever file was imported first.
    """
    found: dict[str, dict[tuple[str, str], None]] = {}
    forms = [form for each in FORMS.values() for form in each]
    for form in sorted(forms, key=_stands_at):
        found.setdefault(form.family, {})[form.written, form.types] = None
    return {family: list(rows) for family, rows in sorted(found.items())}


def _stands_at(form: Form) -> tuple[str, int, str]:
    code = getattr(form.build, "__code__", None)
    return form.build.__module__, getattr(code, "co_firstlineno", 0), form.written
