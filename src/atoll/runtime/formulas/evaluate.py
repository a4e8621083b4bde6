"""What a formula is for an event: one step per part of it, and no value grows without bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from atoll.runtime.formulas.parse import Chain, Constant, Field, Formula, Node, Prefix
from atoll.runtime.paths import find

__all__ = ["Unfit", "evaluate"]

TEXT_MAX = 65_536
_INT_BITS_MAX = 63
_ORDER: dict[str, Callable[[Any, Any], bool]] = {">": gt, "<": lt, ">=": ge, "<=": le}
_EQUAL: dict[str, Callable[[Any, Any], bool]] = {"==": eq, "!=": ne}


class Unfit(Exception):  # noqa: N818  # becomes the failure of a trigger
    """The values do not fit the formula; says why."""


def evaluate(formula: Formula, event: dict[str, Any], aliases: dict[str, Any]) -> Any:
    """The value: a truth, a number or a text; None when the event lacks a field that it needs.

    Args:
        formula: The formula.
        event: Where fields come from.
        aliases: Collected values; a path that begins with an alias leads into its value.

    Raises:
        Unfit: When values do not fit the signs between them, or one grows too large.
    """
    values: dict[str, Any] = {}
    for field in formula.fields:
        value = find(field.path, aliases if field.path[0][0] in aliases else event)
        if value is None:
            return None
        values[field.text] = _plain(value, field.text)
    return _value(formula.root, values)


def _plain(value: Any, name: str) -> Any:
    if type(value) in {bool, str} or (type(value) is float and math.isfinite(value)):
        return value
    if type(value) is int and value.bit_length() <= _INT_BITS_MAX:
        return value
    raise Unfit(f"{name!r} is neither a truth, a number nor a text")


def _value(node: Node, values: Mapping[str, Any]) -> Any:
    match node:
        case Constant(value):
            return value
        case Field(text):
            return values[text]
        case Prefix("!", operand):
            return not _truth(_value(operand, values))
        case Prefix(_, operand):
            return -_number(_value(operand, values))
        case Chain(first, rest):
            return _chained(first, rest, values)
    raise AssertionError(node)


def _chained(first: Node, rest: tuple[tuple[str, Node], ...], values: Mapping[str, Any]) -> Any:
    value = _value(first, values)
    for sign, operand in rest:
        value = _joined(sign, value, _value(operand, values))
    return value


def _joined(sign: str, left: Any, right: Any) -> Any:
    if sign == "||":
        return _truth(left) | _truth(right)
    if sign == "&&":
        return _truth(left) & _truth(right)
    if sign in _ORDER:
        return _ORDER[sign](_number(left), _number(right))
    if sign in _EQUAL:
        return _EQUAL[sign](left, right) if _alike(left, right) else _unlike(sign, left, right)
    if sign == "+" and isinstance(left, str) and isinstance(right, str):
        if len(left) + len(right) > TEXT_MAX:
            raise Unfit(f"a text is longer than {TEXT_MAX} characters")
        return left + right
    return _computed(sign, left, right)


def _computed(sign: str, left: Any, right: Any) -> Any:
    if isinstance(left, bool | str) or isinstance(right, bool | str):
        _unlike(sign, left, right)
    if sign == "/":
        if not right:
            raise Unfit("it divides by zero")
        return _bounded(left / right)
    if sign == "*":
        return _bounded(left * right)
    return _bounded(left + right if sign == "+" else left - right)


def _bounded(number: Any) -> Any:
    if isinstance(number, int):
        if number.bit_length() <= _INT_BITS_MAX:
            return number
        number = float(number)
    if not math.isfinite(number):
        raise Unfit("a number is too large")
    return number


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise Unfit(f"{_kind(value)} stands where a truth is needed")


def _number(value: Any) -> Any:
    if isinstance(value, bool | str):
        raise Unfit(f"{_kind(value)} stands where a number is needed")
    return value


def _alike(left: Any, right: Any) -> bool:
    return _kind(left) == _kind(right)


def _unlike(sign: str, left: Any, right: Any) -> Any:
    raise Unfit(f"{_kind(left)} and {_kind(right)} stand around {sign}")


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "a truth"
    return "a text" if isinstance(value, str) else "a number"
