"""Who is in a cluster, told from what Spark's status says of its executors."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from atoll.spark.members import members


def _session(*executors):
    listed = [
        SimpleNamespace(
            id=lambda name=name: name,
            hostPort=lambda address=address: address,
            totalCores=lambda cores=cores: cores,
        )
        for name, address, cores in executors
    ]
    found = SimpleNamespace(size=lambda: len(listed), apply=lambda at: listed[at])
    store = SimpleNamespace(executorList=lambda active: found)
    scala = SimpleNamespace(statusStore=lambda: store)
    return SimpleNamespace(
        sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: scala)),
    )


def test_a_worker_is_a_host_with_the_cores_of_all_its_executors():
    """The driver is none of them."""
    session = _session(
        ("driver", "10.0.0.1:7", 8), ("0", "10.0.0.2:40001", 2), ("1", "10.0.0.2:40002", 4)
    )
    assert members(session) == {"10.0.0.2": 6}


@pytest.mark.parametrize("host", ["10.0.0.2", "host-7.example", "[fe80::1]"])
def test_an_executor_that_came_this_moment_has_a_host_and_no_port(host):
    """Spark tells of an executor before its block manager has said where it listens."""
    session = _session(("0", f"{host}:40001", 2), ("1", host, 4))
    assert members(session) == {host: 6}
