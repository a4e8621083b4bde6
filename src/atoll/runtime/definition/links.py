"""The links of a definition: who is named, who is left out, and in which order events pass.

A runtime is a graph without circles. Coral had a message for them and never looked; here a
microbatch has to end, so a definition whose links go in a circle is refused, and the circle is
named.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from atoll.runtime.definition.reading import shown, unknown_fields
from atoll.runtime.definition.structs import Link
from atoll.runtime.problems import Problem, pointer, under

LINKS_MAX = 2_000
_FIELDS = ("from", "to")
_SHAPE = 'write {"from": NAME, "to": NAME}'


def read_links(given: Any, names: Collection[str]) -> tuple[dict[Link, int], list[Problem]]:
    """The links whose ends are known, each with its place, and what is wrong with the section.

    Args:
        given: The section, or None when there is none.
        names: Of the actors.
    """
    if not isinstance(given, list):
        what = '"links" is missing' if given is None else f'"links" is {shown(given)}'
        return {}, [Problem("no-links-section", "/links", what, f"give an array; {_SHAPE}")]
    if not given:
        return {}, [Problem("no-links", "/links", "there are no links", _SHAPE)]
    if len(given) > LINKS_MAX:
        what = f"there are {len(given)} links"
        return {}, [Problem("too-many", "/links", what, f"use at most {LINKS_MAX}")]
    links: dict[Link, int] = {}
    problems: list[Problem] = []
    for at, each in enumerate(given):
        path = pointer("links", at)
        found = list(_misfits(each, names, path))
        if not found:
            link = Link(each["from"], each["to"])
            if link in links:
                found = [Problem("duplicate-link", path, "it stands twice", "leave one out")]
            links.setdefault(link, at)
        problems += found
    return links, problems


def _misfits(link: Any, names: Collection[str], path: str) -> Iterator[Problem]:
    if not isinstance(link, dict):
        yield Problem("incomplete-link", path, f"it is {shown(link)}, no object", _SHAPE)
        return
    yield from under(path, unknown_fields(link, _FIELDS, "a link"))
    ends = [link.get(end) for end in _FIELDS]
    for end, name in zip(_FIELDS, ends, strict=True):
        if not isinstance(name, str) or not name:
            what = f"{end!r} is missing" if name is None else f"{end!r} is {shown(name)}"
            yield Problem("incomplete-link", path, what, _SHAPE)
    unknown = [name for name in ends if not isinstance(name, str) or name not in names]
    if unknown:
        words = " and ".join("nobody" if name is None else shown(name) for name in unknown)
        hint = "name an actor of the definition"
        yield Problem("unknown-link-actor", path, f"it joins {words}", hint)


def orphans(given: Any, paths: Mapping[str, str], collected: Collection[str]) -> Iterator[Problem]:
    """Actors that no event can reach and nobody asks.

    While a link has one end that is known and one that is not, an actor that seems left out is
    probably the one meant: then only the link is told.

    Args:
        given: The section ``links``, an array.
        paths: Where each named actor stands.
        collected: Those that others collect from.
    """
    ends = [
        [name for name in (link.get("from"), link.get("to")) if isinstance(name, str)]
        for link in given
        if isinstance(link, dict)
    ]
    linked = {name for pair in ends for name in pair if name in paths}
    if not linked:
        what = "no link joins any actor"
        yield Problem("orphaned-actor", "/links", what, "link the actors, by their names")
        return
    if any(sum(name in paths for name in pair) == 1 for pair in ends):
        return
    for name, path in paths.items():
        if name not in linked and name not in collected:
            what = f"{shown(name)} is neither linked nor collected from"
            yield Problem("orphaned-actor", path, what, "link it, or leave it out")


def order_of(names: Sequence[str], links: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The names so that every link leads onwards, else as they stand; those in circles left out."""
    position = {name: at for at, name in enumerate(names)}
    targets: dict[str, list[str]] = {name: [] for name in names}
    waiting = dict.fromkeys(names, 0)
    for source, target in links:
        targets[source].append(target)
        waiting[target] += 1
    ready = [position[name] for name in names if not waiting[name]]
    heapq.heapify(ready)
    order: list[str] = []
    while ready:
        name = names[heapq.heappop(ready)]
        order.append(name)
        for target in targets[name]:
            waiting[target] -= 1
            if not waiting[target]:
                heapq.heappush(ready, position[target])
    return tuple(order)


def circle_in(names: Sequence[str], links: Sequence[tuple[str, str]]) -> list[str]:
    """A circle of names, its first again as its last; empty when there is none."""
    stuck = set(names) - set(order_of(names, links))
    onwards: dict[str, list[str]] = {}
    for source, target in links:
        if source in stuck and target in stuck:
            onwards.setdefault(source, []).append(target)
    # What is stuck may only lie behind a circle; walking against the links ends in one.
    before = {target: source for source, targets in onwards.items() for target in targets}
    if not before:
        return []
    walked: list[str] = []
    name = next(each for each in names if each in before)
    while name not in walked:
        walked.append(name)
        name = before[name]
    circle = [*walked[walked.index(name) :], name]
    return circle[::-1]
