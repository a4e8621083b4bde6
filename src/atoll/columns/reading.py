"""From the text of an expression to what computes it, or why Spark has to.

sqlglot reads the text in Spark's dialect. Where it reads it otherwise than Spark would, or does
not say which of two things was written, the expression is refused here: Spark then computes it.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pyarrow as pa

from atoll.columns.families import (
    arithmetic,
    bits,
    casing,
    comparing,
    cutting,
    dates,
    hashes,
    logic,
    nested,
    patterns,
    rounding,
    strings,
    times,
)
from atoll.columns.families.casts import widened
from atoll.columns.forms import FORMS
from atoll.columns.tree import (
    SURE,
    Case,
    Coalesce,
    Column,
    Folded,
    Literal,
    Node,
    RowError,
    Rows,
    alike,
    is_constant,
)
from atoll.columns.types import DECIMAL_DIGITS_MAX, DOUBLE, NotCertifiedError

FAMILIES = (
    *(arithmetic, bits, rounding, comparing, logic, strings, cutting, patterns, casing, hashes),
    *(times, dates, nested),
)
"""All of them, so that all of their forms are known."""

_TEXT_MAX = 20_000
_REFUSED = {
    "\\": "a backslash",
    '"': "a text in double quotes",
    "--": "a comment",
    "/*": "a comment",
    "${": "a variable",
    "try_": "a function that tries",
    "{": "a parameter",
    ":": "a colon",
}
_TEXTS = re.compile(r"'[^']*'")
_WHOLE = re.compile(r"\d+\Z", re.ASCII)
_FRACTION = re.compile(r"\d*\.\d+\Z|\d+\.\Z", re.ASCII)
_SCIENTIFIC = re.compile(r"(?:\d+\.?\d*|\.\d+)[eE][+-]?\d+\Z", re.ASCII)
_INT_MAX, _LONG_MAX = 2**31, 2**63
_LOOSE = ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseLeftShift", "BitwiseRightShift", "DPipe")
"""What sqlglot does not bind as Spark does."""
_TESTS: tuple[str, ...] = (
    "EQ",
    "NEQ",
    "LT",
    "LTE",
    "GT",
    "GTE",
    "NullSafeEQ",
    "NullSafeNEQ",
    "Is",
    "In",
)
_TESTS += ("Between", "Like", "RegexpLike")
_SUMS = ("Add", "Sub", "Mul", "Div", "IntDiv", "Mod")
_ARGUMENTS: dict[str, frozenset[str]] = {
    "Between": frozenset({"low", "high"}),
    "Bracket": frozenset({"offset", "safe"}),
    "Case": frozenset({"ifs", "default"}),
    "Cast": frozenset({"to"}),
    "Coalesce": frozenset({"is_nvl"}),
    "Concat": frozenset({"safe"}),
    "ConcatWs": frozenset({"safe", "coalesce", "flatten"}),
    "DateTrunc": frozenset({"unit"}),
    "DPipe": frozenset({"safe"}),
    "Div": frozenset({"safe", "typed"}),
    "Greatest": frozenset({"ignore_nulls"}),
    "If": frozenset({"true", "false"}),
    "Least": frozenset({"ignore_nulls"}),
    "Like": frozenset({"negate"}),
    "Nvl2": frozenset({"true", "false"}),
    "Pad": frozenset({"fill_pattern", "is_left"}),
    "RegexpExtract": frozenset({"group", "null_if_pos_overflow"}),
    "RegexpReplace": frozenset({"replacement"}),
    "Repeat": frozenset({"times"}),
    "Replace": frozenset({"replacement"}),
    "Round": frozenset({"decimals"}),
    "SHA2": frozenset({"length"}),
    "SplitPart": frozenset({"delimiter", "part_index"}),
    "Substring": frozenset({"start", "length"}),
    "StrPosition": frozenset({"substr"}),
    "StrToUnix": frozenset({"format"}),
    "SubstringIndex": frozenset({"delimiter", "count"}),
    "TimestampTrunc": frozenset({"unit"}),
    "TimeToStr": frozenset({"format"}),
    "Translate": frozenset({"from_", "to"}),
    "Trim": frozenset({"position"}),
    "TryCast": frozenset({"to"}),
    "TsOrDsAdd": frozenset({"unit"}),
    "TsOrDsToDate": frozenset({"safe"}),
}
"""What a family looks at, beside the operands; or what says nothing that could differ."""


def computed(text: str, rows: pa.Schema) -> Node:
    """What computes an expression of rows with these columns.

    Raises:
        NotCertifiedError: When Spark has to, with the reason in words.
    """
    tree = parsed(text)
    try:
        node = _Reader(rows, text).node(tree)
    except RecursionError:
        raise NotCertifiedError("an expression of so many parts") from None
    if pa.types.is_null(node.type):
        raise NotCertifiedError("null of no type")
    if node.fails:
        _check_needed(node)
    return node


def parsed(text: str) -> Any:
    """What sqlglot reads in an expression that it reads as Spark does.

    Raises:
        NotCertifiedError: When it may not, with the reason in words.
    """
    _check_text(text)
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        return sqlglot.parse_one(text, read="spark")
    except SqlglotError:
        raise NotCertifiedError("what Atoll cannot read") from None
    except RecursionError:
        raise NotCertifiedError("an expression of so many parts") from None


def _check_needed(node: Node) -> None:
    """Refuse what Spark simplifies so that it leaves out a part that can fail."""
    for each in _deciding(node):
        plain = isinstance(each, Literal) and each.type != pa.bool_() and each.value is not None
        if is_constant(each) and not plain:
            raise NotCertifiedError("a constant beside what can fail")
    if isinstance(node, Case) and all(alike(each, node.branches[0]) for each in node.branches):
        raise NotCertifiedError("a choice between the same, beside what can fail")
    for each in node.parts:
        _check_needed(each)


def _deciding(node: Node) -> tuple[Node, ...]:
    """The parts that, were they constant, might make others needless."""
    match node:
        case Case(conditions=conditions):
            return conditions
        case Coalesce(args=args):
            return (_NO_VALUE,) if is_constant(args[0]) else ()
    return node.parts


_NO_VALUE = Literal(pa.null(), SURE, None)


def _check_text(text: str) -> None:
    if len(text) > _TEXT_MAX:
        raise NotCertifiedError("a text of so many characters")
    bare = _TEXTS.sub("''", text)
    for mark, what in _REFUSED.items():
        found = text if mark in ("\\", "${") else bare
        if mark in found.lower():
            raise NotCertifiedError(what)


class _Reader:
    """Types one expression."""

    def __init__(self, rows: pa.Schema, text: str) -> None:
        self.rows = rows
        self.text = text

    def node(self, expression: Any) -> Node:
        """A part of it."""
        word = type(expression).__name__
        match word:
            case "Paren":
                return self.node(expression.this)
            case "Column":
                return self._column(expression)
            case "Literal":
                return _literal(expression.this, is_text=expression.is_string)
            case "Boolean":
                return Literal(pa.bool_(), SURE, expression.this)
            case "Null":
                return Literal(pa.null(), SURE, None)
            case "Neg" if _is_number(expression.this):
                return _literal(f"-{expression.this.this}", is_text=False)
        _check_binding(expression, word)
        _check_arguments(expression, word)
        name = expression.name.lower() if word == "Anonymous" else word
        for form in FORMS.get(name, ())[:1]:
            return _folded(form.build(self, expression))
        shown = f"{name}(...)" if word == "Anonymous" else expression.key
        raise NotCertifiedError(f"{shown} is not among what is certified")

    def to(self, node: Node, kind: pa.DataType) -> Node:
        """A node as a value of a wider type."""
        return widened(node, kind)

    def _column(self, expression: Any) -> Node:
        names = [each.name for each in expression.parts]
        found = [n for n, each in enumerate(self.rows.names) if each.lower() == names[0].lower()]
        if len(found) != 1:
            raise NotCertifiedError(f"the column {names[0]!r}, which is not there once")
        node: Node = Column(self.rows.field(found[0]).type, SURE, found[0])
        for name in names[1:]:
            node = nested.field_of(node, name)
        return node


_ONE_ROW = pa.RecordBatch.from_arrays([pa.nulls(1, pa.int64())], ["row"])
"""Not made from Python values: for its first such array pyarrow imports pandas."""


def _folded(node: Node) -> Node:
    """Its value instead of a constant that has one, as Spark computes those once."""
    if isinstance(node, Literal) or pa.types.is_nested(node.type) or not is_constant(node):
        return node
    try:
        return Folded(node.type, SURE, node.of(Rows(_ONE_ROW))[0].as_py())
    except (RowError, OverflowError, ValueError):  # it fails, or is a date that Python has not
        return node


def _is_number(expression: Any) -> bool:
    return type(expression).__name__ == "Literal" and not expression.is_string


def _check_binding(expression: Any, word: str) -> None:
    """Refuse operators side by side that sqlglot may bind otherwise than Spark."""
    sides = [type(each).__name__ for each in (expression.this, expression.args.get("expression"))]
    if sides[0] == word == "DPipe":
        sides = sides[1:]
    if word in _LOOSE and any(each in (*_LOOSE, *_SUMS, *_TESTS) for each in sides):
        raise NotCertifiedError("operators side by side that need parentheses to be certified")
    if word in _SUMS and any(each in (*_LOOSE, *_TESTS) for each in sides):
        raise NotCertifiedError("operators side by side that need parentheses to be certified")
    if word in _TESTS and any(each in (*_TESTS, "And", "Or", "Not") for each in sides):
        raise NotCertifiedError("comparisons side by side that need parentheses to be certified")


def _check_arguments(expression: Any, word: str) -> None:
    """Refuse what sqlglot notes that nobody here looks at."""
    known = _ARGUMENTS.get(word, frozenset()) | {"this", "expression", "expressions"}
    for name, value in expression.args.items():
        if name not in known and value is not None and value is not False:
            raise NotCertifiedError(f"{expression.key} with {name}")


def _literal(text: str, *, is_text: bool) -> Literal:
    if is_text:
        return Literal(pa.string(), SURE, text)
    digits = text.removeprefix("-")
    if _WHOLE.match(digits):
        return _whole(int(text), text)
    if _SCIENTIFIC.match(digits):
        return Literal(DOUBLE, SURE, float(text))
    if _FRACTION.match(digits):
        return _decimal(Decimal(text), text)
    raise NotCertifiedError(f"the number {text}")


def _whole(value: int, text: str) -> Literal:
    if -_INT_MAX <= value < _INT_MAX:
        return Literal(pa.int32(), SURE, value)
    if -_LONG_MAX <= value < _LONG_MAX:
        return Literal(pa.int64(), SURE, value)
    return _decimal(Decimal(value), text)


def _decimal(value: Decimal, text: str) -> Literal:
    _, digits, exponent = value.as_tuple()
    scale = -int(exponent)
    precision = max(len(digits), scale, 1)
    if precision > DECIMAL_DIGITS_MAX or scale < 0:
        raise NotCertifiedError(f"the number {text}")
    return Literal(pa.decimal128(precision, scale), SURE, value)
