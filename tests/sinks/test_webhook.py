"""Webhooks against the contract on a real HTTP server, and which requests they send and refuse."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa
import pytest

from atoll.errors import SinkError
from atoll.sinks import Opening, SinkRows, Webhook
from atoll.testing.sinks import SinkContract, parcel_of, sample_rows

IDS = SinkRows(pa.schema([("id", pa.int64())]))
OPENING = Opening("m/t/s/0", 1, IDS)


class Receiver:
    """Remembers requests by their key, as a service should."""

    def __init__(self):
        self.requests = []
        self.answers = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((self.path, dict(self.headers), body))
                status, extra = receiver.answers.pop(0) if receiver.answers else (204, {})
                if status is None:
                    self.close_connection = True  # the answer is lost
                    return
                self.send_response(status)
                for name, value in extra.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.local = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def rows(self, path):
        """Each row once, by key."""
        known = {
            headers["Idempotency-Key"]: json.loads(body)
            for at, headers, body in self.requests
            if at == path
        }
        found = sorted(known.values(), key=lambda each: (each["number"], each["first"]))
        return [row for each in found for row in each["rows"]]


@pytest.fixture
def receiver():
    """On a free port."""
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


class TestWebhook(SinkContract):
    """At least once: what remains when repetitions are dropped by key."""

    types = ("boolean", "tinyint", "smallint", "integer", "bigint", "string", "array", "struct")

    @pytest.fixture(autouse=True)
    def _server(self, receiver):
        self.receiver = receiver

    def make_sink(self, target):
        """A path of that name; several requests per parcel."""
        url = f"http://{self.receiver.local}/{target}"
        return Webhook(url, rows_per_request=4, local=(self.receiver.local,))

    def held(self, target):
        """By key."""
        return self.receiver.rows(f"/{target}")


def test_the_same_rows_come_under_the_same_key(receiver):
    """Whatever batches they come in, and whoever sends them."""
    sink = Webhook(f"http://{receiver.local}/x", rows_per_request=2, local=(receiver.local,))
    whole = pa.table({"id": pa.array(range(5), pa.int64())})
    for rows in (whole, pa.concat_tables([whole.slice(0, 1), whole.slice(1)])):
        sink.open(OPENING).write(parcel_of(3, rows))
    sent = [(headers["Idempotency-Key"], body) for _, headers, body in receiver.requests]
    assert sent[:3] == sent[3:]
    assert [key for key, _ in sent[:3]] == ["m/t/s/0/3/0", "m/t/s/0/3/2", "m/t/s/0/3/4"]
    first = json.loads(sent[1][1])
    assert first == {
        "sink": "m/t/s/0",
        "number": 3,
        "microbatch": 9,
        "timeline": 0,
        "first": 2,
        "records": 5,
        "keys": [],
        "rows": [{"id": 2}, {"id": 3}],
    }


def test_a_secret_signs_key_and_body(receiver):
    """So that neither can be changed on the way, and neither is sent for another."""
    sink = Webhook(f"http://{receiver.local}/x?token=canary", secret="s3", local=(receiver.local,))
    sink.open(OPENING).write(parcel_of(1, pa.table({"id": [1]})))
    [(_, headers, body)] = receiver.requests
    expected = hmac.new(b"s3", headers["Idempotency-Key"].encode() + b"\n" + body, hashlib.sha256)
    assert headers["Atoll-Signature"] == f"sha256={expected.hexdigest()}"
    shown = repr(Webhook("https://x/", headers={"A": "canary"}, secret="canary")) + sink.target
    assert "canary" not in shown


def test_all_types_are_json(receiver):
    """No value is lost: what JSON does not have is text."""
    sink = Webhook(f"http://{receiver.local}/x", local=(receiver.local,))
    rows = sample_rows()
    sink.open(Opening("x", 1, SinkRows(rows.schema))).write(parcel_of(1, rows))
    first, second, third = receiver.rows("/x")
    assert second["a_double"] == "Infinity"
    assert first["a_decimal"] == "-1234567890123456.7891"
    assert first["a_bigint"] == -(2**63)
    assert second["a_timestamp"] == "2026-02-03T04:05:06.789012Z"
    assert second["a_timestamp_ntz"] == "2026-02-03T04:05:06.789012"
    assert first["a_date"] == "0001-01-01"
    assert second["a_map"] == {"k": 1, "l": None}
    assert {"id"} == {name for name, value in third.items() if value is not None}


@pytest.mark.parametrize("status", [400, 404, 409, 500, 503, None])
def test_any_answer_but_2xx_is_a_failure_and_is_sent_again(receiver, status):
    """A lost answer too: the row is there once by its key."""
    sink = Webhook(f"http://{receiver.local}/x", local=(receiver.local,))
    receiver.answers = [(status, {})]
    parcel = parcel_of(1, pa.table({"id": [1]}))
    with pytest.raises(SinkError, match="does not take rows"):
        sink.open(OPENING).write(parcel)
    sink.open(OPENING).write(parcel)
    assert len(receiver.requests) == 2
    assert receiver.rows("/x") == [{"id": 1}]


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/x",
        "http://localhost:{port}/x",
        "http://[::1]:{port}/x",
        "http://[::ffff:127.0.0.1]:{port}/x",
        "http://169.254.169.254/latest/meta-data",
        "http://metadata.google.internal/",
        "http://10.0.0.1/x",
    ],
)
def test_what_is_not_public_is_not_asked(receiver, url):
    """Unless it is named; the server sees nothing."""
    sink = Webhook(url.format(port=receiver.server.server_port))
    with pytest.raises(SinkError, match="does not take rows"):
        sink.open(OPENING).write(parcel_of(1, pa.table({"id": [1]})))
    assert receiver.requests == []


def test_a_redirect_to_what_may_not_be_asked_is_not_followed(receiver):
    """A redirect is a new URL."""
    sink = Webhook(f"http://{receiver.local}/x", local=(receiver.local,))
    receiver.answers = [(307, {"Location": "http://169.254.169.254/"})]
    with pytest.raises(SinkError, match=r"not among those allowed|link-local"):
        sink.open(OPENING).write(parcel_of(1, pa.table({"id": [1]})))
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "ftp://example.com/"},
        {"url": "http://user:pass@example.com/"},
        {"url": "http://2130706433/"},
        {"url": "http://example.com/", "headers": {"X": "a\r\nY: b"}},
        {"url": "http://example.com/", "headers": {"Idempotency-Key": "a"}},
        {"url": "http://example.com/", "rows_per_request": 0},
    ],
)
def test_what_could_never_be_sent_is_refused_where_it_is_declared(wrong):
    """Before anything is deployed."""
    with pytest.raises(SinkError):
        Webhook(**wrong)
