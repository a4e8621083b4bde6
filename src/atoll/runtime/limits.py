"""How large what comes from outside may be: depth, values, texts, numbers.

Everything after this check walks the data recursively and stores it as JSON, so what could not be
walked, stored or told again ends here. It walks with a stack of its own.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from atoll.errors import kind_of_value
from atoll.runtime.problems import Problem, pointer

DEPTH_MAX = 32
VALUES_MAX = 200_000
KEYS_MAX = 10_000
TEXT_MAX = 256 * 1024
BYTES_MAX = 1 << 20
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1
_SHOWN_MAX = 60
_TOLD_MAX = 20
"""Who sends this much wrong gets the idea."""


class _DoubledError(ValueError):
    """A name stands twice in an object."""


class _Misfit(Exception):  # noqa: N818  # no error: the slow way says what it is
    """Something is too large, or no JSON."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise _DoubledError(max(counts, key=lambda name: counts[name]))
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


def parse_json(text: bytes | str) -> tuple[Any, list[Problem]]:
    """The data of a JSON text, and what is wrong with it; the data is None when anything is.

    A name that stands twice in an object, bytes that are no UTF-8 and a text beyond a mebibyte
    are problems. What the data may hold is told by :func:`check_size`.
    """
    if len(text) > BYTES_MAX:
        return None, [_problem("too-large", "", f"it is longer than {BYTES_MAX} bytes")]
    try:
        return _DECODER.decode(text if isinstance(text, str) else text.decode()), []
    except _DoubledError as error:
        what = f"{_quoted(str(error))} stands more than once in an object"
        return None, [Problem("not-json", "", what, "give each name once")]
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        hint = "send one JSON object"
        return None, [Problem("not-json", "", f"it is no JSON: {_shown(why)}", hint)]


def check_size(data: Any) -> Iterator[Problem]:
    """What is too large, too deep, or no JSON, in data that was parsed; stops at the first few.

    Raises nothing, whatever the data.
    """
    try:
        if _count(data, 0) <= VALUES_MAX:
            return
    except _Misfit:
        pass
    yield from _told(data)


def _count(value: Any, depth: int) -> int:
    """How many values there are; most data is right, and is looked at once and no more."""
    fits = _SIMPLE.get(type(value))
    if fits is not None:
        if not fits(value):
            raise _Misfit
        return 1
    if type(value) is list and depth < DEPTH_MAX:
        return 1 + sum([_count(each, depth + 1) for each in value])
    if type(value) is dict and depth < DEPTH_MAX and len(value) <= KEYS_MAX:
        if not all(type(name) is str and _text_fits(name) for name in value):
            raise _Misfit
        return 1 + sum([_count(each, depth + 1) for each in value.values()])
    raise _Misfit


def _text_fits(text: str) -> bool:
    return len(text) <= TEXT_MAX and "\0" not in text and (text.isascii() or _encodes(text))


_SIMPLE: dict[type, Callable[[Any], bool]] = {
    str: _text_fits,
    int: lambda value: _INT_MIN <= value <= _INT_MAX,
    float: math.isfinite,
    bool: lambda _: True,
    type(None): lambda _: True,
}


def _encodes(text: str) -> bool:
    return not any("\ud800" <= each <= "\udfff" for each in text)


def _told(data: Any) -> Iterator[Problem]:
    """The same with a stack of its own, and words."""
    stack: list[tuple[Any, str, int]] = [(data, "", 0)]
    seen = told = 0
    while stack and told < _TOLD_MAX:
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
            fits = _INT_MIN <= value <= _INT_MAX
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
    return f"{kind_of_value(value)} is nothing that JSON knows"


def _text_misfit(text: str) -> str | None:
    if len(text) > TEXT_MAX:
        return f"a text in it is longer than {TEXT_MAX} characters"
    if not text.isascii() and not _encodes(text):
        return "a text in it holds half of a character (a lone surrogate)"
    return "a text in it holds the character NUL" if "\0" in text else None


def _problem(kind: str, path: str, what: str) -> Problem:
    return Problem(kind, path, what, "make it smaller, or correct it")


def _quoted(text: str) -> str:
    return repr(_shown(text))


def _shown(text: str) -> str:
    plain = text.encode("utf-8", "replace").decode()
    return plain if len(plain) <= _SHOWN_MAX else plain[:_SHOWN_MAX] + "…"
