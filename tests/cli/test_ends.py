"""How commands end when the world around them does not play along: real processes and signals."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from atoll.cli.target import load_module
from atoll.errors import UsageError

NDJSON = "application/x-ndjson"

SERVICE = """
import importlib
import sys
import atoll.cli.commands.run as command
from atoll.cluster.local import LocalCluster

command._cluster = lambda root, *_: LocalCluster(root, engine="inline")
importlib.import_module("atoll.server.serve")._STOP_SECONDS_MAX = 1
sys.argv = ["atoll", "run", "slow.py:module", "--port", "0", "--root", "root"]
import atoll.cli
atoll.cli.main()
"""
"""``atoll run`` without Spark, and with little patience."""

SLOW = """
import time
from pathlib import Path
import atoll
from atoll import agg

module = atoll.Module("slow")
numbers = module.depot("numbers", "v long", partitions=1)
mb = module.microbatch("mb", vnode_count=1)

def wait(batches):
    while Path("hold").exists():
        time.sleep(0.02)
    yield from batches

mb.source(numbers).map_batches(wait, emits="v long").aggregate(
    mb.pstate("total", int, initial=0), agg.sum("v")
)
"""


def environment():
    """Of a process that imports what this one does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


class Service:
    """A process of the service, and what it has said."""

    def __init__(self, folder):
        (folder / "slow.py").write_text(SLOW)
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVICE],
            cwd=folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.url = self.process.stdout.readline().strip()
        assert self.url, self.process.communicate()[1]
        self.hung = []
        self.lines = []
        self._reader = threading.Thread(target=lambda: self.lines.extend(self.process.stderr))
        self._reader.start()

    def hang(self, count):
        """Open requests whose bodies do not end; each is at work when this returns."""
        host, port = self.url.removeprefix("http://").split(":")
        head = (
            "POST /v1/modules/slow/depots/numbers/records HTTP/1.1\r\n"
            f"Host: {host}:{port}\r\nContent-Type: {NDJSON}\r\nContent-Length: 1000\r\n"
            "Expect: 100-continue\r\n\r\n"
        )
        self.hung = [socket.create_connection((host, int(port))) for _ in range(count)]
        for each in self.hung:
            each.sendall(head.encode())
        for each in self.hung:
            each.settimeout(120)
            assert b" 100 " in each.recv(100)

    def said(self, text, seconds=120):
        """Until it has said so."""
        end = time.monotonic() + seconds
        while not any(text in line for line in self.lines):
            assert time.monotonic() < end, self.lines
            time.sleep(0.02)

    def ended(self, seconds=120):
        """Its exit code and all that it said."""
        code = self.process.wait(timeout=seconds)
        self._reader.join()
        said = "".join(self.lines)
        assert "Traceback" not in said
        assert "Exception" not in said
        return code, said


@pytest.fixture
def service(tmp_path):
    """A running one."""
    running = Service(tmp_path)
    yield running
    for each in running.hung:
        each.close()
    if running.process.poll() is None:
        running.process.kill()
    running.process.wait()
    running.process.stdout.close()
    running._reader.join()
    running.process.stderr.close()


def test_a_stop_with_hung_requests_says_what_it_waits_for(service, tmp_path):
    """No stack traces: how many, how long, and how many were cut off in the end."""
    service.hang(8)
    service.process.send_signal(signal.SIGINT)
    code, said = service.ended()
    assert code == 0, said
    assert "waiting for 8 open requests, 1 s at most" in said
    assert "cut off 8 requests that did not end" in said
    assert said.endswith("stopped\n")


def test_a_stop_waits_for_the_microbatch_and_a_second_signal_does_not(service, tmp_path):
    """It says which one it is; the next life goes on from the commit before."""
    (tmp_path / "hold").touch()
    waiting = ("--wait", "--timeout", "0.3")
    done = subprocess.run(
        [sys.executable, "-m", "atoll", "append", "slow", "numbers", '{"v": 1}', *waiting],
        env={**environment(), "ATOLL_URL": service.url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 appended" in done.stdout
    assert done.returncode == 5
    assert done.stderr.startswith("1 records are stored: do not append them again\nerror: ")
    assert "E-WAIT-TIMEOUT" in done.stderr
    service.process.send_signal(signal.SIGINT)
    service.said("waiting for microbatch 1 of slow/mb; Ctrl-C again ends at once")
    service.process.send_signal(signal.SIGINT)
    code, said = service.ended()
    assert code == -signal.SIGINT
    assert "stopped" not in said


def test_output_that_cannot_be_written_is_told_and_the_append_stands(service):
    """A full stdout: exit code 4, and do not append again. A closed one: nothing at all."""
    url = {"ATOLL_URL": service.url}

    def atoll(*arguments, stdout):
        return subprocess.run(
            [sys.executable, "-m", "atoll", *arguments],
            env={**environment(), **url},
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    append = ("append", "slow", "numbers", '{"v": 1}', '{"v": 2}')
    query = ("query", "slow", "total")
    with Path("/dev/full").open("w") as full:
        done = atoll(*append, stdout=full)
        assert done.returncode == 4
        assert done.stderr == (
            "error: the output cannot be written: No space left on device\n"
            "to do: 2 records are stored: do not append them again\n"
            " code: E-OUTPUT\n"
        )
        for command in (query, ("--help",)):
            done = atoll(*command, stdout=full)
            assert (done.returncode, done.stderr.count("E-OUTPUT")) == (4, 1), done.stderr
            assert "Traceback" not in done.stderr
    done = atoll(*append, "--wait", stdout=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    done = atoll(*query, stdout=subprocess.PIPE)
    assert done.stdout == "6\n"
    for command in (query, append):
        reading, writing = os.pipe()
        os.close(reading)
        done = atoll(*command, stdout=writing)
        os.close(writing)
        assert (done.returncode, done.stderr) == (0, "")


def test_an_import_that_fails_in_a_library_names_the_user_s_line(tmp_path, monkeypatch):
    """The line that can be mended, and what is missing; no line of an installed package."""
    library = tmp_path / "site-packages" / "some_library"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text("\n\nimport there_is_no_such_module.inner\n")
    (library / "broken.py").write_text("def f(:\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    user = tmp_path / "user"
    user.mkdir()
    (user / "helper.py").write_text("# mine\n\nimport some_library\n")
    (user / "mine.py").write_text("import helper\n")
    with pytest.raises(UsageError) as raised:
        load_module(f"{user}/mine.py")
    assert raised.value.context["line"] == f"{user}/helper.py:3"
    assert "No module named 'there_is_no_such_module'" in raised.value.message
    assert "'there_is_no_such_module'" in raised.value.hint
    with pytest.raises(UsageError) as raised:
        load_module("some_library:module")
    assert raised.value.context["line"] == f"{library}/__init__.py:3"
    (user / "mine.py").write_text("import json\njson.loads('{')\n")
    with pytest.raises(UsageError) as raised:
        load_module(f"{user}/mine.py")
    assert raised.value.context["line"] == f"{user}/mine.py:2"
    (user / "mine.py").write_text("x = 1\ny = = 2\n")
    with pytest.raises(UsageError) as raised:
        load_module(f"{user}/mine.py")
    assert raised.value.context["line"] == f"{user}/mine.py:2"
