"""Receipts: whoever waits with one sees what came of the append, and waits for no more."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import atoll
from atoll import LocalCluster, Map, agg, start
from atoll.depot import Producer
from atoll.depot.receipt import TOKEN_CHARACTERS_MAX, Awaited, awaited
from atoll.errors import (
    NotFoundError,
    ReceiptError,
    StoppedError,
    TopologyFailedError,
    WaitTimeoutError,
)
from atoll.testing import TopologyTestDriver

BEGIN = start.beginning()


def chain(gate=None, *, extra=False):
    """Words go through a depot between two topologies; a third reads the first depot only."""
    module = atoll.Module("chained")
    lines = module.depot("lines", "text string", partitions=2)
    words = module.depot("words", "word string", partition_by="word", partitions=2)
    unread = module.depot("unread", "v long")
    split = module.microbatch("split", vnode_count=1)

    def words_of(row):
        if gate is not None:
            gate(row.text)
        return [{"word": word} for word in row.text.split()]

    split.source(lines, start_from=BEGIN).flat_map(words_of, emits="word string").append_to(words)
    split.source(unread, start_from=BEGIN).aggregate(split.pstate("n", int), agg.count())
    count = module.microbatch("count", vnode_count=1)
    counts = count.pstate("counts", Map(str, int))
    count.source(words, start_from=BEGIN).aggregate(counts["word"], agg.count())
    lengths = module.microbatch("lengths", vnode_count=1)
    longest = lengths.pstate("longest", int, initial=0)
    lengths.source(lines, start_from=BEGIN).aggregate(longest, agg.max("length(text)"))
    if extra:
        late = module.microbatch("late", vnode_count=1)
        late.source(lines).aggregate(late.pstate("m", int), agg.count())
    return module


def test_all_that_comes_of_an_append_is_waited_for():
    """Through the depot in between; the answer names each topology and its microbatch."""
    with LocalCluster(engine="inline") as cluster:
        app = cluster.deploy(chain())
        for n in range(1, 6):
            receipt = app.depot("lines").append([{"text": "a b a"}, {"text": "b"}])
            shown = app.wait(receipt)
            assert set(shown) == {"split", "count", "lengths"}
            assert app.pstate("counts").get() == {"a": 2 * n, "b": 2 * n}
            assert app.topology("count").wait(receipt) == shown["count"]
        assert (receipt.count, receipt.depot, receipt.module) == (2, "lines", "chained")


def test_no_more_than_that_is_waited_for():
    """Neither records of others behind it, nor topologies that have nothing to do with it."""
    with TopologyTestDriver(chain(), engine="inline") as driver:
        app = driver.app
        app.options.set("depot.microbatch.max.records", 1)
        first = app.depot("lines").append([{"text": "a"}])
        app.depot("lines").append([{"text": "b c"}] * 4)
        app.depot("words").append([{"word": "other"}] * 4)
        assert app.topology("lengths").wait(first) >= 1
        assert app.topology("split").published.id == 0
        app.wait(first)
        assert app.pstate("counts").get("a") == 1
        assert app.topology("split").published.processed < 5
        app.wait_idle()
        assert app.pstate("counts").get() == {"a": 1, "b": 4, "c": 4, "other": 4}


def test_it_holds_in_later_lives_as_token_too(tmp_path):
    """Also between the commit of a topology and the delivery of what it appends."""
    module = chain()
    with TopologyTestDriver(module, root=tmp_path / "root", engine="inline") as driver:
        receipt = driver.depot("lines").append([{"text": "a b"}])
        assert [driver.step("split") for _ in range(3)] == ["prime", "process", "commit"]
        driver.restart()
        assert set(driver.app.wait(receipt.token)) == {"split", "count", "lengths"}
        assert driver.pstate("counts").get() == {"a": 1, "b": 1}
        driver.restart()
        assert set(driver.app.wait(receipt)) == {"split", "count", "lengths"}


def test_the_commit_knows_what_was_appended_before_it(tmp_path):
    """So a life that finds nothing to deliver again follows exact offsets all the same."""
    with TopologyTestDriver(chain(), root=tmp_path / "root", engine="inline") as driver:
        first = driver.depot("lines").append([{"text": "a b"}])
        driver.app.wait(first)
        driver.depot("lines").append([{"text": ""}])  # appends nothing
        driver.microbatch("split")
        appended = driver.app.topology("split").published.delivered["words"]
        assert sum(appended.values()) == 2
        driver.restart()
        driver.depot("words").append([{"word": "x"}] * 5)
        driver.app.options.set("depot.microbatch.max.records", 1)
        driver.app.wait(first)
        assert driver.app.topology("count").published.processed == 2


def test_after_a_rollback_the_records_are_waited_for_again():
    """What readers do not see any more is not there."""
    with TopologyTestDriver(chain(), engine="inline") as driver:
        receipt = driver.depot("lines").append([{"text": "a bb"}])
        driver.app.wait(receipt)
        topology = driver.app.topology("lengths")
        topology.rollback(0)
        with pytest.raises(WaitTimeoutError) as raised:
            topology.wait(receipt)
        assert "resume" in raised.value.hint
        topology.resume()
        topology.wait(receipt)
        assert driver.pstate("longest").get() == 4


def test_a_circle_is_followed_until_nothing_more_comes():
    """Each row comes back one smaller."""
    module = atoll.Module("circle")
    numbers = module.depot("numbers", "n long")
    mb = module.microbatch("mb", vnode_count=1)
    seen = mb.pstate("seen", Map(int, int))
    rows = mb.source(numbers, start_from=BEGIN)
    rows.aggregate(seen["n"], agg.count())
    rows.where("n > 0").select("n - 1 AS n").append_to(numbers)
    with LocalCluster(engine="inline") as cluster:
        app = cluster.deploy(module)
        app.wait(app.depot("numbers").append({"n": 7}))
        assert app.pstate("seen").get() == dict.fromkeys(range(8), 1)


def test_whoever_fails_stops_or_is_gone_is_told():
    """By a named error each time, at once; nobody waits for ever."""
    arrived, go_on = threading.Event(), threading.Event()

    def gate(text):
        if text == "bad":
            raise ValueError(text)
        if text == "slow":
            arrived.set()
            go_on.wait(30)

    with LocalCluster(engine="inline") as cluster:
        module = chain(gate)
        app = cluster.deploy(module)
        app.options.set("topology.microbatch.retry.max.attempts", 1, topology="split")
        bad = app.depot("lines").append({"text": "bad"})
        with pytest.raises(TopologyFailedError, match="'split' failed"):
            app.wait(bad)
        with pytest.raises(TopologyFailedError, match="'split' failed"):
            app.topology("count").wait(bad)
        app.topology("lengths").wait(bad)
    with LocalCluster(engine="inline") as cluster:
        app = cluster.deploy(chain(gate))
        slow = app.depot("lines").append({"text": "slow"})
        assert arrived.wait(30)
        with ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(app.topology("count").wait, slow)
            threading.Timer(0.05, go_on.set).start()
            app.close()
            with pytest.raises(StoppedError, match="closed while waiting"):
                waiting.result(30)


def test_receipts_of_something_else():
    """Another root, another module, a topology that never sees the records, no receipt at all."""
    with TopologyTestDriver(chain(), engine="inline") as driver:
        app = driver.app
        receipt = app.depot("lines").append({"text": "a"})
        with pytest.raises(ReceiptError, match="does not hold the records"):
            app.wait(Awaited("chained", "lines", {0: 99}))
        with pytest.raises(ReceiptError, match="does not hold the records"):
            app.wait(Awaited("chained", "lines", {9: 1}))
        with pytest.raises(ReceiptError, match="module 'other'"):
            app.wait(Awaited("other", "lines", {0: 1}))
        with pytest.raises(NotFoundError, match="no depot 'gone'"):
            app.wait(Awaited("chained", "gone", {0: 1}))
        with pytest.raises(ReceiptError, match="'lengths' never sees"):
            app.topology("lengths").wait(app.depot("unread").append({"v": 1}))
        with pytest.raises(ReceiptError, match="no receipt to wait for"):
            app.wait()
        with pytest.raises(ReceiptError, match="an int is no receipt"):
            app.wait(3)
        app.wait(receipt)
        driver.update(chain(extra=True))
        with pytest.raises(ReceiptError, match="'late' began to read"):
            driver.app.topology("late").wait(receipt)
        assert "late" not in driver.app.wait(receipt)


def test_an_append_sent_again_is_waited_for():
    """With the offsets of the first time; behind all there is when those are forgotten."""
    with TopologyTestDriver(chain(), engine="inline") as driver:
        depot = driver.depot("lines")
        receipts = [
            depot.append({"text": f"w{n}"}, producer=Producer("p", sequence=n)) for n in range(8)
        ]
        again = depot.append({"text": "w7"}, producer=Producer("p", sequence=7))
        assert again.duplicate
        assert again.ends == receipts[7].ends
        forgotten = depot.append({"text": "w0"}, producer=Producer("p", sequence=0))
        assert (forgotten.duplicate, forgotten.offsets) == (True, {})
        assert forgotten.ends == dict(enumerate(depot.end_offsets()))
        driver.app.wait(forgotten)
        assert driver.pstate("counts").get("w0") == 1


def test_a_token_says_what_its_receipt_says_and_nothing_else_is_one():
    """Cut, changed in any character, too long, of another version: refused by name."""
    given = Awaited("m" * 63, "d" * 63, dict.fromkeys(range(4_096), 2**63 - 1))
    assert awaited(given.token) == given
    assert len(given.token) <= TOKEN_CHARACTERS_MAX
    token = Awaited("m", "d", {0: 5, 3: 70_000}).token
    assert awaited(token).ends == {0: 5, 3: 70_000}
    broken = [token[:n] for n in range(len(token))]
    broken += [
        token[:n] + ("A" if token[n] != "A" else "B") + token[n + 1 :] for n in range(len(token))
    ]
    broken += ["r" * (TOKEN_CHARACTERS_MAX + 1), "rä", "r=", "7@1", "r!!!!"]
    for text in broken:
        with pytest.raises(ReceiptError, match="no token"):
            awaited(text)


def test_idle_means_that_nothing_is_to_do_anywhere():
    """Chains are followed; a module without topologies is idle."""
    with LocalCluster(engine="inline") as cluster:
        app = cluster.deploy(chain())
        for n in range(5):
            app.depot("lines").append([{"text": f"a b{n}"}] * 3)
            app.wait_idle()
            assert app.pstate("counts").get("a") == 3 * (n + 1)
        app.topology("count").pause()
        app.wait_idle()
        app.depot("lines").append({"text": "a"})
        with pytest.raises(WaitTimeoutError, match="'count' did not come to"):
            app.wait_idle(timeout_seconds=0.3)
