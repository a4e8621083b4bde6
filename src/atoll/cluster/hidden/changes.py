"""What a plan says of hidden state, and what it refuses. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from atoll.cluster.hidden.adoption import Match
from atoll.topology.kept.hidden import Hidden, in_pstates
from atoll.views.deployment import HiddenDeployment

_UNKNOWN = (
    "the release that deployed it knew such state by its position only, and the topology has "
    "changed, so it cannot be told which is which"
)
_UNCHANGED_FIRST = "deploy the unchanged version with this release first, then this one"
_BY_TARGET = ("distinct", "timers")
"""Known by the PStates that they serve; all other kinds by where their rows come from."""
_NAME_FIRST = (
    "first deploy the version that runs with a name for each such step (name=...), then this one "
    "with the same names"
)


BEGINS_EMPTY = "begins empty: "
"""Before what new hidden state is."""


@dataclass(frozen=True)
class HiddenChange:
    """One line of the plan."""

    effect: Literal["added", "removed", "kept", "refused"]
    label: str
    detail: str
    hint: str = ""
    stored: tuple[str, ...] = ()
    """Of what is removed the PStates to delete."""


def hidden_changes(
    matches: Sequence[Match], removed: Collection[str], *, with_topology: bool = False
) -> Iterator[HiddenChange]:
    """What becomes of a topology's hidden state; counts of late rows are not worth a line.

    Args:
        matches: What was found out about it.
        removed: What the user said may go, as ``kind:name``.
        with_topology: Whether its topology goes.
    """

    def may_go(each: HiddenDeployment) -> bool:
        owned = bool(each.owners) and all(f"pstate:{name}" in removed for name in each.owners)
        return owned or with_topology or f"hidden:{each.label}" in removed

    matches = [each for each in matches if not _counts_only(each)]
    gone: dict[str, HiddenDeployment] = {}
    refused: set[str] = set()
    for match in matches:
        if match.effect == "changed":
            going = {each.label: each for each in match.before if may_go(each)}
            if len(going) == len(match.before):
                gone |= going
            else:
                refused |= {each.label for each in match.before}
    for match in matches:
        if match.effect != "dropped":
            yield from _declared(match, begins=all(each.label in gone for each in match.before))
            continue
        (old,) = match.before
        if may_go(old) or old.kind == "watermark":
            gone[old.label] = old
        elif old.label not in refused:
            detail = f"no longer declared: {old.text}; to delete what it keeps, remove "
            hint = f"name it: remove=['hidden:{old.label}']"
            hint += (
                f"; or, where only its streams changed, {_NAME_FIRST}"
                if in_pstates(old.kind) and old.kind not in _BY_TARGET
                else ""
            )
            yield HiddenChange("refused", old.label, f"{detail}hidden:{old.label}", hint)
    for old in gone.values():
        pstates = old.stored if in_pstates(old.kind) else ()
        yield HiddenChange(
            "removed", old.label, f"what it kept is deleted: {old.text}", "", pstates
        )


def _counts_only(match: Match) -> bool:
    kinds = {each.kind for each in (match.hidden, *match.before) if each is not None}
    return kinds == {"late"}


def _declared(match: Match, *, begins: bool) -> Iterator[HiddenChange]:
    hidden = match.hidden
    assert hidden is not None, "only what is dropped is not declared"
    match match.effect:
        case "kept":
            yield HiddenChange("kept", hidden.label, hidden.text)
        case "taken over":
            detail = f"{hidden.text}; taken over by its position, which is all that was kept of it"
            yield HiddenChange("kept", hidden.label, detail)
        case "unknown":
            yield HiddenChange(
                "refused", hidden.label, f"{hidden.text}: {_UNKNOWN}", _UNCHANGED_FIRST
            )
        case "changed" if not begins:
            yield _refused(hidden, match.before)
        case _:
            yield HiddenChange("added", hidden.label, f"{BEGINS_EMPTY}{hidden.text}")


def _refused(hidden: Hidden, before: Sequence[HiddenDeployment]) -> HiddenChange:
    parts = ", ".join(f"'hidden:{old.label}'" for old in before)
    hint = f"keep the step as it was, or let it begin empty: remove=[{parts}]"
    ways = [old for old in before if (old.belongs, old.means) == (hidden.belongs, hidden.means)]
    if ways:
        why = "several such steps stand at one place, and what comes before this one has changed"
        hint += f"; or {_NAME_FIRST}"
    else:
        why = "; or ".join(_difference(hidden, old) for old in before)
    label = before[0].label
    return HiddenChange("refused", label, f"{hidden.text} is changed in meaning: {why}", hint)


def _difference(hidden: Hidden, old: HiddenDeployment) -> str:
    was = {"belongs to": " ".join(old.belongs), **dict(old.means)}
    now = {"belongs to": " ".join(hidden.belongs), **dict(hidden.means)}
    words = [word for word in {**was, **now} if was.get(word) != now.get(word)]
    return ", ".join(
        f"{word}: {was.get(word) or 'nothing'} is deployed, {now.get(word) or 'nothing'} declared"
        for word in words
    )
