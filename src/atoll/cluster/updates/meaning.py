"""What a new version makes of the values that a PState holds already. Pure.

What is stored stays as it is when another aggregate goes on from it. Where the value is all that
is stored, that is the user's to decide, and the plan says it. Where more is stored (an order, a
sum and a count, a sketch, the end of a session), the other aggregate would read it as what it is
not, and that is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from atoll.codec.values.fields import FieldLayout
    from atoll.codec.values.leaf import LeafCodec
    from atoll.pstate.spec import PStateSpec


OWN_PSTATE = "fold it into a PState of another name, which begins empty, and remove this one later"
"""What to do about an aggregate that cannot go on from what another has left."""

_GAP = ", in sessions with a gap of "


@dataclass(frozen=True)
class MeaningChange:
    """One line of the plan."""

    effect: Literal["kept", "changed", "refused"]
    detail: str
    hint: str = ""


def meaning_changes(
    before: PStateSpec,
    now: PStateSpec,
    was: Mapping[str, list[str]] | None,
    means: Mapping[str, list[str]],
) -> Iterator[MeaningChange]:
    """What changes of what is folded into a PState.

    Args:
        before: The PState as deployed.
        now: As declared.
        was: What was folded into it, by place; None when the root does not know.
        means: What is folded into it now.
    """
    for place in sorted({*(was or {}), *means}):
        position, field = _found(now, place)
        keeps = None if field is None or field.finish == "plain" else field.shown.keeps
        migrated = any(
            each.generation > before.generation and each.position == position
            for each in now.migrations
        )
        differ = _codec(before, position) != _codec(now, position)
        if migrated or differ:
            continue  # the plan has that already
        new = " and ".join(means.get(place, ())) or "no aggregate"
        at = f" at {place}" if place else ""
        if was is None:
            if keeps:
                yield MeaningChange("kept", f"{new}{at} is believed to be what it was: {_OLD}")
            continue
        old = " and ".join(was.get(place, ())) or "no aggregate"
        if old == new:
            continue
        if keeps or old.partition(_GAP)[1:] != new.partition(_GAP)[1:]:
            yield _refused(old, new, at, keeps or "the end of each session")
        else:
            yield MeaningChange(
                "changed",
                f"changed in meaning{at}: {old} before, {new} now; what is stored stays as it is",
            )


_OLD = "the release that deployed it kept its schema only"


def _refused(old: str, new: str, at: str, kept: str) -> MeaningChange:
    return MeaningChange(
        "refused",
        f"changed in meaning{at}: {old} is deployed, {new} declared; {kept} is stored, which the "
        "new one would read under another meaning",
        OWN_PSTATE,
    )


def other_states(
    position: tuple[str, ...],
    before: LeafCodec,
    now: LeafCodec,
    was: Mapping[str, list[str]],
    means: Mapping[str, list[str]],
) -> Iterator[str]:
    """Where aggregates of one schema keep other things beside what they show, in words."""
    for old, new in zip(before.fields, now.fields, strict=True):
        if (old.finish, old.hidden) != (new.finish, new.hidden):
            place = ".".join((*position, *([old.name] if old.name else [])))
            at = f" at {place}" if place else ""
            yield (
                f"what is stored{at}: {_stored(old, was.get(place))} is deployed, "
                f"{_stored(new, means.get(place))} declared"
            )


def _stored(field: FieldLayout, texts: Sequence[str] | None) -> str:
    """What is stored of a field, and by which aggregates as far as that is known."""
    hidden = "" if field.hidden is None else f" ({field.hidden})"
    word = field.shown.keeps + hidden
    return f"{word} of {' and '.join(texts)}" if texts else word


def _found(spec: PStateSpec, place: str) -> tuple[tuple[str, ...], FieldLayout | None]:
    """The position of the leaf at a place, and its field if it is one."""
    for position, codec in spec.codecs.items():
        for field in codec.fields:
            if ".".join((*position, *([field.name] if field.name else []))) == place:
                return position, field
    return tuple(place.split(".")) if place else (), None


def _codec(spec: PStateSpec, position: tuple[str, ...]) -> object:
    codec = spec.codecs.get(position)
    return None if codec is None else codec.to_json()
