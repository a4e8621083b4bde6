"""Roots of the release that named hidden state by its position, and kept no signatures of it.

The archive was written by that release's own code; see ``hidden_by_position.py``.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import hidden_by_position as old
import pytest

from atoll.cluster.local import LocalCluster
from atoll.errors import DeployError
from atoll.fsck.root import check_root
from atoll.storage.local import LocalStore
from atoll.views.deployment import latest_deployment


@pytest.fixture
def root(tmp_path):
    """A copy of the root."""
    with tarfile.open(Path(old.__file__).with_suffix(".tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    assert latest_deployment(LocalStore(tmp_path), "old").topologies["mb"].hidden is None
    return tmp_path


def go_on(app):
    """The records from before again, one that a join waits for, and a late time."""
    app.depot("d").append([*old.BEFORE, old.record("h", "x", "ann", 5, 40_000)])
    app.topology("mb").wait_processed(10)
    app.depot("d").append([old.record("i", "x", "ann", 6, 60_000)])
    app.topology("mb").wait_processed(11)


def check(app):
    """Nothing is counted again, nobody's rows are lost, and what was due has come."""
    assert app.pstate("paths").get() == {"f": 2, "g": 1, "h": 1, "i": 1}
    assert app.pstate("authors").get() == {"f": 2, "g": 1, "h": 1, "i": 1}
    assert app.pstate("pairs").get() == {"h": 1}
    users = app.pstate("users").get()
    assert {key: count // 1000 for key, count in users.items()} == {"f": 3, "g": 1, "h": 1, "i": 0}
    depot = app.depot("out")
    ends = enumerate(depot.end_offsets())
    rows = [row for part, end in ends for row in depot.read(part, 0, end).to_pylist()]
    out = [row for row in rows if row["k"] == "g"]
    assert {(row["window_start"], row["window_end"], row["n"]) for row in out} == {
        (10_000, 20_000, 2),
        (12_000, 17_000, 8),
    }


def test_an_unchanged_version_takes_over_what_lies_there(root):
    """By position, which the plan says; names stay, and signatures are kept from then on."""
    with LocalCluster(root, engine="inline") as cluster:
        plan = cluster.plan(old.module())
        assert plan.refused == ()
        kept = {each.name: each.detail for each in plan.changes if each.kind == "hidden"}
        assert {each.effect for each in plan.changes} == {"kept"}
        assert kept.pop("mb-distinct-authors").startswith('count_distinct(b) into authors["k"]; ')
        assert len(kept) == 6
        assert all("taken over by its position" in each for each in kept.values())
        (best,) = (each for each in plan.changes if each.part == "pstate:best")
        assert "max_by(a, n) by k is believed to be what it was" in best.detail
        app = cluster.deploy(old.module())
        go_on(app)
        check(app)
        known = latest_deployment(LocalStore(root), "old").topologies["mb"]
        assert {each.label: each.stored for each in known.hidden}["mb-distinct-authors"] == (
            "_mb-distinct-2",
        )
        assert known.meanings["best"] == {"": ["max_by(a, n) by k"]}
    assert check_root(root, stores=True).findings == []


@pytest.mark.parametrize(
    "change",
    [
        {"order": "p"},
        {"more": ["x"]},
        {"without": ["windows"]},
    ],
)
def test_a_changed_version_is_refused_until_the_unchanged_one_ran(root, change):
    """The hint is followed: then the changed one finds everything, whatever its order is."""
    with LocalCluster(root, engine="inline") as cluster:
        remove = ["pstate:authors"] if "order" in change else []
        with pytest.raises(DeployError, match="cannot be told which is which") as refused:
            cluster.deploy(old.module(**change), remove=remove)
        assert "deploy the unchanged version with this release first" in refused.value.hint
        cluster.deploy(old.module())
        remove += ["hidden:mb-windows-d-at", "hidden:mb-sessions-d-at"] * ("without" in change)
        app = cluster.update(old.module(**change), remove=remove)
        go_on(app)
        assert app.pstate("paths").get() == {"f": 2, "g": 1, "h": 1, "i": 1}
        if "more" in change:
            check(app)
            assert app.pstate("extra").get() == {"f": 2, "g": 1, "h": 1, "i": 1}


def test_once_taken_over_the_order_means_nothing(root):
    """Swapped steps keep their own state, under the names that a counter once gave them."""
    with LocalCluster(root, engine="inline") as cluster:
        cluster.deploy(old.module())
        app = cluster.update(old.module(order="ap", more=["x"]))
        go_on(app)
        check(app)
