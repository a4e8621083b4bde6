"""How many tasks may stand: one for each core, which leave Spark a slot where it has two."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from atoll.errors import UsageError
from atoll.spark.members import Member
from atoll.spark.standing import slots
from atoll.spark.standing.slots import HERE, POSTS_SETTING, Slots
from atoll.spark.standing.tasks import StandingTasks


@pytest.fixture(autouse=True)
def cores(monkeypatch):
    """As on a host with very many."""
    monkeypatch.setattr(slots, "_cores", lambda: 64)


def _session(master, **settings):
    runtime = SimpleNamespace(availableProcessors=lambda: 6)
    java = SimpleNamespace(Runtime=SimpleNamespace(getRuntime=lambda: runtime))
    jvm = SimpleNamespace(java=SimpleNamespace(lang=java))
    context = SimpleNamespace(master=master, _jvm=jvm, getConf=lambda: settings)
    return SimpleNamespace(sparkContext=context)


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


@pytest.mark.parametrize(("count", "standing"), [(1, 1), (2, 2), (3, 3), (7, 7), (9, 7)])
def test_on_one_host_there_are_no_more_than_cores(monkeypatch, count, standing):
    """However many slots there are: units share them."""
    monkeypatch.setattr(slots, "_cores", lambda: count)
    assert Slots.of(_session("local[8]"), seated=False) == Slots({HERE: standing}, 8)


@pytest.mark.parametrize(("setting", "standing"), [("1", 1), ("5", 5), ("7", 7), ("800", 7)])
def test_or_as_many_as_are_told(monkeypatch, setting, standing):
    """Whatever the cores are; a slot is kept free all the same."""
    monkeypatch.setattr(slots, "_cores", lambda: 2)
    session = _session("local[8]", **{POSTS_SETTING: setting})
    assert Slots.of(session, seated=False) == Slots({HERE: standing}, 8)


@pytest.mark.parametrize("setting", ["0", "-3", "many", "", "2.5"])
def test_what_is_no_number_of_tasks_is_refused(setting):
    """Where the first topology wants its tasks; and it is said what to write."""
    session = _session("local[8]", **{POSTS_SETTING: setting})
    with pytest.raises(UsageError, match="no number of standing tasks"):
        StandingTasks(session, seated=False).want(pytest, object())
    with pytest.raises(UsageError, match="no number of standing tasks"):
        Slots.of(session, seated=False)


CORES = {"10.0.0.1": 4, "10.0.0.2": 2}


@pytest.mark.parametrize("cores", [CORES, {}])
def test_on_a_cluster_each_host_has_its_own(monkeypatch, cores):
    """All slots of each, as Spark tells them; none while no executor has come."""
    found = {name: Member(name, name, count) for name, count in cores.items()}
    monkeypatch.setattr(slots, "members", lambda _: found)
    assert Slots.of(_session("spark://x:7077"), seated=True) == Slots(cores, sum(cores.values()))


def test_a_cluster_of_which_nobody_wants_to_know_the_hosts(monkeypatch):
    """As one host, with the slots of all."""
    found = {name: Member(name, name, count) for name, count in CORES.items()}
    monkeypatch.setattr(slots, "members", lambda _: found)
    for master in ("spark://x:7077", "local-cluster[2,3,1024]"):
        assert Slots.of(_session(master), seated=False) == Slots({HERE: 5}, 6)
