"""Texts sought in texts, cut, filled up and put together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from atoll.columns.families.strings import text_of
from atoll.columns.forms import Reading, certified, fixed
from atoll.columns.tree import SURE, Call, Node, Rows
from atoll.columns.types import NotCertifiedError

_FAMILY = "Text"
_COUNT_MAX = 1_000_000


def _count(reading: Reading, e: Any, what: str) -> int:
    number: int = fixed(reading, e, what, int)
    if abs(number) > _COUNT_MAX:
        raise NotCertifiedError(f"{what} of so many characters")
    return number


@certified(
    _FAMILY,
    "`instr(s, 'a')`, `locate('a', s)`, `position('a' IN s)`",
    "string; a literal",
    "StrPosition",
)
def _position(reading: Reading, e: Any) -> Node:
    text = text_of(reading, e.this)
    sought = fixed(reading, e.args.get("substr"), "instr of a text", str)
    return Call(pa.int32(), text.fails, _found_at, (text,), (sought,))


def _found_at(texts: pa.Array, sought: str) -> pa.Array:
    given = texts.to_pylist()
    return pa.array([None if each is None else each.find(sought) + 1 for each in given], pa.int32())


@certified(
    _FAMILY,
    "`substring_index(s, '.', 2)`",
    "string; literals, of which the first does not overlap itself",
    "SubstringIndex",
)
def _substring_index(reading: Reading, e: Any) -> Node:
    text = text_of(reading, e.this)
    mark = fixed(reading, e.args.get("delimiter"), "substring_index at a text", str)
    count = _count(reading, e.args.get("count"), "substring_index")
    if any(mark.endswith(mark[:size]) for size in range(1, len(mark))):
        raise NotCertifiedError(f"substring_index at {mark!r}, which overlaps itself")
    return Call(pa.string(), text.fails, _until, (text,), (mark, count))


def _until(texts: pa.Array, mark: str, count: int) -> pa.Array:
    def cut(text: str) -> str:
        if not mark or not count:
            return ""
        parts = text.split(mark)
        return mark.join(parts[:count] if count > 0 else parts[count:])

    return pa.array(
        [None if each is None else cut(each) for each in texts.to_pylist()], pa.string()
    )


@certified(_FAMILY, "`lpad(s, 5[, ' '])`, `rpad(s, 5[, ' '])`", "string; literals", "Pad")
def _pad(reading: Reading, e: Any) -> Node:
    text = text_of(reading, e.this)
    width = _count(reading, e.expression, "a pad")
    given = e.args.get("fill_pattern")
    fill = " " if given is None else fixed(reading, given, "a pad with a text", str)
    return Call(pa.string(), text.fails, _padded, (text,), (width, fill, bool(e.args["is_left"])))


def _padded(texts: pa.Array, width: int, fill: str, left: bool) -> pa.Array:  # noqa: FBT001 - an option of a kernel
    def filled(text: str) -> str:
        if len(text) >= width or not fill:
            return text[: max(width, 0)]
        missing = width - len(text)
        more = (fill * (missing // len(fill) + 1))[:missing]
        return more + text if left else text + more

    given = texts.to_pylist()
    return pa.array([None if each is None else filled(each) for each in given], pa.string())


@certified(_FAMILY, "`left(s, 2)`, `right(s, 2)`", "string; a literal", "Left", "Right")
def _side(reading: Reading, e: Any) -> Node:
    text = text_of(reading, e.this)
    count = max(_count(reading, e.expression, e.key), 0)
    begin, end = (0, count) if e.key == "left" else (-count, None)
    return Call(pa.string(), text.fails, _slice, (text,), (begin, end if count else 0))


def _slice(texts: pa.Array, begin: int, end: int | None) -> pa.Array:
    return pc.utf8_slice_codeunits(texts, begin, end)


@certified(_FAMILY, "`repeat(s, 3)`", "string; a literal", "Repeat")
def _repeat(reading: Reading, e: Any) -> Node:
    text = text_of(reading, e.this)
    count = fixed(reading, e.args.get("times"), "repeat of a text", int)
    if count > 1000:  # noqa: PLR2004 - a row has an end
        raise NotCertifiedError("repeat so often")
    return Call(pa.string(), text.fails, _repeated, (text,), (max(count, 0),))


def _repeated(texts: pa.Array, count: int) -> pa.Array:
    return pc.binary_repeat(texts, count)


@certified(_FAMILY, "`reverse(s)`", "string", "Reverse")
def _reverse(reading: Reading, e: Any) -> Node:
    text = text_of(reading, e.this)
    return Call(pa.string(), text.fails, pc.utf8_reverse, (text,))


@certified(_FAMILY, "`translate(s, 'ab', 'x')`", "string; literals", "Translate")
def _translate(reading: Reading, e: Any) -> Node:
    text = text_of(reading, e.this)
    old = fixed(reading, e.args.get("from_"), "translate of a text", str)
    new = fixed(reading, e.args.get("to"), "translate to a text", str)
    changes: dict[int, str | None] = {}
    for at, each in enumerate(old):
        changes.setdefault(ord(each), new[at] if at < len(new) else None)
    return Call(pa.string(), text.fails, _translated, (text,), (changes,))


def _translated(texts: pa.Array, changes: dict[int, str | None]) -> pa.Array:
    given = texts.to_pylist()
    made = [None if each is None else each.translate(changes) for each in given]
    return pa.array(made, pa.string())


@certified(
    _FAMILY, "`concat_ws('-', a, b, ...)`: of what is not null", "string; a literal", "ConcatWs"
)
def _concat_ws(reading: Reading, e: Any) -> Node:
    mark = fixed(reading, e.expressions[0], "concat_ws with a text", str)
    texts = tuple(text_of(reading, each) for each in e.expressions[1:])
    if not texts or any(each.fails for each in texts):
        raise NotCertifiedError("concat_ws of nothing, or of what can fail")
    return Joined(pa.string(), SURE, texts, mark)


@dataclass(frozen=True, eq=False)
class Joined(Node):
    """Texts with a mark between them; those that are null are left out."""

    texts: tuple[Node, ...]
    mark: str

    @property
    def parts(self) -> tuple[Node, ...]:
        """The nodes that it is computed of."""
        return self.texts

    def compute(self, rows: Rows) -> pa.Array:
        """Row by row."""
        columns = [each.of(rows).to_pylist() for each in self.texts]
        found = [
            self.mark.join(each for each in row if each is not None)
            for row in zip(*columns, strict=True)
        ]
        return pa.array(found, pa.string())
