"""Real input through the command line: a repository's history, killed in the middle; a large file.

The history is not part of the project; without it that test is skipped and says so.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from harness import volume

PROJECT = Path(__file__).parents[2]
HISTORY = PROJECT.parent / "shared" / "data" / "changes.jsonl.gz"
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
WAIT_SECONDS = 240


class Service:
    """An ``atoll run`` of an example over a root, and the other commands against it."""

    def __init__(self, example, root):
        target = f"{PROJECT}/examples/{example}:module"
        options = ["--root", str(root), "--port", "0"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "atoll", "run", target, *options],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.url = self.process.stdout.readline().strip()
        assert self.url, "atoll run said no address"

    def atoll(self, *arguments):
        """Run a command; what it printed as JSON, and the most memory it held in KiB."""
        command = [sys.executable, "-m", "atoll", *map(str, arguments)]
        with subprocess.Popen(
            [*command, "--url", self.url, "-o", "json"],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            out, said = process.communicate(timeout=WAIT_SECONDS)
            assert process.returncode == 0, said
        return json.loads(out)

    def wait_processed(self, least):
        """Ask for the status until so many records are processed; how many are."""
        until = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < until:
            with urllib.request.urlopen(f"{self.url}/v1/status", timeout=30) as answer:
                (module,) = json.load(answer)["modules"].values()
            (topology,) = module["topologies"].values()
            assert topology["error"] is None
            if topology["processed"] >= least:
                return topology["processed"]
        raise AssertionError(f"{least} records were not processed in {WAIT_SECONDS} s")

    def end(self, number=signal.SIGTERM):
        """Send a signal and wait for the end."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
        self.process.stdout.close()
        self.process.wait(timeout=60)


@pytest.fixture
def serve():
    """Start services; none is left behind."""
    started = []

    def start(example, root):
        started.append(Service(example, root))
        return started[-1]

    yield start
    for service in started:
        service.end(signal.SIGKILL)


def _recount(records):
    lines = defaultdict(lambda: [0, 0])
    months, latest = Counter(), {}
    for record in records:
        name = record["path"]
        folder = name.split("/")[0] if "/" in name else ""
        lines[folder, record["author"]][0] += record["added"]
        lines[folder, record["author"]][1] += record["deleted"]
        at = dt.datetime.fromtimestamp(record["at"] / 1000, dt.UTC)
        months[name, f"{at:%Y-%m}"] += 1
        if name not in latest or record["at"] >= latest[name]["at"]:
            latest[name] = {"commit": record["commit"], "at": record["at"]}
    return lines, months, latest


@pytest.mark.skipif(not os.environ.get("ATOLL_SOAK"), reason="two minutes: with ATOLL_SOAK=1")
@pytest.mark.skipif(not HISTORY.exists(), reason=f"no {HISTORY.name} beside the project")
def test_a_repository_history_counts_as_a_recount_does_also_after_a_kill(tmp_path, serve):
    """Half the history, SIGKILL while it is processed, the other half: every number is right."""
    with gzip.open(HISTORY, "rt") as lines:
        records = [json.loads(line) for line in lines]
    half = len(records) // 2
    for name, part in (("first", records[:half]), ("second", records[half:])):
        with gzip.open(tmp_path / f"{name}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(record) + "\n" for record in part)
    root = tmp_path / "root"
    service = serve("repository_changes.py", root)
    appended = service.atoll("append", "repository", "changes", "-f", tmp_path / "first.jsonl.gz")
    assert sum(each["appended"] for each in appended) == half
    done = service.wait_processed(2_000)
    service.end(signal.SIGKILL)
    assert done < half, "all was processed before the kill"

    service = serve("repository_changes.py", root)
    service.atoll("append", "repository", "changes", "-f", tmp_path / "second.jsonl.gz")
    assert service.wait_processed(len(records)) == len(records)

    import atoll
    from atoll import path

    state = atoll.connect(root, "repository")
    lines, months, latest = _recount(records)
    found = {
        (folder, author): [each["added"], each["deleted"]]
        for folder, authors in state.pstate("lines").select(path.all())
        for author, each in authors.items()
    }
    assert dict(lines) == found
    found = {
        (name, month): count
        for name, counts in state.pstate("by_month").select(path.all())
        for month, count in counts.items()
    }
    assert dict(months) == found
    assert latest == dict(state.pstate("latest").select(path.all()))
    per_path = Counter(record["path"] for record in records)
    top = [(each["path"], each["changes"]) for each in state.pstate("most_changed").get()]
    assert [count for _, count in per_path.most_common(10)] == [count for _, count in top]
    assert all(per_path[name] == count for name, count in top)
    assert dict(per_path) == dict(state.pstate("path_changes").select(path.all()))
    service.end()


MEASURED = """
import resource, subprocess, sys
command = [sys.executable, "-m", "atoll", *sys.argv[1:]]
subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def test_many_records_from_a_file_in_bounded_memory(tmp_path, serve):
    """The totals are right, and the appending process stays below 300 MB."""
    values = np.random.default_rng(7).integers(-1000, 1000, volume(300_000, 1_000_000)).tolist()
    file = tmp_path / "numbers.jsonl"
    file.write_text("".join(f'{{"v": {value}}}\n' for value in values))
    service = serve("key_pairs.py", tmp_path / "root")
    arguments = ["append", "key-pairs", "numbers", "-f", str(file), "--url", service.url]
    measured = subprocess.run(
        [sys.executable, "-c", MEASURED, *arguments],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert measured.returncode == 0, measured.stderr
    assert int(measured.stdout) < 300 * 1024
    service.wait_processed(len(values))
    assert service.atoll("query", "key-pairs", "global_sum") == sum(values)
    service.end()
