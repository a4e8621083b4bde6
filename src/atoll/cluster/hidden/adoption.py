"""Finds for the hidden state of a new version what a root has of it already.

It goes by what the state is: what it belongs to or is named, what it means, which way its rows
came. Never by order; only of a deployment that kept nothing else is it taken over by position, when
all that can be checked says that the topology is the same. Pure.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from atoll.topology.kept.hidden import STEMS, Hidden, in_pstates
from atoll.views.deployment import HiddenDeployment

KEPT_AS = "kept as"
"""Among the means of what is kept in PStates their schemas."""


_Either = Hidden | HiddenDeployment
_Key = Callable[[_Either], Hashable]
_Kept = TypeVar("_Kept", Hidden, HiddenDeployment)

MatchEffect = Literal["kept", "taken over", "added", "dropped", "changed", "unknown"]


@dataclass(frozen=True)
class Match:
    """What becomes of one piece of hidden state.

    Attributes:
        effect: Kept; taken over by position; added; dropped; changed in meaning, so that what is
            there cannot be gone on with; or unknown: it cannot be told what it was.
        declared: As the new version declares it; None when it is dropped.
        hidden: The same with the label and the names under which it is kept from now on.
        before: What was deployed of it; of one that changed everything that it may have been.
    """

    effect: MatchEffect
    declared: Hidden | None
    hidden: Hidden | None
    before: tuple[HiddenDeployment, ...] = ()


@dataclass(frozen=True)
class Remembered:
    """What a root knows of a topology's hidden state.

    Attributes:
        hidden: As deployed; None: by a release that named it by position.
        names: All names under which something is or was stored, in the whole module.
        labels: All labels that are or were taken, in the whole module.
        kept_as: Without ``hidden``, for each hidden PState the text of its schema.
        same: Without ``hidden``, whether all else of the topology is as it is deployed.
    """

    hidden: tuple[HiddenDeployment, ...] | None
    names: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    kept_as: Mapping[str, str] = dataclasses.field(default_factory=dict)
    same: bool = False


def deployed_hidden(hidden: Hidden) -> HiddenDeployment:
    """As a deployment keeps it."""
    names = HiddenDeployment.__struct_fields__
    return HiddenDeployment(**{name: getattr(hidden, name) for name in names})


def adopt(before: Remembered | None, now: Sequence[Hidden]) -> list[Match]:
    """For everything that a version declares, and that is deployed, what becomes of it.

    Args:
        before: What the root knows; None for a topology that is new.
        now: What is declared, with types among its means.
    """
    if before is None:
        return [Match("added", each, each) for each in now]
    if before.hidden is None:
        return _by_position(before, now)
    return _Adoption(before, before.hidden, now).matches()


class _Adoption:
    """Takes away from both sides what belongs together, the surest first."""

    def __init__(
        self, before: Remembered, deployed: Iterable[HiddenDeployment], now: Sequence[Hidden]
    ) -> None:
        self._old, self._new = list(deployed), list(now)
        self._kept: dict[Hidden, HiddenDeployment] = {}
        self._changed: dict[Hidden, tuple[HiddenDeployment, ...]] = {}
        self._labels, self._names = set(before.labels), set(before.names)
        self._now = now

    def matches(self) -> list[Match]:
        """All of them, in the order of the declaration; then what is dropped."""
        both: list[_Either] = [*self._old, *self._new]
        sizes = Counter(_identity(each) for each in both)
        self._pair(lambda each: (_identity(each), *_signature(each)))
        self._pair(lambda each: (each.kind, *_signature(each)))  # got a name, or lost it
        self._pair(
            lambda each: (_identity(each), _stands(each), each.means),
            lambda each: each.kind == "late" or sizes[_identity(each)] == 2,  # noqa: PLR2004
        )
        self._rest()
        return [self._match(each) for each in self._now] + [
            Match("dropped", None, None, (each,)) for each in self._old
        ]

    def _pair(
        self,
        key: _Key,
        only: Callable[[Hidden], bool] = lambda _: True,
    ) -> None:
        """Match what has equal keys, where there is one on each side."""
        olds, news = _grouped(self._old, key), _grouped(self._new, key)
        for value, found in news.items():
            there = olds.get(value, [])
            if len(found) == len(there) == 1 and only(found[0]):
                self._kept[found[0]] = there[0]
                self._new.remove(found[0])
                self._old.remove(there[0])

    def _rest(self) -> None:
        """What stands where something else stood has changed; all other is new, or dropped."""
        olds = _grouped((each for each in self._old if each.kind != "late"), _identity)
        for each in self._new:
            if there := olds.get(_identity(each)):
                self._changed[each] = tuple(there)

    def _match(self, declared: Hidden) -> Match:
        old = self._kept.get(declared)
        if old is not None:
            hidden = dataclasses.replace(declared, label=old.label, stored=old.stored)
            return Match("kept", declared, hidden, (old,))
        hidden = declared.fresh(self._labels, self._names)
        self._labels.add(hidden.label)
        self._names.update(hidden.stored)
        changed = self._changed.get(declared, ())
        return Match("changed" if changed else "added", declared, hidden, changed)


def _identity(each: _Either) -> Hashable:
    return (each.kind, "named", each.name) if each.name else (each.kind, "at", *each.belongs)


def _stands(each: _Either) -> tuple[str, ...]:
    """Where its contents belong; what is kept of rows goes where the user's name for it goes."""
    return each.belongs if each.kind in ("distinct", "timers") else ()


def _signature(each: _Either) -> tuple[Hashable, ...]:
    return tuple(each.belongs), tuple(each.means), each.way


def _grouped(values: Iterable[_Kept], key: _Key) -> dict[Hashable, list[_Kept]]:
    groups: dict[Hashable, list[_Kept]] = defaultdict(list)
    for each in values:
        groups[key(each)].append(each)
    return groups


# By position --------------------------------------------------------------------------------------


def at_positions(now: Sequence[Hidden]) -> dict[Hidden, tuple[str, ...]]:
    """The names that each would have had when they were counted in declared order."""
    counts: Counter[tuple[str, ...]] = Counter()
    found = {}
    for each in now:
        kept = in_pstates(each.kind)
        base = (each.kind,) if kept else (each.kind, *each.belongs[:2])
        counts[base] += 1
        number = counts[base]
        if kept:
            end = f"-{number}" if number > 1 else ""
            found[each] = tuple(
                f"_{each.topology}-{stem}{end}" for stem in STEMS.get(each.kind, (each.kind,))
            )
        else:
            found[each] = (".".join(base[1:]) + (f"#{number}" if number > 1 else ""),)
    return found


def _by_position(before: Remembered, now: Sequence[Hidden]) -> list[Match]:
    positions = at_positions(now)
    stored = {name for each, names in positions.items() if in_pstates(each.kind) for name in names}
    alike = before.same and stored == set(before.kept_as)
    alone = Counter((each.kind, *each.belongs[:2]) for each in now)
    labels, found = set(before.labels), []
    for each in now:
        names = positions[each]
        if in_pstates(each.kind):
            texts = " and ".join(before.kept_as.get(name, "") for name in names)
            known = alike and dict(each.means)[KEPT_AS] == texts
        else:
            known = before.same or alone[each.kind, *each.belongs[:2]] == 1
        hidden = dataclasses.replace(each.fresh(labels, ()), stored=names)
        labels.add(hidden.label)
        found.append(Match("taken over" if known else "unknown", each, hidden))
    lost = [name for name in before.kept_as if name not in stored]
    return found + [Match("dropped", None, None, (_nameless(name),)) for name in lost]


def _nameless(stored: str) -> HiddenDeployment:
    """Hidden state of which nothing is known but its PState's name."""
    kinds = [kind for kind, stems in STEMS.items() if any(f"-{stem}" in stored for stem in stems)]
    label = stored.removeprefix("_")
    text = f"what a step kept in {stored}"
    return HiddenDeployment(label, kinds[-1], (), (), "", text, (), (stored,))
