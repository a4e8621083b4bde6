"""The guide about Kafka runs as pasted, where a broker can be had."""

from __future__ import annotations

from test_docs import WITH_BROKER, check_page


def test_the_guide_runs_as_pasted(kafka, monkeypatch):
    """Every block runs, and every value shown is the value."""
    kafka.make(name="bids")
    monkeypatch.setenv("KAFKA", kafka.address)
    check_page(WITH_BROKER)
