"""Modules whose root is in a real object store: they run, restart, recover, fence each other."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import counting
import pytest
from harness import soaking
from s3 import s3_root, s3_server

import atoll
from atoll.errors import FencedError, StorageError
from atoll.fsck.root import check_root
from atoll.storage.buckets.failures import CredentialsError
from atoll.storage.buckets.opening import bucket_of

__all__ = ["s3_root", "s3_server"]


def test_runs_restarts_and_recovers(s3_root: str, tmp_path: Path) -> None:
    """State and offsets go on after a restart, also on a host that has nothing of it."""
    for life in range(3):
        with atoll.LocalCluster(s3_root, engine="inline") as cluster:
            app = cluster.deploy(counting.counting())
            for number in range(life * 4 + 1, life * 4 + 5):
                counting.append(app, number)
            counting.append(app, life * 4 + 4)  # sent again
            app.topology("mb").wait_processed(8 * (life + 1), timeout_seconds=60)
            assert counting.found(app) == counting.expected(4 * (life + 1))
            outside = atoll.connect(s3_root, "counting")
            assert outside.pstate("total").get() == counting.expected(4 * (life + 1))[0]
            tail = outside.depot("numbers").tail(follow=False)
            assert sum(len(batch) for batch in tail) == 8 * (life + 1)
        if life == 1:
            shutil.rmtree(tmp_path / "local")
    report = check_root(s3_root, stores=True)
    assert not report.findings
    assert not list((tmp_path / "s3:").glob("*"))  # nobody took the URL for a path


def test_killed_processes_lose_and_double_nothing(s3_root: str) -> None:
    """Of a process that is killed again and again all that it acknowledged counts, once."""
    kills, appends = ([*range(3, 90, 3)], 100) if soaking() else ([7], 20)
    program = [sys.executable, counting.__file__, s3_root, str(appends)]
    acknowledged = 0
    for kill_after in (*kills, None):
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.strip().isdecimal():
                    acknowledged = int(line)
                if acknowledged == kill_after:
                    process.kill()
    assert acknowledged == appends
    with atoll.LocalCluster(s3_root, engine="inline") as cluster:
        app = cluster.deploy(counting.counting())
        app.topology("mb").wait_processed(2 * appends, timeout_seconds=60)
        assert counting.found(app) == counting.expected(appends)
    assert not [f for f in check_root(s3_root).findings if f.kind == "damage"]


def test_two_processes_at_once(s3_root: str) -> None:
    """The later one owns the module; what the earlier one acknowledged is there, once."""
    with (
        atoll.LocalCluster(s3_root, engine="inline") as first,
        atoll.LocalCluster(s3_root, engine="inline") as second,
    ):
        before = first.deploy(counting.counting())
        counting.append(before, 1)
        after = second.deploy(counting.counting())
        with pytest.raises(FencedError):
            counting.append(before, 2)
        counting.append(after, 2)
        after.topology("mb").wait_processed(4, timeout_seconds=60)
        assert counting.found(after) == counting.expected(2)


def test_credentials_that_are_not_accepted(s3_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A named error that says nothing secret."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-wrong-secret")
    bucket_of("s3://atoll-test", anew=True)
    try:
        with pytest.raises(CredentialsError) as raised:
            atoll.LocalCluster(s3_root, engine="inline")
    finally:
        monkeypatch.undo()
    told = f"{raised.value} {raised.value.__cause__} {raised.value.context}"
    assert "a-wrong-secret" not in told
    assert "Signature=" not in told


def test_a_bucket_that_is_not_there(s3_root: str) -> None:
    """Says so; nothing waits for it."""
    with pytest.raises((StorageError, atoll.errors.NotFoundError)):
        atoll.LocalCluster("s3://no-such-bucket-here/x", engine="inline")


def test_the_command_line(s3_root: str, tmp_path: Path) -> None:
    """A run on a URL takes appends, stops and is found whole; no credential is told."""
    atoll_command = (sys.executable, "-m", "atoll")
    target = f"{counting.__file__}:made"
    records = tmp_path / "records.jsonl"
    records.write_text('{"k": "a", "v": 1}\n{"k": "b", "v": 2}\n')
    options = ["--root", s3_root, "--local", str(tmp_path / "own"), "--engine", "inline"]
    command = [*atoll_command, "run", target, *options, "--port", "0"]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as service,
    ):
        assert service.stdout is not None
        url = service.stdout.readline().strip()
        assert url, (tmp_path / "log").read_text()
        append = ["append", "counting", "numbers", "--file", str(records), "--url", url]
        subprocess.run([*atoll_command, *append, "--wait"], check=True, capture_output=True)
        service.terminate()
    told = (tmp_path / "log").read_text()
    assert s3_root in told
    assert "testtest" not in told
    assert (tmp_path / "own").is_dir()
    checked = subprocess.run(
        [*atoll_command, "fsck", s3_root], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    outside = atoll.connect(s3_root, "counting").depot("numbers").tail(follow=False)
    assert sum(len(batch) for batch in outside) == 2
