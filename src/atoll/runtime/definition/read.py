"""A definition, read: the object for whoever runs it, or all that is wrong with it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

import msgspec

from atoll.errors import DefinitionError
from atoll.runtime.actors.interface import ActorType
from atoll.runtime.actors.registry import actor_types
from atoll.runtime.definition.actor import Entry, read_actor
from atoll.runtime.definition.collects import sibling_misfits
from atoll.runtime.definition.distribution import read_distribution
from atoll.runtime.definition.links import circle_in, order_of, orphans, read_links
from atoll.runtime.definition.reading import shown, unknown_fields
from atoll.runtime.definition.structs import Actor, Definition, Link
from atoll.runtime.limits import check_size, parse_json
from atoll.runtime.problems import Problem, pointer, under

ACTORS_MAX = 256
INSTANCES_MAX = 4_096
PROBLEMS_MAX = 1_000
FIELDS = ("name", "owner", "projectid", "actors", "links", "distribution")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,62}\Z")
_OWNER_MAX = 256
_HINTS = {"persistence": "leave it out: all state is kept"}


def parse_definition(text: bytes | str) -> Definition:
    """The definition that a JSON text holds.

    Raises:
        DefinitionError: With everything that is wrong with it.
    """
    data, problems = parse_json(text)
    if problems:
        raise _error(problems)
    return read_definition(data)


def read_definition(data: Any) -> Definition:
    """The definition that parsed JSON holds.

    Raises:
        DefinitionError: With everything that is wrong with it.
    """
    definition, problems = check_definition(data)
    if definition is None:
        raise _error(problems)
    return definition


def check_definition(
    data: Any, types: Mapping[str, ActorType[Any]] | None = None
) -> tuple[Definition | None, list[Problem]]:
    """The definition, or None and everything that is wrong with the data.

    Args:
        data: As a JSON parser gives it.
        types: The types that there are; all that are registered unless given.
    """
    problems = list(check_size(data))
    if problems:
        return None, problems
    if not isinstance(data, dict):
        what = f"it is {shown(data)}"
        return None, [Problem("not-an-object", "", what, 'send {"name": ..., "actors": [...]}')]
    reading = _Reading(data, actor_types() if types is None else types)
    definition = reading.whole()
    problems = reading.problems
    if len(problems) > PROBLEMS_MAX:
        what = f"there are {len(problems) - PROBLEMS_MAX} more problems"
        problems = [
            *problems[:PROBLEMS_MAX],
            Problem("too-many", "", what, "correct these first"),
        ]
    return definition, problems


def unrunnable(definition: Definition) -> list[Problem]:
    """Why a right definition cannot be run by this version; empty when it can."""
    actors = definition.given["actors"]
    return [
        Problem("invalid-actor", pointer("actors", at, "type"), f"a {kind} cannot run yet", why)
        for at, actor in enumerate(definition.actors)
        if (why := actor.kind.runs) and (kind := actors[at]["type"])
    ]


def _error(problems: list[Problem]) -> DefinitionError:
    first = problems[0]
    more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
    where = f" at {first.path}" if first.path else ""
    return DefinitionError(
        f"the definition is wrong{where}: {first.what}{more}",
        hint=first.hint,
        problems=[msgspec.to_builtins(each) for each in problems],
    )


class _Reading:
    """Reads one definition; what is wrong gathers in ``problems``, in the order of the parts."""

    def __init__(self, data: dict[str, Any], types: Mapping[str, ActorType[Any]]) -> None:
        self._data = data
        self._types = types
        self.problems: list[Problem] = []
        self._paths: dict[str, str] = {}
        self._entries: dict[str, Entry] = {}

    def whole(self) -> Definition | None:
        """The definition, or None when anything is wrong."""
        data = self._data
        self.problems += self._top()
        distribution, found = read_distribution(data.get("distribution"))
        self.problems += under("/distribution", found)
        actors = self._actors(data.get("actors"))
        links, found = read_links(data.get("links"), self._paths)
        self.problems += found
        order = self._joined(links)
        self._instances(actors, distribution.copies)
        if self.problems:
            return None
        return Definition(
            name=data["name"],
            actors=tuple(actors),
            links=tuple(links),
            order=order,
            given=data,
            owner=data.get("owner"),
            projectid=data.get("projectid"),
            distribution=distribution,
        )

    def _top(self) -> Iterator[Problem]:
        yield from unknown_fields(self._data, FIELDS, "a definition", hints=_HINTS)
        yield from _runtime_name(self._data.get("name"))
        owner = self._data.get("owner")
        if owner is not None and not _names_owner(owner):
            hint = f"give a user's name: 1 to {_OWNER_MAX} printable characters without '/'"
            yield Problem("owner", "/owner", f"it is {shown(owner)}", hint)
        project = self._data.get("projectid")
        if project is not None and not _is_uuid(project):
            yield Problem("projectid", "/projectid", f"it is {shown(project)}", "give a UUID")

    def _actors(self, given: Any) -> list[Actor]:
        if not isinstance(given, list):
            what = '"actors" is missing' if given is None else f'"actors" is {shown(given)}'
            self._tell("no-actors-section", "/actors", what, "give an array of actors")
            return []
        if not given:
            self._tell("no-actors", "/actors", "there are no actors", "give at least one")
        if len(given) > ACTORS_MAX:
            what = f"there are {len(given)} actors"
            self._tell("too-many", "/actors", what, f"use at most {ACTORS_MAX}")
            return []
        self._names(given)
        return [actor for at, each in enumerate(given) if (actor := self._actor(at, each))]

    def _actor(self, at: int, given: Any) -> Actor | None:
        path = pointer("actors", at)
        if not isinstance(given, dict):
            self._tell("invalid-actor", path, f"it is {shown(given)}", "give an object")
            return None
        entry = read_actor(given, self._types)
        self.problems += under(path, entry.problems)
        name = given.get("name")
        if isinstance(name, str) and name:
            self._entries.setdefault(name, entry)
        return entry.actor

    def _names(self, given: list[Any]) -> None:
        """Where each name stands; one that stands twice is told."""
        folded: dict[str, str] = {}
        for at, each in enumerate(given):
            if not isinstance(each, dict):
                continue
            name = each.get("name")
            if not isinstance(name, str) or not name:
                continue
            other = folded.setdefault(name.casefold(), name)
            path = pointer("actors", at)
            if name in self._paths or other != name:
                what = f"{shown(name)} is the name of another actor"
                self._tell("duplicate-actor", path + "/name", what, "give each its own name")
            self._paths.setdefault(name, path)

    def _joined(self, links: dict[Link, int]) -> tuple[str, ...]:
        """The order of the actors; what is wrong between them is told."""
        names = list(self._paths)
        pairs = [(link.source, link.target) for link in links]
        circle = circle_in(names, pairs)
        if circle:
            self._tell_circle("/links", "the links go", circle)
        self._sources(links)
        if isinstance(self._data.get("links"), list):
            collected = self._collected_from()
            self.problems += orphans(self._data["links"], self._paths, collected)
        self._siblings()
        return order_of(names, pairs)

    def _sources(self, links: dict[Link, int]) -> None:
        for link, at in links.items():
            entry = self._entries.get(link.target)
            kind = entry.kind if entry else None
            if kind is not None and kind.entry:
                what = f"{shown(link.target)} is a {kind.name}, which takes no events"
                hint = "link it to others only"
                self._tell("link-into-source", pointer("links", at), what, hint)

    def _collected_from(self) -> set[str]:
        given = self._data.get("actors")
        actors = [each for each in given if isinstance(each, dict)] if _is_list(given) else []
        sections = [each.get("collect") for each in actors]
        entries = [entry for each in sections if _is_list(each) for entry in each]
        sources = [entry.get("from") for entry in entries if isinstance(entry, dict)]
        return {source for source in sources if isinstance(source, str)}

    def _siblings(self) -> None:
        kinds = {name: entry.kind for name, entry in self._entries.items()}
        queries = []
        for name, entry in self._entries.items():
            for at, each in entry.collect:
                path = self._paths[name] + pointer("collect", at)
                self.problems += sibling_misfits(each, path, kinds)
                if each.data is not None and each.source in self._paths:
                    queries.append((name, each.source))
        circle = circle_in(list(self._paths), queries)
        if circle:
            self._tell_circle("/actors", "queries of collect go", circle)

    def _instances(self, actors: list[Actor], copies: int) -> None:
        count = copies * sum(actor.copies for actor in actors)
        if count > INSTANCES_MAX:
            what = f"{copies} copies of these actors make {count} instances"
            self._tell("too-many", "", what, f"use at most {INSTANCES_MAX}")

    def _tell_circle(self, path: str, what: str, circle: list[str]) -> None:
        around = " -> ".join(shown(name).strip("'") for name in circle[:20])
        hint = "leave out a link of the circle"
        self._tell("cycle", path, f"{what} in a circle: {around}", hint)

    def _tell(self, kind: str, path: str, what: str, hint: str) -> None:
        self.problems.append(Problem(kind, path, what, hint))


def _runtime_name(name: Any) -> Iterator[Problem]:
    if name is None or name == "":
        what = "the runtime has no name" if name is None else "the runtime's name is empty"
        yield Problem("no-runtime-name", "/name", what, 'give it a "name"')
    elif not isinstance(name, str) or not _NAME.match(name):
        what = f"{shown(name)} cannot name a runtime"
        hint = "use 1 to 63 letters, digits and _, beginning with a letter or digit"
        yield Problem("runtime-name", "/name", what, hint)


def _is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _names_owner(value: Any) -> bool:
    """Whether it can stand in the address of a runtime, and in a line of a log."""
    return (
        isinstance(value, str)
        and 1 <= len(value) <= _OWNER_MAX
        and value.isprintable()
        and "/" not in value
    )


def _is_uuid(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        return str(uuid.UUID(value)) == value.lower()
    except ValueError:
        return False
