"""Roots in object stores that fail: dead processes, lost answers, stores that are overloaded."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import pytest
from counting import append, counting, expected, found
from faulty import (
    SLOW_DOWN,
    TIMED_OUT,
    FaultyBucket,
    GenericError,
    NotSupportedError,
    dying,
    healthy,
)

import atoll
from atoll.errors import AtollError, StorageError
from atoll.fsck.root import check_root
from atoll.storage.buckets import requests
from atoll.storage.buckets.failures import CredentialsError, UnknownOutcomeError, UnsafeStoreError
from atoll.storage.folders import begin_on
from atoll.storage.objects import ObjectExistsError
from atoll.storage.roots import open_store

pytest.importorskip("obstore")

APPENDS = 3


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket in memory of this test alone."""
    monkeypatch.setenv("ATOLL_LOCAL", str(tmp_path / "local"))
    return f"memory://{tmp_path.name}-{request.node.name.replace('/', '_')[:40]}"


def _live(root: str, *, wait: bool = True) -> None:
    """A life that appends 1 to 3, of which any may be there, and sees them all counted."""
    with atoll.LocalCluster(root, engine="inline") as cluster:
        app = cluster.deploy(counting())
        for number in range(1, APPENDS + 1):
            append(app, number)
        if wait:
            app.topology("mb").wait_processed(2 * APPENDS, timeout_seconds=30)
            assert found(app) == expected(APPENDS)


def _changes(url: str) -> int:
    """How many requests change something in a life, from the first deployment on."""
    bucket = FaultyBucket(url, lambda *_: None)
    atoll.LocalCluster(f"{url}/measured", engine="inline").close()
    before = bucket.count
    _live(f"{url}/measured")
    return bucket.count - before


def _dies(root: str, bucket: FaultyBucket, at: int, when: str) -> None:
    """A life that ends at its change number ``at``."""
    with contextlib.suppress(AtollError):
        cluster = atoll.LocalCluster(root, engine="inline")
        bucket.verdict = dying(bucket.count + at, when)
        with cluster:
            app = cluster.deploy(counting())
            for number in range(1, APPENDS + 1):
                with contextlib.suppress(AtollError):
                    append(app, number)
            with contextlib.suppress(AtollError):
                app.topology("mb").wait_processed(2 * APPENDS, timeout_seconds=0.2)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_may_die_at_any_request(
    url: str, when: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whatever it was at, the next one finds all or nothing of it, and counts each append once."""
    from harness import soaking

    step = 1 if soaking() else 7
    for at in range(0 if when == "before" else 3, _changes(url), step):
        root = f"{url}/{at}"
        monkeypatch.setenv("ATOLL_LOCAL", str(tmp_path / f"first-{at}"))
        _dies(root, FaultyBucket(url, lambda *_: None), at, when)
        healthy(url)
        monkeypatch.setenv("ATOLL_LOCAL", str(tmp_path / f"second-{at}"))
        _live(root)
        damage = [each for each in check_root(root).findings if each.kind == "damage"]
        assert not damage, (at, damage)


def test_every_answer_to_a_put_is_lost_once(url: str) -> None:
    """Each is asked again, and is found to be its own: no false conflict, nothing twice."""
    lost: set[str] = set()

    def verdict(kind: str, key: str, _before: int) -> tuple[str, Exception] | None:
        if kind != "put" or key in lost or "probes" in key:
            return None
        lost.add(key)
        return "after", GenericError(TIMED_OUT)

    FaultyBucket(url, verdict)
    _live(f"{url}/root")
    assert len(lost) > 10


def test_bursts_of_refusals_are_waited_out(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of three requests are refused, of every kind, and nothing but time is lost."""
    monkeypatch.setattr(requests, "_WAIT_SECONDS_MIN", 0.001)

    def verdict(_kind: str, _key: str, before: int) -> tuple[str, Exception] | None:
        return ("before", GenericError(SLOW_DOWN)) if before % 12 < 8 else None

    everything = ("put", "get", "head", "delete", "list")
    bucket = FaultyBucket(url, lambda *_: None, everything)
    with atoll.LocalCluster(f"{url}/root", engine="inline") as cluster:
        app = cluster.deploy(counting())
        bucket.verdict = verdict
        for number in range(1, APPENDS + 1):
            append(app, number)
        app.topology("mb").wait_processed(2 * APPENDS, timeout_seconds=60)
        assert found(app) == expected(APPENDS)
        bucket.verdict = lambda *_: None


def test_one_of_two_creators_with_lost_answers_wins(url: str) -> None:
    """Whoever's put came first knows it, the other knows that it did not."""
    answered: set[int] = set()

    def verdict(kind: str, _key: str, before: int) -> tuple[str, Exception] | None:
        if kind == "put" and before not in answered and before % 2 == 0:
            return "after", GenericError(TIMED_OUT)
        return None

    FaultyBucket(url, verdict)
    store = open_store(f"{url}/root")
    for number in range(20):
        won: list[int] = []
        start = threading.Barrier(2)

        def compete(
            me: int, at: int = number, won: list[int] = won, start: threading.Barrier = start
        ) -> None:
            start.wait()
            with contextlib.suppress(ObjectExistsError):
                store.create(f"n/{at}", str(me).encode())
                won.append(me)

        threads = [threading.Thread(target=compete, args=(me,)) for me in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [str(me).encode() for me in won] == [store.read(f"n/{number}")]


def test_an_append_that_arrives_after_it_was_given_up(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told that this is not known; it counts, and what is appended next comes behind it."""
    monkeypatch.setattr(requests, "RETRY_SECONDS", 0.2)
    with atoll.LocalCluster(f"{url}/root", engine="inline") as cluster:
        app = cluster.deploy(counting())
        append(app, 1)
        arriving = []

        def verdict(kind: str, key: str, _before: int) -> tuple[str, Exception] | None:
            if kind == "put" and "/segments/" in key and not arriving:
                arriving.append(key)
                return "after", GenericError(TIMED_OUT)
            if kind in {"put", "get", "head"} and "/segments/" in key:
                return "before", GenericError(TIMED_OUT)
            return None

        bucket = FaultyBucket(url, verdict)
        with pytest.raises(UnknownOutcomeError):
            app.depot("numbers").append([{"k": "k0", "v": 5}])
        bucket.verdict = lambda *_: None
        append(app, 2)
        app.topology("mb").wait_processed(5, timeout_seconds=30)
        assert app.pstate("total").get() == expected(2)[0] + 5
        assert sum(app.depot("numbers").end_offsets()) == 5


def test_expired_credentials_are_named(url: str) -> None:
    """The code is the store's, and nothing of the request is told."""
    expired = GenericError("status 400: <Code>ExpiredToken</Code> key=AKIASECRET")
    FaultyBucket(url, lambda *_: ("before", expired))
    with pytest.raises(CredentialsError, match="ExpiredToken") as raised:
        open_store(f"{url}/root").read("x")
    assert "AKIASECRET" not in repr(raised.value.__cause__) + str(raised.value)


def test_what_never_works_is_not_tried_again(url: str) -> None:
    """One request, one error."""
    bucket = FaultyBucket(url, lambda *_: ("before", NotSupportedError("no")), ("get",))
    with pytest.raises(StorageError):
        open_store(f"{url}/root").read("x")
    assert bucket.count == 1


class _LastWriterWins(FaultyBucket):
    """A store whose conditional put looks first and writes then."""

    def put(self, key: str, data: bytes | Path, token: str | None) -> None:
        if token is None or not self._there(key):
            super().put(key, data, None)
            self.tokens = {**getattr(self, "tokens", {}), key: token}
            return
        from obstore.exceptions import AlreadyExistsError

        raise AlreadyExistsError

    def token(self, key: str) -> str | None:
        return getattr(self, "tokens", {}).get(key)

    def _there(self, key: str) -> bool:
        with contextlib.suppress(FileNotFoundError):
            self.head(key)
            self.racing.wait(0.05)
            return True
        with contextlib.suppress(threading.BrokenBarrierError):
            self.racing.wait(0.05)
        return False

    racing = threading.Barrier(2)


def test_a_store_whose_create_is_not_atomic_is_refused(url: str) -> None:
    """Before anything is kept in it."""
    _LastWriterWins(url, lambda *_: None)
    with pytest.raises(UnsafeStoreError):
        begin_on(f"{url}/root", shared=False)
    assert open_store(f"{url}/root").list("") == []
