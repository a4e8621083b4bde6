"""A life of a source, that may end before the n-th call that changes files below its root.

Everything here runs in children. Small limits let a life make many appends, and tidy often.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

from interpose import Call, Interposer

from atoll.sources import kept
from atoll.sources.base import Source
from atoll.sources.delta import Delta
from atoll.sources.files import Files
from atoll.sources.iceberg import Iceberg
from atoll.sources.postgres import Postgres

with contextlib.suppress(ImportError):  # what takes long is imported once, before the forks
    import psycopg  # noqa: F401
    import pyiceberg.catalog.sql
    import pyiceberg.io.pyarrow  # noqa: F401

sys.path.insert(0, str(Path(__file__).parents[1] / "sources"))

import feeding  # lies beside the tests of sources

__all__ = ["live", "source_of"]

DDL = "v long NOT NULL"


def source_of(kind: str, where: str) -> Source:
    """A source that makes an append of a few records each."""
    if kind == "files":
        return Files(f"{where}/*", settled="0 seconds", files_max=1)
    if kind == "delta":
        return Delta(where, after=0, versions_max=1)
    if kind == "iceberg":
        return Iceberg("n.t", catalog="c", snapshots_max=1, **json.loads(where))
    return Postgres(where, "t", along="id", rows_max=4, id="t")


def live(root: str, kind: str, where: str, epoch: int, number: int = 0) -> None:
    """Read all there is; die before the call of that number, if it comes to it."""
    kept._POSITION_EVERY = 2
    calls: list[Call] = []
    with Interposer(root) as interposer:
        interposer.on_call = calls.append
        if number:
            interposer.kill_at(number)
        source = source_of(kind, where)
        with feeding.fed(Path(root), source, DDL, setting_aside=True, epoch=epoch) as (
            feeder,
            depot,
            aside,
        ):
            feeding.drained(feeder)
            _say("values", feeding.values(depot))
            _say("aside", feeding.values(aside, "line"))
    _say("calls", len(calls))


def _say(word: str, value: Any) -> None:
    print(word, json.dumps(value), flush=True)
