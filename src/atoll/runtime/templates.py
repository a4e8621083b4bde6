"""Templates: JSON in which ``"${path}"`` stands for a value of an event.

Only a text that is nothing but one ``${...}`` is replaced, and by the value as it is: a number
stays a number. So a template can never be a program, and no value can become part of one. What is
not found is null. Texts in arrays are replaced too, which Coral forgot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from atoll.runtime.paths import find, parse_path
from atoll.runtime.problems import Problem, pointer

__all__ = ["check_template", "expression_in", "fill"]

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
    """The template with the event's values; one that was never checked gives nulls."""
    match template:
        case str():
            expression = expression_in(template)
            return template if expression is None else find(parse_path(expression), event)
        case dict():
            return {name: fill(value, event) for name, value in template.items()}
        case list():
            return [fill(value, event) for value in template]
    return template
