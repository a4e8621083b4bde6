"""Nexmark's stream into depots and into files, one piece per microbatch.

Files are Parquet, one per microbatch and kind (``FOLDER/bid/batch-000000.parquet``), and rise by
name and by time of change, so that whoever reads one file of each kind at a time reads the same
microbatches. While a piece is written, the next one is made.

    PYTHONPATH=bench python -m nexmark.generator --events 1000000 --out FOLDER --json
    PYTHONPATH=bench python -m nexmark.generator --events 1000000 --depots ROOT --json
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

import atoll
from atoll.demo.nexmark import Events, Nexmark, NexmarkSettings
from nexmark.site import KINDS

if TYPE_CHECKING:
    from atoll.cluster.app import App

__all__ = ["Stream", "append_pieces", "by_kind", "files_of", "write_files"]

_FIRST_FILE_SECONDS = 1_700_000_000
_PARTITIONS = 2
_KINDS_TOGETHER = len(KINDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Which events, cut into which pieces.

    Attributes:
        events: How many, of all kinds together.
        batch: How many make a piece; the last one may be smaller.
        seed: Equal streams have equal seeds.
        rate: Events in a second of event time.
        disorder: Events are shuffled in time within groups of so many; 1: in order.
        hot: One bid in so many is *not* for the hot auction; 1: no auction is hot.
    """

    events: int
    batch: int
    seed: int = 1
    rate: int = 10_000
    disorder: int = 250
    hot: int = 2

    def pieces(self) -> Iterator[Events]:
        """The events, piece by piece; the next one is made while one is used."""
        stream = Nexmark(
            NexmarkSettings(
                seed=self.seed,
                events_per_second=self.rate,
                out_of_order_group=self.disorder,
                hot_auction_ratio=self.hot,
            )
        )
        ranges = [
            (start, min(self.batch, self.events - start))
            for start in range(0, self.events, self.batch)
        ]
        with ThreadPoolExecutor(1) as maker:
            coming = maker.submit(stream.events, *ranges[0]) if ranges else None
            for place in range(len(ranges)):
                assert coming is not None
                made = coming.result()
                if place + 1 < len(ranges):
                    coming = maker.submit(stream.events, *ranges[place + 1])
                yield made


def by_kind(events: Events) -> dict[str, pa.RecordBatch]:
    """A piece as the depots are called."""
    return {"person": events.persons, "auction": events.auctions, "bid": events.bids}


def write_files(folder: Path, stream: Stream) -> dict[str, list[int]]:
    """Write every piece as a file of each kind.

    Returns:
        How many rows each file has, by kind.
    """
    for kind in KINDS:
        (folder / kind).mkdir(parents=True, exist_ok=True)

    def write(number: int, kind: str, batch: pa.RecordBatch) -> None:
        file = folder / kind / f"batch-{number:06d}.parquet"
        pq.write_table(pa.Table.from_batches([batch]), file, row_group_size=max(1, batch.num_rows))
        os.utime(file, (_FIRST_FILE_SECONDS + number,) * 2)

    return _each(stream.pieces(), write, tuple(KINDS))


def append_pieces(app: App, pieces: Iterable[Events], kinds: Iterable[str]) -> dict[str, list[int]]:
    """Append every piece to the depots of these kinds, one append each.

    Returns:
        How many records each append had, by kind.
    """
    depots = {kind: app.depot(kind) for kind in kinds}

    def write(_number: int, kind: str, batch: pa.RecordBatch) -> None:
        depots[kind].append(batch)

    return _each(pieces, write, tuple(depots))


def files_of(folder: Path, kind: str) -> list[Path]:
    """The files of a kind, in the order of their microbatches."""
    return sorted((folder / kind).glob("*.parquet"))


def _each(
    pieces: Iterable[Events],
    write: Callable[[int, str, pa.RecordBatch], None],
    kinds: tuple[str, ...],
) -> dict[str, list[int]]:
    """Write the pieces in their order, the kinds of a piece at the same time."""
    rows: dict[str, list[int]] = {kind: [] for kind in kinds}
    with ThreadPoolExecutor(_KINDS_TOGETHER) as writers:
        for number, piece in enumerate(pieces):
            batches = by_kind(piece)
            writing = [writers.submit(write, number, kind, batches[kind]) for kind in kinds]
            for each in writing:
                each.result()
            for kind in kinds:
                rows[kind].append(batches[kind].num_rows)
    return rows


def _append_all(root: Path, stream: Stream) -> float:
    """Append all kinds to depots under ``root``; the seconds it took, fsyncs included."""
    module = atoll.Module("nexmark")
    for kind, (ddl, key) in KINDS.items():
        module.depot(kind, ddl, partition_by=key, partitions=_PARTITIONS)
    with atoll.LocalCluster(root, engine="inline") as cluster:
        app = cluster.deploy(module)
        started = time.perf_counter()
        append_pieces(app, stream.pieces(), KINDS)
        return time.perf_counter() - started


def main() -> None:
    """Write the stream; say how fast it was."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=100_000, help="events of a piece")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=int, default=10_000, help="events in a second of event time")
    parser.add_argument("--disorder", type=int, default=250, help="events shuffled in time")
    parser.add_argument("--hot", type=int, default=2, help="one bid in so many is not hot; 1: none")
    parser.add_argument("--json", action="store_true")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--out", type=Path, help="the folder for Parquet files")
    where.add_argument("--depots", type=Path, help="the root of a cluster with the three depots")
    arguments = parser.parse_args()
    stream = Stream(
        events=arguments.events,
        batch=arguments.batch,
        seed=arguments.seed,
        rate=arguments.rate,
        disorder=arguments.disorder,
        hot=arguments.hot,
    )
    before = time.process_time()
    if arguments.out is not None:
        started = time.perf_counter()
        write_files(arguments.out, stream)
        seconds = time.perf_counter() - started
    else:
        seconds = _append_all(arguments.depots, stream)
    result = {
        "events": stream.events,
        "to": "files" if arguments.out is not None else "depots",
        "seconds": round(seconds, 3),
        "events_per_second": round(stream.events / seconds),
        "cpu_us_per_event": round((time.process_time() - before) / stream.events * 1e6, 3),
    }
    if arguments.json:
        print(json.dumps(result))
    else:
        print(f"{result['events']:,} events to {result['to']}: {result['events_per_second']:,}/s")


if __name__ == "__main__":
    main()
