"""What a change of parallelism costs while records come: 2 to 4 to 8 to 2 units, on a large state.

A sum per key on four workers of two units each; workers exist by name only, so all of them share
the task slots of one Spark session, ``--slots`` of them (two as a rule, for two cores: then eight
actors take four turns, and every microbatch is longer the more units there are). A state of many
keys is loaded, then an appender keeps more records waiting than one microbatch takes, so that
microbatches run back to back. Between changes a number of microbatches run undisturbed. Measured
for each change:

- *gap*: from the last commit on the old mapping to the first commit on the new one, both as seen
  right after step 3. Which mapping a commit ran on is told by the commit object: it names as many
  task runs as it had actors.
- *microbatch*: the median of steps 1 to 5 over the undisturbed microbatches on the old mapping, and
  on the new one. The gap is divided by both. What ends it is a microbatch of the new mapping, so
  *to new* is what the change itself costs, and *to old* also shows what the mapping does.
- *vnodes* that change owner, and the *bytes* of those that change worker, as the change answers.
  On one machine none are copied; *built anew* counts the stores that actors could not open as
  they lay while the change was made.
- *reads*: a process of its own reads random keys through ``atoll.connect``, some thousand times a
  second. *During* is from the request of the change to its answer, *before* the undisturbed time
  before it. (A thread of this process would share its interpreter lock and measure that.)

Then, in the same run, on the same records and as many cores, the peer does the same: Structured
Streaming is stopped, its checkpoint repartitioned, and it is started again (``bench/peer.py`` says
how). Its gap is from the last commit before the stop to the first commit of records after it. Its
state cannot be read while it runs, so it has no readers to serve.

    python bench/rescale.py --rounds 5 --json
    python bench/rescale.py --keys 20000 --rounds 1 --only atoll
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from records import SCHEMA, write_records

MODULE = "rescale"
DEPOT_PARTITIONS = 2
LOAD_BATCH = 250_000
WAITING_BATCHES = 2
"""So many batches wait while one more is processed."""
UNITS = (2, 4, 8, 2)
WORKER_UNITS = 2
LOADED = "all-keys.parquet"
CHECKED_KEYS = 2_000
READ_PAUSE_SECONDS = 0.0002
TIMEOUT_SECONDS = 1_800
GAP_RATIO = 1.5
STEPS = ("prime", "process", "commit", "publish", "tidy")


def declare(batch: int) -> Any:
    """The module under test; microbatches of at most ``batch`` records."""
    import atoll
    from atoll import Map, agg, start

    module = atoll.Module(MODULE)
    events = module.depot("events", SCHEMA, partitions=DEPOT_PARTITIONS)
    options = {"depot.microbatch.max.records": batch // DEPOT_PARTITIONS}
    mb = module.microbatch("mb", parallelism=f"fixed({UNITS[0]})", options=options)
    sums = mb.pstate("sums", Map(int, int))
    mb.source(events, start_from=start.beginning()).aggregate(sums["k"], agg.sum("v"))
    return module


# Load and readers ---------------------------------------------------------------------------------


class Commits:
    """When each microbatch committed, as the observer of its topology sees it."""

    def __init__(self) -> None:
        """None yet."""
        self.at: dict[int, float] = {}
        self.last = 0
        self._changed = threading.Condition()

    def observe(self, step: Any, microbatch: int) -> None:
        """Called by the topology after each numbered step."""
        if step.name == "COMMIT":
            with self._changed:
                self.at[microbatch] = time.monotonic()
                self.last = microbatch
                self._changed.notify_all()

    def wait(self, microbatch: int) -> None:
        """Until that one has committed."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.last >= microbatch, TIMEOUT_SECONDS):
                raise SystemExit(f"microbatch {microbatch} did not commit")


class Load:
    """A thread that keeps more records waiting than one microbatch takes.

    Args:
        app: The module.
        tables: What it appends, again and again.
        loaded: How many records were appended before.
    """

    def __init__(self, app: Any, tables: list[pa.Table], loaded: int) -> None:
        """Append nothing yet."""
        self.depot, self.topology = app.depot("events"), app.topology("mb")
        self.tables = tables
        self.records = loaded
        self.appended = [0] * len(tables)
        self._stop = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    @contextmanager
    def running(self) -> Iterator[None]:
        """While in it, microbatches are full; after it all records are processed."""
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()
        if self._failed is not None:
            raise SystemExit(f"the load ended: {self._failed}")
        self.topology.wait_processed(self.records, timeout_seconds=TIMEOUT_SECONDS)

    def _run(self) -> None:
        try:
            for number in itertools.cycle(range(len(self.tables))):
                if self._stop.is_set():
                    return
                table = self.tables[number]
                self.depot.append(table)
                self.appended[number] += 1
                self.records += len(table)
                done = self.records - WAITING_BATCHES * len(table)
                self.topology.wait_processed(done, timeout_seconds=TIMEOUT_SECONDS)
        except Exception as error:  # noqa: BLE001  # told by the thread that waits for it
            self._failed = error


def read(root: Path, keys: int, report: Path) -> None:
    """Read random keys until standard input ends; leave when each began and what it took."""
    import atoll

    ended = threading.Event()

    def end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=end, daemon=True).start()
    state = atoll.connect(root, MODULE).pstate("sums")
    generator = random.Random(os.getpid())
    wanted = [generator.randrange(keys) for _ in range(50_000)]
    for key in wanted:  # the first read of a vnode opens it
        state.get(key)
    print("ready", flush=True)
    clock = time.monotonic_ns
    taken: list[tuple[int, int]] = []
    for key in itertools.cycle(wanted):
        if ended.is_set():
            break
        began = clock()
        value = state.get(key)
        taken.append((began, clock() - began))
        if not isinstance(value, int) or value < 1:  # every key was loaded, and only grows
            raise SystemExit(f"key {key} reads {value!r}")
        time.sleep(READ_PAUSE_SECONDS)
    np.save(report, np.array(taken, np.int64))


class Reader:
    """The reading process.

    Args:
        root: What it reads from.
        keys: How many there are.
    """

    def __init__(self, root: Path, keys: int) -> None:
        """Returns when it reads."""
        self.report = root / "reads.npy"
        command = [__file__, "--reader", str(root), "--keys", str(keys)]
        self.process = subprocess.Popen(
            [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        if not self.process.stdout.readline():
            raise SystemExit("the reader did not start")

    def end(self) -> Any:
        """All reads: when each began, and what it took; nanoseconds."""
        self.process.communicate()
        if self.process.returncode:
            raise SystemExit("the reader failed")
        return np.load(self.report)


def percentiles(reads: Any, windows: list[tuple[float, float]]) -> dict[str, Any]:
    """Of the reads that began in one of the windows, in microseconds."""
    began, took = reads[:, 0] / 1e9, reads[:, 1] / 1e3
    inside = np.zeros(len(reads), bool)
    for start, end in windows:
        inside |= (began >= start) & (began < end)
    marks = {"p50_us": 50, "p99_us": 99, "max_us": 100}
    if not inside.any():
        raise SystemExit("no read began in time")
    values = {name: round(float(np.percentile(took[inside], at)), 1) for name, at in marks.items()}
    return {"reads": int(inside.sum()), **values}


# Atoll --------------------------------------------------------------------------------------------


class Rescaled:
    """A running topology under load, and its parallelism changed.

    Args:
        app: The module.
        commits: What its observer sees.
        steady: How many undisturbed microbatches to measure between two changes.
    """

    def __init__(self, app: Any, commits: Commits, steady: int) -> None:
        """Nothing is changed yet."""
        self.app = app
        self.commits = commits
        self.steady = steady
        self.units = UNITS[0]
        self.since = 0
        self.steady_ms: dict[str, float] = {}
        self.interval_ms = 0.0

    def settle(self) -> None:
        """Run undisturbed for a while from the commit after the last one on, and measure it."""
        self.since = self.commits.last + 1
        last = self.since + self.steady
        self.commits.wait(last + 1)  # so that the step after the last one's commit has ended too
        recent = self.app.topology("mb").recent_microbatches()
        measured = [each for each in recent if self.since < each["id"] <= last]
        self.steady_ms = {
            name: statistics.median(each.get(name, 0.0) for each in measured)
            for name in (*STEPS, "total", "records")
        }
        times = [self.commits.at[each] for each in range(self.since, last + 1)]
        self.interval_ms = statistics.median(np.diff(times).tolist()) * 1000

    def change(self, units: int) -> dict[str, Any]:
        """To so many units, and settle there."""
        before, was, interval = self.steady_ms, self.units, self.interval_ms
        settled_at, known = self.commits.at[self.since], self.commits.last
        opened = self._built_anew()
        asked_at = time.monotonic()
        plan = self.app.cluster.set_parallelism("mb", f"fixed({units})")
        answered_at = time.monotonic()
        self.units = units
        first = self._first_on(units, was, known)
        self.settle()
        built = self._built_anew() - opened
        recent = {each["id"]: each for each in self.app.topology("mb").recent_microbatches()}
        return {
            "from": was,
            "to": units,
            "gap_ms": (self.commits.at[first] - self.commits.at[first - 1]) * 1000,
            "asked_ms": (answered_at - asked_at) * 1000,
            "before": {**before, "interval": interval},
            "first": recent[first],
            "after": {**self.steady_ms, "interval": self.interval_ms},
            "vnodes": plan.vnodes_moved,
            "bytes": plan.bytes_moved,
            "built_anew": built,
            "windows": {"before": (settled_at, asked_at), "during": (asked_at, answered_at)},
        }

    def _first_on(self, units: int, was: int, known: int) -> int:
        """The first microbatch that committed on the new units; the one before is on the old."""
        actors = {each: self._actors(each) for each in range(known, self.commits.last + 1)}
        first = min((each for each, count in actors.items() if count == units), default=known)
        expected = {each: was if each < first else units for each in actors}
        if first == known or actors != expected:
            raise SystemExit(f"actors by microbatch after a change to {units}: {actors}")
        return first

    def _actors(self, microbatch: int) -> int:
        from atoll.microbatch.commits.history import read_commit

        return len(read_commit(self.app.store, MODULE, "mb", microbatch).tokens)

    def _built_anew(self) -> int:
        """How many stores actors have built anew, or brought up to date, in this life."""
        opened = self.app.topology("mb").status()["opened_total"]
        return sum(count for kind, count in opened.items() if kind != "current")


def load(cluster: Any, table: pa.Table) -> None:
    """Give every key a value, in a few large microbatches."""
    app = cluster.deploy(declare(LOAD_BATCH))
    app.depot("events").append(table)
    app.topology("mb").wait_processed(len(table), timeout_seconds=TIMEOUT_SECONDS)


def run_atoll(records: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """All changes, one report for each."""
    import atoll
    from atoll.spark.session import local_session

    session = local_session(options.slots)
    loaded = pq.read_table(records / LOADED)
    tables = [pq.read_table(file) for file in sorted(records.glob("batch-*.parquet"))]
    commits = Commits()
    with (
        tempfile.TemporaryDirectory(prefix=f"{MODULE}-", ignore_cleanup_errors=True) as root,
        atoll.LocalCluster(
            root, parallelism=WORKER_UNITS, session=session, observer=commits.observe
        ) as cluster,
    ):
        for number in range(1, max(UNITS) // WORKER_UNITS):
            cluster.add_worker(f"worker-{number}", WORKER_UNITS)
        load(cluster, loaded)
        app = cluster.deploy(declare(options.batch))
        under_load = Load(app, tables, len(loaded))
        with under_load.running():
            commits.wait(commits.last + options.warmup)
            reader = Reader(Path(root), options.keys)
            rescaled = Rescaled(app, commits, options.steady)
            rescaled.settle()
            reports = [rescaled.change(units) for units in changes_of(options.rounds)]
            reads = reader.end()
        check(app.pstate("sums"), loaded, under_load)
    for report in reports:
        wrong = {report[when]["records"] for when in ("before", "first", "after")}
        if wrong != {options.batch}:
            raise SystemExit(f"microbatches of {wrong} records, not of {options.batch}")
    return with_reads(reports, reads)


def with_reads(reports: list[dict[str, Any]], reads: Any) -> list[dict[str, Any]]:
    """Each report with the reads of all changes of its kind in place of its windows."""
    for report in reports:
        alike = [each for each in reports if kind_of(each) == kind_of(report)]
        report["reads"] = {
            when: percentiles(reads, [each["windows"][when] for each in alike])
            for when in ("before", "during")
        }
    for report in reports:
        del report["windows"]
    return reports


def check(sums: Any, loaded: pa.Table, under_load: Load) -> None:
    """Hold some thousand keys against a recount, so that nothing was lost or counted twice."""
    keys, values = loaded["k"].to_numpy(), loaded["v"].to_numpy()
    totals = np.bincount(keys, weights=values)
    for table, times in zip(under_load.tables, under_load.appended, strict=True):
        keys, values = table["k"].to_numpy(), table["v"].to_numpy()
        totals += times * np.bincount(keys, weights=values, minlength=len(totals))
    for key in range(0, len(totals), max(len(totals) // CHECKED_KEYS, 1)):
        if sums.get(key) != int(totals[key]):
            raise SystemExit(f"the sum of key {key} is {sums.get(key)}, not {int(totals[key])}")


# Both ---------------------------------------------------------------------------------------------


def changes_of(rounds: int) -> list[int]:
    """The units to change to, one after the other."""
    return list(UNITS[1:]) * rounds


def kind_of(report: dict[str, Any]) -> str:
    """The name of a change."""
    return f"{report['from']} to {report['to']}"


def write_all(folder: Path, options: argparse.Namespace) -> None:
    """One file that gives every key a value of 1, and one for each microbatch of the peer."""
    count = options.warmup + (options.steady + 1) * (1 + len(changes_of(options.rounds)))
    write_records(folder, options.keys, options.batch, count)
    ids = np.arange(options.keys)
    table = pa.table({"k": ids, "v": np.ones(options.keys, np.int64)})
    pq.write_table(table, folder / LOADED)
    os.utime(folder / LOADED, (1_600_000_000, 1_600_000_000))  # the oldest, so the first


def run_side(side: str, records: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """One side in a process of its own."""
    if side == "peer":
        changes = ",".join(map(str, changes_of(options.rounds)))
        own = [str(Path(__file__).with_name("peer.py")), "--records", str(records)]
        own += ["--changes", changes, "--warmup", str(options.warmup + 1)]
    else:
        own = [__file__, "--side", str(records), "--keys", str(options.keys)]
        own += ["--batch", str(options.batch), "--rounds", str(options.rounds)]
        own += ["--warmup", str(options.warmup)]
    command = [sys.executable, *own, "--steady", str(options.steady), "--slots", str(options.slots)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{side} failed:\n{done.stdout}\n{done.stderr}")
    reports: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return reports


def summarize(sides: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """For each kind of change the medians over the rounds, and the worst of the gaps."""
    table: dict[str, Any] = {}
    for kind in dict.fromkeys(map(kind_of, next(iter(sides.values())))):
        row: dict[str, Any] = {}
        for side, reports in sides.items():
            alike = [each for each in reports if kind_of(each) == kind]
            row[side] = summary_of_atoll(alike) if side == "atoll" else summary_of_peer(alike)
        if len(row) > 1:
            row["ratio"] = round(row["peer"]["gap_ms"] / row["atoll"]["gap_ms"], 1)
        table[kind] = row
    return table


def summary_of_atoll(alike: list[dict[str, Any]]) -> dict[str, Any]:
    """The medians of one kind of change."""
    ratios = {
        when: [each["gap_ms"] / each[when]["total"] for each in alike]
        for when in ("before", "after")
    }
    return {
        **gaps(alike),
        "before_ms": median(each["before"]["total"] for each in alike),
        "after_ms": median(each["after"]["total"] for each in alike),
        "asked_ms": median(each["asked_ms"] for each in alike),
        "to_old": round(statistics.median(ratios["before"]), 2),
        "to_new": round(statistics.median(ratios["after"]), 2),
        "to_new_worst": round(max(ratios["after"]), 2),
        "vnodes": median(each["vnodes"] for each in alike),
        "bytes": median(each["bytes"] for each in alike),
        "built_anew": sum(each["built_anew"] for each in alike),
        "reads": alike[0]["reads"],
        "steps_ms": {
            when: {name: median(each[when].get(name, 0.0) for each in alike) for name in STEPS}
            for when in ("before", "first", "after")
        },
    }


def summary_of_peer(alike: list[dict[str, Any]]) -> dict[str, Any]:
    """The medians of one kind of change."""
    names = ("before_ms", "after_ms", "stop_ms", "repartition_ms", "restart_ms")
    return {**gaps(alike), **{name: median(each[name] for each in alike) for name in names}}


def gaps(alike: list[dict[str, Any]]) -> dict[str, float]:
    """Median and worst."""
    values = [each["gap_ms"] for each in alike]
    return {"gap_ms": median(values), "gap_worst_ms": round(max(values), 1)}


def median(values: Any) -> float:
    """Rounded for people."""
    return round(float(statistics.median(values)), 1)


def show(result: dict[str, Any]) -> None:
    """A table for people."""
    print(
        f"{result['keys']:,} keys, microbatches of {result['batch']:,} records,"
        f" {result['rounds']} rounds, {result['slots']} task slots on {result['cores']} cores"
    )
    rows = result["changes"]
    if any("atoll" in row for row in rows.values()):
        print(
            f"  {'Atoll':8} {'gap ms':>8} {'worst':>8} {'microbatch ms':>15}"
            f" {'to old':>6} {'to new':>6} {'worst':>6} {'vnodes':>6} {'MB':>7}"
            f" {'anew':>5} {'reads p50/p99 us before':>24} {'during':>15}"
        )
    for kind, row in rows.items():
        if "atoll" in row:
            show_atoll(kind, row["atoll"])
    if any("peer" in row for row in rows.values()):
        print(
            f"  {'peer':8} {'gap ms':>8} {'worst':>8} {'microbatch ms':>15}"
            f" {'stop':>8} {'repartition':>12} {'restart':>8} {'to Atoll':>9}"
        )
    for kind, row in rows.items():
        if "peer" in row:
            peer = row["peer"]
            print(
                f"  {kind:8} {peer['gap_ms']:8,.0f} {peer['gap_worst_ms']:8,.0f}"
                f" {peer['before_ms']:7,.0f}/{peer['after_ms']:<7,.0f} {peer['stop_ms']:8,.0f}"
                f" {peer['repartition_ms']:12,.0f} {peer['restart_ms']:8,.0f}"
                f" {row.get('ratio', '-'):>9}"
            )
    print(f"  goal: gap to microbatch below {GAP_RATIO:g}; load average {result['load_average']}")


def show_atoll(kind: str, row: dict[str, Any]) -> None:
    """One row of the table."""
    before, during = row["reads"]["before"], row["reads"]["during"]
    print(
        f"  {kind:8} {row['gap_ms']:8,.0f} {row['gap_worst_ms']:8,.0f}"
        f" {row['before_ms']:7,.0f}/{row['after_ms']:<7,.0f}"
        f" {row['to_old']:6.2f} {row['to_new']:6.2f} {row['to_new_worst']:6.2f}"
        f" {row['vnodes']:6,.0f}"
        f" {row['bytes'] / 1e6:7.1f} {row['built_anew']:5}"
        f" {before['p50_us']:15,.0f}/{before['p99_us']:<8,.0f}"
        f" {during['p50_us']:6,.0f}/{during['p99_us']:<8,.0f}"
    )


def main() -> None:
    """Measure both sides, or be one of the processes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=4_000, help="records of a microbatch")
    parser.add_argument("--rounds", type=int, default=5, help="of the three changes")
    parser.add_argument("--steady", type=int, default=40, help="microbatches between changes")
    parser.add_argument("--warmup", type=int, default=40, help="microbatches before the first")
    parser.add_argument("--slots", type=int, default=2, help="Spark tasks at once, of both sides")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=["atoll", "peer"], help="run one side alone")
    parser.add_argument("--side", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--reader", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.reader is not None:
        read(options.reader, options.keys, options.reader / "reads.npy")
        return
    if options.side is not None:
        print(json.dumps(run_atoll(options.side, options)))
        return
    with tempfile.TemporaryDirectory(prefix=f"{MODULE}-records-") as folder:
        write_all(Path(folder), options)
        chosen = [options.only] if options.only else ["atoll", "peer"]
        sides = {side: run_side(side, Path(folder), options) for side in chosen}
    result = {
        "keys": options.keys,
        "batch": options.batch,
        "rounds": options.rounds,
        "slots": options.slots,
        "cores": os.cpu_count(),
        "changes": summarize(sides),
        "load_average": round(os.getloadavg()[0], 2),
    }
    if options.json:
        print(json.dumps({**result, "runs": sides}))
    else:
        show(result)


if __name__ == "__main__":
    main()
