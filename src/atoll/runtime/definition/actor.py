"""One entry of the section ``actors``: its type, its params, and what stands beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec

from atoll.runtime.actors.group import Grouped
from atoll.runtime.actors.interface import ActorType
from atoll.runtime.actors.timeout import Resetting
from atoll.runtime.definition.collects import read_collect
from atoll.runtime.definition.reading import read, shown, unknown_fields
from atoll.runtime.definition.states import read_state
from atoll.runtime.definition.structs import Actor, Collect, EventLog, StateModes, Timeout
from atoll.runtime.problems import Problem, under

COPIES_MAX = 256
_TIMEOUT_MS_MAX = 366 * 86_400_000
FIELDS = ("name", "type", "params", "group", "collect", "copies", "log", "state", "timeout")
_KEPT = {"actors", "total"}
"""A path of the interface and a line of its statistics have these names."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}\Z")
_HINTS = {
    "collect": 'write "collect" beside "params", not within it',
    "groupby": 'write "group": {"by": FIELD}',
    "persistence": "leave it out: all state is kept",
}


class GroupGiven(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One actor per value of a field.

    Args:
        by: The field; it names the group with a text, a whole number or a truth.
    """

    by: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class LogGiven(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which events are kept in the event log.

    Args:
        incoming: Those that the actor takes; snapshots are computed from these.
        outgoing: Those that it emits.
    """

    incoming: bool = False
    outgoing: bool = False


class TimeoutGiven(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A time after which the state goes back to the initial one.

    Args:
        duration: In seconds, from the first event.
        mode: ``continue``: again and again; ``exit``: once.
    """

    duration: Annotated[float, msgspec.Meta(ge=0.001, le=_TIMEOUT_MS_MAX / 1_000)]
    mode: Literal["continue", "exit"]


def name_misfit(given: dict[str, Any]) -> Problem | None:
    """What is wrong with the name of an actor, if anything."""
    name = given.get("name")
    if name is None or name == "":
        words = "has no name" if name is None else "has an empty name"
        return Problem("nameless-actor", "", f"the actor {words}", 'give it a "name"')
    if not isinstance(name, str) or not _NAME.match(name):
        hint = "use 1 to 63 letters, digits, - and _, beginning with a letter or digit"
        return Problem("actor-name", "/name", f"{shown(name)} cannot name an actor", hint)
    if name in _KEPT:
        what = f"{shown(name)} cannot name an actor: the interface uses it"
        return Problem("actor-name", "/name", what, "choose another name")
    return None


class Entry(msgspec.Struct, frozen=True):
    """What could be read of an entry, so that what is wrong between entries is told as well.

    Args:
        actor: The actor; None when anything in the entry is wrong.
        kind: Its type; None when that is not known.
        collect: What could be read of its ``collect``, each with its place there.
        problems: What is wrong with it.
    """

    actor: Actor | None
    kind: ActorType[Any] | None
    collect: tuple[tuple[int, Collect], ...]
    problems: tuple[Problem, ...]


def read_actor(given: dict[str, Any], types: Mapping[str, ActorType[Any]]) -> Entry:
    """An entry of the section ``actors``, read as far as it can be."""
    problems = list(unknown_fields(given, FIELDS, "an actor", hints=_HINTS))
    misnamed = name_misfit(given)
    problems += [misnamed] if misnamed else []
    sections: dict[str, Any] = {}
    for name, shape in _SECTIONS.items():
        sections[name], found = _section(given, name, shape)
        problems += found
    kind = _kind(given.get("type"), types)
    if isinstance(kind, Problem):
        return Entry(None, None, (), (*problems, kind))
    params, found = _params(given, kind)
    problems += under("/params", found)
    log = sections["log"] or LogGiven()
    state, found = read_state(given.get("state"), kind, log_incoming=log.incoming)
    problems += under("/state", found)
    problems += _combinations(given, kind, state)
    collect, found = read_collect(given.get("collect"), given.get("name"), kind)
    problems += under("/collect", found)
    group, timeout = sections["group"], sections["timeout"]
    whole = _wrapped(kind, group, timeout)
    if problems:
        return Entry(None, whole, collect, tuple(problems))
    actor = Actor(
        name=given["name"],
        kind=whole,
        params=params,
        group_by=group.by if group else None,
        collect=tuple(each for _, each in collect),
        copies=sections["copies"] or 1,
        log=EventLog(log.incoming, log.outgoing),
        state=state,
        timeout=Timeout(_ms(timeout), timeout.mode) if timeout else None,
    )
    return Entry(actor, whole, collect, ())


_Copies = Annotated[int, msgspec.Meta(ge=1, le=COPIES_MAX)]
_SECTIONS: dict[str, Any] = {
    "group": GroupGiven,
    "copies": _Copies,
    "log": LogGiven,
    "timeout": TimeoutGiven,
}


def _kind(given: Any, types: Mapping[str, ActorType[Any]]) -> ActorType[Any] | Problem:
    if isinstance(given, str) and given in types:
        return types[given]
    if given is None:
        return Problem("invalid-actor", "", "the actor has no type", _types_hint(types))
    what = f"there is no type {shown(given)}"
    hint = 'write "type": "sql"; see the reference' if given == "cassandra" else _types_hint(types)
    return Problem("invalid-actor", "/type", what, hint)


def _types_hint(types: Mapping[str, ActorType[Any]]) -> str:
    return "the types are: " + ", ".join(sorted(types))


def _params(given: dict[str, Any], kind: ActorType[Any]) -> tuple[Any, list[Problem]]:
    data = given.get("params")
    if data is None:
        data = {}
    params, problems = read(data, kind.params, "invalid-actor", _HINTS)
    if params is not None:
        problems = list(kind.check(params))
    return params, problems


def _section(given: dict[str, Any], name: str, shape: Any) -> tuple[Any, list[Problem]]:
    """One of the small sections, or None when there is none or it is wrong."""
    if name not in given:
        return None, []
    found, problems = read(given[name], shape, name)
    return found, list(under(f"/{name}", problems))


def _combinations(
    given: dict[str, Any], kind: ActorType[Any], state: StateModes
) -> Iterator[Problem]:
    if "group" in given and kind.entry:
        what = f"a {kind.name} takes no events, so there is no field to group by"
        yield Problem("group", "/group", what, "leave it out")
    if "timeout" not in given:
        return
    if not kind.resettable:
        what = f"a {kind.name} has no state that could be put back"
        yield Problem("timeout", "/timeout", what, "leave it out")
    elif not state.calc_local or state.collect_local or state.spark_batch or state.log_batch:
        what = "a timeout puts back what calc-local keeps, and snapshots replace that"
        hint = 'leave out "timeout", or have calc-local alone'
        yield Problem("timeout", "/timeout", what, hint)


def _wrapped(
    kind: ActorType[Any], group: GroupGiven | None, timeout: TimeoutGiven | None
) -> ActorType[Any]:
    """The type with its timer within its groups: each group has a timer of its own."""
    if timeout:
        kind = Resetting(kind, _ms(timeout), timeout.mode)
    return Grouped(kind, group.by) if group else kind


def _ms(timeout: TimeoutGiven) -> int:
    return round(timeout.duration * 1_000)
