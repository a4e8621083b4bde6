"""Nexmark: Atoll against Spark Structured Streaming, query by query, on the same records.

Both sides run alone, one after the other, each in a process of its own with a JVM of its own, on
two cores, with all their durability on. The sides alternate over the rounds; a side's figure is
the median of its rounds. Events are those of the kinds that the query reads, and the clock is the
wall's, from the end of the warm-up to the end of the last microbatch. How many rows the result has
is held against DuckDB's answer over all records at once.

    python bench/nexmark.py --queries all --json
    python bench/nexmark.py --queries q0,q5 --events 2000000 --batch 100000 --rounds 3
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from nexmark.generator import Stream, write_files
from nexmark.peer_queries import PEER_QUERIES
from nexmark.queries import NAMES
from nexmark.report import SIDES, compared, table, wrong_rows
from nexmark.site import KINDS

HERE = Path(__file__).parent
BY_THE_CLOCK = {"q12"}
"""Queries whose results depend on when records were processed."""
MODULES = {"atoll": "nexmark.ours", "peer": "nexmark.peer"}


def counted(records: Path, sql: str) -> int:
    """How many rows a query in DuckDB's SQL has over all records; or the one number it gives."""
    import duckdb

    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        for kind in KINDS:
            files = str(records / kind / "*.parquet")
            database.execute(f"CREATE VIEW {kind} AS SELECT * FROM read_parquet('{files}')")
        return int(database.execute(sql).fetchall()[0][0])


def expected_rows(query: str, records: Path) -> int | None:
    """How many rows the query's result has, or None where that depends on the clock."""
    reference = HERE / "nexmark" / "reference" / f"{query}.sql"
    if query in BY_THE_CLOCK or not reference.exists():
        return None
    sql = reference.read_text().strip().rstrip(";")
    return counted(records, f"SELECT count(*) FROM ({sql}\n)")


def run_side(side: str, query: str, records: Path, warmup: int, timeout: int) -> dict[str, Any]:
    """One run of a side in a process of its own; its report, or ``failed`` with the reason."""
    command = [
        *(sys.executable, "-m", MODULES[side], "--query", query),
        *("--records", str(records), "--warmup", str(warmup)),
    ]
    paths = [str(HERE), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"{side} took longer than {timeout} s"}
    if done.returncode:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        return {"failed": f"{side}: {said[-1] if said else done.returncode}", "said": said[-30:]}
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def run_query(query: str, records: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """All rounds of one query, compared."""
    sides = [arguments.only] if arguments.only else list(SIDES)
    rounds: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    for turn in range(arguments.rounds):
        for side in sides if turn % 2 == 0 else sides[::-1]:
            report = run_side(side, query, records, arguments.warmup, arguments.timeout)
            if "failed" in report:
                return {"query": query, **report}
            rounds[side].append(report)
    peer = PEER_QUERIES[query]
    wanted = {"atoll": expected_rows(query, records), "peer": None}
    if "peer" in rounds and rounds["peer"][0]["sink"] == "parquet":
        wanted["peer"] = wanted["atoll"]
    elif peer.state_rows:
        wanted["peer"] = counted(records, peer.state_rows)
    for side in sides:
        wrong = wrong_rows(query, side, rounds[side], wanted[side])
        if wrong:
            return {"query": query, "failed": wrong}
    return compared(query, rounds, peer.way)


def chosen(names: str) -> list[str]:
    """The queries of a list, or all that both sides have."""
    both = [name for name in NAMES if name in PEER_QUERIES]
    if names == "all":
        return both
    wanted = names.split(",")
    unknown = [name for name in wanted if name not in both]
    if unknown:
        raise SystemExit(f"no query {', '.join(unknown)}; there are {', '.join(both)}")
    return wanted


def parsed() -> argparse.Namespace:
    """The command's arguments."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--queries", default="all", help="as q0,q5; or all")
    parser.add_argument("--events", type=int, default=2_000_000, help="after the warm-up")
    parser.add_argument("--batch", type=int, default=100_000, help="events of a microbatch")
    parser.add_argument("--warmup", type=int, default=10, help="microbatches that do not count")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=int, default=10_000, help="events in a second of event time")
    parser.add_argument("--timeout", type=int, default=1_800, help="seconds for one run of a side")
    parser.add_argument("--only", choices=SIDES, help="run one side alone")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    arguments.queries = chosen(arguments.queries)
    return arguments


def main() -> None:
    """Run the queries one after the other; say how they compare."""
    arguments = parsed()
    stream = Stream(
        events=arguments.events + arguments.warmup * arguments.batch,
        batch=arguments.batch,
        seed=arguments.seed,
        rate=arguments.rate,
    )
    results = []
    with tempfile.TemporaryDirectory(prefix="nexmark-records-") as folder:
        write_files(Path(folder), stream)
        for query in arguments.queries:
            results.append(run_query(query, Path(folder), arguments))
            print(json.dumps(results[-1]), file=sys.stderr, flush=True)
    settings = {name: getattr(arguments, name) for name in ("events", "batch", "warmup", "rounds")}
    load = round(os.getloadavg()[0], 2)
    print(
        json.dumps({**settings, "load_average": load, "queries": results})
        if arguments.json
        else table(results)
    )


if __name__ == "__main__":
    main()
