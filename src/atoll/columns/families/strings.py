"""Functions of texts. Characters are code points, as Spark counts them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from atoll.columns.forms import Reading, arguments, certified, fixed
from atoll.columns.tree import SURE, Call, Literal, Node, any_fails
from atoll.columns.types import NotCertifiedError, words

_FAMILY = "Text"


def text_of(reading: Reading, e: Any) -> Node:
    """A part of an expression that has to be a text.

    Raises:
        NotCertifiedError: When it is something else.
    """
    node = reading.node(e)
    if pa.types.is_null(node.type):
        return Literal(pa.string(), SURE, None)
    if node.type != pa.string():
        raise NotCertifiedError(f"a text function of {words(node.type)}")
    return node


@certified(_FAMILY, "`length(s)`, `char_length(s)`", "string", "Length")
def _length(reading: Reading, e: Any) -> Node:
    text = text_of(reading, e.this)
    return Call(pa.int32(), text.fails, pc.utf8_length, (text,))


@certified(_FAMILY, "`octet_length(s)`, `bit_length(s)`", "string", "octet_length", "BitLength")
def _bytes(reading: Reading, e: Any) -> Node:
    (argument,) = arguments(e) if e.key == "anonymous" else (e.this,)
    text = text_of(reading, argument)
    return Call(pa.int32(), text.fails, _byte_count, (text,), (8 if e.key == "bitlength" else 1,))


def _byte_count(texts: pa.Array, each: int) -> pa.Array:
    return pc.multiply(pc.binary_length(texts), pa.scalar(each, pa.int32()))


@certified(_FAMILY, "`ascii(s)`: the first character's number", "string", "Ascii")
def _ascii(reading: Reading, e: Any) -> Node:
    text = text_of(reading, e.this)
    return Call(pa.int32(), text.fails, _first_number, (text,))


def _first_number(texts: pa.Array) -> pa.Array:
    given = pc.utf8_slice_codeunits(texts, 0, 1).to_pylist()
    return pa.array([None if each is None else ord(each or "\0") for each in given], pa.int32())


@certified(_FAMILY, "`trim(s)`, `ltrim(s)`, `rtrim(s)`: of spaces", "string", "Trim")
def _trim(reading: Reading, e: Any) -> Node:
    if e.args.get("expression"):
        raise NotCertifiedError("trim of characters")
    text = text_of(reading, e.this)
    where = (e.args.get("position") or "BOTH").upper()
    kernels = {"BOTH": _trimmed, "LEADING": _left_trimmed, "TRAILING": _right_trimmed}
    return Call(pa.string(), text.fails, kernels[where], (text,))


def _trimmed(texts: pa.Array) -> pa.Array:
    return pc.ascii_trim(texts, characters=" ")


def _left_trimmed(texts: pa.Array) -> pa.Array:
    return pc.ascii_ltrim(texts, characters=" ")


def _right_trimmed(texts: pa.Array) -> pa.Array:
    return pc.ascii_rtrim(texts, characters=" ")


@certified(_FAMILY, "`replace(s, 'a', 'b')`", "string; literals", "Replace")
def _replace(reading: Reading, e: Any) -> Node:
    text = text_of(reading, e.this)
    old = fixed(reading, e.args.get("expression"), "replace of a text", str)
    given = e.args.get("replacement")
    new = "" if given is None else fixed(reading, given, "replace by a text", str)
    if not old:
        return text
    return Call(pa.string(), text.fails, _replaced, (text,), (old, new))


def _replaced(texts: pa.Array, old: str, new: str) -> pa.Array:
    return pc.replace_substring(texts, old, new)


@certified(_FAMILY, "`substr(s, 1[, 2])`, `substring(s, 1[, 2])`", "string; literals", "Substring")
def _substring(reading: Reading, e: Any) -> Node:
    text = text_of(reading, e.this)
    at = _number(reading, e.args.get("start"))
    if e.args.get("length") is None:
        return Call(
            pa.string(), text.fails, _cut, (text,), (max(at - 1, 0) if at >= 0 else at, None)
        )
    count = _number(reading, e.args["length"])
    begin = max(at - 1, 0) if at >= 0 else at
    end: int | None = begin + count
    if at < 0 and begin + count >= 0:
        end = None
    return Call(pa.string(), text.fails, _cut, (text,), (begin, begin if count <= 0 else end))


def _number(reading: Reading, e: Any) -> int:
    number: int = fixed(reading, e, "substr from a place", int)
    if abs(number) > 1_000_000:  # noqa: PLR2004 - far from where Spark's numbers end
        raise NotCertifiedError("substr of so many characters")
    return number


def _cut(texts: pa.Array, begin: int, end: int | None) -> pa.Array:
    if begin == end:
        return pc.if_else(texts.is_valid(), "", pa.scalar(None, pa.string()))
    return pc.utf8_slice_codeunits(texts, begin, end)


@certified(_FAMILY, "`concat(a, b, ...)`", "string", "Concat")
def _concat(reading: Reading, e: Any) -> Node:
    if e.args.get("safe") is not True or e.args.get("coalesce"):
        raise NotCertifiedError("two texts side by side")
    return _joined([text_of(reading, each) for each in e.expressions])


@certified(_FAMILY, "`a || b`", "string", "DPipe")
def _pipe(reading: Reading, e: Any) -> Node:
    return _joined([text_of(reading, e.this), text_of(reading, e.expression)])


def _joined(texts: list[Node]) -> Node:
    if any_fails(texts):
        raise NotCertifiedError("texts joined of what can fail")
    return Call(pa.string(), SURE, _chained, tuple(texts))


def _chained(*texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*texts, "")


@certified(
    _FAMILY,
    "`startswith(s, 'a')`, `endswith(s, 'a')`, `contains(s, 'a')`",
    "string; a literal",
    "StartsWith",
    "EndsWith",
    "Contains",
)
def _finds(reading: Reading, e: Any) -> Node:
    text = text_of(reading, e.this)
    sought = fixed(reading, e.expression, "a search for a text", str)
    kernels = {"StartsWith": _starts, "EndsWith": _ends, "Contains": _holds}
    return Call(pa.bool_(), text.fails, kernels[type(e).__name__], (text,), (sought,))


def _starts(texts: pa.Array, sought: str) -> pa.Array:
    return pc.starts_with(texts, sought)


def _ends(texts: pa.Array, sought: str) -> pa.Array:
    return pc.ends_with(texts, sought)


def _holds(texts: pa.Array, sought: str) -> pa.Array:
    return pc.match_substring(texts, sought)


@certified(_FAMILY, "`s [NOT] LIKE 'a%'`", "string; a literal without backslashes", "Like")
def _like(reading: Reading, e: Any) -> Node:
    text = text_of(reading, e.this)
    pattern = fixed(reading, e.expression, "LIKE with a text", str)
    found = Call(pa.bool_(), text.fails, _is_like, (text,), (pattern,))
    return Call(pa.bool_(), text.fails, pc.invert, (found,)) if e.args.get("negate") else found


def _is_like(texts: pa.Array, pattern: str) -> pa.Array:
    return pc.match_like(texts, pattern)


@certified(_FAMILY, "`split_part(s, '/', 1)`", "string; literals", "SplitPart")
def _split_part(reading: Reading, e: Any) -> Node:
    text = text_of(reading, e.this)
    mark = fixed(reading, e.args.get("delimiter"), "split_part at a text", str)
    number = fixed(reading, e.args.get("part_index"), "split_part by a number", int)
    if not mark or not number or abs(number) > np.iinfo(np.int32).max:
        raise NotCertifiedError("split_part by nothing, or number 0")
    return Call(pa.string(), text.fails, _part, (text,), (mark, number))


def _part(texts: pa.Array, mark: str, number: int) -> pa.Array:
    """Empty where there are fewer parts."""
    parts = pc.split_pattern(texts, mark)
    ends = parts.offsets.to_numpy().astype(np.int64)
    at = ends[:-1] + number - 1 if number > 0 else ends[1:] + number
    missing = (at < ends[:-1]) | (at >= ends[1:])
    found = parts.values.take(pa.array(at, mask=missing)).fill_null("")
    return pc.if_else(texts.is_valid(), found, pa.scalar(None, pa.string()))
