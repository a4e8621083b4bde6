"""The harness bites: a child's end is told as it was, and the checker sees what is wrong."""

from __future__ import annotations

import os
import shutil
import signal
from copy import deepcopy as copy_of
from pathlib import Path

import pytest
from checker import Told, told_by
from scenario import MODULE
from trial import Trial, expected_after, scratch


def test_a_child_is_a_process_of_its_own_and_ends_as_told(children):
    """It says what it says, and its status is its own."""
    ended = children.run("scenario:say", word="hello", value=7)
    assert (ended.status, ended.said("hello"), ended.killed) == (0, ["7"], False)
    failed = children.run("scenario:record_of", depot="events", number="no number")
    assert failed.status == 1
    assert "TypeError" in failed.errors
    with pytest.raises(AssertionError, match="should end well"):
        failed.expect(killed=False, about="a child")


def test_a_child_that_takes_too_long_is_killed_and_that_counts_as_a_failure(children, tmp_path):
    """The cap is no death that a suite asked for."""
    child = children.start("scenario:live", root=str(tmp_path), rounds=10_000)
    ended = child.wait(0.3)
    assert (ended.status, ended.late, ended.killed) == (-signal.SIGKILL, True, False)
    with pytest.raises(AssertionError, match="too slow"):
        ended.expect(killed=True, about="a child")


def test_a_death_that_does_not_happen_fails_the_trial(children):
    """No trial may pass because nothing was disturbed."""
    trial = Trial(children, 1, expected_after(1))
    with pytest.raises(AssertionError, match="should die by SIGKILL") as failed:
        trial.survives(
            [("at_call", {"number": 1_000_000})], lose_local=False, about="never reached"
        )
    kept = Path(str(failed.value).rpartition("kept: ")[2])
    assert (kept / MODULE).is_dir(), "a trial that fails keeps its root, to be looked at"
    shutil.rmtree(kept)


@pytest.fixture(scope="module")
def finished(children):
    """A root that lived undisturbed, and what it said."""
    root = scratch()
    ended = children.run("scenario:live", root=str(root), rounds=3)
    yield root, told_by(ended.expect(killed=False, about="a life").output)
    shutil.rmtree(root)


def _wrong(children, finished, tmp_path, change):
    """What the checker says of a copy that was changed."""
    root, told = finished
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    told = Told(**copy_of(told.as_json()))
    change(copy, told)
    ended = children.run("checker:check", root=str(copy), told=told.as_json(), finished=True)
    return ended.errors.strip().splitlines()[-1] if ended.status else "nothing"


def _lost(root, told):
    told.acked["events"] += 1


def _doubled(root, told):
    told.acked["transfers"] -= 1


def _gap(root, told):
    commits = sorted(Path(root, "faults/bank/commits").iterdir())
    commits[len(commits) // 2].unlink()


def _back(root, told):
    told.committed["bank"] += 100


def _orphan(root, told):
    folder = Path(root, "faults/bank/logs/funds")
    shutil.copy(next(folder.iterdir()), folder / f"{1:020d}-9-9-9-{'f' * 32}.arrow")


def _unfinished(root, told):
    Path(root, "faults/bank/plans/.tmp-0123456789abcdef").write_bytes(b"half")


def _last_commit(root, told):
    """The last commit vanishes: what it appended is then without a commit."""
    max(Path(root, "faults/bank/commits").iterdir()).unlink()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda root, told: None, "nothing"),
        (_lost, "I1: events"),
        (_doubled, "I2: transfers"),
        (_back, "I5: bank went back"),
        (_orphan, "I11: orphans of bank"),
        (_unfinished, "I11: unfinished files"),
    ],
)
def test_the_checker_sees_each_kind_of_wrong(children, finished, tmp_path, change, said):
    """And says nothing of what is right."""
    assert said in _wrong(children, finished, tmp_path, change)


def test_the_checker_sees_a_missing_commit(children, finished, tmp_path):
    """In the middle as damage, at the end as rows that nobody appended or orphans."""
    assert "commit" in _wrong(children, finished, tmp_path, _gap).lower()
    assert "nothing" not in _wrong(children, finished, tmp_path / "other", _last_commit)


def test_nothing_of_the_harness_is_left_behind(children):
    """Children's files go when they have been read."""
    children.run("scenario:say", word="x", value=1)
    assert not list(Path(children.file("0", "out")).parent.iterdir())
    assert os.getpid() != children._process.pid
