"""Records of depots over a real connection: three forms, resuming, silence, limits and ends."""

from __future__ import annotations

import io
import json
import time
from contextlib import contextmanager

import httpx
import pyarrow as pa
import pytest

import atoll
from atoll.server import ServerSettings, create_app
from atoll.server.serve import bind, serve

ROUTE = "/v1/modules/shop/depots/orders/records"
EVENTS = {"Accept": "text/event-stream"}


@pytest.fixture
def app(tmp_path):
    """A module with a depot of two partitions that keeps little."""
    module = atoll.Module("shop")
    module.depot(
        "orders",
        "who string, cents long, at timestamp",
        partition_by=lambda row, count: len(row["who"]) % count,
        partitions=2,
        retain_records=1,
    )
    with atoll.LocalCluster(tmp_path, engine="inline") as cluster:
        yield cluster.deploy(module)


@contextmanager
def served(app, **settings):
    """A client of the service on a socket."""
    application = create_app(app, settings=ServerSettings(**settings))
    with (
        serve(application, bind("127.0.0.1", 0)) as address,
        httpx.Client(base_url=address.url, timeout=60, trust_env=False) as client,
    ):
        yield client, application.state.context


def order(app, *cents, who="ann"):
    """Append."""
    return app.depot("orders").append([{"who": who, "cents": each, "at": None} for each in cents])


def cents(told):
    """What a piece holds."""
    return [record["cents"] for record in told["records"]]


def events(response):
    """Each event or comment as a dict of its fields."""
    found = {}
    for line in response.iter_lines():
        if line:
            name, _, value = line.partition(":")
            found[name] = value.removeprefix(" ")
            continue
        if "data" in found:
            found["data"] = json.loads(found["data"])
        yield found
        found = {}


def test_events_are_followed_live_and_resumed_by_their_id(app):
    """Each record once, over two connections; the id counts before ``from``."""
    order(app, 1, 2)
    with served(app) as (client, context):
        with client.stream("GET", ROUTE, headers=EVENTS) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            told = events(response)
            assert next(told) == {"": "subscribed"}
            first = next(told)
            assert (first["event"], cents(first["data"])) == ("records", [1, 2])
            assert (first["data"]["partition"], first["data"]["offset"]) == (1, 0)
            order(app, 3)
            second = next(told)
            assert (cents(second["data"]), second["data"]["offset"]) == ([3], 2)
        order(app, 4, who="bobo")
        again = {**EVENTS, "Last-Event-ID": first["id"]}
        with client.stream("GET", ROUTE, headers=again) as response:
            told = events(response)
            next(told)
            assert [cents(next(told)["data"]) for _ in range(2)] in ([[3], [4]], [[4], [3]])
    assert not context.subscriptions


def test_lines_end_with_what_is_there_and_say_where_to_go_on(app):
    """NDJSON unless something else is asked for; all of one depot partition, then of all."""
    order(app, 1, 2)
    order(app, 3, who="bobo")
    with served(app) as (client, _):
        lines = [json.loads(line) for line in client.get(ROUTE).text.splitlines()]
        assert sorted(map(cents, lines)) == [[1, 2], [3]]
        one = client.get(ROUTE, params={"partition": 1, "from": "1"})
        assert [cents(json.loads(line)) for line in one.text.splitlines()] == [[2]]
        order(app, 4)
        params = {"from": lines[-1]["position"], "format": "ndjson"}
        lines = client.get(ROUTE, params=params).text.splitlines()
        assert [cents(json.loads(line)) for line in lines] == [[4]]


def test_arrow_has_the_depot_s_schema_and_says_where_each_batch_lies(app):
    """In the metadata of batches; the stream ends properly."""
    order(app, 1, 2)
    with served(app) as (client, _):
        body = client.get(ROUTE, headers={"Accept": "application/vnd.apache.arrow.stream"}).content
    reader = pa.ipc.open_stream(io.BytesIO(body))
    batch, about = reader.read_next_batch_with_custom_metadata()
    assert reader.schema == app.depot("orders").spec.schema
    assert batch.column("cents").to_pylist() == [1, 2]
    assert (about[b"partition"], about[b"offset"]) == (b"1", b"0")
    assert about[b"position"].decode().startswith("r")
    with pytest.raises(StopIteration):
        reader.read_next_batch()


def test_silence_is_filled_with_the_position(app):
    """In every form; so a reader knows that it is heard, and where it is."""
    with served(app, heartbeat_seconds=0.02) as (client, _):
        with client.stream("GET", ROUTE, headers=EVENTS) as response:
            told = events(response)
            next(told)
            assert next(told)["id"].startswith("r")
        params = {"follow": "true"}
        with client.stream("GET", ROUTE, params=params) as response:
            assert list(json.loads(next(response.iter_lines()))) == ["position"]


def test_retention_that_overtook_a_reader_is_a_problem_with_its_code(app):
    """In each form as its last piece."""
    order(app, 1, 2, 3)
    depot = app.depot("orders")
    depot._writer._segment_bytes_max = 0
    for number in (4, 5):
        depot.append([{"who": who, "cents": number, "at": None} for who in ("ann", "bobo")])
    assert depot.trim() > 0
    with served(app) as (client, _):
        params = {"from": "0", "partition": 1}
        line = json.loads(client.get(ROUTE, params=params).text)
        assert line["problem"]["code"] == "E-OVERTAKEN"
        assert line["problem"]["context"]["oldest"] > 0
        with client.stream("GET", ROUTE, params=params, headers=EVENTS) as response:
            told = events(response)
            next(told)
            assert next(told)["data"]["code"] == "E-OVERTAKEN"


def test_requests_that_cannot_be_are_answered_before_anything_is_told(app):
    """With the words of the tail."""
    with served(app) as (client, _):
        answers = [
            client.get(ROUTE, params={"from": "yesterday"}),
            client.get(ROUTE, params={"from": "7"}),
            client.get(ROUTE, params={"from": "7", "partition": 0}),
            client.get(ROUTE, params={"partition": 9}),
            client.get(ROUTE.replace("orders", "none")),
            client.get(ROUTE, headers={"Accept": "image/png"}),
        ]
        assert [each.status_code for each in answers] == [400, 400, 409, 400, 404, 406]
        assert "offsets of its own" in answers[1].json()["detail"]


def test_one_who_is_slow_or_too_many_costs_the_others_nothing(app):
    """So many readers at once as subscriptions; one that takes nothing is cut off."""
    order(app, *range(20_000), who="a" * 1001)
    with served(app, subscriber_count_max=1, event_timeout_seconds=0.2) as (client, context):
        with client.stream("GET", ROUTE, params={"batch_records": 100_000}):
            assert len(context.subscriptions) == 1
            refused = client.get(ROUTE)
            assert (refused.status_code, refused.json()["code"]) == (503, "E-BUSY")
            until = time.monotonic() + 20
            while context.subscriptions and time.monotonic() < until:  # it never reads
                time.sleep(0.01)
            assert not context.subscriptions
        assert client.get(ROUTE, params={"from": "end"}).status_code == 200


def test_the_answer_ends_with_the_module(app):
    """As subscriptions do."""
    with (
        served(app) as (client, _),
        client.stream("GET", ROUTE, headers=EVENTS) as response,
    ):
        told = events(response)
        next(told)
        app.close()
        assert list(told) == []
