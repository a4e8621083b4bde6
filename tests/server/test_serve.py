"""The service on a real socket: large bodies in little memory, senders that stop or crawl."""

import resource
import socket
import threading

import httpx
import pytest
from fakes import FakeApp

from atoll.depot.receipt import Receipt
from atoll.errors import UsageError
from atoll.server import ServerSettings, create_app, serve
from atoll.server.serve import ServingAddress, bind

NDJSON = {"content-type": "application/x-ndjson"}
RECORDS = "/v1/modules/key-pairs/depots/numbers/records"


@pytest.fixture
def address(app):
    """A running service."""
    with serve(create_app(app), bind("127.0.0.1", 0)) as found:
        yield found


@pytest.fixture
def impatient(app):
    """A running service with short patience: no sender of this machine is always as fast."""
    application = create_app(app, settings=ServerSettings(chunk_timeout_seconds=0.3))
    with serve(application, bind("127.0.0.1", 0)) as found:
        yield found


def test_a_large_body_streams_through(address, app):
    """100 MB pass in a fraction of that memory: chunks are fetched only when they are wanted."""
    counted = []

    def count(batches, on_invalid, producer):
        total = sum(checked.batch.num_rows for checked in batches)
        counted.append(total)
        return Receipt("numbers", total, {0: (0, total)}, module="shop")

    app.depot("numbers").append_stream = count
    chunk = b'{"v": 1234567890}\n' * 10_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = httpx.post(
        address.url + RECORDS, content=(chunk for _ in range(560)), headers=NDJSON, timeout=60
    )
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert answer.json()["appended"] == 5_600_000
    assert counted == [5_600_000]
    assert grown_kib < 60_000


def test_a_sender_that_goes_away_leaves_nothing(address, app):
    """A body that ends early is no shorter body: the append sees an error, not an end."""
    failed = threading.Event()
    append = app.depot("numbers").append_stream

    def noticing(batches, on_invalid, producer):
        try:
            return append(batches, on_invalid, producer=producer)
        except BaseException:
            failed.set()
            raise

    app.depot("numbers").append_stream = noticing
    with socket.create_connection((address.host, address.port)) as connection:
        connection.sendall(
            f"POST {RECORDS} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n"
            'Content-Type: application/x-ndjson\r\n\r\n{"v": 1}\n'.encode()
        )
    assert failed.wait(60)
    assert app.depot("numbers").rows == []


def test_a_crawling_sender_is_told_so(impatient, app):
    """408 after the time given; the thread is free again."""
    with socket.create_connection((impatient.host, impatient.port), timeout=60) as connection:
        connection.sendall(
            f"POST {RECORDS} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n"
            'Connection: close\r\nContent-Type: application/x-ndjson\r\n\r\n{"v": 1}\n'.encode()
        )
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"E-TIMEOUT" in answer
    assert app.depot("numbers").rows == []


def test_an_early_refusal_reaches_the_sender(address, app):
    """A sender in the middle of a long body still reads why it is refused."""
    body = [b"nonsense " * 1_000_000] * 4
    answer = httpx.post(address.url + RECORDS, content=iter(body), headers=NDJSON, timeout=60)
    assert answer.status_code == 400
    assert "a line is longer" in answer.json()["detail"]


def test_readers_do_not_wait_for_senders(address, app):
    """Slow bodies use threads of their own; a select is answered at once."""
    connections = [socket.create_connection((address.host, address.port)) for _ in range(12)]
    try:
        for connection in connections:
            connection.sendall(
                f"POST {RECORDS} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n"
                "Content-Type: application/x-ndjson\r\n\r\n".encode()
            )
        url = f"{address.url}/v1/modules/key-pairs/pstates/global_sum/select"
        assert httpx.post(url, json={"path": []}, timeout=60).json() == {"values": [11]}
    finally:
        for connection in connections:
            connection.close()


def test_it_listens_where_it_was_told_and_nowhere_else(address):
    """The loopback address only, by default."""
    assert (address.host, address.loopback) == ("127.0.0.1", True)
    assert address.url == f"http://127.0.0.1:{address.port}"
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", address.port), timeout=60)


def test_it_stops(app):
    """After the block nothing listens; the port can be used again."""
    with serve(create_app(app), bind("127.0.0.1", 0)) as address:
        assert httpx.get(f"{address.url}/healthz").status_code == 200
    bind("127.0.0.1", address.port).close()


def test_a_port_in_use_is_an_error_at_once():
    """Before anything slow is started, with the remedy."""
    with bind("127.0.0.1", 0) as taken, pytest.raises(UsageError) as caught:
        bind("127.0.0.1", taken.getsockname()[1])
    assert "--port" in (caught.value.hint or "")
    with pytest.raises(UsageError):
        bind("no.such.host.invalid", 0)


def test_addresses():
    """IPv6 is written in brackets; other machines' reach is recognised."""
    assert ServingAddress("::1", 80).url == "http://[::1]:80"
    assert ServingAddress("::1", 80).loopback
    assert ServingAddress("localhost", 80).loopback
    assert not ServingAddress("0.0.0.0", 80).loopback
    assert not ServingAddress("atoll.internal", 80).loopback


def test_settings_are_checked():
    """Limits that refuse everything are refused."""
    for wrong in ({"body_bytes_max": 0}, {"chunk_timeout_seconds": 0}, {"stream_count_max": -1}):
        with pytest.raises(UsageError):
            ServerSettings(**wrong)


def test_fakes_are_apps():
    """The tests' module satisfies what the service asks for."""
    assert create_app(FakeApp()).state.context.app("key-pairs").name == "key-pairs"
