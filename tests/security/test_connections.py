"""S12: clients that are slow, silent or many, on real sockets."""

import json
import os
import socket
import threading

import httpx
import pytest

from atoll.access.authority import Authority
from atoll.errors import UsageError
from atoll.server import ServerSettings, create_app, serve
from atoll.server.listening.unix import unix_listener
from atoll.server.serve import bind

RECORDS = "/v1/modules/shop/depots/numbers/records"
SELECT = "/v1/modules/shop/pstates/global_sum/select"


@pytest.fixture
def service(app):
    """Starts a service with some settings."""
    stack = []

    def starting(**settings):
        running = serve(create_app(app, settings=ServerSettings(**settings)), bind("127.0.0.1", 0))
        stack.append(running)
        return running.__enter__()

    yield starting
    for running in stack:
        running.__exit__(None, None, None)


def connected(address):
    """A connection."""
    return socket.create_connection((address.host, address.port), timeout=60)


def answer_of(connection):
    """All that comes until the service closes: status and problem."""
    text = b"".join(iter(lambda: connection.recv(65_536), b""))
    head, _, body = text.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: "])
def test_a_head_that_does_not_come(service, sent):
    """A connection that says nothing, or half of it, ends in time, with the reason."""
    address = service(header_timeout_seconds=0.2)
    with connected(address) as connection:
        connection.sendall(sent)
        status, problem = answer_of(connection)
    assert (status, problem["code"]) == (408, "E-TIMEOUT")


def test_trickling_prolongs_nothing(service):
    """A byte now and then is no head; also in the second request of a connection."""
    address = service(header_timeout_seconds=0.5)
    with connected(address) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b"ok" in b"".join(iter(lambda: connection.recv(1), b"}"))
        stop = threading.Event()

        def trickle():
            while not stop.wait(0.05):
                try:
                    connection.sendall(b"G")
                except OSError:
                    return

        thread = threading.Thread(target=trickle)
        thread.start()
        text = connection.recv(65_536)
        stop.set()
        thread.join()
    assert text.startswith(b"HTTP/1.1 408")


def test_a_body_that_does_not_come(service):
    """One that is not streamed must be there in time, however it trickles."""
    address = service(body_timeout_seconds=0.2)
    with connected(address) as connection:
        connection.sendall(
            f"POST {SELECT} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n"
            'Connection: close\r\nContent-Type: application/json\r\n\r\n{"pa'.encode()
        )
        status, problem = answer_of(connection)
    assert (status, problem["code"]) == (408, "E-TIMEOUT")


def test_a_new_connection_takes_the_place_of_a_silent_one(service):
    """However many connect and wait, who asks is answered."""
    address = service(connection_count_max=8)
    silent = [connected(address) for _ in range(40)]
    try:
        for _ in range(10):
            assert httpx.get(f"{address.url}/healthz", timeout=60).status_code == 200
    finally:
        for each in silent:
            each.close()


def test_when_all_are_busy_a_new_one_is_refused(service):
    """With the reason; those that are being answered go on."""
    address = service(connection_count_max=4)
    head = (
        f"POST {RECORDS} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
        "Content-Type: application/x-ndjson\r\nExpect: 100-continue\r\n\r\n"
    ).encode()
    busy = [connected(address) for _ in range(4)]
    for each in busy:
        each.sendall(head)
        assert each.recv(100).startswith(b"HTTP/1.1 100")
    with connected(address) as connection:
        status, problem = answer_of(connection)
    assert (status, problem["code"]) == (503, "E-BUSY")
    for each in busy:
        each.sendall(b'9\r\n{"v": 1}\n\r\n0\r\n\r\n')
        assert each.recv(65_536).startswith(b"HTTP/1.1 200")
        each.close()


def test_trickling_uploads_make_room(service, app):
    """While others wait, a streamed body that makes no headway ends."""
    address = service(chunk_timeout_seconds=1.0, stream_count_max=1)
    head = (
        f"POST {RECORDS} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
        "Content-Type: application/x-ndjson\r\nExpect: 100-continue\r\n\r\n"
    ).encode()
    with connected(address) as slow:
        slow.sendall(head)
        assert slow.recv(100).startswith(b"HTTP/1.1 100")
        stop = threading.Event()

        def trickle():
            while not stop.wait(0.1):
                try:
                    slow.sendall(b"1\r\n \r\n")
                except OSError:
                    return

        thread = threading.Thread(target=trickle)
        thread.start()
        headers = {"content-type": "application/x-ndjson"}
        good = httpx.post(address.url + RECORDS, content=b'{"v": 7}', headers=headers, timeout=60)
        stop.set()
        thread.join()
    assert good.json()["appended"] == 1
    assert app.depot("numbers").rows == [{"v": 7}]


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"NONSENSE\r\n\r\n", b"\0" * 50]
)
def test_what_is_no_http_is_a_problem(service, sent):
    """Also what is not understood is answered in the one shape that errors have."""
    with connected(service()) as connection:
        connection.sendall(sent + b"\r\n\r\n")
        status, problem = answer_of(connection)
    assert (status, problem["code"]) == (400, "E-USAGE")


def test_a_long_head_is_refused(service):
    """Whether it comes in one piece or not."""
    address = service()
    answer = httpx.get(f"{address.url}/healthz", headers={"x-long": "x" * 20_000})
    assert answer.status_code in {400, 431}
    many = {f"x-{number}": "x" * 100 for number in range(170)}
    assert httpx.get(f"{address.url}/healthz", headers=many).status_code in {400, 431}


def test_addresses_cannot_be_made_up(app, root, tokens, bearer):
    """Without a proxy nobody is believed where it calls from: guessing is throttled."""
    application = create_app(app, authority=Authority.of(root))
    with serve(application, bind("127.0.0.1", 0)) as address:
        statuses = [
            httpx.get(
                f"{address.url}/v1/modules",
                headers={**bearer("x"), "x-forwarded-for": f"1.1.1.{n}"},
            ).status_code
            for n in range(12)
        ]
    assert statuses == [401] * 10 + [429] * 2


def test_a_unix_socket_knows_its_user(app, root, tokens, bearer, tmp_path):
    """Who runs the service needs no token there; one that is shown counts all the same."""
    path = tmp_path / "s"
    application = create_app(app, authority=Authority.of(root))
    with (
        unix_listener(path) as unix,
        serve(application, bind("127.0.0.1", 0), unix=unix) as address,
    ):
        assert path.stat().st_mode & 0o777 == 0o600
        with httpx.Client(
            transport=httpx.HTTPTransport(uds=str(path)), base_url="http://localhost"
        ) as client:
            told = client.get("/v1/session").json()
            assert (told["how"], told["role"]) == ("socket", "admin")
            assert str(os.geteuid()) in told["name"]
            told = client.get("/v1/session", headers=bearer(tokens["viewer"])).json()
            assert (told["how"], told["role"]) == ("token", "viewer")
            assert client.get("/v1/modules", headers=bearer("x")).status_code == 401
        assert httpx.get(f"{address.url}/v1/modules").status_code == 401
        with pytest.raises(UsageError, match="cannot listen"), unix_listener(path):
            pass
    assert not path.exists()


def test_a_socket_that_was_left_is_taken(tmp_path):
    """One that a killed process left; never a file of somebody else's."""
    path = tmp_path / "s"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    with unix_listener(path):
        pass
    path.write_text("mine")
    with pytest.raises(UsageError), unix_listener(path):
        pass
    assert path.read_text() == "mine"
