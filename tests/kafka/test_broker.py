"""The broker that the other tests count on keeps what it has acknowledged, whatever is killed."""

from __future__ import annotations


def test_committed_records_alone_are_read(kafka):
    """Of two transactions the aborted one is not seen, but its offsets are used up."""
    topic = kafka.make()
    kafka.transaction(topic, ["lost"], commits=False)
    kafka.transaction(topic, ["kept"], commits=True)
    assert [each.value() for each in kafka.read(topic)] == [b"kept"]
    assert kafka.ends(topic) == [4]
