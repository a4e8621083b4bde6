"""A formula's text as a tree, by recursive descent.

.. code-block:: text

    or      = and ("||" and)*
    and     = not ("&&" not)*
    not     = "!" not | compare
    compare = sum [(">" | "<" | ">=" | "<=" | "==" | "!=") sum]
    sum     = product (("+" | "-") product)*
    product = sign (("*" | "/") sign)*
    sign    = "-" sign | atom
    atom    = number | 'text' | true | false | path | "(" or ")"

A quote within a text is written twice. Numbers are decimal, 0 among them, which Coral's grammar
forgot. Chains of one level are one node, so a tree is only as deep as its text is nested.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

import msgspec

from atoll.runtime.paths import Path, parse_path

TEXT_MAX = 4_096
TOKENS_MAX = 1_000
DEPTH_MAX = 32

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_TOKEN = re.compile(
    r"\s*(?:"
    r"(?P<number>[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?(?![A-Za-z0-9_.]))"
    r"|(?P<text>'(?:[^']|'')*')"
    rf"|(?P<path>{_NAME}(?:\.{_NAME}|\[[0-9]{{1,9}}\]|\['{_NAME}'\])*)"
    r"|(?P<sign>\|\||&&|>=|<=|==|!=|[-+*/!<>()])"
    r")"
)
_COMPARISONS = (">", "<", ">=", "<=", "==", "!=")


class Malformed(Exception):  # noqa: N818  # becomes a problem of the definition, never an error
    """The text is no formula; says why, and where it stopped being one."""


class Constant(msgspec.Struct, frozen=True):
    """A value that stands in the formula."""

    value: Any


class Field(msgspec.Struct, frozen=True):
    """A value of the event, or a collected one where its name is an alias."""

    text: str
    path: Path


class Prefix(msgspec.Struct, frozen=True):
    """``!`` or ``-`` and what follows."""

    sign: str
    operand: Node


class Chain(msgspec.Struct, frozen=True):
    """Operands of one level from left to right, each but the first with its sign."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


Node = Constant | Field | Prefix | Chain


class Formula(msgspec.Struct, frozen=True):
    """A formula: its tree, and the fields that it needs."""

    root: Node
    fields: tuple[Field, ...]


@lru_cache(maxsize=1024)
def parse_formula(text: str) -> Formula:
    """The formula that a text holds.

    Raises:
        Malformed: When it holds none, or one that is too large.
    """
    parser = _Parser(_tokens(text))
    root = parser.chain(0, 0)
    parser.end()
    return Formula(root, tuple(parser.fields.values()))


def _tokens(text: str) -> list[tuple[str, str, int]]:
    if len(text) > TEXT_MAX:
        raise Malformed(f"it is longer than {TEXT_MAX} characters")
    found: list[tuple[str, str, int]] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at, end)
        if match is None or match.lastgroup is None:
            raise Malformed(f"what begins at character {at + 1} is no part of a formula")
        found.append((match.lastgroup, match[match.lastgroup], match.start(match.lastgroup) + 1))
        at = match.end()
        if len(found) > TOKENS_MAX:
            raise Malformed(f"it has more than {TOKENS_MAX} parts")
    return found


class _Parser:
    """Goes through the tokens once."""

    LEVELS: tuple[tuple[str, ...], ...] = (
        ("||",),
        ("&&",),
        ("!",),
        _COMPARISONS,
        ("+", "-"),
        ("*", "/"),
    )

    def __init__(self, tokens: list[tuple[str, str, int]]) -> None:
        self._tokens = tokens
        self._at = 0
        self.fields: dict[str, Field] = {}

    def chain(self, level: int, depth: int) -> Node:
        """What stands at a level: its operands, or what the next level is."""
        if depth > DEPTH_MAX:
            raise Malformed(f"it is nested more than {DEPTH_MAX} deep")
        if level == len(self.LEVELS):
            return self._signed(depth)
        signs = self.LEVELS[level]
        if signs == ("!",):
            if self._takes("!"):
                return Prefix("!", self.chain(level, depth + 1))
            return self.chain(level + 1, depth)
        first = self.chain(level + 1, depth)
        rest = []
        while sign := self._takes(*signs):
            rest.append((sign, self.chain(level + 1, depth)))
        if signs == _COMPARISONS and len(rest) > 1:
            raise Malformed("comparisons follow each other: join them with &&")
        return Chain(first, tuple(rest)) if rest else first

    def _signed(self, depth: int) -> Node:
        if depth > DEPTH_MAX:
            raise Malformed(f"it is nested more than {DEPTH_MAX} deep")
        if self._takes("-"):
            return Prefix("-", self._signed(depth + 1))
        return self._atom(depth)

    def _atom(self, depth: int) -> Node:
        if self._takes("("):
            inner = self.chain(0, depth + 1)
            if not self._takes(")"):
                raise Malformed(f"a parenthesis is missing {self._where()}")
            return inner
        kind, text, _ = self._tokens[self._at] if self._at < len(self._tokens) else ("", "", 0)
        if kind not in {"number", "text", "path"}:
            raise Malformed(f"a value is missing {self._where()}")
        self._at += 1
        if kind == "path":
            return self._named(text)
        return Constant(text[1:-1].replace("''", "'") if kind == "text" else _number(text))

    def _named(self, text: str) -> Node:
        if text in {"true", "false"}:
            return Constant(text == "true")
        path = parse_path(text)
        if path is None:
            raise Malformed(f"{text[:60]!r} is no path")
        return self.fields.setdefault(text, Field(text, path))

    def end(self) -> None:
        """Nothing is left."""
        if self._at < len(self._tokens):
            raise Malformed(f"nothing joins what stands {self._where()}")

    def _takes(self, *signs: str) -> str | None:
        if self._at < len(self._tokens):
            kind, text, _ = self._tokens[self._at]
            if kind == "sign" and text in signs:
                self._at += 1
                return text
        return None

    def _where(self) -> str:
        if self._at < len(self._tokens):
            return f"at character {self._tokens[self._at][2]}"
        return "at the end"


def _number(text: str) -> int | float:
    number: int | float = int(text) if text.isdigit() else float(text)
    if isinstance(number, int) and number.bit_length() > 63:  # noqa: PLR2004
        number = float(text)
    if not math.isfinite(number):
        raise Malformed("a number is too large")
    return number
