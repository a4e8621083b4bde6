"""Holds that a reader sees exactly one commit: through overlays, catching up, and rebuilt."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import atoll.pstate.view
from atoll.pstate.store.attempt import Header, Pending
from atoll.pstate.store.opening import VnodeHistory
from atoll.pstate.store.reverse_log import ReverseLog
from atoll.pstate.view import how_to_read

CONFTEST = Path(__file__).parent / "conftest.py"
CHILD = f"""
import runpy, sys
World = runpy.run_path({str(CONFTEST)!r})["World"]
world = World(sys.argv[1])
view = world.view(int(sys.argv[2]))
print(sorted(view.scan(0)) == eval(sys.argv[3]), view.get(0, b"a"), view.get(0, b"n"))
"""


def test_pending_work_is_invisible(world):
    """While N is in the store, a reader at N-1 sees N-1 by every way of reading."""
    many = {b"%05d" % index: b"old" for index in range(0, 6_000, 2)}
    world.commit(world.run({0: many}))
    later = {b"%05d" % index: b"new" for index in range(0, 6_000, 3)}
    world.run({0: later | {b"00000": None, b"zz": b"new"}})
    world.check(1, later)
    view = world.view(1)
    assert list(view.scan(0, b"00100", b"04000")) == sorted(
        (key, value) for key, value in many.items() if b"00100" <= key < b"04000"
    )
    assert len(list(view.scan(0, limit=7))) == 7
    assert list(view.scan(0, reverse=True, limit=1500)) == sorted(many.items())[::-1][:1500]


def test_a_page_whose_entries_are_all_pending_is_skipped(world):
    """Pages with nothing to show do not end a scan."""
    world.commit(world.run({0: {b"a": b"1", b"z": b"2"}}))
    world.run({0: {b"m%05d" % index: b"x" for index in range(5_000)}})
    assert list(world.view(1).scan(0)) == [(b"a", b"1"), (b"z", b"2")]
    assert list(world.view(1).scan(0, limit=2)) == [(b"a", b"1"), (b"z", b"2")]
    assert list(world.view(1).scan(0, reverse=True, limit=2)) == [(b"z", b"2"), (b"a", b"1")]


def test_an_open_view_stays_where_it_is(world):
    """A view made before a microbatch shows the same after it, and after its commit."""
    world.commit(world.run({0: {b"a": b"1"}}))
    view = world.view()
    assert view.get(0, b"a") == b"1"
    run = world.run({0: {b"a": b"2"}})
    assert view.get(0, b"a") == b"1"
    world.commit(run)
    assert view.get(0, b"a") == b"1"
    assert world.view().get(0, b"a") == b"2"
    for value in (b"3", b"4", b"5", b"6"):
        world.commit(world.run({0: {b"a": value}}))
        assert view.get(0, b"a") == b"1"


def test_a_scan_goes_on_through_commits(world):
    """A scan that began before other microbatches ends with the entries of its commit."""
    content = {b"%05d" % index: b"1" for index in range(4_000)}
    world.commit(world.run({0: content}))
    for reverse in (False, True):
        scan = world.view(1).scan(0, reverse=reverse)
        found = [next(scan)]
        for value in (b"2", None, b"3", b"4"):
            world.commit(world.run({0: dict.fromkeys(content, value) | {b"x": value}}))
        found.extend(scan)
        assert found == sorted(content.items(), reverse=reverse)


def test_a_reader_catches_up(world):
    """Nobody has opened the vnode here: the reader builds it, and what it built stays."""
    world.commit(world.run({0: {b"a": b"1"}}))
    world.commit(world.run({0: {b"b": b"2"}}))
    world.lose()
    world.check(2)
    with world.open(world.attempt()) as session:
        assert session.opening.kind == "current"
    world.check(1)
    world.check(0)


def test_old_commits_stay_readable_after_catching_up(world):
    """Catching up writes reverse logs for the last commits, and knows how far back they reach."""
    for value in (b"1", b"2", b"3", b"4", b"5"):
        world.commit(world.run({0: {b"a": value, value: value}}))
    world.lose()
    for commit_id in (5, 4, 3, 2, 1, 0):
        world.check(commit_id, [b"1", b"5"])


def test_a_reader_takes_back_a_loser(world):
    """The store holds the twin that lost; the reader at the commit replaces it."""
    winner = world.run({0: {b"a": b"right"}})
    world.run({0: {b"a": b"wrong", b"b": b"wrong"}})
    world.commit(winner)
    world.check(1, [b"b"])


def test_an_untouched_vnode_is_read_without_a_store(new_world):
    """No folder is made for a vnode that nothing ever changed."""
    world = new_world(vnodes=(0, 1))
    world.commit(world.run({0: {b"a": b"1"}}))
    assert world.view().get(1, b"a") is None
    assert not Path(world.stores.path("counts", 1)).exists()


def test_reader_in_another_process(world):
    """Another process sees the commit while work is pending here, and the next one after it."""
    world.commit(world.run({0: {b"a": b"1", b"b": b"2"}}))
    run = world.run({0: {b"a": b"9", b"n": b"8"}})
    world.save()
    assert _child(world, 1, [(b"a", b"1"), (b"b", b"2")]) == "True b'1' None"
    world.commit(run)
    world.save()
    assert _child(world, 2, [(b"a", b"9"), (b"b", b"2"), (b"n", b"8")]) == "True b'9' b'8'"
    assert _child(world, 1, [(b"a", b"1"), (b"b", b"2")]) == "True b'1' None"


def test_reader_adopts_a_grown_map(new_world):
    """Another process grew the map: a reader that had it open takes the new size over."""
    world = new_world(map_bytes=1 << 18)
    world.commit(world.run({0: {b"a": b"1"}}))
    view = world.view()
    assert view.get(0, b"a") == b"1"
    script = f"""
import runpy, sys
World = runpy.run_path({str(CONFTEST)!r})["World"]
world = World(sys.argv[1])
world.models[1] = {{0: {{}}}}
world.commit(world.run({{0: {{b"%07d" % i: b"v" * 500 for i in range(4000)}}}}))
world.save()
"""
    world.save()
    _run(script, world.folder)
    import json

    world.commits, world.checkpoints = json.loads((world.folder / "log.json").read_text())
    assert view.get(0, b"a") == b"1"
    assert len(list(world.view().scan(0))) == 4001


def test_readers_and_a_writer_in_threads(world):
    """Readers never see a mixture: every commit sets all keys to one value."""
    keys = [b"%03d" % index for index in range(200)]
    world.commit(world.run({0: dict.fromkeys(keys, b"0")}))
    wrong: list[object] = []
    done = threading.Event()

    def read():
        while not done.is_set():
            view = world.view()
            values = {value for _, value in view.scan(0)} | {view.get(0, keys[7])}
            if len(values) != 1:
                wrong.append(values)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(1, 40):
        world.commit(world.run({0: dict.fromkeys(keys, b"%d" % number)}))
    done.set()
    for reader in readers:
        reader.join()
    assert wrong == []


def _run(script, *arguments):
    command = [sys.executable, "-c", script, *map(str, arguments)]
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"PYTHONPATH": source}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _child(world, commit_id, wanted):
    return _run(CHILD, world.folder, commit_id, repr(wanted))


class _Log:
    """A log of one vnode, for the pure decision."""

    commit_id = 5
    timeline = 0
    horizon = 3

    def branch_since(self, timeline):
        return None

    def last_touched(self, pstate, vnode):
        return 4

    def committed_tokens(self, pstate, vnode, commit_id):
        return frozenset({"won"})

    def committed_steps(self, pstate, vnode, commit_id):
        return (0,)


def _pending(work_id, token, step=0):
    return (Pending(work_id, step, 1, 1, token),)


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        (Header(applied=5), "direct"),
        (Header(applied=4), "direct"),
        (Header(applied=3), "behind"),
        (Header(applied=3, pending=_pending(4, "won")), "direct"),
        (Header(applied=3, pending=_pending(4, "lost")), "behind"),
        (Header(applied=3, pending=_pending(4, "won", step=1)), "behind"),
        (Header(applied=5, pending=_pending(6, "any")), "overlaid"),
        (Header(applied=7), "overlaid"),
        (Header(applied=7, floor=5), "overlaid"),
        (Header(applied=7, floor=6), "lost"),
        (Header(applied=5, floor=6, pending=_pending(6, "any")), "lost"),
    ],
)
def test_how_to_read(header, wanted):
    """The decision by header alone, for a reader at commit 5 of a vnode that 4 changed last."""
    assert how_to_read(header, VnodeHistory(_Log(), "p", 0)) == wanted


def test_a_slow_reader_decodes_what_is_committed_once(new_world, monkeypatch):
    """Attempts begin, fail and commit while it reads: each page is right, no log is read twice."""
    world = new_world(kept=1000)
    world.commit(world.run({0: {b"%04d" % key: b"0" for key in range(3_000)}}))
    view, decoded = world.view(), []
    known = ReverseLog.items

    def items(log):
        decoded.append(log)
        return known(log)

    monkeypatch.setattr(ReverseLog, "items", items)
    monkeypatch.setattr(atoll.pstate.view, "_PAGE_ENTRIES", 16)
    entries, found = view.scan(0), []
    for number in range(1, 60):
        world.run({0: {b"%04d" % (number * 7): b"lost", b"9": b"lost"}}, version=1)
        found += [next(entries) for _ in range(50)]
        won = world.run({0: {b"%04d" % (number * 50): b"%d" % number, b"8": b"new"}}, version=2)
        world.commit(won)
    found += list(entries)
    assert found == [(b"%04d" % key, b"0") for key in range(3_000)]
    assert len(decoded) < 3 * 60
    assert dict(world.view().scan(0)) == world.models[world.last][0]


def test_what_the_next_commit_overwrote_is_found_without_all_that_came_after(
    new_world, monkeypatch
):
    """Before every commit, as every other read says; for keys that it left alone as well."""
    world = new_world(kept=1000)
    world.commit(world.run({0: {b"%02d" % key: b"0" for key in range(20)}}))
    written = {}
    for number in range(2, 40):
        world.run({0: {b"lost": b"lost", b"%02d" % (number % 20): b"lost"}}, version=1)
        written[number] = sorted({b"%02d" % (number * k % 23) for k in (1, 3, 5)})
        step = world.run({0: dict.fromkeys(written[number], b"%d" % number)}, version=2)
        world.commit(step)
    world.run({0: {b"lost": b"lost"}}, version=1)
    made = []
    known = ReverseLog.__init__
    monkeypatch.setattr(
        ReverseLog, "__init__", lambda log, data: (made.append(log), known(log, data))[1]
    )
    for number in range(1, 39):
        view, model = world.view(number), world.models[number][0]
        keys = written[number + 1]
        assert view.get_overwritten(0, keys) == [model.get(key) for key in keys]
        assert len(made) <= 2
        assert view.get_overwritten(0, [b"07", b"no"]) == [model.get(b"07"), None]
        made.clear()
    assert world.view().get_overwritten(0, [b"lost"]) == [None]
