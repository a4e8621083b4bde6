"""Kafka to state, Kafka to Kafka, and from produce to consume; beside Spark's own Kafka source.

A broker of its own, the one of the tests, holds the messages, JSON of a key and a value, before
the clock starts. Both sides read the same messages in microbatches of the same size, each alone,
in a process with a JVM of its own, one after the other, on two cores:

- ``sum``: a sum per key. Atoll's measure is what its topology reports for a microbatch, the peer's
  the clock around a batch; medians after the warm-up.
- ``through``: every message goes on to another topic; messages a second by the wall clock. Atoll's
  until a consumer of what is committed has seen all of them, each once.
- ``latency``, Atoll alone: one message at a time, from before it is produced until such a consumer
  has it, on the way of ``through``.

There is no Kafka source for Spark 4.3, and the streaming one of 4.0.0 fails there on a class that
has moved (``SerializedOffset``). What works is its batch source, by exact offsets. So the peer is a
loop of batches that keeps no state, writes no checkpoint and, on the way through, writes each
message at least once: all in its favour.

    python bench/kafka.py --json
    python bench/kafka.py --only sum --batch 20000 --batches 5 --warmup 3
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "kafka"))

from kafka_broker import Broker
from kafka_topics import Topics

from cpu import cpu_seconds
from records import SEED
from sides import report_of

PARTITIONS = 2
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"
TIMEOUT_SECONDS = 1_800.0
KINDS = ("sum", "through", "latency")
SCHEMA = "k long, v long"


# What is read -------------------------------------------------------------------------------------


def fill(topics: Topics, count: int, keys: int) -> str:
    """A topic with so many messages, spread evenly."""
    from confluent_kafka import Producer

    topic = topics.make(PARTITIONS)
    producer = Producer({"bootstrap.servers": topics.address, "linger.ms": 20, "log_level": 0})
    generator = np.random.default_rng(SEED)
    drawn = zip(
        generator.integers(0, keys, count).tolist(),
        generator.integers(0, 1000, count).tolist(),
        strict=True,
    )
    for number, (key, value) in enumerate(drawn):
        message = f'{{"k":{key},"v":{value}}}'
        while True:
            try:
                producer.produce(topic, message, str(key), partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(TIMEOUT_SECONDS):
        raise SystemExit("the broker did not take all messages")
    return topic


def expected_total(count: int, keys: int) -> int:
    """The sum of all values."""
    generator = np.random.default_rng(SEED)
    generator.integers(0, keys, count)
    return int(generator.integers(0, 1000, count).sum())


def arrivals(address: str, topic: str) -> Any:
    """A consumer of what is committed, from the end of a topic on."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "bench",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 5,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(PARTITIONS)])
    return consumer


def await_messages(consumer: Any, count: int) -> None:
    """Return when so many have arrived."""
    until = time.monotonic() + TIMEOUT_SECONDS
    while count > 0:
        found = consumer.consume(min(count, 10_000), 0.02)
        for each in found:
            if each.error() is not None:
                raise SystemExit(f"the consumer failed: {each.error()}")
        count -= len(found)
        if time.monotonic() > until:
            raise SystemExit(f"{count} messages never arrived")


def latencies(address: str, source: str, target: str, count: int, warmup: int) -> dict[str, Any]:
    """One message at a time, through."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "linger.ms": 0, "log_level": 0})
    consumer = arrivals(address, target)
    seconds = []
    for number in range(warmup + count):
        began = time.perf_counter()
        producer.produce(source, f'{{"k":{number},"v":1}}', partition=number % PARTITIONS)
        producer.poll(0)
        await_messages(consumer, 1)
        seconds.append(time.perf_counter() - began)
    consumer.close()
    milliseconds = np.array(seconds[warmup:]) * 1000
    marks = {"median": 50, "p90": 90, "p99": 99, "max": 100}
    return {name: round(float(np.percentile(milliseconds, at)), 1) for name, at in marks.items()}


# Atoll --------------------------------------------------------------------------------------------


def run_atoll(kind: str, at: dict[str, Any]) -> dict[str, Any]:
    """One of its measures."""
    import atoll
    from atoll import Kafka, Map, Module, agg, start
    from atoll.sinks import KafkaTopic

    module = Module("bench")
    kafka = Kafka(at["address"], at["source"], malformed="stop")
    numbers = module.depot("numbers", SCHEMA, kafka=kafka)
    options = {"depot.microbatch.max.records": at["batch"] // PARTITIONS}
    mb = module.microbatch("mb", options=options)
    rows = mb.source(numbers, start_from=start.beginning())
    sums = mb.pstate("sums", Map(int, int))
    if kind == "sum":
        rows.aggregate(sums["k"], agg.sum("v"))
    else:
        rows.write_to(KafkaTopic(at["address"], at["target"], key="k"), name="out")
    with (
        tempfile.TemporaryDirectory(prefix="bench-kafka-") as root,
        atoll.LocalCluster(root) as cluster,
    ):
        app = cluster.deploy(module)
        if kind == "latency":
            return latencies(at["address"], at["source"], at["target"], at["batches"], at["warmup"])
        if kind == "through":
            return _through(at)
        topology = app.topology("mb")
        topology.wait_processed(at["warmup"] * at["batch"], timeout_seconds=TIMEOUT_SECONDS)
        warm, began = cpu_seconds(), time.perf_counter()
        topology.wait_processed(at["count"], timeout_seconds=TIMEOUT_SECONDS)
        seconds, cold = time.perf_counter() - began, cpu_seconds()
        total = sum(dict(app.pstate("sums").select(atoll.path.all())).values())
        return _summed(
            [each["total"] for each in topology.recent_microbatches()[at["warmup"] :]],
            seconds,
            (warm, cold),
            (total, at),
        )


def _through(at: dict[str, Any]) -> dict[str, Any]:
    consumer = arrivals(at["address"], at["target"])
    await_messages(consumer, at["warmup"] * at["batch"])
    began, warm = time.perf_counter(), cpu_seconds()
    await_messages(consumer, at["count"] - at["warmup"] * at["batch"])
    seconds, cold = time.perf_counter() - began, cpu_seconds()
    consumer.close()
    measured = at["count"] - at["warmup"] * at["batch"]
    used = None if warm is None or cold is None else round(cold - warm, 2)
    return {"records_per_second": round(measured / seconds), "cpu_seconds": used}


def _summed(
    milliseconds: list[float],
    seconds: float,
    cpu: tuple[float | None, float | None],
    checked: tuple[int, dict[str, Any]],
) -> dict[str, Any]:
    total, at = checked
    expected = expected_total(at["count"], at["keys"])
    if total != expected:
        raise SystemExit(f"the sum of all is {total}, not {expected}")
    median = statistics.median(milliseconds)
    measured = at["count"] - at["warmup"] * at["batch"]
    warm, cold = cpu
    return {
        "median_ms": round(median, 1),
        "records_per_second": round(at["batch"] / median * 1000),
        "wall_records_per_second": round(measured / seconds),
        "cpu_seconds": None if warm is None or cold is None else round(cold - warm, 2),
    }


# The peer -----------------------------------------------------------------------------------------


def run_peer(kind: str, at: dict[str, Any]) -> dict[str, Any]:
    """The same as batches of Spark, by exact offsets."""
    import peer

    ivy = Path(__file__).parents[1] / "build" / "ivy-peer"
    peer.SETTINGS |= {"spark.jars.packages": CONNECTOR, "spark.jars.ivy": str(ivy)}
    with tempfile.TemporaryDirectory(prefix="bench-kafka-peer-") as name:
        folder = Path(name)
        session = peer.start_session(folder)
        try:
            return _run_batches(session, kind, at)
        finally:
            session.stop()


def _run_batches(session: Any, kind: str, at: dict[str, Any]) -> dict[str, Any]:
    share = at["batch"] // PARTITIONS
    milliseconds: list[float] = []
    warm, began = cpu_seconds(), time.perf_counter()
    for number in range(at["count"] // at["batch"]):
        if number == at["warmup"]:
            warm, began = cpu_seconds(), time.perf_counter()
        started = time.perf_counter()
        rows = _rows(session, at, number * share, (number + 1) * share)
        if kind == "sum":
            rows.groupBy("k").sum("v").write.format("noop").mode("overwrite").save()
        else:
            out = rows.selectExpr("cast(k AS string) AS key", "to_json(struct(k, v)) AS value")
            writer = out.write.format("kafka").option("topic", at["target"])
            writer.option("kafka.bootstrap.servers", at["address"]).save()
        milliseconds.append((time.perf_counter() - started) * 1000)
    seconds, cold = time.perf_counter() - began, cpu_seconds()
    if kind == "through":
        consumer = arrivals(at["address"], at["target"])
        await_messages(consumer, at["count"])
        consumer.close()
    end = at["count"] // PARTITIONS
    total = _rows(session, at, 0, end).groupBy().sum("v").first()[0]
    return _summed(milliseconds[at["warmup"] :], seconds, (warm, cold), (total, at))


def _rows(session: Any, at: dict[str, Any], first: int, end: int) -> Any:
    """The rows of a range of each partition."""

    def offsets(offset: int) -> str:
        return json.dumps({at["source"]: {str(each): offset for each in range(PARTITIONS)}})

    messages = (
        session.read.format("kafka")
        .option("kafka.bootstrap.servers", at["address"])
        .option("subscribe", at["source"])
        .option("startingOffsets", offsets(first))
        .option("endingOffsets", offsets(end))
        .load()
    )
    parsed = messages.selectExpr(f"from_json(cast(value AS string), '{SCHEMA}') AS row")
    return parsed.selectExpr("row.k AS k", "row.v AS v")


# Both ---------------------------------------------------------------------------------------------


def main() -> None:
    """Run what is asked for and print how they compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=200_000, help="messages of a microbatch")
    parser.add_argument("--batches", type=int, default=10, help="microbatches after the warm-up")
    parser.add_argument("--warmup", type=int, default=10, help="microbatches that do not count")
    parser.add_argument("--messages", type=int, default=200, help="messages of the latency")
    parser.add_argument("--only", help=f"some of {','.join(KINDS)}")
    parser.add_argument("--sides", default="atoll,peer")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        side, kind, at = json.loads(arguments.side)
        print(json.dumps((run_atoll if side == "atoll" else run_peer)(kind, at)))
        return
    result: dict[str, Any] = {"keys": arguments.keys, "batch": arguments.batch}
    with tempfile.TemporaryDirectory(prefix="bench-kafka-broker-") as folder:
        broker = Broker(Path(folder))
        broker.start()
        try:
            for kind in (arguments.only or ",".join(KINDS)).split(","):
                result[kind] = measured(broker.address, kind, arguments)
        finally:
            broker.stop()
    result["load_average"] = round(os.getloadavg()[0], 2)
    print(json.dumps(result) if arguments.json else json.dumps(result, indent=2))


def measured(address: str, kind: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Both sides of one measure."""
    topics = Topics(address)
    count = (arguments.warmup + arguments.batches) * arguments.batch
    latency = kind == "latency"
    found = {}
    for side in arguments.sides.split(","):
        if latency and side == "peer":
            continue  # a loop of batches waits for nothing
        source = topics.make(PARTITIONS) if latency else fill(topics, count, arguments.keys)
        at = {
            "address": address,
            "source": source,
            "target": topics.make(PARTITIONS),
            "batch": arguments.batch,
            "batches": arguments.messages if latency else arguments.batches,
            "warmup": arguments.warmup,
            "count": count,
            "keys": arguments.keys,
        }
        found[side] = report_of(side, [__file__, "--side", json.dumps([side, kind, at])])
    return found


if __name__ == "__main__":
    main()
