"""A turn is given to those who wait in the order in which they came, to one at a time."""

from __future__ import annotations

import threading
import time
from collections import deque

import pytest

from atoll.spark.standing.turn import Turn

LONG = 30.0


class _Line(deque):
    """The queue, with a count of all who ever stood in it."""

    came = 0

    def append(self, ticket):
        """One more came."""
        super().append(ticket)
        self.came += 1


@pytest.fixture
def turn():
    """A turn that tells how many have come for it."""
    made = Turn()
    made._queue = _Line()
    return made


def queued(turn, seconds, number, order, gone):
    """A thread that stands behind all before it, and gives the turn back as soon as it has it."""

    def wait():
        if turn.take(seconds):
            order.append(number)
            turn.give_back()
        else:
            gone.append(number)

    came = turn._queue.came
    thread = threading.Thread(target=wait)
    thread.start()
    until = time.monotonic() + LONG
    while turn._queue.came == came:
        assert time.monotonic() < until
        time.sleep(0.0005)
    return thread


def test_first_come_first_served(turn):
    """Also when the one who gives it back wants it again at once."""
    order = []
    assert turn.take(0)
    threads = [queued(turn, LONG, number, order, []) for number in range(20)]
    turn.give_back()
    assert turn.take(LONG)
    order.append("again")
    turn.give_back()
    for each in threads:
        each.join(LONG)
    assert order == [*range(20), "again"]


def test_one_at_a_time(turn):
    """Of many threads that take it again and again; none is left out."""
    inside, most, counts = [], [], [0] * 8

    def work(number):
        for _ in range(50):
            assert turn.take(LONG)
            inside.append(number)
            most.append(len(inside))
            counts[number] += 1
            inside.remove(number)
            turn.give_back()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(LONG)
    assert max(most) == 1
    assert counts == [50] * 8


def test_who_gives_up_leaves_no_hole(turn):
    """Whether it stood first, in the middle or last; those behind it come in order."""
    order, gone = [], []
    patience = [0.1 if number in {0, 1, 4, 7, 8, 11} else LONG for number in range(12)]
    assert turn.take(0)
    threads = [queued(turn, patience[n], n, order, gone) for n in range(12)]
    for thread, seconds in zip(threads, patience, strict=True):
        if seconds < LONG:
            thread.join(LONG)
    assert sorted(gone) == [0, 1, 4, 7, 8, 11]
    assert order == []
    turn.give_back()
    for each in threads:
        each.join(LONG)
    assert order == [2, 3, 5, 6, 9, 10]
    assert turn.take(0), "nobody has it"


def test_nobody_waits_without_time(turn):
    """No time left, or less than none: only a free turn is taken."""
    assert turn.take(-1.0)
    assert not turn.take(0)
    assert not turn.take(-1.0)
    turn.give_back()
    assert turn.take(0)
