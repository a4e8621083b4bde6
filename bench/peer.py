"""The peer: the same keyed sum in Spark Structured Streaming.

Set up as its own documentation recommends for large state, and with what else is in its favour:
RocksDB state store with changelog checkpoints, update mode, two shuffle partitions on two cores,
no user interface, a sink that costs nothing, and no Python in the query. One file is one
microbatch. What counts is its own measure, ``triggerExecution`` of each microbatch.

    python bench/peer.py --records FOLDER --warmup 3
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
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


def start_session(folder: Path) -> Any:
    """A Spark session of its own on two cores."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("peer")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.config("spark.local.dir", str(folder / "spark")).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def run(records: Path, folder: Path, warmup: int) -> tuple[list[dict[str, Any]], float | None]:
    """Process every file of ``records``.

    Returns:
        The progress report of each microbatch, and the seconds on processors after the warm-up.
    """
    session = start_session(folder)
    try:
        stream = (
            session.readStream.schema(SCHEMA)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(records))
            .groupBy("k")
            .sum("v")
        )
        query = (
            stream.writeStream.format("noop")
            .outputMode("update")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )
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
    return starts[-1] - starts[0] + measured[-1]["durationMs"]["triggerExecution"] / 1000


def main() -> None:
    """Print the durations of the microbatches after the warm-up, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--warmup", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="peer-") as folder:
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
