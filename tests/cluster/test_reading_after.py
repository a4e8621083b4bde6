"""Reading one's writes in another process: a reader of the root that is given a receipt's token."""

from __future__ import annotations

import threading

import pytest

import atoll
from atoll import LocalCluster, Map, agg, start
from atoll.depot.receipt import Awaited
from atoll.errors import ReceiptError, UsageError, WaitTimeoutError
from atoll.testing import TopologyTestDriver

BEGIN = start.beginning()


def module():
    """Words go through a depot between two topologies."""
    made = atoll.Module("told")
    lines = made.depot("lines", "text string")
    words = made.depot("words", "word string", partition_by="word", partitions=2)
    split = made.microbatch("split", vnode_count=1)

    def words_of(row):
        return [{"word": word} for word in row.text.split()]

    split.source(lines, start_from=BEGIN).flat_map(words_of, emits="word string").append_to(words)
    count = made.microbatch("count", vnode_count=1)
    counts = count.pstate("counts", Map(str, int))
    count.source(words, start_from=BEGIN).aggregate(counts["word"], agg.count())
    lengths = made.microbatch("lengths", vnode_count=1)
    longest = lengths.pstate("longest", int, initial=0)
    lengths.source(lines, start_from=BEGIN).aggregate(longest, agg.max("length(text)"))
    return made


def test_a_reader_shows_what_came_of_an_append(tmp_path):
    """Directly and through another topology, while and after it happens."""
    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(module())
        reader = atoll.connect(tmp_path, "told")
        for n in range(1, 4):
            token = app.depot("lines").append({"text": "a b a"}).token
            assert reader.pstate("longest").after(token).get() == 5
            assert reader.pstate("counts").after(token).get("a") == 2 * n
            assert set(reader.wait(token)) == {"split", "count", "lengths"}
        token = app.depot("lines").append({"text": "a much longer line"}).token
        with reader.subscribe("longest", after=token) as changes:
            assert changes.next(0).new == 18


def test_neither_a_commit_that_owes_rows_nor_one_behind_it_is_enough(tmp_path):
    """What a commit appends is waited for until it is in the depot, and then by its offsets."""
    with TopologyTestDriver(module(), root=tmp_path, engine="inline") as driver:
        reader = atoll.connect(tmp_path, "told")
        receipt = driver.depot("lines").append({"text": "a b"})
        driver.microbatch("lengths")
        assert [driver.step("split") for _ in range(3)] == ["prime", "process", "commit"]
        with pytest.raises(WaitTimeoutError, match="'split'"):
            reader.wait(receipt, timeout_seconds=0.05)
        driver.step("split")
        with pytest.raises(WaitTimeoutError, match="'count'"):
            reader.wait(receipt, timeout_seconds=0.05)
        driver.depot("words").append([{"word": "later"}] * 3)
        threading.Timer(0.05, lambda: driver.microbatch("count")).start()
        assert reader.pstate("counts").after(receipt).get("a") == 1
        driver.step("split")
        driver.depot("lines").append({"text": "c"})
        driver.microbatch("split")
        driver.microbatch("count")
        assert set(reader.wait(receipt, timeout_seconds=0.05)) == {"split", "lengths", "count"}
        driver.app.topology("split").rollback(1, keep_appended=True)
        assert "split" in reader.wait(receipt, timeout_seconds=0.05)
        driver.depot("words").append([{"word": "d"}] * 3)  # after a rollback all that is there
        with pytest.raises(WaitTimeoutError, match="'count'"):
            reader.wait(receipt, timeout_seconds=0.05)


def test_mistakes(tmp_path):
    """What is never shown, no depot of the module, an earlier state."""
    with TopologyTestDriver(module(), root=tmp_path, engine="inline") as driver:
        reader = atoll.connect(tmp_path, "told")
        receipt = driver.depot("words").append({"word": "a"})
        with pytest.raises(ReceiptError, match="'lengths' never sees"):
            reader.pstate("longest").after(receipt)
        with pytest.raises(ReceiptError, match="does not read"):
            reader.wait(Awaited("other", "words", {0: 1}))
        with pytest.raises(ReceiptError, match="no receipt to wait for"):
            reader.wait()
        driver.microbatch("count")
        with pytest.raises(UsageError, match="never changes"):
            reader.pstate("counts").as_of(1).after(receipt)
        with pytest.raises(UsageError, match="never changes"):
            driver.pstate("counts").as_of(1).after(receipt)
