"""What can be seen of a declaration by itself: names, counts, partitioners, policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from atoll.errors import DeclarationError, UsageError
from atoll.names import check_name
from atoll.placement.policies.policy import parse_policy
from atoll.topology.usercode import check_function


def new_name(name: str, kind: str, known: Mapping[str, object], place: str, hint: str) -> None:
    """Hold that the name can be given and is not yet."""
    check_name(name, kind, place)
    if name in known:
        raise DeclarationError(f"{kind} {name!r} is declared twice", hint=hint, declared=place)


def checked_policy(text: str, place: str) -> str:
    """The text of a placement policy, as it is kept."""
    try:
        return str(parse_policy(text))
    except UsageError as error:
        raise DeclarationError(error.message, hint=error.hint, declared=place) from None


def check_count(owner: str, what: str, count: int, most: int) -> None:
    """Hold that there can be so many of something."""
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= most:
        raise DeclarationError(f"{owner} cannot have {count!r} {what}", hint=f"choose 1 to {most}")


def check_partitioner(name: str, fields: Sequence[str], partition_by: object) -> None:
    """Hold that a depot can be partitioned so."""
    if isinstance(partition_by, str) and partition_by not in fields:
        raise DeclarationError(
            f"depot {name!r} is partitioned by {partition_by!r}, which it has no field of",
            hint=f"its fields are {', '.join(fields)}",
        )
    if not (partition_by is None or isinstance(partition_by, str) or callable(partition_by)):
        raise DeclarationError(
            f"depot {name!r} cannot be partitioned by {partition_by!r}",
            hint="give a field's name, a function of record and partition count, or nothing",
        )


def check_key_partitioner(name: str, function: object, place: str, *, partitioned: bool) -> None:
    """Hold that a PState can be divided by a function of its keys."""
    if not partitioned:
        raise DeclarationError(
            f"PState {name!r} lies in one vnode, so partition_by= can say nothing",
            hint="leave it out; only a map or set that is not global is divided by key",
            declared=place,
        )
    check_function(function, 1, f"partition_by of PState {name!r}", place)


def own_vnode(number: int) -> int:
    """The vnode of a vnode's own value."""
    return number


def check_per_vnode(
    name: str, initial: object, partition_by: object, place: str, *, is_global: bool
) -> None:
    """Hold that a PState can have one value in each vnode.

    Raises:
        DeclarationError: With what says where its values lie, or what they begin with.
    """
    wrong = {"is_global": is_global, "partition_by": partition_by, "initial": initial is not None}
    for word, given in wrong.items():
        if given:
            hint = f"leave {word}= out; it has a value in each vnode"
            if word == "initial":
                hint = "say what it is where it is read: total.get(0)"
            raise DeclarationError(
                f"PState {name!r} is kept per vnode, so {word}= can say nothing",
                hint=hint,
                declared=place,
            )
