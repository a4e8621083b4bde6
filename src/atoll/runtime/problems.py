"""What is wrong with something that came from outside: one value per problem, all in one answer.

Whoever wrote a definition corrects it once, not once per mistake. So checks yield problems
instead of raising, and who needs a yes or no collects them first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong.

    Args:
        kind: Which rule it breaks; the list is in ``docs/concepts/runtimes.md``.
        path: Where, as a JSON pointer (RFC 6901) into what was sent; "" is all of it.
        what: What is wrong there: lower case, one line.
        hint: What to do, as an action.
    """

    kind: str
    path: str
    what: str
    hint: str


def pointer(*parts: str | int) -> str:
    """A JSON pointer: ``/actors/0/params``, with ``~`` and ``/`` in names escaped."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def under(path: str, problems: Iterable[Problem]) -> Iterator[Problem]:
    """The problems of a part, their paths beginning at the whole."""
    for each in problems:
        yield msgspec.structs.replace(each, path=path + each.path)
