"""One query on Atoll in this process: the side that is measured.

    PYTHONPATH=bench python -m nexmark.ours --query q5 --records FOLDER --warmup 5

The records lie in depots before the clock starts, and a microbatch takes as many of them as a file
has. The clock runs from the commit of the warm-up's last microbatch to the commit of the last one.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import atoll
from cpu import cpu_seconds
from memory import PeakMemory, disk_bytes
from nexmark.generator import files_of
from nexmark.queries import load
from nexmark.site import TOPOLOGY, Site

__all__ = ["run"]

TIMEOUT_SECONDS = 3_600
_HISTORY = 256
"""How many microbatches a topology remembers."""


def run(query: str, records: Path, warmup: int, root: Path) -> dict[str, Any]:
    """Append every file, then process them microbatch by microbatch.

    Returns:
        Events and seconds of what was measured, durations, memory, space on disk, result rows.
    """
    declared, site = load(query), Site(query)
    declared.build(site)
    with atoll.LocalCluster(root) as cluster:
        app = cluster.deploy(site.module)
        topology = app.topology(TOPOLOGY)
        topology.pause()
        sizes = {kind: _append(app, kind, files_of(records, kind)) for kind in site.reads}
        for kind, rows in sizes.items():
            most = -(-max(rows) // site.partitions)
            app.options.set("depot.microbatch.max.records", most, depot=kind)
        with PeakMemory() as memory:
            topology.resume()
            warm = sum(sum(rows[:warmup]) for rows in sizes.values())
            topology.wait_processed(warm, timeout_seconds=TIMEOUT_SECONDS)
            started, before = time.perf_counter(), cpu_seconds()
            done = topology.status()["processed"]
            total = sum(sum(rows) for rows in sizes.values())
            topology.wait_processed(total, timeout_seconds=TIMEOUT_SECONDS)
            seconds, after = time.perf_counter() - started, cpu_seconds()
        topology.pause()
        recent = topology.recent_microbatches()
        return {
            "events": total - done,
            "seconds": seconds,
            "cpu_seconds": None if before is None or after is None else after - before,
            "durations_ms": [each["total"] for each in recent[-_HISTORY:] if each["id"] > warmup],
            "memory_bytes": memory.peak,
            "disk_bytes": disk_bytes(root) - disk_bytes(root / site.name / "depots"),
            "rows": len(declared.results(app)),
        }


def _append(app: Any, kind: str, files: list[Path]) -> list[int]:
    """Append the files of a kind; how many records each has."""
    depot, rows = app.depot(kind), []
    for file in files:
        table = pq.read_table(file)
        depot.append(table)
        rows.append(table.num_rows)
    return rows


def main() -> None:
    """Run the query once; print the report as a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--query", required=True)
    parser.add_argument("--records", type=Path, required=True, help="made by nexmark.generator")
    parser.add_argument("--warmup", type=int, default=5, help="microbatches that do not count")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nexmark-") as root:
        report = run(arguments.query, arguments.records, arguments.warmup, Path(root))
    print(json.dumps(report))


if __name__ == "__main__":
    main()
