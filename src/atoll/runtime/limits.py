"""How large what comes from outside may be: depth, values, texts, numbers.

Everything after this check walks the data recursively and stores it as JSON, so what could not be
walked, stored or told again ends here. It walks with a stack of its own.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

from atoll.runtime.problems import Problem, pointer

__all__ = ["DEPTH_MAX", "check_size", "parse_json"]

DEPTH_MAX = 32
VALUES_MAX = 200_000
KEYS_MAX = 10_000
TEXT_MAX = 256 * 1024
BYTES_MAX = 1 << 20
_INT_BITS_MAX = 63
_SHOWN_MAX = 60


def parse_json(text: bytes | str) -> tuple[Any, list[Problem]]:
    """The data of a JSON text, and what is wrong with it; the data is None when anything is.

    A name that stands twice in an object, a number that is not finite, bytes that are no UTF-8
    and a text beyond a mebibyte are problems.
    """
    if len(text) > BYTES_MAX:
        return None, [_problem("too-large", "", f"it is longer than {BYTES_MAX} bytes")]
    doubled: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs) and not doubled:
            counts = Counter(name for name, _ in pairs)
            doubled.append(max(counts, key=lambda name: counts[name]))
        return found

    try:
        data = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        return None, [
            Problem("not-json", "", f"it is no JSON: {_shown(why)}", "send one JSON object")
        ]
    if doubled:
        what = f"{_quoted(doubled[0])} stands more than once in an object"
        return None, [Problem("not-json", "", what, "give each name once")]
    return data, []


def check_size(data: Any) -> Iterator[Problem]:
    """What is too large, too deep, or no JSON, in data that was parsed; stops at the first few.

    Raises nothing, whatever the data.
    """
    stack: list[tuple[Any, str, int]] = [(data, "", 0)]
    seen = told = 0
    while stack and told < 20:  # noqa: PLR2004  # one who sends this much wrong gets the idea
        value, path, depth = stack.pop()
        seen += 1
        if seen > VALUES_MAX:
            yield _problem("too-large", "", f"it holds more than {VALUES_MAX} values")
            return
        what = _too_large(value, depth)
        if what:
            told += 1
            yield _problem("too-large", path, what)
        elif isinstance(value, dict):
            stack += [(each, path + pointer(name), depth + 1) for name, each in value.items()]
        elif isinstance(value, list):
            stack += [(each, path + pointer(at), depth + 1) for at, each in enumerate(value)]


def _too_large(value: Any, depth: int) -> str | None:
    """Why the value itself, apart from what it holds, cannot be taken."""
    match value:
        case None | bool():
            return None
        case str():
            return _text_misfit(value)
        case int():
            fits = value.bit_length() <= _INT_BITS_MAX
            return None if fits else "it is a whole number of more than 64 bits"
        case float():
            return None if math.isfinite(value) else "it is not a finite number"
        case dict() | list() if depth >= DEPTH_MAX:
            return f"it is nested more than {DEPTH_MAX} deep"
        case dict() if len(value) > KEYS_MAX:
            return f"it has more than {KEYS_MAX} names"
        case dict():
            wrong = next((name for name in value if not isinstance(name, str)), None)
            if wrong is not None:
                return "a name in it is no text"
            return next(filter(None, map(_text_misfit, value)), None)
        case list():
            return None
    return f"a {type(value).__name__} is nothing that JSON knows"


def _text_misfit(text: str) -> str | None:
    if len(text) > TEXT_MAX:
        return f"a text in it is longer than {TEXT_MAX} characters"
    if not text.isascii() and any("\ud800" <= each <= "\udfff" for each in text):
        return "a text in it holds half of a character (a lone surrogate)"
    return "a text in it holds the character NUL" if "\0" in text else None


def _problem(kind: str, path: str, what: str) -> Problem:
    return Problem(kind, path, what, "make it smaller, or correct it")


def _quoted(text: str) -> str:
    return repr(_shown(text))


def _shown(text: str) -> str:
    plain = text.encode("utf-8", "replace").decode()
    return plain if len(plain) <= _SHOWN_MAX else plain[:_SHOWN_MAX] + "…"
