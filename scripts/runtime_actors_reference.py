"""Write docs/reference/runtime-actors.md from the registered types of runtime actors.

The words are those of the types' docstrings and of their params'. Run it after changing one:

    .venv/bin/python scripts/runtime_actors_reference.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from atoll.runtime.actors.interface import ActorType
from atoll.runtime.actors.registry import BUILT_IN
from atoll.runtime.definition.described import fields_of, text_of_docstring
from atoll.runtime.definition.reading import in_words

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "runtime-actors.md"

HEAD = """\
# Types of runtime actors

<!-- Made by scripts/runtime_actors_reference.py from the types themselves: change those. -->

What an actor of a [runtime](../concepts/runtimes.md) can be.
Its `type` is one of these names, its `params` an object with the fields told here and no others.
What all types share is told [where actor types are](../concepts/runtimes.md#actor-types).

An installed package adds types of its own by entry points of the group `atoll.runtime_actors`.

| type | for | state | effect |
|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    types = [kind() for kind in BUILT_IN]
    rows = "".join(_row(kind) for kind in types)
    return HEAD + rows + "".join("\n" + part for kind in types for part in _section(kind))


def _row(kind: ActorType[Any]) -> str:
    summary = _markdown(type(kind)).partition("\n")[0]
    state = "yes" if kind.stateful else "no"
    return f"| [`{kind.name}`](#{kind.name}) | {summary} | {state} | {kind.effect} |\n"


def _section(kind: ActorType[Any]) -> Iterator[str]:
    yield f"## {kind.name}\n"
    yield _markdown(type(kind)) + "\n"
    rows = list(_params(kind.params, ""))
    if rows:
        yield "| param | is | usually | for |\n|---|---|---|---|\n" + "".join(rows)
    facts = list(_facts(kind))
    if facts:
        yield "".join(f"- {fact}\n" for fact in facts)
    shown = {"name": "a", "type": kind.name, "params": kind.example}
    yield f"```json\n{json.dumps(shown, indent=2)}\n```\n"


def _facts(kind: ActorType[Any]) -> Iterator[str]:
    if kind.fields:
        yield f"Siblings may collect: {_listed(kind.fields)}."
    if kind.modes:
        order = ("calc-local", "collect-local", "spark-batch", "log-batch")
        yield f"State functions: {_listed(mode for mode in order if mode in kind.modes)}."
    if kind.resettable:
        yield "May have a `timeout`."
    if kind.aliases:
        yield f"Must collect the aliases {_listed(sorted(kind.aliases))}."
    if kind.aliases is None:
        yield "May collect any aliases."
    if not kind.emits:
        yield "Emits nothing, so it answers no query of `collect`."
    if kind.entry:
        yield "Takes no events: no link may lead to it."
    if kind.runs:
        yield f"Cannot run yet: {kind.runs}."


def _params(params: type[Any], above: str) -> Iterator[str]:
    described = fields_of(params)
    for field in inspect.type_info(params).fields:  # type: ignore[union-attr]
        words = in_words(field.type).replace("|", "\\|")
        usual = "" if field.required else _usual(field)
        name = above + field.encode_name
        yield f"| `{name}` | {words} | {usual} | {_plain(described[field.name])} |\n"
        inner, mark = _inner(field.type)
        if inner is not None:
            yield from _params(inner, name + mark)


def _inner(kind: inspect.Type) -> tuple[type[Any] | None, str]:
    """The Struct within a field's type, and how a path goes on to its fields."""
    match kind:
        case inspect.StructType(cls=found):
            return found, "."
        case inspect.VarTupleType(item_type=inspect.StructType(cls=found)):
            return found, "[]."
    return None, ""


def _usual(field: inspect.Field) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        return f"`{json.dumps(field.default_factory())}`"
    return "" if field.default is None else f"`{json.dumps(field.default)}`"


def _markdown(kind: type[Any]) -> str:
    """The docstring, one sentence a line."""
    return _plain(text_of_docstring(kind)).replace(". ", ".\n")


def _plain(text: str) -> str:
    return text.replace("``", "`")


def _listed(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
