"""How many tasks may stand: as many as leave Spark a slot for ordinary jobs, where it has two."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from atoll.spark.standing import slots
from atoll.spark.standing.slots import HERE, Slots


def _session(master):
    runtime = SimpleNamespace(availableProcessors=lambda: 6)
    java = SimpleNamespace(Runtime=SimpleNamespace(getRuntime=lambda: runtime))
    jvm = SimpleNamespace(java=SimpleNamespace(lang=java))
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, _jvm=jvm))


@pytest.mark.parametrize(
    ("master", "total", "standing"),
    [
        ("local", 1, 1),
        ("local[1]", 1, 1),
        ("local[2]", 2, 1),
        ("local[8]", 8, 7),
        ("local[8,4]", 8, 7),
        ("local[ 8 , 4 ]", 8, 7),
        ("local[*]", 6, 5),
        ("local[*,2]", 6, 5),
    ],
)
def test_on_one_host_the_last_slot_is_kept_free(master, total, standing):
    """Of one there is none to keep: then the tasks make room when an ordinary job comes."""
    assert Slots.of(_session(master), seated=False) == Slots({HERE: standing}, total)


CORES = {"10.0.0.1": 4, "10.0.0.2": 2}


@pytest.mark.parametrize("cores", [CORES, {}])
def test_on_a_cluster_each_host_has_its_own(monkeypatch, cores):
    """All slots of each, as Spark tells them; none while no executor has come."""
    monkeypatch.setattr(slots, "members", lambda _: cores)
    assert Slots.of(_session("spark://x:7077"), seated=True) == Slots(cores, sum(cores.values()))


def test_a_cluster_of_which_nobody_wants_to_know_the_hosts(monkeypatch):
    """As one host, with the slots of all."""
    monkeypatch.setattr(slots, "members", lambda _: CORES)
    for master in ("spark://x:7077", "local-cluster[2,3,1024]"):
        assert Slots.of(_session(master), seated=False) == Slots({HERE: 5}, 6)
