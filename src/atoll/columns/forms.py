"""The list of what is certified: each family says its operators and functions here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from atoll.columns.tree import Node

__all__ = ["FORMS", "Form", "Reading", "certified", "table"]


class Reading(Protocol):
    """What a family may ask of who reads the expression."""

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


def table() -> dict[str, list[tuple[str, str]]]:
    """All that is certified, by family: how it is written, and of which types."""
    found: dict[str, dict[tuple[str, str], None]] = {}
    for forms in FORMS.values():
        for form in forms:
            found.setdefault(form.family, {})[form.written, form.types] = None
    return {family: list(rows) for family, rows in found.items()}
