"""What the tests of FaultTolerantOrleans assert, on its own word count."""

from __future__ import annotations

import pytest

import atoll
from atoll import Map, agg, start
from atoll.testing import TopologyTestDriver

FOLLOW = "go go go follow me"
RESTART = "restart the game"


@pytest.fixture
def driver():
    """Counts words; a batch is a microbatch, and ends when the test says so."""
    module = atoll.Module("words")
    sentences = module.depot("sentences", "text string", partitions=1)
    mb = module.microbatch("mb", vnode_count=8)
    counts = mb.pstate("counts", Map(str, int))
    words = mb.source(sentences, start_from=start.beginning()).flat_map(
        lambda row: [{"word": word} for word in row.text.split()], emits="word string"
    )
    words.aggregate(counts["word"], agg.count())
    with TopologyTestDriver(module, parallelism=3) as made:
        yield made


def send(driver, *sentences):
    """Sentences that a source has, and no batch yet."""
    driver.depot("sentences").append([{"text": text} for text in sentences])


def count(driver, word):
    """As everybody sees it."""
    return driver.pstate("counts").get(word)


def upto(driver, step):
    """Go on until a step is done."""
    while driver.step() != step:
        pass


def test_nothing_is_committed_before_anything(driver):
    """-1 there, where batches count from 0."""
    assert driver.status()["committed"] == 0
    assert count(driver, "go") is None


def test_words_of_a_batch_are_counted(driver):
    """3 and 1; a record of a batch that has not begun shows nothing until its turn comes."""
    send(driver, FOLLOW)
    assert count(driver, "me") is None
    driver.microbatch()
    assert (count(driver, "go"), count(driver, "me")) == (3, 1)
    assert driver.status()["committed"] == 1


def test_recovery_with_nothing_committed_leaves_nothing(driver):
    """All its work was done, and is undone."""
    send(driver, FOLLOW)
    driver.fail_next_attempt(after_work=True)
    upto(driver, "failed")
    assert count(driver, "me") is None
    driver.restart()
    assert count(driver, "me") is None
    driver.microbatch()
    assert count(driver, "go") == 3


@pytest.mark.parametrize("restart", [False, True])
def test_recovery_takes_state_back_to_the_last_commit(driver, restart):
    """1 after it, where the batch had made 2 of it; then 2, once."""
    send(driver, FOLLOW)
    driver.microbatch()
    send(driver, FOLLOW)
    driver.fail_next_attempt(after_work=True)
    upto(driver, "failed")
    assert count(driver, "me") == 1
    if restart:
        driver.restart()
        assert count(driver, "me") == 1
    driver.microbatch()
    assert (count(driver, "me"), count(driver, "go")) == (2, 6)


def test_after_the_replay_a_batch_counts_once(driver):
    """2 before the replay, 3 after it."""
    send(driver, RESTART, RESTART)
    driver.microbatch()
    send(driver, RESTART)
    upto(driver, "process")
    driver.restart()
    assert count(driver, "restart") == 2
    driver.microbatch()
    assert count(driver, "restart") == 3
