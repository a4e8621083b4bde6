"""Kafka: topics as depots, and topics as sinks.

Imported when it is first used; it needs the package confluent-kafka (``atoll[kafka]``). Declaring
asks no broker.
"""

from __future__ import annotations

from atoll.kafka.declare import Kafka

__all__ = ["Kafka"]
