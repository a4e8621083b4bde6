"""What a topology keeps between microbatches that no user declared: hidden state, and what it is.

A distinct count keeps the values that it has counted, a join the rows that still wait for others,
windows their open states, timers what is due; a watermark keeps how far time is. A new version of
the module must find each of them again, whatever was inserted, removed or moved around it. So each
says what it *belongs* to, what its contents *mean*, and which *way* its rows came; never how many
there were before it.

Pure.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atoll.aggregates.base import Aggregator
from atoll.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Collection

STEMS: dict[str, tuple[str, ...]] = {
    "distinct": ("distinct",),
    "joined": ("joined",),
    "windows": ("windows",),
    "sessions": ("session-ends", "sessions"),
    "timers": ("timers",),
}
"""The kinds that there were when hidden state was named by position, and the words of the names."""

_WORDS = {"joined": "join", "late": "late-rows"}
_IN_COMMITS = frozenset({"watermark", "late"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
_LABEL_MAX = 80
_DIGEST = 8


@dataclass(frozen=True, eq=False)
class Hidden:
    """One piece of hidden state.

    Attributes:
        kind: What kind of step keeps it: a word of the step's own, which never changes.
        topology: Whose it is.
        belongs: Where it stands in the module: the target, the depots joined, the column.
        means: What its contents mean, as pairs of a word and a text.
        way: A digest of the steps before it; tells apart what belongs and means the same.
        text: The step in the user's words.
        owners: The PStates that it serves; it goes with the last of them.
        name: What the user called it.
        place: Where the step was declared.
        label: How it is called, unique in its topology.
        stored: The names of its PStates, or the name under which commits know it.
        endings: How the names of its PStates end.
        naming: What to do where nothing tells it apart: how a user gives it a name.
    """

    kind: str
    topology: str
    belongs: tuple[str, ...]
    means: tuple[tuple[str, str], ...]
    way: str
    text: str
    owners: tuple[str, ...] = ()
    name: str | None = None
    place: str = ""
    label: str = ""
    stored: tuple[str, ...] = ()
    endings: tuple[str, ...] = ("",)
    naming: str = ""

    def check(self) -> Hidden:
        """Itself, when it can be called as the user calls it.

        Raises:
            DeclarationError: When the name is none.
        """
        if self.name is not None and not (isinstance(self.name, str) and _NAME.match(self.name)):
            raise DeclarationError(
                f"{self.name!r} cannot name what {self.text} keeps",
                hint="use 1 to 63 letters, digits, -, _ and dots, beginning with a letter or digit",
                declared=self.place,
            )
        return self

    @property
    def identity(self) -> tuple[str, ...]:
        """Which it is: what the user called it, else where it stands."""
        return (self.kind, "named", self.name) if self.name else (self.kind, "at", *self.belongs)

    @property
    def signature(self) -> tuple[object, ...]:
        """What tells it apart from others of its identity."""
        return self.belongs, self.means, self.way

    def labelled(self, taken: Collection[str]) -> Hidden:
        """With a name of its own: from where it stands, and by its signature if that is taken."""
        plain = self.called()
        return (
            self.called(digest(repr(self.signature))[:_DIGEST]) if plain.label in taken else plain
        )

    def fresh(self, taken: Collection[str], names: Collection[str]) -> Hidden:
        """With a label and names that nothing has or ever had; a number in them means nothing.

        Args:
            taken: The labels that are taken.
            names: The names of what is stored.
        """
        number, made = 1, self
        while made.label in taken or not set(made.stored).isdisjoint(names):
            number += 1
            made = self.called(str(number))
        return made

    def called(self, suffix: str = "") -> Hidden:
        """With the label that follows from what it is, and the names of what it stores."""
        told = self.name or "-".join(part for part in self.belongs if part)
        label = f"{self.topology}-{_WORDS.get(self.kind, self.kind)}-{_slug(told)}"
        label += f"-{suffix}" if suffix else ""
        if in_pstates(self.kind):
            stored = tuple(f"_{label}{end}" for end in self.endings)
        else:
            stored = ((self.name or ".".join(self.belongs)) + (f"#{suffix}" if suffix else ""),)
        return dataclasses.replace(self, label=label, stored=stored)


def in_pstates(kind: str) -> bool:
    """Whether state of that kind is kept in PStates; else commits keep it."""
    return kind not in _IN_COMMITS


def told(aggregator: Aggregator) -> str:
    """An aggregate with everything that says what it computes: ``approx(v) [registers=9]``."""
    extras = [
        f"{field.name}={in_words(getattr(aggregator, field.name))}"
        for field in dataclasses.fields(aggregator)
        if field.name not in ("inputs", "name") and _differs(getattr(aggregator, field.name), field)
    ]
    return str(aggregator) + (f" [{', '.join(extras)}]" if extras else "")


def _differs(value: Any, field: dataclasses.Field[Any]) -> bool:
    return not callable(value) and value != field.default


def in_words(value: Any) -> str:
    """A value as text that is the same in every process."""
    if value is None or isinstance(value, str | int | float | bytes):
        return repr(value)
    if isinstance(value, tuple | list):
        return "(" + ", ".join(map(in_words, value)) + ")"
    if isinstance(value, Aggregator):
        return told(value)
    if getattr(value, "hidden", None) is not None:
        return "hidden"
    if isinstance(getattr(value, "text", None), str):
        return str(value.text)  # a target
    if isinstance(getattr(value, "name", None), str):
        return str(value.name)  # a depot, a tick, a PState
    if dataclasses.is_dataclass(value):
        members = (getattr(value, field.name) for field in dataclasses.fields(value))
        return type(value).__name__ + in_words(tuple(members))
    if callable(value):
        return str(getattr(value, "__qualname__", type(value).__name__))
    return str(value) if "__str__" in vars(type(value)) else type(value).__name__


def _slug(text: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-")
    if len(plain) <= _LABEL_MAX:
        return plain or digest(text)
    return f"{plain[:_LABEL_MAX]}-{digest(text)}"


def digest(text: str) -> str:
    """A short text that only this text gives."""
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST).hexdigest()
