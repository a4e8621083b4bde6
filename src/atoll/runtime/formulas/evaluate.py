"""What a formula is for an event: one step per part of it, and no value grows without bound.

A tree becomes closures once, each of which knows its sign and its operands; nothing of a formula's
text is ever Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import add, eq, ge, gt, le, lt, mul, ne, sub, truediv
from typing import Any

from atoll.runtime.formulas.parse import (
    Chain,
    Constant,
    Field,
    Formula,
    Node,
    Prefix,
    parse_formula,
)
from atoll.runtime.paths import find

TEXT_MAX = 65_536
_INT_BITS_MAX = 63

Join = Callable[[Any, Any], Any]
Step = Callable[[Sequence[Any]], Any]
"""Of the values of the formula's fields, in their order."""


class Unfit(Exception):  # noqa: N818  # becomes the failure of a trigger
    """The values do not fit the formula; says why."""


def evaluate(text: str, event: dict[str, Any], aliases: dict[str, Any]) -> Any:
    """The value: a truth, a number or a text; None when the event lacks a field that it needs.

    Args:
        text: The formula.
        event: Where fields come from.
        aliases: Collected values; a path that begins with an alias leads into its value.

    Raises:
        Malformed: When the text is no formula.
        Unfit: When values do not fit the signs between them, or one grows too large.
    """
    formula, run = _compiled(text)
    values = []
    for field in formula.fields:
        value = find(field.path, aliases if field.path[0][0] in aliases else event)
        if value is None:
            return None
        values.append(_plain(value, field.text))
    return run(values)


@lru_cache(maxsize=1024)
def _compiled(text: str) -> tuple[Formula, Step]:
    formula = parse_formula(text)
    places = {field.text: at for at, field in enumerate(formula.fields)}
    return formula, _step(formula.root, places)


def _plain(value: Any, name: str) -> Any:
    kind = type(value)
    if kind is bool or kind is str or (kind is float and math.isfinite(value)):
        return value
    if kind is int and value.bit_length() <= _INT_BITS_MAX:
        return value
    raise Unfit(f"{name!r} is neither a truth, a number nor a text")


def _step(node: Node, places: dict[str, int]) -> Step:
    match node:
        case Constant(value):
            return lambda _: value
        case Field(text):
            at = places[text]
            return lambda values: values[at]
        case Prefix(sign, operand):
            inner = _step(operand, places)
            if sign == "!":
                return lambda values: not _truth(inner(values))
            return lambda values: -_number(inner(values))
        case Chain(first, rest):
            begin = _step(first, places)
            joins = [(_JOINS[sign], _step(operand, places)) for sign, operand in rest]
            return lambda values: _chained(begin(values), joins, values)
    raise AssertionError(node)


def _chained(value: Any, joins: list[tuple[Join, Step]], values: Sequence[Any]) -> Any:
    for join, operand in joins:
        value = join(value, operand(values))
    return value


def _either(left: Any, right: Any) -> bool:
    return _truth(left) | _truth(right)


def _both(left: Any, right: Any) -> bool:
    return _truth(left) & _truth(right)


def _ordering(compare: Callable[[Any, Any], bool]) -> Join:
    return lambda left, right: compare(_number(left), _number(right))


def _equality(sign: str, compare: Callable[[Any, Any], bool]) -> Join:
    def join(left: Any, right: Any) -> bool:
        if _kind(left) != _kind(right):
            raise _unlike(sign, left, right)
        return compare(left, right)

    return join


def _computing(sign: str, compute: Callable[[Any, Any], Any]) -> Join:
    def join(left: Any, right: Any) -> Any:
        if isinstance(left, bool | str) or isinstance(right, bool | str):
            raise _unlike(sign, left, right)
        return _bounded(compute(left, right))

    return join


def _divided(left: Any, right: Any) -> Any:
    if not right:
        raise Unfit("it divides by zero")
    return truediv(left, right)


def _added(left: Any, right: Any) -> Any:
    if not isinstance(left, str) or not isinstance(right, str):
        return _ADD(left, right)
    if len(left) + len(right) > TEXT_MAX:
        raise Unfit(f"a text is longer than {TEXT_MAX} characters")
    return left + right


_ADD = _computing("+", add)
_JOINS: dict[str, Join] = {
    "||": _either,
    "&&": _both,
    **{sign: _ordering(each) for sign, each in ((">", gt), ("<", lt), (">=", ge), ("<=", le))},
    "==": _equality("==", eq),
    "!=": _equality("!=", ne),
    "+": _added,
    "-": _computing("-", sub),
    "*": _computing("*", mul),
    "/": _computing("/", _divided),
}


def _bounded(number: Any) -> Any:
    if type(number) is int:
        if number.bit_length() <= _INT_BITS_MAX:
            return number
        number = float(number)
    if not math.isfinite(number):
        raise Unfit("a number is too large")
    return number


def _truth(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise Unfit(f"{_kind(value)} stands where a truth is needed")


def _number(value: Any) -> Any:
    if isinstance(value, bool | str):
        raise Unfit(f"{_kind(value)} stands where a number is needed")
    return value


def _unlike(sign: str, left: Any, right: Any) -> Unfit:
    return Unfit(f"{_kind(left)} and {_kind(right)} stand around {sign}")


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "a truth"
    return "a text" if isinstance(value, str) else "a number"
