"""Patterns: those that Java's regular expressions and RE2 mean alike.

A closed grammar says which: characters, sets, ``.``, ``*`` ``+`` ``?`` ``{2,3}`` and their lazy
forms, groups, ``|``, ``^`` at the beginning, ``$`` at the end. Any other is Spark's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from atoll.columns.families.strings import text_of
from atoll.columns.forms import Reading, certified, fixed
from atoll.columns.tree import Call, Node
from atoll.columns.types import NotCertifiedError

_FAMILY = "Text"
_LENGTH_MAX = 200
_TIMES_MAX = 100
_CHARACTERS = "A-Za-z0-9_ =/:&@#,;%!~<>-"
_RANGE = "[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9]"
_TOKEN = re.compile(
    rf"(?P<set>\[\^?(?:{_RANGE}|(?!&&)[A-Za-z0-9_ =/:&?@#,;%!~<>.*+()$])+\])"
    rf"|(?P<character>[{_CHARACTERS}]|[^\x00-\x7f])|(?P<any>\.)|(?P<open>\((?:\?:)?)|(?P<close>\))|(?P<or>\|)"
    r"|(?P<times>(?:[*+?]|\{\d{1,3}(?:,(?:\d{1,3})?)?\})\??)|(?P<begin>\^)|(?P<end>\$)",
    re.ASCII,
)
_ANY = "[^\\n\\r\\x{85}\\x{2028}\\x{2029}]"
"""What a point means in Java: all but the ends of lines."""
_LAST = "(?:\\r\\n|[\\n\\r\\x{85}\\x{2028}\\x{2029}])?\\z"
"""What a dollar means in Java: the end, or before the end of the last line."""


@dataclass(frozen=True)
class Pattern:
    """A pattern of the grammar.

    Attributes:
        text: In RE2's words.
        groups: How many groups it has.
        empty: Whether an empty text may match.
    """

    text: str
    groups: int
    empty: bool


class _RefusedError(Exception):
    """What is not of the grammar."""


@dataclass
class _Parser:
    """Reads tokens; of each part it says the text in RE2's words, and whether it may be empty."""

    tokens: list[tuple[str, str]]
    at: int = 0
    groups: int = 0
    depth: int = 0

    def peek(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1][1]

    def whole(self) -> Pattern:
        begin = "\\A" if self.peek() == "begin" else ""
        if begin:
            self.take()
        text, empty = self.choice()
        end = ""
        if self.peek() == "end":
            end = self.end()
        if self.at < len(self.tokens) or ((begin or end) and "|" in self.top):
            raise _RefusedError
        return Pattern(begin + text + end, self.groups, empty or bool(begin or end))

    @property
    def top(self) -> set[str]:
        """The tokens outside all groups."""
        depth, found = 0, set()
        for kind, text in self.tokens:
            depth += (kind == "open") - (kind == "close")
            if not depth:
                found.add(text)
        return found

    def end(self) -> str:
        """A dollar, behind what matches no end of a line."""
        before = self.tokens[: self.at]
        if before and before[-1][0] == "times" and before.pop()[1].startswith(("*", "?", "{0")):
            raise _RefusedError
        kind, text = before[-1] if before else ("", "")
        if kind not in ("character", "any", "set") or text.startswith("[^"):
            raise _RefusedError
        self.take()
        return _LAST

    def choice(self) -> tuple[str, bool]:
        text, empty = self.row()
        while self.peek() == "or":
            self.take()
            more, also = self.row()
            text, empty = f"{text}|{more}", empty or also
        return text, empty

    def row(self) -> tuple[str, bool]:
        texts, empty = [], True
        while self.peek() in ("set", "character", "any", "open"):
            text, may = self.piece()
            texts.append(text)
            empty = empty and may
        if not texts:
            raise _RefusedError
        return "".join(texts), empty

    def piece(self) -> tuple[str, bool]:
        kind, empty, before = self.peek(), False, self.groups
        if kind == "open":
            text, empty = self.group()
        else:
            taken = self.take()
            text = _ANY if kind == "any" else taken
        if self.peek() != "times":
            return text, empty
        times = self.take()
        if empty or (self.groups > before and not times.startswith("?")):
            raise _RefusedError  # what repeats an empty text, or keeps the last of several groups
        bounds = [int(each) for each in re.findall(r"\d+", times)]
        if max(bounds, default=0) > _TIMES_MAX or bounds != sorted(bounds):
            raise _RefusedError
        return text + times, times[0] in "*?" or bounds[:1] == [0]

    def group(self) -> tuple[str, bool]:
        mark = self.take()
        self.groups += mark == "("
        self.depth += 1
        text, empty = self.choice()
        if self.peek() != "close" or self.depth > 3:  # noqa: PLR2004 - deep enough
            raise _RefusedError
        self.take()
        self.depth -= 1
        return f"{mark}{text})", empty


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    while at < len(text) <= _LENGTH_MAX and (found := _TOKEN.match(text, at)):
        tokens.append((str(found.lastgroup), found[0]))
        at = found.end()
    if at < len(text) or not text:
        raise _RefusedError
    return tokens


def pattern_of(text: str) -> Pattern:
    """A pattern in RE2's words.

    Raises:
        NotCertifiedError: When it is not one that both mean alike.
    """
    try:
        return _Parser(_tokens(text)).whole()
    except _RefusedError:
        raise NotCertifiedError(f"the pattern {text!r}") from None


@certified(
    _FAMILY,
    "`s [NOT] RLIKE 'a.*b'`, `s REGEXP 'a'`, `rlike(s, 'a')`, `regexp_like(s, 'a')`",
    "string; a literal: letters, digits, sets, `.`, `*` `+` `?` `{2,3}`, groups, `|`, `^` at the "
    "beginning, `$` at the end",
    "RegexpLike",
)
def _rlike(reading: Reading, e: Any) -> Node:
    text = text_of(reading, e.this)
    pattern = pattern_of(fixed(reading, e.expression, "RLIKE with a text", str))
    return Call(pa.bool_(), text.fails, _matches, (text,), (pattern.text,))


def _matches(texts: pa.Array, pattern: str) -> pa.Array:
    return pc.match_substring_regex(texts, pattern)


@certified(
    _FAMILY,
    "`regexp_extract(s, 'a([^b]*)', 1)`",
    "string; a pattern as of RLIKE with one group, which is taken",
    "RegexpExtract",
)
def _extract(reading: Reading, e: Any) -> Node:
    text = text_of(reading, e.this)
    given = fixed(reading, e.expression, "regexp_extract with a text", str)
    number = e.args.get("group")
    group = 1 if number is None else fixed(reading, number, "regexp_extract of a group", int)
    pattern = pattern_of(given)
    if group != 1 or pattern.groups != 1:
        raise NotCertifiedError(f"the pattern {given!r}")
    named = re.sub(r"(\[[^\]]*\])|\((?!\?)", lambda found: found[1] or "(?P<found>", pattern.text)
    return Call(pa.string(), text.fails, _extracted, (text,), (named,))


def _extracted(texts: pa.Array, pattern: str) -> pa.Array:
    """Empty where nothing is found."""
    found = pc.struct_field(pc.extract_regex(texts, pattern), 0).fill_null("")
    return pc.if_else(texts.is_valid(), found, pa.scalar(None, pa.string()))


@certified(
    _FAMILY,
    "`regexp_replace(s, 'a+', 'b')`",
    "string; literals: a pattern as of RLIKE that no empty text matches, a text without `$`",
    "RegexpReplace",
)
def _replace(reading: Reading, e: Any) -> Node:
    text = text_of(reading, e.this)
    given = fixed(reading, e.expression, "regexp_replace of a text", str)
    new = fixed(reading, e.args.get("replacement"), "regexp_replace by a text", str)
    pattern = pattern_of(given)
    if pattern.empty or "$" in new:
        raise NotCertifiedError(f"regexp_replace of {given!r} by {new!r}")
    return Call(pa.string(), text.fails, _replaced, (text,), (pattern.text, new))


def _replaced(texts: pa.Array, pattern: str, new: str) -> pa.Array:
    return pc.replace_substring_regex(texts, pattern, new)


@certified(
    _FAMILY,
    "`split(s, ',')`: an array",
    "string; a literal: a pattern as of RLIKE that no empty text matches",
    "RegexpSplit",
)
def _split(reading: Reading, e: Any) -> Node:
    text = text_of(reading, e.this)
    given = fixed(reading, e.expression, "split at a text", str)
    pattern = pattern_of(given)
    if pattern.empty or e.args.get("limit"):
        raise NotCertifiedError(f"split at {given!r}")
    return Call(_PARTS, text.fails, _parts, (text,), (pattern.text,))


_PARTS = pa.list_(pa.field("element", pa.string(), nullable=False))


def _parts(texts: pa.Array, pattern: str) -> pa.Array:
    found = pc.split_pattern_regex(texts.fill_null(""), pattern)
    return pa.ListArray.from_arrays(
        found.offsets, found.values, type=_PARTS, mask=texts.is_null() if texts.null_count else None
    )
