"""Whether Atoll stays as fast and as small as it was, over tens of millions of events.

Each query runs in a process and JVM of its own. Every piece of the stream is appended, and is then
exactly one microbatch. Beside the duration of each (steps 1 to 5) it is noted, now and then, how
much state, space on disk, memory and open files there are, and how many jobs, stages and other
things Spark's driver keeps. The medians of the second and of the last tenth of the microbatches
are compared.

    PYTHONPATH=bench python -m nexmark.flatness --queries q5,q18 --events 20000000 --out FOLDER

Writes ``flatness-q5.json`` and a plot, ``flatness-q5.svg``, for each query.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import atoll
from memory import disk_bytes, open_files, resident_bytes
from nexmark.generator import Stream, by_kind
from nexmark.plot import Panel, svg
from nexmark.queries import load
from nexmark.site import TOPOLOGY, Site

__all__ = ["panels", "run", "summary"]

_SAMPLES = 200
_TENTHS = 10
_MEGABYTE = 1_000_000
_KEPT_BY_SPARK = {
    "jobs": "org.apache.spark.status.JobDataWrapper",
    "stages": "org.apache.spark.status.StageDataWrapper",
    "tasks": "org.apache.spark.status.TaskDataWrapper",
    "RDDs": "org.apache.spark.status.RDDStorageInfoWrapper",
    "executions": "org.apache.spark.sql.execution.ui.SQLExecutionUIData",
}


def run(query: str, stream: Stream, root: Path) -> dict[str, Any]:
    """Process the stream piece by piece.

    Returns:
        ``durations_ms`` of every microbatch, and ``samples`` of what there is at some of them.
    """
    site = Site(query)
    load(query).build(site)
    durations, samples, events, records = [], [], 0, 0
    every = max(1, stream.events // stream.batch // _SAMPLES)
    with atoll.LocalCluster(root) as cluster:
        app = cluster.deploy(site.module)
        topology = app.topology(TOPOLOGY)
        for kind in site.reads:
            app.options.set("depot.microbatch.max.records", stream.batch, depot=kind)
        topology.pause()  # what is appended to several depots is one microbatch
        for number, piece in enumerate(stream.pieces()):
            batches = by_kind(piece)
            for kind in site.reads:
                app.depot(kind).append(batches[kind])
            topology.resume()
            events += piece.count
            records += sum(batches[kind].num_rows for kind in site.reads)
            topology.wait_processed(records, timeout_seconds=600)
            topology.pause()  # it has ended to the last step, and is remembered
            done = topology.recent_microbatches()[-1]
            if done["id"] != number + 1:
                raise SystemExit(f"piece {number + 1} ended with microbatch {done['id']}")
            durations.append(done["total"])
            if number % every == 0:
                samples.append({"events": events, **_sample(root, query)})
    return {
        "query": query,
        "events": stream.events,
        "batch": stream.batch,
        **summary(durations),
        "durations_ms": [round(each, 1) for each in durations],
        "samples": samples,
    }


def summary(durations_ms: list[float]) -> dict[str, float]:
    """The medians of the second and of the last tenth, and the last divided by the second."""
    tenth = max(1, len(durations_ms) // _TENTHS)
    second = statistics.median(durations_ms[tenth : 2 * tenth] or durations_ms)
    last = statistics.median(durations_ms[-tenth:])
    return {
        "second_tenth_ms": round(second, 1),
        "last_tenth_ms": round(last, 1),
        "ratio": round(last / second, 3),
    }


def panels(report: dict[str, Any]) -> list[Panel]:
    """The charts of a report, over the events processed."""
    batch, all_ms = report["batch"], report["durations_ms"]
    warm = len(all_ms) // _TENTHS
    durations = [((number + 1) * batch, all_ms[number]) for number in range(warm, len(all_ms))]

    def lines(field: str, scale: float = 1.0) -> dict[str, list[tuple[float, float]]]:
        names = report["samples"][0][field]
        return {
            name: [(each["events"], each[field][name] / scale) for each in report["samples"]]
            for name in names
        }

    return [
        Panel("Microbatch after the first tenth, ms", {"duration": durations}),
        Panel("On disk, MB", lines("disk_bytes", _MEGABYTE)),
        Panel("Memory, MB", lines("memory_bytes", _MEGABYTE)),
        Panel("Open files", lines("open_files")),
        Panel("Kept by Spark's driver", lines("spark")),
    ]


def _sample(root: Path, module: str) -> dict[str, Any]:
    """What there is now."""
    depots = disk_bytes(root / module / "depots")
    state = disk_bytes(root / "local")
    rest = disk_bytes(root) - depots - state
    return {
        "disk_bytes": {"depots": depots, "state": state, "rest": rest},
        "memory_bytes": resident_bytes(),
        "open_files": open_files(),
        "spark": _kept_by_spark(),
    }


def _kept_by_spark() -> dict[str, int]:
    """How many of each kind of thing the driver's status store holds."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context  # noqa: SLF001  # no other way to this process's
    assert context is not None
    find = context._jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass  # noqa: SLF001
    store = context._jsc.sc().statusStore().store()  # noqa: SLF001
    return {name: store.count(find(wrapper)) for name, wrapper in _KEPT_BY_SPARK.items()}


def _in_own_process(query: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run one query in a process and JVM of its own."""
    sizes = [f"--{name}={getattr(arguments, name)}" for name in ("events", "batch", "seed", "rate")]
    command = [sys.executable, "-m", "nexmark.flatness", "--queries", query, "--here", *sizes]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{query} failed; its last words are above")
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def main() -> None:
    """Run the queries; write reports and plots, print how flat they are."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--queries", default="q5,q18")
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument("--batch", type=int, default=100_000, help="events of a microbatch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=int, default=10_000, help="events in a second of event time")
    parser.add_argument("--out", type=Path, default=Path("build"), help="for reports and plots")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    stream = Stream(
        events=arguments.events, batch=arguments.batch, seed=arguments.seed, rate=arguments.rate
    )
    if arguments.here:
        with tempfile.TemporaryDirectory(prefix="flatness-") as root:
            print(json.dumps(run(arguments.queries, stream, Path(root))))
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    for query in arguments.queries.split(","):
        report = _in_own_process(query, arguments)
        (arguments.out / f"flatness-{query}.json").write_text(json.dumps(report) + "\n")
        chart = svg(panels(report), f"{query}: events processed")
        (arguments.out / f"flatness-{query}.svg").write_text(chart)
        short = {
            name: report[name]
            for name in ("query", "events", "second_tenth_ms", "last_tenth_ms", "ratio")
        }
        print(json.dumps(short) if arguments.json else _said(short), flush=True)


def _said(short: dict[str, Any]) -> str:
    return (
        f"{short['query']}: {short['events']:,} events; a microbatch took "
        f"{short['second_tenth_ms']:,} ms in the second tenth, {short['last_tenth_ms']:,} ms in "
        f"the last: {short['ratio']}"
    )


if __name__ == "__main__":
    main()
