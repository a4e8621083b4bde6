"""Which runtimes there are, and what a reference to one means; read from the root alone."""

from __future__ import annotations

from collections.abc import Iterator

from atoll.errors import ConflictError, NotFoundError
from atoll.runtime.definition.read import read_definition
from atoll.runtime.engine.intake import COPIES_MAX
from atoll.runtime.engine.program import RuntimeProgram, program_of
from atoll.runtime.service.registry import Registered, Registry

OWNER = "coral"
"""Who owns what is made by somebody who did not say who it is: Coral's user of accept-all."""


class Known:
    """The runtimes of a root, as its registry says.

    Args:
        registry: The registry.
    """

    def __init__(self, registry: Registry) -> None:
        """Nothing is read."""
        self.registry = registry

    def __iter__(self) -> Iterator[Registered]:
        """Those that are not deleted, oldest first."""
        return iter([each for each in self.registry.all().values() if each.status != "deleted"])

    def find(self, reference: str) -> tuple[Registered, int | None]:
        """The runtime that a reference names, and the copy where it names one.

        Args:
            reference: A name, ``<owner>-<name>`` or an id; with ``.<i>`` behind it, copy i.

        Raises:
            NotFoundError: When there is none, or it was deleted.
            ConflictError: When it is the name of several owners' runtimes.
        """
        for name, copy in _readings(reference):
            exact = [each for each in self if name in (each.id, each.unique_name)]
            meant = exact or [each for each in self if each.name == name]
            if len(meant) > 1:
                raise ConflictError(
                    f"several owners have a runtime {name[:100]!r}",
                    hint="say which: " + ", ".join(each.unique_name for each in meant),
                )
            if meant:
                return meant[0], _checked_copy(meant[0], copy)
        names = ", ".join(each.unique_name for each in self)
        raise NotFoundError(
            f"there is no runtime {reference[:100]!r}",
            hint=f"there are: {names}" if names else "make one: POST /api/runtimes",
        )

    def program(self, runtime: Registered) -> RuntimeProgram:
        """What the copies of a runtime run."""
        definition = read_definition(runtime.definition)
        return program_of(runtime.unique_name, definition, runtime.copies)


def _checked_copy(runtime: Registered, copy: int | None) -> int | None:
    """The copy, when there is one of that number.

    Raises:
        NotFoundError: When there is none.
    """
    if copy is not None and not 1 <= copy <= runtime.copies:
        raise NotFoundError(
            f"runtime {runtime.name!r} has no copy {copy}",
            hint=f"its copies are 1 to {runtime.copies}",
        )
    return copy


def _readings(reference: str) -> Iterator[tuple[str, int | None]]:
    """What a reference may mean: a name, or a name and a copy."""
    yield reference, None
    name, dot, number = reference.rpartition(".")
    if dot and number.isascii() and number.isdecimal() and len(number) <= len(str(COPIES_MAX)):
        yield name, int(number)
