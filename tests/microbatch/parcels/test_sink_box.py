"""What waits for a sink: numbered, counted, taken, however much it is."""

from __future__ import annotations

import pyarrow as pa
import pytest

from atoll.engine.exchange.appended import write_durably
from atoll.microbatch.parcels.sink_box import SinkBox
from atoll.storage.local import LocalStore


class Counting(LocalStore):
    """Counts how often a folder is listed, which takes the longer the more lies there."""

    def __init__(self, root):
        super().__init__(root)
        self.lists = 0

    def list(self, prefix):
        """As ever."""
        self.lists += 1
        return super().list(prefix)


@pytest.fixture
def store(tmp_path):
    """A root."""
    return Counting(tmp_path / "root")


def sent(store, box, commit, timeline=0):
    """Send three rows of a commit."""
    rows = pa.table({"id": [commit] * 3})
    name = f"m/t/appends/{commit:020d}-{timeline}-{store.lists}.arrow"
    return box.send(timeline, commit, [write_durably(store, name, rows)], commit * 10)


def test_numbers_have_no_gap_and_a_commit_is_sent_once(store):
    """Whatever the ids of microbatches; a lower one is old, unless its timeline is later."""
    box = SinkBox(store, "m", "t", "s")
    assert [sent(store, box, commit) for commit in (2, 5, 5, 3, 9)] == [1, 2, None, None, 3]
    assert sent(store, box, 4, timeline=1) == 4
    again = SinkBox(store, "m", "t", "s")
    assert sent(store, again, 9) is None
    assert (again.waiting().parcels, again.waiting().records) == (4, 12)


def test_what_is_taken_is_counted_and_its_rows_go(store):
    """In order, over lives; the last parcel stays, so that its number is not given again."""
    box = SinkBox(store, "m", "t", "s")
    for commit in (1, 2, 3):
        sent(store, box, commit)
    assert box.waiting().oldest_ms == 10
    box.take(1, now_ms=7)
    note = box.take(2, now_ms=8)
    assert (note.number, note.microbatch, note.at_ms) == (2, 2, 8)
    assert (box.waiting().parcels, box.waiting().oldest_ms) == (1, 30)
    life = SinkBox(store, "m", "t", "s")
    assert life.taken() == note
    assert life.waiting() == box.waiting()
    life.take(3, now_ms=9)
    life.tidy()
    assert life.rows_files() == []
    assert life.objects.numbers() == [3]
    assert sent(store, life, 4) == 4


def test_a_life_that_died_between_note_and_drop_is_tidied_after(store):
    """Rows of what was taken go; those that wait stay."""
    box = SinkBox(store, "m", "t", "s")
    for commit in (1, 2):
        sent(store, box, commit)
    store.delete = lambda name: None
    box.take(1, now_ms=1)
    del store.delete
    assert len(box.rows_files()) == 2
    life = SinkBox(store, "m", "t", "s")
    life.tidy()
    assert len(life.rows_files()) == 1
    assert life.waiting().parcels == 1


def test_sending_taking_and_counting_list_nothing_however_much_waits(store):
    """A dead sink makes no commit slower, be it dead for days."""
    box = SinkBox(store, "m", "t", "s")
    sent(store, box, 1)
    box.waiting()
    before = store.lists
    for commit in range(2, 100):
        sent(store, box, commit)
        box.waiting()
    for number in range(1, 50):
        box.take(number, now_ms=1)
        box.waiting()
    assert store.lists == before
    assert box.waiting().parcels == 50


def test_an_identity_stays_and_is_nobody_elses(store, tmp_path):
    """Over lives; on another root it is another one."""
    mine = SinkBox(store, "m", "t", "s").identity()
    assert SinkBox(store, "m", "t", "s").identity() == mine
    assert mine.startswith("m/t/s/")
    assert SinkBox(LocalStore(tmp_path / "other"), "m", "t", "s").identity() != mine
