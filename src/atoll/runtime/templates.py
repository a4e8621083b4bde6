"""Templates: JSON in which ``"${path}"`` stands for a value of an event.

Only a text that is nothing but one ``${...}`` is replaced, and by the value as it is: a number
stays a number. So a template can never be a program, and no value can become part of one. What is
not found is null. Texts in arrays are replaced too, which Coral forgot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from atoll.runtime.by_identity import ByIdentity
from atoll.runtime.paths import find, parse_path
from atoll.runtime.problems import Problem, pointer

Fill = Callable[[dict[str, Any]], Any]


def expression_in(text: str) -> str | None:
    """The expression of a text that is nothing but ``${...}``, else None."""
    return text[2:-1].strip() if text.startswith("${") and text.endswith("}") else None


def check_template(template: Any, path: str = "") -> Iterator[Problem]:
    """The malformed expressions in it, which would silently never be found."""
    match template:
        case str():
            expression = expression_in(template)
            if expression is not None and parse_path(expression) is None:
                hint = "write a path such as ${order.lines[0].price}, or ${*} for the whole event"
                yield Problem("invalid-actor", path, "the expression is malformed", hint)
        case dict():
            for name, value in template.items():
                yield from check_template(value, path + pointer(name))
        case list():
            for at, value in enumerate(template):
                yield from check_template(value, path + pointer(at))


def fill(template: Any, event: dict[str, Any]) -> Any:
    """The template with the event's values; a malformed expression gives null."""
    return _compiled(template)(event)


def _filler(template: Any) -> Fill | None:
    """What fills a template; None for one that is a constant."""
    match template:
        case str():
            expression = expression_in(template)
            return None if expression is None else _finder(expression)
        case dict():
            fills = {name: _filler(value) for name, value in template.items()}
            if not any(fills.values()):
                return None
            pairs = [(name, fills[name] or _constant(value)) for name, value in template.items()]
            return lambda event: {name: each(event) for name, each in pairs}
        case list():
            items = [_filler(value) or _constant(value) for value in template]
            return lambda event: [each(event) for each in items]
    return None


def _finder(expression: str) -> Fill:
    path = parse_path(expression)
    match path:
        case ((name, None),):
            return lambda event: event.get(name)
    return lambda event: find(path, event)


def _constant(value: Any) -> Fill:
    return lambda _: value


def _whole(template: Any) -> Fill:
    return _filler(template) or _constant(template)


_compiled = ByIdentity(_whole)
