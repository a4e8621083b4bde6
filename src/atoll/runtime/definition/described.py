"""What the docstring of a Struct tells about its fields: the words of the reference and the schema.

A field is described once, in the Google style's ``Args:`` of its Struct.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

_ENTRY = re.compile(r"^    (\w+): (.*)$")


def text_of_docstring(kind: type[Any]) -> str:
    """The class's docstring without its ``Args:``, one paragraph per line."""
    text = inspect.getdoc(kind) or ""
    text = text.partition("\nArgs:")[0].strip()
    return "\n\n".join(" ".join(each.split()) for each in text.split("\n\n"))


def summary_of(kind: type[Any]) -> str:
    """The first paragraph of the class's docstring."""
    return text_of_docstring(kind).partition("\n\n")[0]


def fields_of(kind: type[Any]) -> dict[str, str]:
    """What the docstring tells of each field, by its name in Python."""
    block = (inspect.getdoc(kind) or "").partition("\nArgs:\n")[2].partition("\n\n")[0]
    found: dict[str, str] = {}
    name = ""
    for line in block.splitlines():
        entry = _ENTRY.match(line)
        if entry:
            name, text = entry.groups()
            found[name] = text.strip()
        elif name:
            found[name] += " " + line.strip()
    return found
