"""How many of Spark's slots there are, and how many standing tasks may hold."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from atoll.errors import UsageError
from atoll.spark.members import members

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


HERE = ""
"""The worker of all posts where there is but one."""

POSTS_SETTING = "spark.atoll.standing.posts"
"""How many tasks may stand in local mode, where it is not one for each core."""

_LOCAL = re.compile(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\])?")


@dataclass(frozen=True)
class Slots:
    """The slots of a session.

    Attributes:
        posts: How many tasks may stand on each worker, by its name.
        total: How many tasks Spark runs at once.
    """

    posts: dict[str, int] = field(default_factory=dict)
    total: int = 0

    @classmethod
    def of(cls, session: SparkSession, *, seated: bool) -> Self:
        """Those of a session as it is now.

        In local mode the last one is kept free, and more tasks than cores would only be in each
        other's way: units share them.

        Raises:
            UsageError: When the setting is no number of tasks.
        """
        if seated:
            cores = {name: each.cores for name, each in members(session).items()}
            return cls(cores, sum(cores.values()))
        found = _LOCAL.fullmatch(str(session.sparkContext.master))
        if found is None:  # a cluster of which nobody wants to know the hosts
            total = sum(each.cores for each in members(session).values())
        elif found[1] == "*":
            jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - no public way
            total = int(jvm.java.lang.Runtime.getRuntime().availableProcessors())
        else:
            total = int(found[1] or 1)
        most = posts_told(session) or _cores()
        return cls({HERE: max(1, min(total - 1, most))}, total)


def posts_told(session: SparkSession) -> int | None:
    """How many tasks the session's settings let stand; None when they say nothing.

    Raises:
        UsageError: When that is no number of tasks.
    """
    setting = session.sparkContext.getConf().get(POSTS_SETTING)
    if setting is None:
        return None
    if not setting.isdecimal() or not int(setting):
        raise UsageError(
            f"{setting!r} is no number of standing tasks",
            hint=f"set {POSTS_SETTING} to 1 or more, or leave it out for one per core",
        )
    return int(setting)


def _cores() -> int:
    """Those that this process may use; not every system can tell."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
