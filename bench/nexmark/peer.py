"""One query on Spark Structured Streaming in this process: the side it is held against.

Set up as in ``bench/peer.py``: RocksDB state store with changelog checkpoints, two shuffle
partitions on two cores, no user interface, no Python in the query; files as the source, one of
each kind in a microbatch. Rows that Atoll appends to a depot go to Spark's exactly-once sink of
Parquet files; results that Atoll keeps in a PState stay in the state, with a sink that costs
nothing. Nothing is dropped as late: that is checked, and how many rows there are in the end.

    PYTHONPATH=bench python -m nexmark.peer --query q5 --records FOLDER --warmup 5

The clock runs from the start of the first microbatch after the warm-up to the end of the last one.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from cpu import cpu_seconds
from memory import PeakMemory, disk_bytes
from nexmark.generator import files_of
from nexmark.peer_queries import PEER_QUERIES, PeerQuery
from nexmark.site import KINDS, Site
from peer import start_session

__all__ = ["run"]

TIMEOUT_SECONDS = 3_600


def run(query: str, records: Path, warmup: int, root: Path) -> dict[str, Any]:
    """Process every file.

    Returns:
        As :func:`nexmark.ours.run`; ``rows`` are those of the state or of the files written.
    """
    reads, has_output = _shape(query)
    sizes = {
        kind: [pq.read_metadata(file).num_rows for file in files_of(records, kind)]
        for kind in reads
    }
    batches = max(map(len, sizes.values()))
    session = start_session(root)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    output = root / "output"
    with PeakMemory() as memory:
        running = _start(
            session, PEER_QUERIES[query], records, root, output if has_output else None
        )
        try:
            _wait(running, warmup)
            before = cpu_seconds()
            _wait(running, batches)
            after = cpu_seconds()
        finally:
            running.stop()
    progress = _worked(running)
    _check_whole(progress, sum(map(sum, sizes.values())))
    disk = disk_bytes(root / "checkpoint") + disk_bytes(root / "spark")
    rows = pq.read_table(output).num_rows if has_output else _state_rows(progress[-1])
    session.stop()
    measured = progress[warmup:]
    return {
        "events": sum(sum(rows[warmup:]) for rows in sizes.values()),
        "seconds": _seconds(measured),
        "cpu_seconds": None if before is None or after is None else after - before,
        "durations_ms": [each["durationMs"]["triggerExecution"] for each in measured],
        "memory_bytes": memory.peak,
        "disk_bytes": disk,
        "rows": rows,
        "sink": "parquet" if has_output else "noop",
    }


def _shape(query: str) -> tuple[list[str], bool]:
    """Which kinds the query reads on Atoll, and whether it appends its rows to a depot."""
    from nexmark.queries import load

    site = Site(query)
    load(query).build(site)
    return list(dict.fromkeys(site.reads)), "results" in site.module.depots


def _start(session: Any, query: PeerQuery, records: Path, root: Path, output: Path | None) -> Any:
    for kind, (ddl, _) in KINDS.items():
        stream = session.readStream.schema(ddl).option("maxFilesPerTrigger", 1)
        frame = stream.parquet(str(records / kind))
        if query.watermark:
            frame = frame.withWatermark("date_time", query.watermark)
        frame.createOrReplaceTempView(kind)
    writer = session.sql(query.sql).writeStream.outputMode(query.mode)
    writer = writer.option("checkpointLocation", str(root / "checkpoint"))
    if output is None:
        return writer.format("noop").start()
    return writer.format("parquet").start(str(output))


def _worked(running: Any) -> list[dict[str, Any]]:
    """The progress of the microbatches that had records."""
    progress = [json.loads(each.json) for each in running.recentProgress]
    return [each for each in progress if each["numInputRows"]]


def _wait(running: Any, batches: int) -> None:
    """Wait for so many microbatches."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while len(running.recentProgress) < batches:
        if running.exception() is not None:
            raise SystemExit(str(running.exception()))
        if time.monotonic() > deadline:
            raise SystemExit(f"no {batches} microbatches in {TIMEOUT_SECONDS} s")
        time.sleep(0.02)


def _check_whole(progress: list[dict[str, Any]], records: int) -> None:
    """Hold that every record was read as often as the plan reads it, and none dropped as late."""
    read = sum(each["numInputRows"] for each in progress)
    dropped = sum(
        state["numRowsDroppedByWatermark"] for each in progress for state in each["stateOperators"]
    )
    if read % records or not read or dropped:
        raise SystemExit(f"the peer read {read} of {records} records and dropped {dropped}")


def _state_rows(last: dict[str, Any]) -> int | None:
    """How many rows the state of the query's last step has."""
    states = last["stateOperators"]
    return states[0]["numRowsTotal"] if states else None


def _seconds(measured: list[dict[str, Any]]) -> float:
    """From the start of the first microbatch to the end of the last, by the wall clock."""
    starts = [dt.datetime.fromisoformat(each["timestamp"]).timestamp() for each in measured]
    last_ms: float = measured[-1]["durationMs"]["triggerExecution"]
    return starts[-1] - starts[0] + last_ms / 1000


def main() -> None:
    """Run the query once; print the report as a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--query", required=True, choices=PEER_QUERIES)
    parser.add_argument("--records", type=Path, required=True, help="made by nexmark.generator")
    parser.add_argument("--warmup", type=int, default=5, help="microbatches that do not count")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nexmark-peer-") as root:
        report = run(arguments.query, arguments.records, arguments.warmup, Path(root))
    print(json.dumps(report))


if __name__ == "__main__":
    main()
