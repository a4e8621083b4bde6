"""Changes of fragments as one line of text, short enough to type.

``12-[0,3]+[5];13-[4];14+[2]`` takes fragment 12 off units 0 and 3 and puts it on unit 5, takes 13
off unit 4, and puts 14 on unit 2. White space around ids and marks means nothing. What could be a
slip of the hand is refused instead of guessed: an item that changes nothing, a fragment named
twice, a number torn in two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from atoll.errors import UsageError
from atoll.placement.reschedule.change import UnitChange

_ID = r"\s*[0-9]{1,18}\s*"
_IDS = rf"\[({_ID}(?:,{_ID})*)\]\s*"
_ITEM = re.compile(rf"({_ID})(?:-\s*{_IDS})?(?:\+\s*{_IDS})?")
_HINT = (
    "write fragment-[units to remove]+[units to add], items apart by ';', "
    "for example 12-[0,3]+[5];13-[4];14+[2]"
)


def parse_plan(text: str) -> dict[int, UnitChange]:
    """The changes that the text asks for, by fragment.

    Raises:
        UsageError: When an item cannot be read or changes nothing, or names a fragment again.
    """
    changes: dict[int, UnitChange] = {}
    for item in text.split(";"):
        match = _ITEM.fullmatch(item)
        if match is None or not (match[2] or match[3]):
            wrong = "changes nothing" if match else "cannot be read"
            raise UsageError(f"the item {item!r} of the plan {wrong}", hint=_HINT)
        fragment = int(match[1])
        if fragment in changes:
            raise UsageError(
                f"the item {item!r} of the plan names fragment {fragment} again",
                hint="write all units of a fragment in one item",
            )
        changes[fragment] = UnitChange(added=_ids(match[3]), removed=_ids(match[2]))
    return changes


def format_plan(changes: Mapping[int, UnitChange]) -> str:
    """The text that :func:`parse_plan` reads, by ascending fragment.

    A change of nothing has no text and is left out.
    """
    return ";".join(
        f"{fragment}{_list('-', change.removed)}{_list('+', change.added)}"
        for fragment, change in sorted(changes.items())
        if change != UnitChange()
    )


def _ids(text: str | None) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(",")) if text else ()


def _list(mark: str, units: tuple[int, ...]) -> str:
    return f"{mark}[{','.join(map(str, units))}]" if units else ""
