"""How many of Spark's slots there are, and how many standing tasks may hold."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from atoll.spark.members import members

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["HERE", "Slots"]

HERE = ""
"""The host of all posts where there is but one."""

_LOCAL = re.compile(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\])?")


@dataclass(frozen=True)
class Slots:
    """The slots of a session.

    Attributes:
        posts: How many tasks may stand on each host.
        total: How many tasks Spark runs at once.
    """

    posts: dict[str, int] = field(default_factory=dict)
    total: int = 0

    @classmethod
    def of(cls, session: SparkSession, *, seated: bool) -> Self:
        """Those of a session as it is now; in local mode the last one is kept free."""
        if seated:
            cores = members(session)
            return cls(cores, sum(cores.values()))
        found = _LOCAL.fullmatch(str(session.sparkContext.master))
        if found is None:  # a cluster of which nobody wants to know the hosts
            total = sum(members(session).values())
        elif found[1] == "*":
            jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - no public way
            total = int(jvm.java.lang.Runtime.getRuntime().availableProcessors())
        else:
            total = int(found[1] or 1)
        return cls({HERE: max(1, total - 1)}, total)
