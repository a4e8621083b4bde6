"""Sinks of lake tables killed while they write: each numbered row is there once, and a PState is.

A life is killed some moments after it has written so many microbatches, wherever it is then: in
the middle of a file, between file and commit, or before the answer came. The next life goes by
what the table says.
"""

from __future__ import annotations

import json
import random
import signal
import time

import pytest
from harness import Zygote, replay, report, seed, volume, zygote
from lake_lives import PARCELS, states

ROWS = sorted(number * 10 + each for number in range(1, PARCELS + 1) for each in range(3))


@pytest.fixture(scope="module")
def lake_children():
    """A zygote that has imported the sinks."""
    with zygote("lake_lives") as made:
        yield made


def test_a_delta_table_holds_each_row_once(lake_children, tmp_path):
    """Versions with application transactions."""
    deltalake = pytest.importorskip("deltalake")
    where = str(tmp_path / "lake")
    _kill("delta", where, lake_children)
    found = {name: deltalake.DeltaTable(f"{where}/{name}") for name in ("rows", "entries")}
    _check({name: each.to_pyarrow_table().to_pylist() for name, each in found.items()})


def test_an_iceberg_table_holds_each_row_once(lake_children, tmp_path):
    """Commits with a property."""
    catalogs = pytest.importorskip("pyiceberg.catalog")
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    _kill("iceberg", json.dumps(properties), lake_children)
    catalog = catalogs.load_catalog("c", **properties)
    names = ("rows", "entries")
    _check({name: catalog.load_table(f"n.{name}").scan().to_arrow().to_pylist() for name in names})
    catalog.close()


def _kill(kind: str, where: str, children: Zygote) -> None:
    """Lives that are killed, then one that is not."""
    began, dice, deaths = time.monotonic(), random.Random(seed()), 0
    for _ in range(volume(2, 60)):
        child = children.start("lake_lives:live", kind=kind, where=where)
        wanted = dice.randrange(1, 3)
        while child.output().count("wrote") < wanted and time.monotonic() - began < 150:
            time.sleep(0.001)  # a condition, looked at often
        time.sleep(dice.random() * 0.03)  # where it is killed is to be anywhere
        child.signal(signal.SIGKILL)
        deaths += child.wait().killed
    last = children.run("lake_lives:live", kind=kind, where=where)
    last.expect(killed=False, about=f"{kind} after {deaths} deaths; {replay(__name__)}")
    assert deaths
    report(f"lake sinks: {kind}", deaths, 0, began)


def _check(found):
    assert sorted(row["n"] for row in found["rows"]) == ROWS
    *_, last = states()
    assert {row["k"]: row["value"] for row in found["entries"]} == last
    assert len(found["entries"]) == len(last)
