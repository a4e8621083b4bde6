"""What somebody is told who calls on a stream, or on what a step returned, what it does not have.

The error is an AtollError with a hint, and an AttributeError as well: ``hasattr``, ``getattr``
with a default, ``copy``, ``pickle`` and notebooks ask for attributes that are not there, and must
get the answer that they know.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from atoll.errors import DeclarationError
from atoll.topology.usercode import declared_at

_ELSEWHERE = {
    "alias": "select",
    "apply": "map",
    "assign": "with_columns",
    "count": "agg",
    "drop": "select",
    "drop_duplicates": "distinct",
    "filter": "where",
    "foreach": "process",
    "groupby": "group_by",
    "key_by": "hash_by",
    "merge": "join",
    "reduce": "aggregate",
    "repartition": "hash_by",
    "send": "append_to",
    "sink": "write_to",
    "sum": "agg",
    "to": "append_to",
    "union_all": "union",
    "with_column": "with_columns",
    "write": "write_to",
}
"""What other systems call it."""


class MissingAttributeError(DeclarationError, AttributeError):
    """There is no such method; the hint names one that there is."""


def missing(what: str, name: str, known: Iterable[str], after: str = "") -> AttributeError:
    """The error for an attribute that is not there; the caller raises it.

    Args:
        what: The object, as messages call it: ``a stream``.
        name: What was asked for.
        known: The public names that there are, of it or of what ``after`` leads to.
        after: What has to be called before these can be: ``.changes()``.
    """
    if name.startswith("_"):
        return AttributeError(name)  # Python's own questions, and those of notebooks
    names = sorted(each for each in known if not each.startswith("_"))
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
    near = [each for each in (name, snake, _ELSEWHERE.get(snake)) if each in names]
    near = near or difflib.get_close_matches(snake, names, 1) or names
    if len(near) > 1 and near is names:
        hint = "it has " + ", ".join(names)
    else:
        hint = f"write {after}.{near[0]}(...)"
    return MissingAttributeError(f"{what} has no {name!r}", hint=hint, declared=declared_at(2))
