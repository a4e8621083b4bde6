"""Holds the types with effects outside, described and never done: cases 18 to 20 and 40."""

from __future__ import annotations

import pytest

from atoll.runtime.actors import kafka_consumer, kafka_producer
from atoll.runtime.actors.interface import Effect


def effect_of(actor, event):
    """The one effect that an event has; nothing is emitted meanwhile."""
    assert actor.send(event) == []
    (effect,) = actor.result.effects
    assert effect.kind == actor.kind.effect
    assert effect.key == "trial#0"
    return effect


def test_case_18_log(actor, misfits):
    """One line of compact JSON per event; whether the file is kept is said with each."""
    request = effect_of(actor("log", file="a.jsonl"), {"a": [1, "é"]}).request
    assert request == {"file": "a.jsonl", "append": False, "line": '{"a":[1,"é"]}'}
    assert effect_of(actor("log", file="a", append=True), {}).request["append"]
    assert effect_of(actor("log"), {}).request["file"] is None
    for path in ("/etc/passwd", "../a", "a/b", "", ".hidden", "a\\b", "C:a", "a..b", "x" * 99):
        assert misfits("log", file=path) == {"/file"}


def test_case_19_kafka_consumer(actor, misfits):
    """The client's four settings; messages that are no JSON objects are left out."""
    settings = {"group.id": "xyz", "zookeeper.connect": "localhost:2181"}
    consumer = actor("kafka-consumer", topic="t", kafka=settings)
    assert consumer.kind.settings(consumer.params) == {
        **settings,
        "consumer.timeout.ms": "500",
        "auto.commit.enable": "false",
    }
    messages = [b'{"n": 1}', b"no json", b'{"n": 2}', b"[3]", b'{"n": NaN}', b'{"n": 3}']
    found = [each for message in messages for each in kafka_consumer.events_of(message)]
    assert found == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert misfits("kafka-consumer", topic="t", kafka={}) == {"/kafka"}
    assert misfits("kafka-consumer", topic="t", kafka={**settings, "sasl.jaas.config": "x"}) == {
        "/kafka/sasl.jaas.config"
    }
    assert consumer.kind.runs


def test_case_19_kafka_producer(actor, misfits):
    """Key and body of a message; without settings there is no producer."""
    producer = actor("kafka-producer", topic="t", kafka={"metadata.broker.list": "a:1"})
    assert producer.kind.settings(producer.params)["producer.type"] == "async"
    event = {"key": "key", "message": {"a": 1}}
    assert kafka_producer.message_of(event) == ("key", '{"a":1}')
    assert kafka_producer.message_of({"message": {}}) == (None, "{}")
    assert kafka_producer.message_of({"key": 1, "message": {}}) is None
    assert kafka_producer.message_of({"key": "k"}) is None
    assert misfits("kafka-producer", topic="t") == {""}
    assert producer.kind.runs


STATIC = {
    "mode": "static",
    "response": "emit",
    "method": "GET",
    "url": "http://example.com/content",
}


def answered(client, **outcome):
    """The event that an answer makes."""
    return client.kind.answered(client.params, Effect("http", {}, "k"), outcome)


def test_case_20_httpclient(actor, misfits):
    """Requests as data, and answers as events."""
    client = actor("httpclient", **STATIC)
    assert effect_of(client, {"a": 1}).request == {
        "method": "GET",
        "url": "http://example.com/content",
        "headers": {},
        "body": None,
    }
    text = {"Content-Type": "text/plain; charset=UTF-8"}
    assert answered(client, status=200, reason="OK", headers=text, body="content") == (
        {"status": "200 OK", "headers": text, "body": "content"},
    )
    json = {"content-type": "application/json; charset=utf-8"}
    (found,) = answered(client, status=200, reason="OK", headers=json, body='{"a": [1]}')
    assert found["body"] == {"a": [1]}
    for broken in ("{", '{"a": NaN}', "[" * 100_000):
        (found,) = answered(client, status=200, reason="OK", headers=json, body=broken)
        assert found["body"] == broken
    assert answered(client, error="no route") == ()
    assert answered(actor("httpclient", **{**STATIC, "response": "none"}), status=200) == ()
    post = {**STATIC, "method": "POST", "headers": {"Authorization": "token"}}
    request = effect_of(actor("httpclient", **post), {"a": 1, "b": "x"}).request
    assert request["body"] == '{"a":1,"b":"x"}'
    assert request["headers"] == {"Content-Type": "application/json", "Authorization": "token"}
    assert misfits("httpclient", url="http://example.com") == {""}


def test_a_dynamic_httpclient(actor, misfits):
    """The URL is the event's, and looked at like one of a definition."""
    params = {"mode": "dynamic", "response": "none", "method": "PUT", "field": "to"}
    client = actor("httpclient", **params)
    assert effect_of(client, {"to": "https://a.com/"}).request["url"] == "https://a.com/"
    assert client.send({}) is None
    assert client.send({"to": "file:///etc/passwd"}) is None
    assert misfits("httpclient", **{**params, "url": "http://a.com"}) == {"/url"}
    assert misfits("httpclient", **{**STATIC, "url": None}) == {""}
    assert misfits("httpclient", **{**STATIC, "url": "http://u:p@a.com"}) == {"/url"}


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "x"},
        {"content-length": "1"},
        {"a b": "x"},
        {"a": "x\r\nb: y"},
        {"": "x"},
        {"Idempotency-Key": "mine"},
        {"x": "é"},
    ],
)
def test_headers_that_cannot_be(misfits, headers):
    """Neither those that end a request, nor such as would add another."""
    (name,) = headers
    assert misfits("httpclient", **STATIC, headers=headers) == {f"/headers/{name}"}


SELECT = {
    "database": "shop",
    "statement": "select * from orders where id = :id and note <> ':no' -- :none",
    "parameters": {"id": "${order.id}"},
}


def test_case_40_sql(actor, misfits):
    """Values are bound, never written into the statement; answers are typed JSON."""
    sql = actor("sql", **SELECT)
    assert effect_of(sql, {"order": {"id": "1'; drop"}}).request == {
        "database": "shop",
        "statement": SELECT["statement"],
        "parameters": {"id": "1'; drop"},
    }
    assert sql.send({"order": {}}) is None
    assert sql.send({"order": {"id": [1]}}) is None
    told = {"statement": SELECT["statement"]}
    for outcome, expected in (
        ({"rows": [{"id": 1, "total": 1.5}]}, {"success": True, "data": [{"id": 1, "total": 1.5}]}),
        ({"rows": []}, {"success": True, "data": []}),
        ({"rows": None}, {"success": True}),
        ({"error": "no such table"}, {"success": False, "error": "no such table"}),
    ):
        found = sql.kind.answered(sql.params, Effect("sql", {}, "k"), outcome)
        assert found == ({**told, **expected},)


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"statement": "select 1; drop table x", "parameters": {}}, {"/statement"}),
        ({"statement": "select 1;", "parameters": {}}, set()),
        ({"statement": "select 1; -- done", "parameters": {}}, set()),
        ({"statement": "select ';', \";\" /* ; */", "parameters": {}}, set()),
        ({"statement": "select a::text", "parameters": {}}, set()),
        ({"parameters": {}}, {"/parameters"}),
        ({"parameters": {"id": 1, "more": 2}}, {"/parameters/more"}),
        ({"parameters": {"id": {}}}, {"/parameters/id"}),
        ({"parameters": {"id": "${a[}"}}, {"/parameters/id"}),
        ({"database": "postgres://u:p@h/d"}, {"/database"}),
        ({"statement": ""}, {"/statement"}),
        ({"password": "x"}, {"/password"}),
    ],
)
def test_statements_that_cannot_be(misfits, changes, wrong):
    """One statement, all of its parameters and no others, and no address or password."""
    assert misfits("sql", **{**SELECT, **changes}) == wrong
