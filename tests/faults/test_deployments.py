"""A deployment that fails at any of its calls: afterwards a module runs, always, and rightly.

Two ways to fail. *Collaborators*: every call that the deploying thread makes to the store, depots,
revisions, the engine, the loops and the checks raises once, as an error of the system's, of
Atoll's own, or as none that anybody expects. *The disk*: every call that changes a file is refused,
once or until there is space again. A few of the calls in each run, all of them in a soak.
"""

from __future__ import annotations

import errno
import time
from pathlib import Path

import pytest
from deploying import NAME, REMOVED, Deploying, Tripwire, encoded, version
from harness import replay, report, soaking
from interpose import Interposer

from atoll.errors import AtollError, DeployError, StateError

KINDS = {
    "system": lambda: OSError(errno.EIO, "input/output error"),
    "atoll": lambda: StateError("planted", hint="nothing"),
    "defect": lambda: RuntimeError("planted"),
    "interrupted": KeyboardInterrupt,
}


def _calls(root: Path) -> list[str]:
    """The calls of a deployment that succeeds."""
    life = Deploying(root)
    with Tripwire() as wire, wire.armed(0, KINDS["system"]):
        life.update()
    life.check(2)
    life.close()
    return wire.calls


@pytest.mark.parametrize("kind", KINDS)
def test_failing_at_every_call_of_a_collaborator(folder: Path, kind: str) -> None:
    """One after the other on one root: each time the first version runs on, with its state."""
    calls = _calls(folder / "calm")
    assert len(calls) > 150, calls
    stride = 1 if soaking() else max(1, len(calls) // 8)
    began, done = time.monotonic(), 0
    roots = 0
    life = Deploying(folder / "0")
    before = encoded(life.root)
    at = 1 + list(KINDS).index(kind)
    while True:
        life.append(1, wait=bool(at % 2))
        with Tripwire() as wire:
            failed = False
            with wire.armed(at, KINDS[kind]):
                try:
                    life.update()
                except BaseException as error:  # noqa: BLE001
                    failed = True
                    _expected(error, kind)
        where = f"{at}: {wire.calls[at - 1] if wire.fired else 'nothing'}"
        try:
            if not wire.fired:
                assert not failed
                break
            done += 1
            if not failed:
                life.last_by_either()
            life.check(1 if failed else 2)
            if failed:
                assert encoded(life.root) == before, "the root says that another version runs"
                assert not life.cluster.plan(version(2), remove=REMOVED).refused
        except (AssertionError, AtollError, KeyError) as problem:
            about = f"{where}: {problem}\n{replay('test_deployments.py')}"
            raise AssertionError(about) from problem
        if not failed:  # it was nothing that the version needs: once more from the beginning
            life.close()
            roots += 1
            life = Deploying(folder / str(roots))
        at += stride
    life.last_by_either()
    life.check(2)
    life.close()
    assert done > (100 if soaking() else 6)
    report(f"deployments, {kind}", done, 0, began, calls=len(calls))


def _expected(error: BaseException, kind: str) -> None:
    """The error is told as it is, or within one that says what runs."""
    if kind == "interrupted":
        assert isinstance(error, KeyboardInterrupt)
    elif isinstance(error, DeployError) and "could not be started" in error.message:
        assert error.message.endswith("the version before runs again")
        assert error.hint


@pytest.mark.parametrize("times", [1, None], ids=["once", "until there is space"])
def test_refusing_at_every_call_of_the_disk(folder: Path, times: int | None) -> None:
    """Refused for good, it says that nothing runs, and runs as soon as there is space."""
    calm = Deploying(folder / "calm")
    with Interposer(folder / "calm") as disk:
        calm.update()
        calls = disk.calls
    calm.close()
    assert calls > 40
    stride = 1 if soaking() else max(1, calls // 6)
    began, done, stops = time.monotonic(), 0, 0
    for at in range(1, calls + 1, stride):
        root = folder / str(at)
        root.mkdir()
        with Interposer(root) as disk:
            life = Deploying(root)
            told = ""
            disk.fail_at(disk.calls + at, errno.ENOSPC, times)
            try:
                life.update()
            except DeployError as error:
                told = error.message
            failed = bool(told)
            assert ("does not run" in told) == (NAME in life.cluster.stopped)
            if life.cluster.stopped:
                stops += 1
                _says_that_it_does_not_run(life)
            done += disk.faults > 0
            disk.clear()
            if life.cluster.stopped:
                _runs_again(life, by_deploying=at % 2 == 0)
            try:
                life.check(1 if failed else 2)
                life.restart(1 if failed else 2)
            except (AssertionError, AtollError, KeyError) as problem:
                about = f"call {at}: {problem}\n{replay('test_deployments.py')}"
                raise AssertionError(about) from problem
            finally:
                life.close()
    assert done
    assert (stops > 0) == (times is None)
    report(f"deployments, {'once' if times else 'full'}", done, 0, began, stops=stops)


def _says_that_it_does_not_run(life: Deploying) -> None:
    stopped = life.cluster.stopped[NAME]
    assert NAME not in life.cluster.apps
    assert stopped.failure is not None
    status = stopped.status()
    assert status["state"] == "stopped"
    assert "no space left" in status["error"]["message"].lower()
    with pytest.raises(AtollError, match="does not run") as caught:
        stopped.depot("orders")
    assert caught.value.code == "E-STOPPED"
    assert stopped.cluster.describe()["workers"]


def _runs_again(life: Deploying, *, by_deploying: bool) -> None:
    """By itself, or because it is deployed again."""
    if by_deploying:
        life.cluster.deploy(version(1))
    until = time.monotonic() + 120
    while life.cluster.stopped:
        assert time.monotonic() < until, life.cluster.stopped[NAME].failure
        time.sleep(0.02)
