"""Comparisons. NaN equals NaN and is the largest number; texts compare by their UTF-8 bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from atoll.columns.forms import Reading, arguments, certified
from atoll.columns.tree import SURE, Call, Case, Junction, Literal, Node, Rows
from atoll.columns.types import NotCertifiedError, common_type, is_floating

_FAMILY = "Comparison"
_TYPES = (
    "boolean, byte, short, int, long, float, double, decimal, string, date, timestamp, "
    "timestamp_ntz; numbers of different types; dates and times of different types"
)


def equal(left: pa.Array, right: pa.Array) -> pa.Array:
    """Whether they are equal."""
    found = pc.equal(left, right)
    if pa.types.is_floating(left.type):
        return pc.or_(found, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return found


def less(left: pa.Array, right: pa.Array) -> pa.Array:
    """Whether the left is less."""
    if pa.types.is_boolean(left.type):
        return pc.and_(pc.invert(left), right)
    found = pc.less(left, right)
    if pa.types.is_floating(left.type):
        return pc.or_(found, pc.and_(pc.is_nan(right), pc.invert(pc.is_nan(left))))
    return found


def less_equal(left: pa.Array, right: pa.Array) -> pa.Array:
    """Whether the left is not greater."""
    return pc.invert(less(right, left))


def unequal(left: pa.Array, right: pa.Array) -> pa.Array:
    """Whether they differ."""
    return pc.invert(equal(left, right))


def greater(left: pa.Array, right: pa.Array) -> pa.Array:
    """Whether the left is greater."""
    return less(right, left)


def greater_equal(left: pa.Array, right: pa.Array) -> pa.Array:
    """Whether the left is not less."""
    return pc.invert(less(left, right))


def _is_null(values: pa.Array) -> pa.Array:
    return values.is_null()


def _is_valid(values: pa.Array) -> pa.Array:
    return values.is_valid()


_KERNELS = {
    "EQ": equal,
    "NEQ": unequal,
    "LT": less,
    "LTE": less_equal,
    "GT": greater,
    "GTE": greater_equal,
}


def compared(reading: Reading, kernel: Any, left: Node, right: Node) -> Node:
    """A comparison, of the common type."""
    kind = common_type([left, right], "a comparison")
    if pa.types.is_null(kind):
        raise NotCertifiedError("a comparison of two nulls")
    args = (reading.to(left, kind), reading.to(right, kind))
    return Call(pa.bool_(), any(each.fails for each in args), kernel, args)


@certified(_FAMILY, "`a = b`, `a == b`, `a <> b`, `a != b`", _TYPES, "EQ", "NEQ")
@certified(_FAMILY, "`a < b`, `a <= b`, `a > b`, `a >= b`", _TYPES, "LT", "LTE", "GT", "GTE")
def _comparison(reading: Reading, e: Any) -> Node:
    left, right = reading.node(e.this), reading.node(e.expression)
    return compared(reading, _KERNELS[type(e).__name__], left, right)


@certified(_FAMILY, "`a <=> b`", _TYPES, "NullSafeEQ")
@certified(_FAMILY, "`a IS [NOT] DISTINCT FROM b`", _TYPES, "NullSafeNEQ")
def _null_safe(reading: Reading, e: Any) -> Node:
    left, right = reading.node(e.this), reading.node(e.expression)
    if left.fails or right.fails:
        raise NotCertifiedError("<=> of what can fail")
    kind = common_type([left, right], "a comparison")
    if pa.types.is_null(kind):
        raise NotCertifiedError("a comparison of two nulls")
    left, right = reading.to(left, kind), reading.to(right, kind)
    missing = (null_test(left), null_test(right))
    none, both = (Call(pa.bool_(), SURE, kernel, missing) for kernel in (_neither, pc.and_))
    same = Case(
        pa.bool_(),
        SURE,
        (none,),
        (Call(pa.bool_(), SURE, equal, (left, right)), both),
    )
    if type(e).__name__ == "NullSafeNEQ":
        return Call(pa.bool_(), SURE, pc.invert, (same,))
    return same


def _neither(one: pa.Array, other: pa.Array) -> pa.Array:
    return pc.invert(pc.or_(one, other))


def null_test(node: Node, *, valid: bool = False) -> Node:
    """Whether it is null, or is not.

    Raises:
        NotCertifiedError: When it can fail: Spark leaves it out where no column is null.
    """
    if node.fails:
        raise NotCertifiedError("a test for null of what can fail")
    return Call(pa.bool_(), node.fails, _is_valid if valid else _is_null, (node,))


@certified(_FAMILY, "`a IS [NOT] NULL`, `isnull(a)`, `isnotnull(a)`", "all", "Is")
def _is(reading: Reading, e: Any) -> Node:
    if type(e.expression).__name__ != "Null":
        raise NotCertifiedError("IS with anything but NULL")
    return null_test(reading.node(e.this))


@certified(_FAMILY, "`a IS [NOT] NULL`, `isnull(a)`, `isnotnull(a)`", "all", "isnull", "isnotnull")
def _isnull(reading: Reading, e: Any) -> Node:
    (argument,) = arguments(e)
    return null_test(reading.node(argument), valid=e.name.lower() == "isnotnull")


@certified(_FAMILY, "`a [NOT] BETWEEN b AND c`", _TYPES, "Between")
def _between(reading: Reading, e: Any) -> Node:
    value, low, high = (reading.node(e.args[each]) for each in ("this", "low", "high"))
    if value.fails:  # Spark computes it once, whether it is needed or not
        raise NotCertifiedError("BETWEEN of what can fail")
    above = compared(reading, greater_equal, value, low)
    below = compared(reading, less_equal, value, high)
    return Junction(pa.bool_(), above.fails or below.fails, above, below, conjoins=True)


@certified(_FAMILY, "`a [NOT] IN (1, 2, ...)`", f"{_TYPES}; the list of literals", "In")
def _in(reading: Reading, e: Any) -> Node:
    if not e.expressions:
        raise NotCertifiedError("IN with anything but a list")
    value = reading.node(e.this)
    items = [reading.node(each) for each in e.expressions]
    if not all(isinstance(each, Literal) for each in items):
        raise NotCertifiedError("IN with a list of anything but literals")
    kind = common_type([value, *items], "IN")
    if pa.types.is_null(kind):
        raise NotCertifiedError("IN of nulls")
    typed = [reading.to(each, kind) for each in items]
    value = reading.to(value, kind)
    given = [each.value for each in typed if isinstance(each, Literal)]
    listed = tuple(each for each in given if each is not None)
    options = (listed, kind, len(listed) < len(given))
    return Call(pa.bool_(), value.fails, _among, (value,), options)


def _among(values: pa.Array, listed: tuple[Any, ...], kind: pa.DataType, nulls: bool) -> pa.Array:  # noqa: FBT001 - an option of a kernel
    found = pc.is_in(values, value_set=pa.array(listed, kind))
    if pa.types.is_floating(kind):
        found = pc.or_(
            found,
            pc.is_in(values, value_set=pa.array([-each for each in listed if not each], kind)),
        )
    kept = pc.and_(values.is_valid(), found) if nulls else values.is_valid()
    return pc.if_else(kept, found, pa.scalar(None, pa.bool_()))


@certified(_FAMILY, "`isnan(a)`", "float, double", "IsNan")
def _isnan(reading: Reading, e: Any) -> Node:
    value = reading.node(e.this)
    if not is_floating(value.type):
        raise NotCertifiedError("isnan of anything but a float or double")
    return Call(pa.bool_(), value.fails, _nan_or_not, (value,))


def _nan_or_not(values: pa.Array) -> pa.Array:
    return pc.is_nan(values).fill_null(fill_value=False)


@certified(
    _FAMILY, "`greatest(a, b, ...)`, `least(a, b, ...)`: of what is not null", _TYPES, "Greatest"
)
@certified(
    _FAMILY, "`greatest(a, b, ...)`, `least(a, b, ...)`: of what is not null", _TYPES, "Least"
)
def _extreme(reading: Reading, e: Any) -> Node:
    given = [reading.node(each) for each in (e.this, *e.expressions)]
    if len(given) < 2:  # noqa: PLR2004 - Spark wants two
        raise NotCertifiedError(f"{e.key} of one")
    kind = common_type(given, e.key)
    if pa.types.is_null(kind):
        raise NotCertifiedError(f"{e.key} of nulls")
    args = tuple(reading.to(each, kind) for each in given)
    return Extreme(kind, any(each.fails for each in args), args, type(e).__name__ == "Greatest")


@dataclass(frozen=True, eq=False)
class Extreme(Node):
    """The greatest or least of what is not null; of equal ones the first."""

    args: tuple[Node, ...]
    greatest: bool

    @property
    def parts(self) -> tuple[Node, ...]:
        """The nodes that it is computed of."""
        return self.args

    def compute(self, rows: Rows) -> pa.Array:
        """All of them for all rows."""
        found, *others = [each.of(rows) for each in self.args]
        for other in others:
            better = less(found, other) if self.greatest else less(other, found)
            better = pc.or_(better.fill_null(fill_value=False), found.is_null())
            found = pc.if_else(pc.and_(better, other.is_valid()), other, found)
        return found
