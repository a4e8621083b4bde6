"""Topics as depots: what is read, from where, and what becomes of what cannot be read.

All against a real broker, with the engine that runs in this process.
"""

from __future__ import annotations

import time

import pytest
from kafka_modules import SCHEMA, record, running, sums
from kafka_topics import until

from atoll import Kafka, Module, agg, path, start
from atoll.errors import AtollError, DeclarationError, LogError, UsageError

ALL = path.all()


def totals(app):
    """The sums by key."""
    return dict(app.pstate("totals").select(ALL))


def test_messages_are_read_once_over_several_partitions_and_lives(tmp_path, kafka):
    """Each message is summed once, also those that come between two lives of the module."""
    topic = kafka.make(3)
    module = sums(kafka, topic)
    kafka.send(topic, [{"value": record(f"k{n % 5}", n), "partition": n % 3} for n in range(300)])
    with running(tmp_path) as cluster:
        app = cluster.deploy(module)
        app.topology("mb").wait_processed(300)
        assert totals(app) == {f"k{k}": sum(range(k, 300, 5)) for k in range(5)}
    kafka.send(topic, [record("k0", 1)])
    with running(tmp_path) as cluster:
        app = cluster.deploy(sums(kafka, topic))
        until(lambda: totals(app)["k0"] == sum(range(0, 300, 5)) + 1)


def test_holes_that_transactions_leave_are_no_loss(tmp_path, kafka):
    """Aborted messages are not read, marks are stepped over, and the accounts add up."""
    topic = kafka.make()
    for n in range(4):
        kafka.transaction(topic, [record("good", 1)] * 3, commits=True)
        kafka.transaction(topic, [record("bad", n)] * 2, commits=False)
    with running(tmp_path) as cluster:
        app = cluster.deploy(sums(kafka, topic))
        until(lambda: totals(app) == {"good": 12})
        kafka.transaction(topic, [record("good", 1)], commits=True)
        begun = time.monotonic()
        until(lambda: totals(app) == {"good": 13})
        assert time.monotonic() - begun < 2
        status = app.topology("mb").status()
        assert status["lag"] == {"bids": [0]}
        assert status["error"] is None


def test_malformed_messages_go_to_the_dead_letter_depot(tmp_path, kafka):
    """Each with topic, partition and offset, also in the middle of good ones; none is lost."""
    topic = kafka.make()
    values = [record("a", 1), b"{", record("a", 2), b"\xff", "[]", '{"v": 3}', record("a", 4)]
    kafka.send(topic, values)
    with running(tmp_path) as cluster:
        app = cluster.deploy(sums(kafka, topic))
        until(lambda: sum(app.depot("bad").end_offsets()) == 4)
        assert totals(app) == {"a": 7}
        rows = app.depot("bad").read(0, 0, 4).to_pylist()
    assert [(each["depot"], each["depot_partition"]) for each in rows] == [("bids", 0)] * 4
    assert [each["record_offset"] for each in rows] == [1, 3, 4, 5]
    assert all(f'"topic": "{topic}"' in each["row"] for each in rows)
    assert "missing required field k" in rows[3]["error"]
    assert '"value": "base64:/w=="' in rows[1]["row"]


def test_a_malformed_message_stops_the_topology_where_that_is_declared(tmp_path, kafka):
    """The error names the message."""
    topic = kafka.make()
    kafka.send(topic, [record("a", 1), "nonsense"])
    with running(tmp_path) as cluster:
        app = cluster.deploy(sums(kafka, topic, dead=False, malformed="stop"))
        error = until(lambda: app.topology("mb").status()["error"])
        assert error["code"] == "E-DATA"
        assert error["context"]["record_offset"] == "1"
        assert "cannot be decoded" in error["message"]


def test_malformed_messages_need_somewhere_to_go(kafka):
    """Without a dead-letter depot, and without a word that they stop it, nothing is declared."""
    with pytest.raises(DeclarationError, match="has no depot for them"):
        sums(kafka, "any", dead=False)


def test_tombstones_keys_times_headers_and_places_are_columns(tmp_path, kafka):
    """A message without a value is a row of nulls beside its key."""
    topic = kafka.make()
    kafka.send(
        topic,
        [
            {"value": '{"v": 1}', "key": "a", "timestamp": 1_700_000_000_000},
            {"value": None, "key": "b", "headers": [("h", b"x"), ("h", b"y")]},
        ],
    )
    module = Module("places")
    schema = (
        "k string, at timestamp, heads array<struct<key string, value binary>>, p int, o long, "
        "v long"
    )
    named = {"key": "k", "timestamp": "at", "headers": "heads", "partition": "p", "offset": "o"}
    bids = module.depot("bids", schema, kafka=Kafka(kafka.address, topic, **named))
    mb = module.microbatch("mb", dead_letter=module.dead_letter_depot("bad"))
    out = module.depot("out", schema, partitions=1)
    mb.source(bids, start_from=start.beginning()).append_to(out)
    with running(tmp_path) as cluster:
        app = cluster.deploy(module)
        until(lambda: sum(app.depot("out").end_offsets()) == 2)
        first, second = app.depot("out").read(0, 0, 2).to_pylist()
    assert (first["k"], first["p"], first["o"], first["v"]) == ("a", 0, 0, 1)
    assert first["at"].timestamp() == 1_700_000_000
    assert first["heads"] == []
    assert (second["k"], second["o"], second["v"]) == ("b", 1, None)
    assert second["heads"] == [{"key": "h", "value": b"x"}, {"key": "h", "value": b"y"}]


@pytest.mark.parametrize(("tombstones", "bad"), [("skip", 0), ("malformed", 1), ("null", 1)])
def test_what_tombstones_are_is_declared(tmp_path, kafka, tombstones, bad):
    """They are stepped over, or set aside: also where a column may not be null."""
    topic = kafka.make(cleanup_policy="compact")
    kafka.send(
        topic,
        [{"value": None, "key": "x"}, {"value": record("a", 1), "key": "x"}],
    )
    with running(tmp_path) as cluster:
        app = cluster.deploy(sums(kafka, topic, tombstones=tombstones))
        until(lambda: totals(app) == {"a": 1})
        until(lambda: sum(app.depot("bad").end_offsets()) == bad)
        assert app.topology("mb").status()["lag"] == {"bids": [0]}


def test_partitions_that_are_added_are_read_from_their_beginning(tmp_path, kafka):
    """The running topology finds them, and so does a later life."""
    topic = kafka.make(1)
    kafka.send(topic, [record("a", 1)])
    with running(tmp_path) as cluster:
        app = cluster.deploy(sums(kafka, topic))
        until(lambda: totals(app) == {"a": 1})
        kafka.widen(topic, 3)
        kafka.send(topic, [{"value": record("a", 10), "partition": 2}])
        until(lambda: totals(app) == {"a": 11})
        app.wait_idle()
        assert app.topology("mb").status()["lag"] == {"bids": [0, 0, 0]}
    kafka.send(topic, [{"value": record("a", 100), "partition": 1}])
    with running(tmp_path) as cluster:
        app = cluster.deploy(sums(kafka, topic))
        until(lambda: totals(app) == {"a": 111})


def test_a_topic_made_again_is_refused_by_name(tmp_path, kafka):
    """Offsets of another topic of the same name are never read, running or not."""
    topic = kafka.make()
    kafka.send(topic, [record("a", 1)] * 3)
    with running(tmp_path) as cluster:
        app = cluster.deploy(sums(kafka, topic))
        until(lambda: totals(app) == {"a": 3})
        kafka.delete(topic)
        error = until(lambda: app.topology("mb").status()["error"])
        assert (error["code"], error["context"]["topic"]) == ("E-LOG", topic)
        kafka.make(name=topic)
        kafka.send(topic, [record("b", 1)] * 9)
        said = "was deleted and made again"
        until(lambda: said in app.topology("mb").status()["error"]["message"])
        assert totals(app) == {"a": 3}
    with running(tmp_path) as cluster, pytest.raises(LogError, match=said):
        cluster.deploy(sums(kafka, topic))


def test_retention_that_overtakes_a_topology_is_named_or_skipped_as_declared(tmp_path, kafka):
    """Nothing is lost silently: it waits with an error, and goes on when that is declared."""
    topic = kafka.make()
    kafka.send(topic, [record("a", 1)] * 2)
    with running(tmp_path) as cluster:
        app = cluster.deploy(sums(kafka, topic))
        until(lambda: totals(app) == {"a": 2})
        app.pause()
        kafka.send(topic, [record("a", 10)] * 4)
        kafka.drop_below(topic, 5)
        app.resume()
        error = until(lambda: app.topology("mb").status()["error"])
        assert error["code"] == "E-OVERTAKEN"
        assert error["context"]["offset"] == "2"
        assert error["context"]["oldest"] == "5"
        app = cluster.deploy(sums(kafka, topic, overtaken="skip"))
        until(lambda: totals(app) == {"a": 12})


@pytest.mark.parametrize(
    ("begin", "expected"),
    [
        (start.beginning(), 111),
        (start.end(), 0),
        (start.after_timestamp(1_500_000), 110),
        (start.ago(1, "records"), 100),
        (start.ago(10 * 365, "days"), 0),
    ],
)
def test_a_topology_begins_where_it_says(tmp_path, kafka, begin, expected):
    """By end, beginning, time and number, as of other depots; one record comes afterwards."""
    topic = kafka.make(2)
    for n, at in enumerate((1_000_000, 2_000_000, 3_000_000)):
        kafka.send(topic, [{"value": record("a", 10**n), "timestamp": at}])
    module = Module("starts")
    bids = module.depot("bids", SCHEMA, kafka=Kafka(kafka.address, topic, malformed="stop"))
    mb = module.microbatch("mb")
    total = mb.pstate("total", int, initial=0)
    mb.source(bids, start_from=begin).aggregate(total, agg.sum("v"))
    with running(tmp_path) as cluster:
        app = cluster.deploy(module)
        kafka.send(topic, [record("a", 1000)])
        until(lambda: app.pstate("total").get() == expected + 1000)


def test_what_is_kafkas_is_not_appended_to_or_declared_here(tmp_path, kafka):
    """Partitions and retention are the topic's, appends are a producer's."""
    topic = kafka.make()
    module = sums(kafka, topic)
    with pytest.raises(
        DeclarationError, match="the partitions, the retention and the records of its log"
    ):
        module.depot("x", SCHEMA, kafka=Kafka(kafka.address, topic), partitions=2)
    with pytest.raises(DeclarationError, match="is declared twice"):
        module.depot("bids", SCHEMA)
    with running(tmp_path) as cluster:
        app = cluster.deploy(module)
        with pytest.raises(UsageError, match="in a log that others keep"):
            app.depot("bids")
        assert app.status()["depots"]["bids"]["log"]["topic"] == topic


def test_a_topic_that_is_not_there_refuses_the_deployment(tmp_path, kafka):
    """Before anything is changed."""
    with running(tmp_path) as cluster, pytest.raises(AtollError, match="there is no topic"):
        cluster.deploy(sums(kafka, "nowhere"))
