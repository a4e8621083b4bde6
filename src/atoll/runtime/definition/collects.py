"""The section ``collect`` of an actor: what it asks of its siblings with every event.

It stands beside ``params``, where Coral's documentation shows it and where its validator looked;
Coral's actors read it within ``params`` instead, so that a working definition needed both. Here
``params`` has no such field, and one that is found there is refused with this place as its hint.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from atoll.runtime.actors.interface import ActorType
from atoll.runtime.definition.reading import shown, unknown_fields
from atoll.runtime.definition.structs import Collect
from atoll.runtime.problems import Problem, pointer, under

ENTRIES_MAX = 100
_NAME = re.compile(r"[A-Za-z0-9_]{1,256}\Z")
_FIELDS = ("alias", "from", "field", "data")
_SHAPE = 'write {"alias": NAME, "from": ACTOR, "field": NAME}'


def read_collect(
    given: Any, own_name: Any, kind: ActorType[Any]
) -> tuple[tuple[tuple[int, Collect], ...], list[Problem]]:
    """The entries that are right, each with its place, and what is wrong as far as one can tell.

    What is between an entry and its sibling is told by :func:`sibling_misfits`.

    Args:
        given: The section, or None when there is none.
        own_name: The actor's own name, to see whether it asks itself.
        kind: The actor's type, which says what aliases it needs.
    """
    needed = kind.aliases
    if given is None and not needed:
        return (), []
    if not isinstance(given, list) or not given:
        words = "missing" if given is None else shown(given)
        words = "empty" if given == [] else words
        hint = f"collect {_listed(needed)}" if needed else "leave it out, or give an array"
        return (), [Problem("no-collect", "", f'"collect" is {words}', hint)]
    if len(given) > ENTRIES_MAX:
        what = f"it has {len(given)} entries"
        return (), [Problem("too-many", "", what, f"use at most {ENTRIES_MAX}")]
    by_entry = [list(_misfits(each, own_name, pointer(at))) for at, each in enumerate(given)]
    problems = [each for found in by_entry for each in found]
    problems += _duplicates(given)
    if not any(each.kind in _ABOUT_ALIASES for each in problems):
        problems += _aliases(given, kind)
    right = tuple(
        (at, Collect(each["alias"], each["from"], each.get("field"), each.get("data")))
        for at, each in enumerate(given)
        if not by_entry[at]
    )
    return right, problems


def sibling_misfits(
    collect: Collect, path: str, siblings: Mapping[str, ActorType[Any] | None]
) -> Iterator[Problem]:
    """What is wrong between an entry and the sibling that it names.

    Args:
        collect: The entry.
        path: Where it stands.
        siblings: Every actor's type by its name; None where the actor itself is wrong.
    """
    if collect.source not in siblings:
        what = f"there is no actor {shown(collect.source)}"
        yield Problem("collect-unknown-actor", path + "/from", what, "name an actor")
        return
    kind = siblings[collect.source]
    if kind is None:
        return
    if collect.field is not None and collect.field not in kind.fields:
        what = f"a {kind.name} shows no {shown(collect.field)}"
        known = ", ".join(kind.fields)
        hint = f"it shows: {known}" if known else f"a {kind.name} has no state: ask with 'data'"
        yield Problem("collect-unknown-field", path + "/field", what, hint)
    if collect.data is not None and (kind.effect != "none" or not kind.emits):
        what = f"a {kind.name} has no answer to an event while the event is processed"
        hint = "link it instead: what it was answered comes as an event"
        usual = "collect one of its fields"
        yield Problem("collect-query", path + "/data", what, hint if kind.emits else usual)


def _misfits(entry: Any, own_name: Any, path: str) -> Iterator[Problem]:
    if not isinstance(entry, dict):
        yield Problem("collect-entry", path, f"it is {shown(entry)}, no object", _SHAPE)
        return
    yield from under(path, unknown_fields(entry, _FIELDS, "an entry", "collect-entry"))
    for name in ("alias", "from"):
        yield from _name_misfit(entry, name, path)
    yield from _value_misfits(entry, path)
    if isinstance(own_name, str) and own_name and entry.get("from") == own_name:
        what = "the actor collects from itself"
        yield Problem("collect-itself", path + "/from", what, "name another actor")


def _name_misfit(entry: dict[str, Any], name: str, path: str) -> Iterator[Problem]:
    value = entry.get(name)
    if value is None:
        yield Problem(f"collect-no-{name}", path, f"{name!r} is missing", _SHAPE)
    elif value == "":
        yield Problem(f"collect-empty-{name}", f"{path}/{name}", f"{name!r} is empty", _SHAPE)
    elif not isinstance(value, str) or (name != "from" and not _NAME.match(value)):
        hint = "use letters, digits and _"
        yield Problem("collect-name", f"{path}/{name}", f"{name!r} is {shown(value)}", hint)


def _value_misfits(entry: dict[str, Any], path: str) -> Iterator[Problem]:
    if "data" not in entry:
        yield from _name_misfit(entry, "field", path)
    elif "field" in entry:
        what = "it has both 'field' and 'data'"
        yield Problem("collect-no-field", path, what, "leave one out")
    elif not isinstance(entry["data"], dict):
        what = f"'data' is {shown(entry['data'])}"
        yield Problem("collect-entry", path + "/data", what, "give the event to ask with")


def _aliases_of(given: list[Any]) -> list[str]:
    entries = (entry for entry in given if isinstance(entry, dict))
    aliases = (entry.get("alias") for entry in entries)
    return [alias for alias in aliases if isinstance(alias, str) and alias]


def _duplicates(given: list[Any]) -> Iterator[Problem]:
    for alias, count in Counter(_aliases_of(given)).items():
        if count > 1:
            what = f"the alias {shown(alias)} stands {count} times"
            yield Problem("collect-duplicate-alias", "", what, "give each entry its own")


def _aliases(given: list[Any], kind: ActorType[Any]) -> Iterator[Problem]:
    found = set(_aliases_of(given))
    if kind.aliases is not None and found != kind.aliases:
        what = f"the aliases are {_listed(found)}"
        hint = f"collect {_listed(kind.aliases)}"
        if not kind.aliases:
            hint = f"leave it out: a {kind.name} collects nothing"
        yield Problem("collect-aliases", "", what, hint)


def _listed(names: Any) -> str:
    return ", ".join(shown(name).strip("'") for name in sorted(names))


_ABOUT_ALIASES = {
    "collect-entry",
    "collect-no-alias",
    "collect-empty-alias",
    "collect-no-from",
    "collect-empty-from",
    "collect-no-field",
    "collect-empty-field",
    "collect-duplicate-alias",
}
"""While one of these is told, the set of aliases says nothing new."""
