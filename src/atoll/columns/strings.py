"""Functions of texts. Characters are code points, as Spark counts them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from atoll.columns.forms import Reading, certified
from atoll.columns.tree import SURE, Call, Literal, Node, any_fails
from atoll.columns.types import NotCertifiedError, words

__all__: list[str] = []

_FAMILY = "Text"


def _text(reading: Reading, e: Any) -> Node:
    node = reading.node(e)
    if node.type != pa.string():
        raise NotCertifiedError(f"a text function of {words(node.type)}")
    return node


def _fixed(reading: Reading, e: Any, what: str, kind: type) -> Any:
    """The value of an argument that has to be a literal."""
    node = None if e is None else reading.node(e)
    if not isinstance(node, Literal) or type(node.value) is not kind:
        raise NotCertifiedError(f"{what} that is no literal")
    return node.value


@certified(_FAMILY, "`length(s)`, `char_length(s)`", "string", "Length")
def _length(reading: Reading, e: Any) -> Node:
    text = _text(reading, e.this)
    return Call(pa.int32(), text.fails, pc.utf8_length, (text,))


@certified(_FAMILY, "`trim(s)`, `ltrim(s)`, `rtrim(s)`: of spaces", "string", "Trim")
def _trim(reading: Reading, e: Any) -> Node:
    if e.args.get("expression"):
        raise NotCertifiedError("trim of characters")
    text = _text(reading, e.this)
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
    text = _text(reading, e.this)
    old = _fixed(reading, e.args.get("expression"), "replace of a text", str)
    given = e.args.get("replacement")
    new = "" if given is None else _fixed(reading, given, "replace by a text", str)
    if not old:
        return text
    return Call(pa.string(), text.fails, _replaced, (text,), (old, new))


def _replaced(texts: pa.Array, old: str, new: str) -> pa.Array:
    return pc.replace_substring(texts, old, new)


@certified(_FAMILY, "`substr(s, 1[, 2])`, `substring(s, 1[, 2])`", "string; literals", "Substring")
def _substring(reading: Reading, e: Any) -> Node:
    text = _text(reading, e.this)
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
    number: int = _fixed(reading, e, "substr from a place", int)
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
    return _joined([_text(reading, each) for each in e.expressions])


@certified(_FAMILY, "`a || b`", "string", "DPipe")
def _pipe(reading: Reading, e: Any) -> Node:
    return _joined([_text(reading, e.this), _text(reading, e.expression)])


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
    text = _text(reading, e.this)
    sought = _fixed(reading, e.expression, "a search for a text", str)
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
    text = _text(reading, e.this)
    pattern = _fixed(reading, e.expression, "LIKE with a text", str)
    found = Call(pa.bool_(), text.fails, _is_like, (text,), (pattern,))
    return Call(pa.bool_(), text.fails, pc.invert, (found,)) if e.args.get("negate") else found


def _is_like(texts: pa.Array, pattern: str) -> pa.Array:
    return pc.match_like(texts, pattern)


@certified(_FAMILY, "`split_part(s, '/', 1)`", "string; literals", "SplitPart")
def _split_part(reading: Reading, e: Any) -> Node:
    text = _text(reading, e.this)
    mark = _fixed(reading, e.args.get("delimiter"), "split_part at a text", str)
    number = _fixed(reading, e.args.get("part_index"), "split_part by a number", int)
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


_RANGE = "[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9]"
_SET = rf"\[\^?(?:{_RANGE}|(?!&&)[A-Za-z0-9_ =/:&?@#,;%!~<>.*+()$])+\]"
_ATOM = rf"(?:[A-Za-z0-9_ =/:&@#,;%!~<>-]|{_SET})"
_PIECE = rf"(?:{_ATOM}[*+?]?)"
_SAFE = re.compile(rf"{_PIECE}*(?:\({_PIECE}+\){_PIECE}*)?", re.ASCII)
"""What Java's patterns and RE2's mean alike: characters, sets of them, ``*+?``, one group."""


@certified(
    _FAMILY,
    "`regexp_extract(s, 'a([^b]*)', 1)`",
    "string; literals: letters, digits, sets, `*` `+` `?`, one group",
    "RegexpExtract",
)
def _extract(reading: Reading, e: Any) -> Node:
    text = _text(reading, e.this)
    pattern = _fixed(reading, e.expression, "regexp_extract with a text", str)
    given = e.args.get("group")
    group = 1 if given is None else _fixed(reading, given, "regexp_extract of a group", int)
    if group != 1 or "(" not in pattern or not _SAFE.fullmatch(pattern):
        raise NotCertifiedError(f"the pattern {pattern!r}")
    head, _, tail = _grouped(pattern)
    return Call(pa.string(), text.fails, _extracted, (text,), (f"{head}(?P<found>{tail}",))


def _grouped(pattern: str) -> tuple[str, str, str]:
    """The pattern before and after the mark that opens its group, which may stand in no set."""
    depth = 0
    for at, each in enumerate(pattern):
        if each == "[" and not depth:
            depth = 1
        elif each == "]" and depth:
            depth = 0
        elif each == "(" and not depth:
            return pattern[:at], "(", pattern[at + 1 :]
    raise NotCertifiedError(f"the pattern {pattern!r}")


def _extracted(texts: pa.Array, pattern: str) -> pa.Array:
    """Empty where nothing is found."""
    found = pc.struct_field(pc.extract_regex(texts, pattern), 0).fill_null("")
    return pc.if_else(texts.is_valid(), found, pa.scalar(None, pa.string()))
