"""AND, OR, NOT, and what chooses between values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from atoll.columns.families.comparing import compared, equal, null_test
from atoll.columns.forms import Reading, certified
from atoll.columns.tree import (
    SURE,
    Call,
    Case,
    Coalesce,
    Junction,
    Literal,
    Node,
    any_fails,
)
from atoll.columns.types import NotCertifiedError, common_type, words

_CHOICE = "Choice"
_ONE_TYPE = "branches that Spark brings to one certified type; a branch not chosen cannot fail"


def _boolean(node: Node, what: str) -> Node:
    if pa.types.is_null(node.type):
        return Literal(pa.bool_(), SURE, None)
    if node.type != pa.bool_():
        raise NotCertifiedError(f"{what} of {words(node.type)}")
    return node


@certified("Logic", "`a AND b`, `a OR b`", "boolean", "And", "Or")
def _junction(reading: Reading, e: Any) -> Node:
    word = type(e).__name__
    left = _boolean(reading.node(e.this), word.upper())
    right = _boolean(reading.node(e.expression), word.upper())
    fails = any_fails((left, right))
    return Junction(pa.bool_(), fails, left, right, conjoins=word == "And")


@certified("Logic", "`NOT a`", "boolean", "Not")
def _not(reading: Reading, e: Any) -> Node:
    value = _boolean(reading.node(e.this), "NOT")
    return Call(pa.bool_(), value.fails, pc.invert, (value,))


def _chosen(reading: Reading, conditions: list[Node], branches: list[Node]) -> Node:
    kind = common_type(branches, "a choice")
    typed = tuple(reading.to(each, kind) for each in branches)
    fails = any_fails((*conditions, *typed))
    return Case(kind, fails, tuple(conditions), typed)


def _null() -> Node:
    return Literal(pa.null(), SURE, None)


@certified(_CHOICE, "`CASE [a] WHEN b THEN c ... [ELSE d] END`", _ONE_TYPE, "Case")
def _case(reading: Reading, e: Any) -> Node:
    tests = [reading.node(each.this) for each in e.args["ifs"]]
    if e.this is None:
        conditions = [_boolean(each, "CASE") for each in tests]
    else:
        value = reading.node(e.this)
        common_type([value, *tests], "CASE")
        conditions = [compared(reading, equal, value, each) for each in tests]
    branches = [reading.node(each.args["true"]) for each in e.args["ifs"]]
    default = e.args.get("default")
    return _chosen(
        reading, conditions, [*branches, _null() if default is None else reading.node(default)]
    )


@certified(_CHOICE, "`if(a, b, c)`", _ONE_TYPE, "If")
def _if(reading: Reading, e: Any) -> Node:
    if e.args.get("false") is None:
        raise NotCertifiedError("if of two arguments")
    branches = [reading.node(e.args["true"]), reading.node(e.args["false"])]
    return _chosen(reading, [_boolean(reading.node(e.this), "if")], branches)


@certified(_CHOICE, "`nvl2(a, b, c)`", _ONE_TYPE, "Nvl2")
def _nvl2(reading: Reading, e: Any) -> Node:
    condition = null_test(reading.node(e.this), valid=True)
    branches = [reading.node(e.args["true"]), reading.node(e.args["false"])]
    return _chosen(reading, [condition], branches)


@certified(_CHOICE, "`coalesce(a, b, ...)`, `nvl(a, b)`, `ifnull(a, b)`", _ONE_TYPE, "Coalesce")
def _coalesce(reading: Reading, e: Any) -> Node:
    given = [reading.node(each) for each in (e.this, *e.expressions)]
    kind = common_type(given, "coalesce")
    args = tuple(reading.to(each, kind) for each in given)
    return Coalesce(kind, any_fails(args), args)


@certified(_CHOICE, "`nullif(a, b)`", "what can be compared", "Nullif")
def _nullif(reading: Reading, e: Any) -> Node:
    value, other = reading.node(e.this), reading.node(e.expression)
    if value.fails:  # Spark computes it once, whether it is needed or not
        raise NotCertifiedError("nullif of what can fail")
    condition = compared(reading, equal, value, other)
    return _chosen(reading, [condition], [_null(), value])
