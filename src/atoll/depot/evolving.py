"""Which schema may follow another one in the life of a depot. Pure.

Columns may be added behind the others when they may be null: records stored before have null
there. So every segment keeps the schema that it was written with, and readers fill in the rest.
"""

from __future__ import annotations

import functools

from atoll.ddl import parse_ddl

__all__ = ["added_columns", "extends"]


@functools.lru_cache(maxsize=1024)
def extends(ddl: str | None, earlier: str | None) -> bool:
    """Whether records of an earlier schema can be read as those of another one."""
    return ddl == earlier or bool(ddl and earlier and added_columns(ddl, earlier))


def added_columns(ddl: str, earlier: str) -> tuple[str, ...]:
    """The columns that a schema adds to an earlier one; none when it is no such schema."""
    now, before = list(parse_ddl(ddl)), list(parse_ddl(earlier))
    added = now[len(before) :]
    fits = now[: len(before)] == before and all(each.nullable for each in added)
    return tuple(each.name for each in added) if fits else ()
