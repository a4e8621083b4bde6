"""Holds what a session promises: one transaction, exact changes, fencing, undo and adoption."""

from __future__ import annotations

import os
import random

import pytest

from atoll.errors import DamageError, FencedError, StateError


def test_reads_own_writes_and_commits_changes(world):
    """A session sees what it wrote, in every order of single and bulk writes."""
    world.commit(world.run({0: {b"a": b"1", b"b": b"2", b"c": b"3"}}))
    with world.open(world.attempt()) as session:
        session.put(b"d", b"4")
        session.delete(b"a")
        session.delete(b"never")
        session.put_many([b"b", b"e"], [None, b"5"])
        session.put(b"e", b"6")
        assert session.get(b"a") is None
        assert session.get_many([b"b", b"c", b"e"]) == [None, b"3", b"6"]
        assert list(session.scan()) == [(b"c", b"3"), (b"d", b"4"), (b"e", b"6")]
        assert list(session.scan(b"d", b"e", reverse=True)) == [(b"d", b"4")]
        assert session.dump() == ([b"c", b"d", b"e"], [b"3", b"4", b"6"])
        changes = session.commit()
    assert list(zip(*changes, strict=True)) == [
        (b"a", None), (b"b", None), (b"d", b"4"), (b"e", b"6"),
    ]  # fmt: skip


def test_changed_spans_the_steps_and_drops_what_ended_as_it_began(world):
    """Old values are those before the microbatch, over all its steps."""
    world.commit(world.run({0: {b"a": b"1", b"b": b"2"}}))
    one = world.run({0: {b"a": b"9", b"b": b"8", b"x": b"7"}})
    with world.open(world.attempt(step=1), priors=[world.prior(one)]) as session:
        session.put(b"a", b"1")
        session.put(b"c", b"3")
        session.delete(b"x")
        assert session.changed() == [(b"b", b"2", b"8"), (b"c", None, b"3")]


def test_changed_goes_back_to_the_first_of_many_steps(world):
    """The first step's old value counts, whatever later steps overwrote."""
    world.commit(world.run({0: {b"a": b"1"}}))
    one = world.run({0: {b"a": b"2"}})
    two = world.run({0: {b"a": b"3"}}, step=1, priors=[world.prior(one)])
    with world.open(world.attempt(step=2), priors=[world.prior(one), world.prior(two)]) as last:
        assert last.changed() == [(b"a", b"1", b"3")]
        last.put(b"a", b"4")
        last.put_many([b"a"], [b"5"])
        assert last.changed() == [(b"a", b"1", b"5")]


def test_undo_goes_back_to_what_was_before_the_first_write(world):
    """Of several writes to one key in a session, the first one's old value is kept."""
    world.commit(world.run({0: {b"a": b"1", b"b": b"2"}}))
    world.run({0: {b"a": b"3", b"b": b"4", b"c": b"5"}}, scribble=True)
    world.check(1, [b"c"])
    with world.open(world.attempt(version=2)) as session:
        assert list(session.scan()) == [(b"a", b"1"), (b"b", b"2")]


def test_abort_leaves_no_trace(world):
    """What is not committed was never there; an ended session refuses."""
    with world.open(world.attempt()) as session:
        session.put(b"a", b"1")
    with pytest.raises(StateError):
        session.get(b"a")
    with world.open(world.attempt()) as session:
        assert session.get(b"a") is None
        assert session.opening.undone == 0


def test_undoes_what_a_dead_attempt_left(world):
    """The retry starts from the commit, not from the dead attempt's work."""
    world.commit(world.run({0: {b"a": b"1"}}))
    world.run({0: {b"a": b"2", b"b": b"3"}})
    with world.open(world.attempt(version=2)) as session:
        assert session.opening.undone == 1
        assert list(session.scan()) == [(b"a", b"1")]


def test_adopts_what_was_committed(world):
    """The winner's work becomes the base without touching an entry."""
    world.commit(world.run({0: {b"a": b"1"}}))
    with world.open(world.attempt()) as session:
        assert (session.opening.kind, session.opening.logs) == ("current", 0)
        assert session.get(b"a") == b"1"


def test_a_lost_store_is_rebuilt(world):
    """From the logs, and from a checkpoint and the logs after it."""
    world.commit(world.run({0: {b"a": b"1"}}))
    world.commit(world.run({0: {b"b": b"2"}}))
    world.lose()
    with world.open(world.attempt()) as session:
        assert (session.opening.kind, session.opening.logs) == ("absent", 2)
        assert list(session.scan()) == [(b"a", b"1"), (b"b", b"2")]
    world.checkpoint()
    world.commit(world.run({0: {b"a": None}}))
    world.lose()
    with world.open(world.attempt()) as session:
        assert (session.opening.kind, session.opening.logs) == ("absent", 1)
        assert list(session.scan()) == [(b"b", b"2")]


def test_catching_up_is_kept_when_the_session_aborts(world):
    """A microbatch that keeps failing does not catch up again and again."""
    world.commit(world.run({0: {b"a": b"1"}}))
    world.lose()
    world.open(world.attempt()).abort()
    with world.open(world.attempt(version=2)) as session:
        assert session.opening.kind == "current"


def test_a_store_deleted_under_an_open_process_is_rebuilt(world):
    """Somebody deletes the folder while the environment is open here."""
    import shutil

    world.commit(world.run({0: {b"a": b"1"}}))
    shutil.rmtree(world.folder / "local")
    with world.open(world.attempt()) as session:
        assert session.opening.kind == "absent"
        assert session.get(b"a") == b"1"


@pytest.mark.parametrize(
    "late", [{"epoch": 1}, {"version": 2}, {"step": 0}], ids=["epoch", "version", "step"]
)
def test_lower_attempts_are_fenced(world, late):
    """Epoch, then id, then version, then step."""
    world.run({0: {b"a": b"1"}}, attempt=world.attempt(epoch=2, version=3, step=1))
    with pytest.raises(FencedError) as caught:
        world.open(world.attempt(**{"epoch": 2, "version": 3, "step": 1, **late}))
    assert caught.value.context["fenced_by"]["epoch"] == 2
    world.open(world.attempt(epoch=2, version=3, step=1)).abort()


def test_an_attempt_must_follow_its_commit(world):
    """The log given must end right before the attempt."""
    with pytest.raises(StateError):
        world.stores.open("counts", 0, world.attempt(id=3), world.history(0))


def test_a_rolled_back_log_takes_the_store_back(world):
    """A later epoch continues from an earlier commit: within the reverse logs, and beyond."""
    for value in (b"1", b"2", b"3", b"4"):
        world.commit(world.run({0: {b"a": value}}))
    del world.commits[2:]
    with world.open(world.attempt(epoch=2)) as session:
        assert session.get(b"a") == b"2"
        session.put(b"z", b"1")
        session.commit()
    del world.commits[:]
    with world.open(world.attempt(epoch=3)) as session:
        assert list(session.scan()) == []


def test_a_missing_log_is_damage_with_its_name(world):
    """Never an answer that lacks something."""
    world.commit(world.run({0: {b"a": b"1"}}))
    name = world.commits[0]["logs"][0][1][0]
    (world.root / name).unlink()
    world.lose()
    from atoll.pstate.store import changefile

    changefile._cache.__init__(0)
    with pytest.raises(DamageError) as caught:
        world.open(world.attempt())
    assert caught.value.context["file"] == name


def test_the_map_grows(new_world):
    """Writes beyond the map's size go on after growing it, bulk and single, with nothing lost."""
    world = new_world(map_bytes=1 << 18)
    random.seed(5)
    big = {b"%06d" % index: os.urandom(50) for index in range(8_000)}
    world.commit(world.run({0: big}))
    with world.open(world.attempt()) as session:
        for index in range(3_000):
            session.put(b"x%06d" % index, os.urandom(300))
        before = dict(session.scan())
        session.commit()
    assert len(before) == 11_000
    world.check(1)
    world.lose()
    world.check(1)


def test_reverse_logs_do_not_pile_up(world):
    """Only those are kept that a readable commit needs."""
    for number in range(12):
        world.commit(world.run({0: {b"a": b"%d" % number}}))
    environment = world.environments.acquire(world.stores.path("counts", 0))
    with environment.lmdb.begin() as transaction:
        assert transaction.stat(environment.reverse)["entries"] == 3
    world.environments.release(environment)


def test_damaged_store_is_dropped_and_rebuilt(world):
    """A header that cannot be read drops the store, and the same opening builds it again."""
    world.commit(world.run({0: {b"a": b"1"}}))
    environment = world.environments.acquire(world.stores.path("counts", 0))
    with environment.lmdb.begin(write=True) as transaction:
        transaction.put(b"header", b"nonsense")
    world.environments.release(environment)
    with world.open(world.attempt()) as session:
        assert session.opening.kind == "absent"
        assert session.get(b"a") == b"1"
