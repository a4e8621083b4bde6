"""The peer: the same keyed sum in Spark Structured Streaming.

Set up as its own documentation recommends for large state, and with what else is in its favour:
RocksDB state store with changelog checkpoints, update mode, two shuffle partitions on two cores,
no user interface, a sink that costs nothing, and no Python in the query. One file is one
microbatch. What counts is its own measure, ``triggerExecution`` of each microbatch.

    python bench/peer.py --records FOLDER --warmup 3

With ``--changes`` it also changes its parallelism on the way, the only way that there is: stop the
query, repartition its checkpoint, start it again with as many shuffle partitions. What was found by
trying (Spark 4.3):

- Only the RocksDB provider can be repartitioned; the default one is refused.
- A query that is stopped in the middle of a microbatch is refused. Without that check
  (``enforce_exactly_once_sink=False``) the repartition works, but a query over files fails an
  assertion when it starts again. So here all records that there are end before the stop, and the
  next are there before the start: no work is lost, which is in the peer's favour.
- The process and its session stay; a deployment that starts a new one adds that.

    python bench/peer.py --records FOLDER --warmup 20 --changes 4,8,2 --steady 20
"""

from __future__ import annotations

import argparse
import datetime as dt
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from cpu import cpu_seconds
from records import SCHEMA, expected_total

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "3g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def start_session(folder: Path, slots: int = 2) -> Any:
    """A Spark session of its own, on two cores as a rule."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{slots}]").appName("peer")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.config("spark.local.dir", str(folder / "spark")).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def start_query(session: Any, records: Path, checkpoint: Path) -> Any:
    """The sum per key over the files of a folder, from the checkpoint on."""
    stream = (
        session.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(records))
        .groupBy("k")
        .sum("v")
    )
    return (
        stream.writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .start()
    )


def run(records: Path, folder: Path, warmup: int) -> tuple[list[dict[str, Any]], float | None]:
    """Process every file of ``records``.

    Returns:
        The progress report of each microbatch, and the seconds on processors after the warm-up.
    """
    session = start_session(folder)
    try:
        query = start_query(session, records, folder / "checkpoint")
        try:
            while len(query.recentProgress) < warmup:
                time.sleep(0.02)
            warm = cpu_seconds()
            query.processAllAvailable()
            cold = cpu_seconds()
            progress = [json.loads(each.json) for each in query.recentProgress]
        finally:
            query.stop()
        _check(session, folder, records)
    finally:
        session.stop()
    used = None if warm is None or cold is None else cold - warm
    return [each for each in progress if each["numInputRows"]], used


class Rescaled:
    """The query under load, and its parallelism changed.

    Args:
        records: The files; the first ones are processed by :meth:`begin`.
        folder: For all that it writes.
        slots: How many tasks run at once.
    """

    def __init__(self, records: Path, folder: Path, slots: int) -> None:
        """Nothing runs yet."""
        self.slots = slots
        self.waiting = sorted(records.glob("*.parquet"))
        self.records = records
        self.folder = folder
        self.source = folder / "source"
        self.checkpoint = folder / "checkpoint"
        self.units = int(SETTINGS["spark.sql.shuffle.partitions"])
        self.session: Any = None
        self.query: Any = None
        self.last = -1
        self.steady_ms = 0.0

    def run(self, warmup: int, changes: list[int], steady: int) -> list[dict[str, Any]]:
        """Change to each of these numbers of shuffle partitions in turn."""
        self.source.mkdir()
        self.session = start_session(self.folder, self.slots)
        try:
            self._give(warmup + steady)
            self.query = start_query(self.session, self.source, self.checkpoint)
            self._finish(warmup)
            reports = [self._change(units, steady) for units in changes]
            self.query.stop()
            _check(self.session, self.folder, self.source)
        finally:
            self.session.stop()
        return reports

    def _change(self, units: int, steady: int) -> dict[str, Any]:
        """Stop, repartition, start, and go on until all records that wait are processed."""
        before, steady_ms, last = self.units, self.steady_ms, self.last
        committed = self._committed_at(last)
        marks = [time.time()]
        self.query.stop()
        marks.append(time.time())
        self.session._streamingCheckpointManager.repartition(str(self.checkpoint), units)  # noqa: SLF001  # its only name
        marks.append(time.time())
        self.units = units
        self.session.conf.set("spark.sql.shuffle.partitions", units)
        self._give(steady + 1)
        self.query = start_query(self.session, self.source, self.checkpoint)
        first = self._finish(1)
        marks.append(self._committed_at(first))
        stop, repartition, restart = (end - begin for begin, end in itertools.pairwise(marks))
        return {
            "from": before,
            "to": units,
            "gap_ms": (marks[-1] - committed) * 1000,
            "stop_ms": stop * 1000,
            "repartition_ms": repartition * 1000,
            "restart_ms": restart * 1000,
            "before_ms": steady_ms,
            "after_ms": self.steady_ms,
        }

    def _give(self, count: int) -> None:
        """Let the query see so many more files."""
        given, self.waiting = self.waiting[:count], self.waiting[count:]
        if len(given) < count:
            raise SystemExit(f"there are {len(given)} files left, not {count}")
        for file in given:
            file.rename(self.source / file.name)

    def _finish(self, uncounted: int) -> int:
        """Process all files given; the first microbatch since the start.

        What it takes counts as steady after so many microbatches.
        """
        self.query.processAllAvailable()
        progress = [json.loads(each.json) for each in self.query.recentProgress]
        done = [each for each in progress if each["numInputRows"]]
        used = {state["numShufflePartitions"] for state in done[-1]["stateOperators"]}
        if used != {self.units}:
            raise SystemExit(f"the peer runs on {used} shuffle partitions, not on {self.units}")
        steady = [each["durationMs"]["triggerExecution"] for each in done[uncounted:]]
        self.steady_ms = statistics.median(steady)
        self.last = done[-1]["batchId"]
        first: int = done[0]["batchId"]
        return first

    def _committed_at(self, batch: int) -> float:
        """When a microbatch committed, by the wall clock."""
        return (self.checkpoint / "commits" / str(batch)).stat().st_mtime


def _check(session: Any, folder: Path, records: Path) -> None:
    """Hold that the state is right, so that what was measured is the whole work."""
    state = session.read.format("statestore").load(str(folder / "checkpoint"))
    (row,) = state.selectExpr("sum(value.sum)").collect()
    expected = expected_total(sorted(records.glob("*.parquet")))
    if row[0] != expected:
        raise SystemExit(f"the peer's state sums to {row[0]}, not to {expected}")


def _seconds(measured: list[dict[str, Any]]) -> float:
    """From the start of the first microbatch to the end of the last, by the wall clock."""
    starts = [dt.datetime.fromisoformat(each["timestamp"]).timestamp() for each in measured]
    last_ms: float = measured[-1]["durationMs"]["triggerExecution"]
    return starts[-1] - starts[0] + last_ms / 1000


def main() -> None:
    """Print the durations of the microbatches after the warm-up, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--changes", help="shuffle partitions to change to in turn: 4,8,2")
    parser.add_argument("--steady", type=int, default=20, help="microbatches between changes")
    parser.add_argument("--slots", type=int, default=2, help="tasks at once, with --changes")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="peer-") as folder:
        if arguments.changes:
            changes = [int(units) for units in arguments.changes.split(",")]
            rescaled = Rescaled(arguments.records, Path(folder), arguments.slots)
            print(json.dumps(rescaled.run(arguments.warmup, changes, arguments.steady)))
            return
        progress, used = run(arguments.records, Path(folder), arguments.warmup)
    measured = progress[arguments.warmup :]
    print(
        json.dumps(
            {
                "durations_ms": [each["durationMs"]["triggerExecution"] for each in measured],
                "phases_ms": [each["durationMs"] for each in measured],
                "records": [each["numInputRows"] for each in measured],
                "seconds": _seconds(measured),
                "cpu_seconds": used,
            }
        )
    )


if __name__ == "__main__":
    main()
