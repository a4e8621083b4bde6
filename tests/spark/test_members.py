"""Who is in a cluster, told from what Spark's status says of its executors."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from atoll.spark import members as module
from atoll.spark.frames.seats import Seats
from atoll.spark.members import Member, members, reported


def _session(*executors):
    listed = [
        SimpleNamespace(
            id=lambda name=name: name,
            hostPort=lambda address=address: address,
            totalCores=lambda cores=cores: cores,
            attributes=lambda told=told: SimpleNamespace(
                contains=lambda key: key in told, apply=lambda key: told[key]
            ),
        )
        for name, address, cores, told in executors
    ]
    found = SimpleNamespace(size=lambda: len(listed), apply=lambda at: listed[at])
    store = SimpleNamespace(executorList=lambda active: found)
    scala = SimpleNamespace(statusStore=lambda: store)
    return SimpleNamespace(
        sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: scala)),
    )


def _units(session):
    return {name: (each.host, each.cores, each.units) for name, each in members(session).items()}


def test_a_worker_is_a_host_with_the_cores_of_all_its_executors():
    """The driver is none of them."""
    session = _session(
        ("driver", "10.0.0.1:7", 8, {}),
        ("0", "10.0.0.2:40001", 2, {}),
        ("1", "10.0.0.2:40002", 4, {}),
    )
    (found,) = members(session).values()
    assert found == Member("10.0.0.2", "10.0.0.2", 6, None, ("0", "1"))
    assert found.places == ("10.0.0.2",)


@pytest.mark.parametrize("host", ["10.0.0.2", "host-7.example", "[fe80::1]"])
def test_an_executor_that_came_this_moment_has_a_host_and_no_port(host):
    """Spark tells of an executor before its block manager has said where it listens."""
    session = _session(("0", f"{host}:40001", 2, {}), ("1", host, 4, {}))
    assert _units(session) == {host: (host, 6, None)}


def test_workers_on_one_host_are_told_apart_by_their_names():
    """Each has its own executors, at which its tasks are wanted; and as many units as it says."""
    session = _session(
        ("0", "h:1", 2, {"ATOLL_WORKER": "a", "ATOLL_UNITS": "5"}),
        ("1", "h:2", 4, {"ATOLL_WORKER": "b"}),
        ("2", "h:3", 2, {"ATOLL_WORKER": "a", "ATOLL_UNITS": "5"}),
        ("3", "i:3", 2, {"ATOLL_WORKER": "c"}),
        ("4", "h:4", 1, {}),
    )
    assert _units(session) == {
        "a": ("h", 4, 5),
        "b": ("h", 4, None),
        "c": ("i", 2, None),
        "h": ("h", 1, None),
    }
    places = Seats(session, fixed=True)._places(["a", "c", "b", "gone", "h"])
    assert places == (
        ("executor_h_0", "executor_h_2"),
        ("i",),
        ("executor_h_1",),
        ("gone",),
        ("executor_h_4",),
    )


def test_what_cannot_be_counted_as_it_says_is_said_once(monkeypatch, caplog):
    """A name belongs to the host that had it first; what is no number of units is its cores."""
    monkeypatch.setattr(module, "_SAID", set())
    session = _session(
        ("10", "later:1", 2, {"ATOLL_WORKER": "a"}),
        ("9", "first:1", 2, {"ATOLL_WORKER": "a", "ATOLL_UNITS": "many"}),
    )
    with caplog.at_level(logging.ERROR, logger="atoll"):
        for _ in range(3):
            assert _units(session) == {"a": ("first", 2, None)}
    assert len(module._SAID) == 2


def test_what_a_worker_reports_is_in_its_environment():
    """Spark's executors report the variables that begin so."""
    assert reported(None, None) == {}
    assert reported("a", 3) == {
        "SPARK_EXECUTOR_ATTRIBUTE_ATOLL_WORKER": "a",
        "SPARK_EXECUTOR_ATTRIBUTE_ATOLL_UNITS": "3",
    }
