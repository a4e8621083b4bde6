"""Where the records of a check come from: the generator, or files.

A feed is the stream cut into pieces: for each piece the records of each kind, in their order.
"""

from __future__ import annotations

import datetime as dt
import json
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa

from atoll.ddl import parse_ddl
from atoll.demo.nexmark import Nexmark, NexmarkSettings
from nexmark.site import KINDS

if TYPE_CHECKING:
    import random
    from pathlib import Path

__all__ = ["Feed", "generated", "recorded", "tables"]

Feed = list[dict[str, pa.Table]]
"""Piece by piece, the records by kind; a kind without records may be missing."""


def generated(settings: NexmarkSettings, count: int, pieces: int, dice: random.Random) -> Feed:
    """The first ``count`` events of a stream, cut at random."""
    cuts = sorted(dice.randrange(count + 1) for _ in range(pieces - 1))
    stream = Nexmark(settings)
    feed: Feed = []
    for start, end in pairwise([0, *cuts, count]):
        events = stream.events(start, end - start)
        piece = {"person": events.persons, "auction": events.auctions, "bid": events.bids}
        feed.append({kind: pa.Table.from_batches([batch]) for kind, batch in piece.items()})
    return feed


def recorded(folder: Path) -> Feed:
    """The records of ``person.jsonl``, ``auction.jsonl``, ``bid.jsonl``, one a piece, by time."""
    found: list[tuple[dt.datetime, str, pa.Table]] = []
    for kind, schema in _SCHEMAS.items():
        for line in (folder / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines():
            values = json.loads(line)
            row = {
                field.name: _instant(values[field.name])
                if pa.types.is_timestamp(field.type)
                else values[field.name]
                for field in schema
            }
            found.append((row["date_time"], kind, pa.Table.from_pylist([row], schema=schema)))
    found.sort(key=lambda one: one[0])
    return [{kind: table} for _, kind, table in found]


def tables(feed: Feed) -> dict[str, pa.Table]:
    """All records of each kind."""
    return {
        kind: pa.concat_tables(
            [schema.empty_table(), *(piece[kind].cast(schema) for piece in feed if kind in piece)]
        )
        for kind, schema in _SCHEMAS.items()
    }


def _instant(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


_SCHEMAS = {kind: parse_ddl(ddl) for kind, (ddl, _) in KINDS.items()}
