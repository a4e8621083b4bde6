"""``atoll run`` for real: Spark, HTTP, signals, a restart; driven by the other commands."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from atoll import LocalCluster, Module
from atoll.cli.commands.run import _uncordon

MODULE = """
import atoll
from atoll import Map, agg

module = atoll.Module("key-pairs")
pairs = module.depot("pairs", "k string, k2 string", partition_by="k")
numbers = module.depot("numbers", "v long NOT NULL")
mb = module.microbatch("mb", vnode_count=16)
pair_counts = mb.pstate("pair_counts", Map(str, Map(str, int)))
global_sum = mb.pstate("global_sum", int, initial=0)
mb.source(pairs).aggregate(pair_counts["k"]["k2"], agg.count())
mb.source(numbers).aggregate(global_sum, agg.sum("v"))
"""


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
"""127.0.0.1, the same as an IPv6 address, and ::1."""


class Running:
    """An ``atoll run`` in a process of its own."""

    def __init__(self, folder, *options):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        environment.pop("JAVA_TOOL_OPTIONS", None)  # Java would say on stderr that it has some
        self.process = subprocess.Popen(
            [sys.executable, "-m", "atoll", "run", "pairs.py:module", "--port", "0", *options],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.url = self.process.stdout.readline().strip()
        assert self.url, self.process.communicate()[1]

    def stop(self, number, *, everybody=False):
        """Send a signal, to its Java and Python processes too; what was said, how it ended."""
        for pid in processes(self.process.pid) if everybody else (self.process.pid,):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        _, said = self.process.communicate(timeout=60)
        assert "Traceback" not in said
        return self.process.returncode, said


def processes(session):
    """The processes of a session."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getsid(int(folder.name)) == session:
                found.append(int(folder.name))
    return found


def opened(session):
    """What the processes of a session have open."""
    found = set()
    for pid in processes(session):
        with contextlib.suppress(OSError):
            found |= {str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()}
    return found


def lock_folder(session):
    """The folder of the socket by which Spark asks for Python workers."""
    if not Path("/proc").is_dir():
        return None
    (lock,) = [each for each in opened(session) if each.endswith("/lock") and "sockets" in each]
    return Path(lock).parent


def listening(session):
    """The addresses on which the processes of a session listen, as the kernel writes them."""
    sockets = {Path(each).name for each in opened(session)}
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A" and f"socket:[{rest[5]}]" in sockets:
                addresses.add(local.partition(":")[0])
    return addresses


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Start ``atoll run``; nothing of it is left behind."""
    (tmp_path / "pairs.py").write_text(MODULE)
    started = []

    def start(*options):
        started.append(Running(tmp_path, *options))
        monkeypatch.setenv("ATOLL_URL", started[-1].url)
        return started[-1]

    yield start
    for running in started:
        if running.process.poll() is None:
            running.process.kill()
            running.process.communicate()


def wait_processed(atoll, count):
    """Until the topology has processed so many records."""
    ends_at = time.monotonic() + 120
    while True:
        status = json.loads(atoll("status", "-o", "json").out)
        topology = status["modules"]["key-pairs"]["topologies"]["mb"]
        assert topology["error"] is None
        if topology["processed"] >= count:
            return topology
        assert time.monotonic() < ends_at, topology
        time.sleep(0.1)


def test_workers_are_uncordoned_before_it_starts(tmp_path, capsys):
    """``--uncordon``: of a module that was never deployed there are none."""
    module = Module("idle")
    module.microbatch("mb", vnode_count=1).source(module.depot("rows", "v long")).map(
        lambda row: {"v": row.v}, emits="v long"
    ).append_to(module.depot("to", "v long"))
    with LocalCluster(tmp_path, engine="inline") as cluster:
        _uncordon(cluster, "idle")
        cluster.deploy(module).cluster.cordon([0])
    with LocalCluster(tmp_path, engine="inline") as cluster:
        _uncordon(cluster, "idle")
        assert capsys.readouterr().err == "uncordoned workers 0\n"
        assert not cluster.deploy(module).cluster.info().workers[0].cordoned


def _commands(session):
    """What runs in a session, as one text."""
    asked = ["ps", "-A", "-o", "sess=,pgid=,args="]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    return "\n".join(line for line in said.splitlines() if str(session) in line.split()[:2])


def _until(holds, otherwise, seconds=120.0):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, otherwise
        time.sleep(0.02)


@pytest.mark.slow
def test_stopping_while_it_starts(tmp_path):
    """SIGTERM while Spark starts stops it as soon as it can be; no Java process stays."""
    (tmp_path / "pairs.py").write_text(MODULE)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("JAVA_TOOL_OPTIONS", None)  # Java would say on stderr that it has some
    process = subprocess.Popen(
        [sys.executable, "-m", "atoll", "run", "pairs.py:module", "--port", "0"],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr.readline().startswith("starting Spark")
    _until(lambda: "java" in _commands(process.pid), "Java has not begun")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=300)  # ends when the last process of it has ended
    assert (process.returncode, said) == (0, "stopping ...\nstopped\n")


@pytest.mark.slow
def test_a_whole_life(run, atoll, tmp_path):
    """Append, query, stop by SIGTERM, go on after a restart, pause, resume, stop by Ctrl-C."""
    running = run()
    rows = "".join(f'{{"v": {number}}}\n' for number in range(1, 1_001))
    (tmp_path / "numbers.jsonl").write_text(rows)
    done = atoll("append", "key-pairs", "numbers", "--file", tmp_path / "numbers.jsonl")
    assert done.code == 0, done.err
    atoll("append", "key-pairs", "pairs", '{"k": "a", "k2": "x"}', '{"k": "a", "k2": "y"}')
    assert sum(wait_processed(atoll, 1_002)["lag"]["numbers"]) == 0
    assert atoll("query", "key-pairs", "global_sum").out == "500500\n"
    assert json.loads(atoll("query", "key-pairs", "pair_counts", "-o", "json").out) == {
        "a": {"x": 1, "y": 1}
    }
    assert atoll("query", "key-pairs", "pair_counts", "a", "y").out == "1\n"
    assert atoll("query", "key-pairs", "pair_counts", "zz").out.split() == [
        "key",
        "value",
        "---",
        "-----",
    ]
    path = '[["key", "a"], ["sorted_range", {"start": "y"}]]'
    done = atoll("query", "key-pairs", "pair_counts", "--path", path, "-o", "json")
    assert json.loads(done.out) == [{"y": 1}]
    done = atoll("append", "key-pairs", "numbers", '{"v": "x"}', '{"v": 2}')
    assert (done.code, "line 1" in done.err) == (2, True)
    assert "records/s" in atoll("status").out
    if Path("/proc/net/tcp").exists():
        assert listening(running.process.pid) <= LOOPBACK
    assert "paused" in atoll("pause", "key-pairs", "mb").err
    folder = lock_folder(running.process.pid)
    code, said = running.stop(signal.SIGTERM, everybody=True)
    assert code == 0
    assert said.endswith("stopping ...\nstopped\n")
    assert atoll("status").code == 1

    running = run()
    assert atoll("query", "key-pairs", "global_sum").out == "500500\n"
    assert "mb of key-pairs is paused since " in atoll("status").err
    assert atoll("append", "key-pairs", "numbers", '{"v": 500}').code == 0
    assert atoll("query", "key-pairs", "global_sum").out == "500500\n"
    assert atoll("resume", "key-pairs", "mb").code == 0
    wait_processed(atoll, 1_003)
    assert atoll("query", "key-pairs", "global_sum").out == "501000\n"
    assert folder is None or not folder.exists()  # the next daemon removes what is left of one
    code, said = running.stop(signal.SIGINT)
    assert code == 0
    assert f"to go on: atoll resume key-pairs mb --url {running.url}\n" in said  # as it started


@pytest.mark.slow
def test_a_run_that_was_stopped_while_another_took_over_ends_by_itself(run, atoll, tmp_path):
    """After SIGCONT it is over within seconds: exit code 3, and a sentence about who it was."""
    (tmp_path / "numbers.jsonl").write_text('{"v": 1}\n{"v": 2}\n')
    first = run("--engine", "inline")  # it is the coordinators that meet
    assert atoll("append", "key-pairs", "numbers", "-f", str(tmp_path / "numbers.jsonl")).code == 0
    wait_processed(atoll, 2)
    first.process.send_signal(signal.SIGSTOP)
    second = run("--engine", "inline")
    for commit in (2, 3, 4):
        assert atoll("append", "key-pairs", "numbers", '{"v": 10}').code == 0
        assert wait_processed(atoll, commit + 1)["committed"] == commit
    began = time.monotonic()
    first.process.send_signal(signal.SIGCONT)
    _, said = first.process.communicate(timeout=120)
    assert time.monotonic() - began < 60  # 2 on a machine with nothing else to do
    assert first.process.returncode == 3
    last = said.strip().splitlines()[-1]
    assert last.startswith(f"stopped: epoch 1 was fenced by process {second.process.pid} on ")
    assert "Traceback" not in said
    assert json.loads(atoll("query", "key-pairs", "global_sum", "-o", "json").out) == 33
    assert second.stop(signal.SIGTERM)[0] == 0
