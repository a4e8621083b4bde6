"""Numbered records into PostgreSQL and a folder, the driver killed at random calls: each is once.

Calls are those that change files, on the root and in the folder, and the steps of writing to
PostgreSQL. Beside them a PState is followed by a table, which in the end holds what it holds.
Small: a few thousand records and a few kills; in the soak 100,000 records and 150 kills.
"""

from __future__ import annotations

import collections
import random
import time

import psycopg
import pytest
from harness import replay, report, seed, volume, zygote
from postgres import database, postgres_server
from sink_lives import CHUNK, KEYS

from atoll.fsck.root import check_root
from atoll.sinks import read_folder

__all__ = ["database", "postgres_server"]


@pytest.fixture(scope="module")
def sink_children():
    """A zygote that has imported what lives need."""
    with zygote("sink_lives", "atoll.cluster.local", "psycopg") as made:
        yield made


def test_every_number_is_once_whatever_call_was_the_last(sink_children, database, tmp_path):
    """In the table, in the folder, and in what a table says of a PState."""
    total, lives = volume(3_000, 100_000), volume(4, 150)
    began, dice, kills = time.monotonic(), random.Random(seed()), 0
    reach = {"disk": 300, "sink": 40}  # about what a life that is not killed makes
    root = tmp_path / "life"
    root.mkdir()

    def life(upto, **dies):
        call = {"root": str(root), "dsn": database, "total": upto, **dies}
        return sink_children.run("sink_lives:live", **call)

    for number in range(lives):
        kind = ("disk", "sink")[number % 2]
        upto = total * (number + 1) // lives // CHUNK * CHUNK
        ended = life(upto, **{kind: dice.randrange(1, reach[kind])})
        kills += ended.killed
        if not ended.killed:
            ended.expect(killed=False, about=f"life {number}")
    life(total).expect(killed=False, about="the last life")
    with psycopg.connect(database) as connection:
        table = [v for (v,) in connection.execute("SELECT v FROM numbers ORDER BY v")]
        counts = dict(connection.execute("SELECT k, n FROM counts").fetchall())
    folder = sorted(read_folder(str(root / "out")).to_table()["v"].to_pylist())
    expected = list(range(total))
    violations = sum(found != expected for found in (table, folder))
    violations += counts != collections.Counter(v % KEYS for v in expected)
    report("sinks: kills", kills, violations, began, records=total)
    assert table == expected, replay(__name__)
    assert folder == expected, replay(__name__)
    assert counts == collections.Counter(v % KEYS for v in expected), replay(__name__)
    assert check_root(root / "root").is_sound
    assert kills >= lives // 2
