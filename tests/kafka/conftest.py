"""A broker for all tests of Kafka, started once for all processes of a run."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka", reason="the extra atoll[kafka] is not installed")

from kafka_broker import Broker
from kafka_jars import NoJarsError, broker_class_path
from kafka_topics import Topics
from shared import missing

_STARTS_SECONDS = 90.0


@pytest.fixture(scope="session")
def kafka_address(tmp_path_factory, request) -> str:
    """The address of a broker that all processes of the run share."""
    try:
        broker_class_path()
    except NoJarsError as error:
        missing(f"no broker: {error}")
    shared = hasattr(request.config, "workerinput")
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if shared else base) / "kafka"
    owner = os.getppid() if shared else os.getpid()
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        told = folder / "broker" / "address"
        if not told.exists():
            _begin(folder, owner, told)
    return told.read_text()


def _begin(folder: Path, owner: int, told: Path) -> None:
    program = Path(__file__).with_name("kafka_broker.py")
    command = [sys.executable, str(program), str(folder / "broker"), str(owner)]
    with (folder / "keeper.log").open("wb") as out:
        keeper = subprocess.Popen(  # our own program
            command, stdout=out, stderr=out, start_new_session=True
        )
    keeper_pid, keeper.returncode = keeper.pid, 0  # it outlives this process, and ends by itself
    until = time.monotonic() + _STARTS_SECONDS
    while not told.exists():
        if time.monotonic() > until or not Path(f"/proc/{keeper_pid}").exists():
            raise RuntimeError((folder / "keeper.log").read_text()[-800:])
        time.sleep(0.05)


@pytest.fixture
def kafka(kafka_address) -> Topics:
    """Topics of the shared broker: each test makes its own."""
    return Topics(kafka_address)


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory, kafka_address):  # without one the other cannot be had
    """A broker that a test may kill."""
    broker = Broker(tmp_path_factory.mktemp("own-broker"))
    broker.start()
    yield broker
    broker.kill()
