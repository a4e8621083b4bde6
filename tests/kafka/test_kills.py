"""Brokers and drivers are killed: what was acknowledged is there, once, and things go on."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from harness import seed, soaking, volume
from kafka_modules import record, running, sums
from kafka_topics import Topics, until

from atoll import path

HERE = Path(__file__).parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src")}


@pytest.mark.skipif(not soaking(), reason="the kills below include it; this says how it is told")
def test_a_broker_that_is_down_is_waited_for(tmp_path, own_broker):
    """The topology says that nobody answers, and goes on when somebody does."""
    topics = Topics(own_broker.address)
    topic = topics.make()
    topics.send(topic, [record("a", 1)])
    with running(tmp_path) as cluster:
        app = cluster.deploy(sums(topics, topic))
        until(lambda: dict(app.pstate("totals").select(path.all())) == {"a": 1})
        own_broker.kill()
        error = until(lambda: app.topology("mb").status()["error"])
        assert error["code"] == "E-LOG"
        own_broker.start()
        topics.send(topic, [record("a", 2)])
        until(lambda: dict(app.pstate("totals").select(path.all())) == {"a": 3})
        assert app.topology("mb").status()["error"] is None


class Driver:
    """The process that brings numbers on, started again after each kill."""

    def __init__(self, *arguments: object) -> None:
        self.arguments = [str(each) for each in arguments]
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Begin, and return when it runs; while nobody answers it it ends, and is begun again."""
        until(self._begun, 120)

    def _begun(self) -> bool:
        command = [sys.executable, str(HERE / "kafka_child.py"), *self.arguments]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
        )
        return self.process.stdout.readline() == "running\n"

    def kill(self) -> None:
        """As if the machine were gone."""
        self.process.kill()
        self.process.communicate()

    def end(self) -> str:
        """Let it end in order; what it counted."""
        return self.process.communicate()[0]


@pytest.mark.slow
def test_every_number_arrives_once_and_in_order_whatever_is_killed(tmp_path, own_broker):
    """Broker and driver are killed at random while numbers go through; none is lost or doubled.

    Each kill waits until some more numbers have arrived, so that it hits work, not idleness.
    """
    chance = random.Random(seed())
    kills = ["driver", "broker"] + ["driver", "driver", "broker"] * volume(0, 12)
    topics = Topics(own_broker.address)
    source, target = topics.make(2), topics.make(2)
    driver = Driver(tmp_path / "root", own_broker.address, source, target)
    producer = Producer(
        {"bootstrap.servers": own_broker.address, "enable.idempotence": True, "log_level": 0}
    )
    count = 0
    driver.start()
    for kill in kills:
        for _ in range(chance.randrange(200, 600)):
            producer.produce(source, key=f"k{count % 5}", value=f'{{"n": {count}}}')
            count += 1
        producer.poll(0)
        wanted = sum(topics.ends(target)) + chance.randrange(1, 150)
        until(lambda least=wanted: sum(topics.ends(target)) >= least, 60)
        if kill == "driver":
            driver.kill()
            driver.start()
        else:
            own_broker.kill()
            own_broker.start()
    assert producer.flush(60) == 0
    until(lambda: sum(topics.ends(target)) >= count, 60)  # marks of transactions count, too
    until(lambda: len(topics.read(target)) >= count, 60)
    arrived = [(each.key(), json.loads(each.value())["n"]) for each in topics.read(target)]
    by_key = {f"k{k}".encode(): [n for n in range(count) if n % 5 == k] for k in range(5)}
    assert {key: [n for k, n in arrived if k == key] for key in by_key} == by_key
    assert len(arrived) == count
    counted = [(f"k{k}", len(by_key[f"k{k}".encode()])) for k in range(5)]
    assert driver.end() == f"{counted}\n"
