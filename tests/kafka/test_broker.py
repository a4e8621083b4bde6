"""The broker that the other tests count on keeps what it has acknowledged, whatever is killed."""

from __future__ import annotations

from kafka_topics import Topics


def test_committed_records_alone_are_read(kafka):
    """Of two transactions the aborted one is not seen, but its offsets are used up."""
    topic = kafka.make()
    kafka.transaction(topic, ["lost"], commits=False)
    kafka.transaction(topic, ["kept"], commits=True)
    assert [each.value() for each in kafka.read(topic)] == [b"kept"]
    assert kafka.ends(topic) == [4]


def test_a_killed_broker_comes_back_with_its_records(own_broker):
    """Acknowledged records survive kill -9, on the same port."""
    topics = Topics(own_broker.address)
    topic = topics.make()
    topics.send(topic, ["1", "2"])
    own_broker.kill()
    own_broker.start()
    assert [each.value() for each in topics.read(topic)] == [b"1", b"2"]
