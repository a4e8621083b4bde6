"""Tasks say what they are at, and what they said can be looked at by others."""

from __future__ import annotations

import threading

import pytest

from atoll import beats
from atoll.beats import Task, TaskEndedError, present, running, watched


class Step:
    """As steps are: with what they are called by."""

    title, place = "map", "shop.py:3"


def test_a_task_is_found_at_what_it_began():
    """A text, words, or a step."""
    with running(Task("actor", 2)) as task:
        for at, said in (("packing", "packing"), (("store", 1), "store 1"), (Step, None)):
            present().begin(at, 5)
            assert task.found().step == (said or "map (shop.py:3)")
        assert (task.found().task, task.found().number, task.found().tag) == ("actor", 2, 5)
        assert task.found().count == 3


def test_the_stack_of_a_silent_task_is_where_its_thread_stands():
    """Of one that has beaten since the last look it is not asked for."""
    hangs, go = threading.Event(), threading.Event()
    found = Task("actor", 0)

    def hang():
        with running(found):
            present().begin("hanging")
            hangs.set()
            go.wait(30)

    thread = threading.Thread(target=hang)
    thread.start()
    hangs.wait(30)
    try:
        first = found.found()
        assert first.stack == ""
        assert "test_beats.py" in found.found(first.count).stack
        assert "hang" in found.found(first.count).stack
    finally:
        go.set()
        thread.join()


def test_a_task_that_was_given_up_ends_at_its_next_beat():
    """And no handler of ordinary errors takes that for one of them."""
    with running(Task("actor", 0)) as task:
        task.ended = True
        with pytest.raises(TaskEndedError):
            task.beat()
        assert not issubclass(TaskEndedError, Exception)


def test_waiting_for_spark_is_no_step():
    """While a batch comes and while one is taken; in between the task is at its work."""
    with running(Task("reading task", 0)) as task:
        task.begin("working")
        seen = []

        def given():
            seen.append(task.found().step)
            yield 1

        seen.extend(task.found().step for _ in task.handed(task.awaited(given())))
        assert seen == ["", ""]
        assert task.found().step == "working"


def test_nobody_is_told_of_a_task_that_is_over(monkeypatch):
    """Being told comes every so often while it runs."""
    monkeypatch.setattr(beats, "BEAT_SECONDS", 0.01)
    came, told = threading.Event(), []

    def tell(beat):
        told.append(beat)
        came.set()

    with watched(Task("actor", 1), tell) as task:
        assert present() is task
        assert came.wait(30)
    count = len(told)
    assert present() is not task
    with watched(Task("actor", 2), lambda beat: came.set()):  # the watcher looks again
        came.clear()
        assert came.wait(30)
    assert len(told) == count
