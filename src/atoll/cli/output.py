"""What commands write: data to stdout, everything said to a person to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from atoll.errors import AtollError

__all__ = ["cell", "note", "print_error", "print_json", "print_table"]


def print_json(data: Any) -> None:
    """One JSON document, readable, characters as they are."""
    sys.stdout.write(json.dumps(data, ensure_ascii=False, indent=2) + "\n")
    sys.stdout.flush()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Rows under headings, numbers to the right; never cut, whatever the terminal's width."""
    rows = [list(row) for row in rows]
    texts = [[cell(value) for value in row] for row in rows]
    widths = [
        max([len(name), *(len(row[index]) for row in texts)]) for index, name in enumerate(columns)
    ]
    right = [
        bool(rows) and all(_is_number(row[index]) for row in rows) for index in range(len(columns))
    ]
    lines = [list(columns), ["-" * width for width in widths], *texts]
    for line in lines:
        parts = (
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(line, widths, right, strict=True)
        )
        sys.stdout.write("  ".join(parts).rstrip() + "\n")
    sys.stdout.flush()


def cell(value: Any) -> str:
    """One value in one line: texts as they are, everything else as JSON.

    Control characters are escaped, so that data can never drive the terminal.
    """
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else json.dumps(character)[1:-1] for character in text
    )


def note(message: str) -> None:
    """Say something to the person at the terminal."""
    sys.stderr.write(message + "\n")
    sys.stderr.flush()


def print_error(error: AtollError) -> None:
    """An error as message, place, remedy and code, one line each; never a traceback."""
    lines = [f"error: {error.message}"]
    context = {key: value for key, value in error.context.items() if key != "refusals"}
    if context:
        where = ", ".join(f"{key}={cell(_plain(value))}" for key, value in context.items())
        lines.append(f"where: {where}")
    if error.hint:
        lines.append(f"to do: {error.hint}")
    lines.append(f" code: {error.code}")
    note("\n".join(lines))


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
