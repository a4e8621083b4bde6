"""Topics as sinks: each microbatch is there whole, once, for those who read what is committed."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from kafka_modules import record, running
from kafka_topics import until

import atoll
from atoll import Kafka, Map, Module, agg, start
from atoll.errors import SinkError
from atoll.kafka.formats import Json
from atoll.sinks import KafkaTopic, Opening, SinkRows
from atoll.testing.sinks import ALL_TYPES, SinkContract, parcel_of, sample_rows

ROWS = SinkRows(pa.schema([("id", pa.int64())]))
OPENING = Opening("m/t/s/token", 1, ROWS)


class TestTopic(SinkContract):
    """The contract of all sinks, against a broker."""

    types = tuple(each for each in ALL_TYPES if each not in ("double", "real"))
    follows_changes = True

    @pytest.fixture(autouse=True)
    def _broker(self, kafka):
        self.kafka = kafka
        self.topics = {}
        self.schemas = {}

    def make_sink(self, target):
        """A sink on a topic of its own, with one partition."""
        if target not in self.topics:
            self.topics[target] = self.kafka.make()
        return KafkaTopic(self.kafka.address, self.topics[target])

    def held(self, target):
        """What a consumer sees that reads what is committed."""
        messages = self.kafka.read(self.topics[target])
        if messages and messages[0].key() is not None:
            return self._entries(messages)
        columns = json.loads(messages[0].value()) if messages else {}
        schema = (
            sample_rows(self.types).schema if len(columns) > 2 else pa.schema([("id", pa.int64())])
        )
        decoded = Json().decode([each.value() for each in messages], schema)
        assert not decoded.refused
        return decoded.batch.to_pylist()

    def _entries(self, messages):
        last = {each.key(): each.value() for each in messages}
        return [
            {"key": key.decode(), "new": json.loads(value)}
            for key, value in last.items()
            if value is not None
        ]


def test_a_topic_that_is_not_there_is_named(kafka):
    """The sink says so, and is tried again by whoever delivers."""
    with pytest.raises(SinkError, match="there is no topic"):
        KafkaTopic(kafka.address, "nowhere").open(OPENING)


def test_columns_that_are_not_there_are_refused(kafka):
    """Before anything is deployed."""
    with pytest.raises(SinkError, match="names no column"):
        KafkaTopic(kafka.address, "any", key="nothing").check(ROWS)


def test_what_a_writer_left_open_is_never_seen(kafka):
    """A process dies in the middle of a transaction: the next writer ends it, and writes again."""
    topic = kafka.make()
    sink = KafkaTopic(kafka.address, topic)
    first = sink.open(OPENING)
    rows = pa.concat_tables([pa.table({"id": [1]}), pa.table({"id": [2]})])
    with pytest.raises(BaseException):  # noqa: B017, PT011  # as a killed process: nobody expects it
        first.write(parcel_of(1, rows, dies_after=1))
    second = sink.open(OPENING)
    assert second.last_written() == 0
    second.write(parcel_of(1, rows))
    assert [json.loads(each.value()) for each in kafka.read(topic)] == [{"id": 1}, {"id": 2}]
    with pytest.raises(SinkError, match="another process writes this sink now"):
        Fenced.try_again(first, rows)
    first.close()
    second.close()


class Fenced:
    """What a writer does that was given up and does not know it."""

    @staticmethod
    def try_again(writer, rows):
        """Commit what it began."""
        writer._last = 0  # as it stood when it hung
        writer._asked(lambda: writer._producer.commit_transaction(10))
        writer.write(parcel_of(1, rows))


def test_from_topic_to_topic(tmp_path, kafka):
    """Rows with keys, and the changes of a PState as a compacted topic wants them."""
    source, rows, state = kafka.make(2), kafka.make(), kafka.make()
    module = Module("through")
    bids = module.depot(
        "bids", "k string, v long", kafka=Kafka(kafka.address, source, malformed="stop")
    )
    mb = module.microbatch("mb")
    totals = mb.pstate("totals", Map(str, int))
    stream = mb.source(bids, start_from=start.beginning())
    stream.write_to(KafkaTopic(kafka.address, rows, key="k"), name="rows")
    stream.aggregate(totals["k"], agg.sum("v"))
    totals.changes("k").write_to(KafkaTopic(kafka.address, state), name="state")
    with running(tmp_path) as cluster:
        cluster.deploy(module)
        kafka.send(
            source, [{"value": record(f"k{n % 2}", n), "partition": n % 2} for n in range(6)]
        )
        until(lambda: len(kafka.read(rows)) == 6)
        found = [(each.key(), json.loads(each.value())["v"]) for each in kafka.read(rows)]
        assert [v for k, v in found if k == b"k0"] == [0, 2, 4]
        assert [v for k, v in found if k == b"k1"] == [1, 3, 5]

        def last():
            return {each.key(): each.value() for each in kafka.read(state)}

        until(lambda: last() == {b"k0": b"6", b"k1": b"9"})
    assert atoll.sinks.sink_kinds()["kafka"] is KafkaTopic
