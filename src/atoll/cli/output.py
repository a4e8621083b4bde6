"""What commands write: data to stdout, everything said to a person to stderr."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO, cast

from atoll.errors import AtollError


class OutputError(AtollError):
    """What a command has to say cannot be written: what it did stands."""

    code = "E-OUTPUT"


class OutputClosedError(Exception):
    """Whoever read the output has enough (``atoll query ... | head``)."""


class _Guarded:
    """A text stream whose failures are told apart from those of anything else."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: Any) -> int:
        with _told():
            return int(self._stream.write(text))

    def flush(self) -> None:
        with _told():
            self._stream.flush()

    @property
    def buffer(self) -> Any:
        """For bytes, guarded as well."""
        return _Guarded(self._stream.buffer)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise OutputClosedError from None
    except OSError as error:
        raise OutputError(
            f"the output cannot be written: {error.strerror or error}",
            hint="the command did what it was asked to do; give its output a place with room",
        ) from None


@contextmanager
def guarded_output() -> Iterator[None]:
    """Turn what goes wrong with stdout into errors of its own, its last flush included.

    Raises:
        OutputError: When it is full, or cannot be written for another reason.
        OutputClosedError: When nobody reads it any more.
    """
    stream = sys.stdout
    sys.stdout = cast("TextIO", _Guarded(stream))  # as much of one as is used
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except (OutputError, OutputClosedError):
        # What is left in the buffer would be tried again, and be told, when Python ends.
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
        raise
    finally:
        sys.stdout = stream


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
    with contextlib.suppress(OSError):  # there is no other place to say so
        sys.stderr.write(message + "\n")
        sys.stderr.flush()


def print_error(error: AtollError) -> None:
    """An error as message, place, remedy and code, one line each; never a traceback."""
    lines = [f"error: {error.message}"]
    context = {
        key: value for key, value in error.context.items() if key not in {"refusals", "problems"}
    }
    if context:
        where = ", ".join(f"{key}={cell(_plain(value))}" for key, value in context.items())
        lines.append(f"where: {where}")
    problems = error.context.get("problems")
    lines += [
        f"  {cell(str(each.get('path')) or '/')}: {cell(str(each.get('what')))}"
        for each in (problems if isinstance(problems, list) else ())
    ]
    if error.hint:
        lines.append(f"to do: {error.hint}")
    lines.append(f" code: {error.code}")
    note("\n".join(lines))


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
