"""``atoll.Kafka(...)``: which topic a depot reads, and what its messages are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.depot.logs.declared import OutsideLog
from atoll.errors import DeclarationError
from atoll.kafka.topic import BESIDE_DDL, Topic

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.depot.logs.followed import LogDepot
    from atoll.topology.operator import BatchOperator, Operator


@dataclass(frozen=True)
class Kafka(Topic, OutsideLog):
    """A topic of Kafka that a depot reads: ``module.depot("bids", schema, kafka=Kafka(...))``.

    The topic's partitions are the depot's, and its offsets. Transactions that were aborted, or are
    still open, are not read.

    Args:
        brokers: ``host:port``, several separated by commas.
        topic: The topic.
        format: What values are: ``json`` (an object per message; fields that the schema does not
            have are left out), ``arrow`` (an Arrow IPC stream per message, of any number of
            rows), ``text`` and ``raw`` (the value as the only column that is not named below).
        key: The column for the key, a string or binary.
        timestamp: The column for the message's time, a timestamp.
        headers: The column for the headers: ``array<struct<key string, value binary>>``.
        partition: The column for the partition, an int.
        offset: The column for the offset, a long.
        tombstones: What a message without a value is: ``null``, a row whose other columns are
            null; ``skip``, nothing; ``malformed``.
        malformed: What becomes of messages that cannot be decoded: ``aside``, they go to the
            topology's dead-letter depot; ``stop``, the first stops the topology.
        overtaken: What happens when retention deletes what was not read yet: ``stop``, the
            topology waits with an error that says so; ``skip``, it goes on with what is left.
        options: Further settings of librdkafka, as ``{"security.protocol": "SASL_SSL"}``. What is
            secret is given as ``atoll.secret.env(...)`` or ``atoll.secret.file(...)``.

    Raises:
        DeclarationError: When something cannot be.
    """

    kind: ClassVar[str] = "kafka"

    @property
    def rows(self) -> pa.Schema:
        """A message as tasks read it."""
        from atoll.kafka.reading import message_schema

        return message_schema(self.named.values())

    def check(self, schema: pa.Schema) -> None:
        """Hold that messages can have such columns.

        Raises:
            DeclarationError: When they cannot.
        """
        from atoll.ddl import parse_ddl, to_ddl
        from atoll.kafka.formats import format_of

        for name, what in self.named.items():
            if name not in schema.names:
                raise DeclarationError(
                    f"{what}={name!r} names no column of the depot",
                    hint=f"add it to the schema: {name} {BESIDE_DDL[what][0]}",
                )
            types = [parse_ddl(f"c {ddl}").field(0).type for ddl in BESIDE_DDL[what]]
            if schema.field(name).type not in types:
                raise DeclarationError(
                    f"column {name} is {to_ddl(schema)!r} cannot hold the {what} of a message",
                    hint=f"declare it as {' or '.join(BESIDE_DDL[what])}",
                )
        format_of(self.format).check(self.of_value(schema))

    def decoding(
        self, source: Operator, depot: str, schema: pa.Schema, *, sets_aside: bool
    ) -> BatchOperator:
        """The step that decodes messages.

        Raises:
            DeclarationError: When malformed messages have nowhere to go.
        """
        from atoll.kafka.decode import Decode, DecodeMany
        from atoll.kafka.formats import format_of

        found = format_of(self.format)
        if found.refuses and self.malformed == "aside" and not sets_aside:
            raise DeclarationError(
                f"depot {depot!r} sets malformed messages aside, and the topology has no depot for "
                "them",
                hint="give microbatch(...) dead_letter=module.dead_letter_depot(...), or declare "
                'Kafka(..., malformed="stop")',
            )
        kind = DecodeMany if found.many else Decode
        return kind((source,), source.place, depot, self, schema)

    def follow(self, depot: str, schema: pa.Schema, before: Mapping[str, Any] | None) -> LogDepot:
        """Find the topic and begin to follow it.

        Raises:
            LogError: When no broker answers, there is no such topic, or it was made again.
        """
        from atoll.kafka.following import KafkaDepot

        return KafkaDepot(depot, self, schema, before)
