"""Brokers and drivers are killed: what was acknowledged is there, once, and things go on."""

from __future__ import annotations

from kafka_modules import record, running, sums
from kafka_topics import Topics, until

from atoll import path


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
