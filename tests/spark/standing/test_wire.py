"""Messages arrive whole or not at all, and nobody is believed who does not know the secret."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from atoll.spark.standing import wire as wires
from atoll.spark.standing.wire import ImpostorError, OutOfPlaceError, Wire, header_of, prove, verify

SECRET = b"s" * 32
HELLO = b"who I am"


@pytest.fixture
def connect():
    """Makes connections: both ends of each."""
    with contextlib.ExitStack() as ends:

        def make():
            made = [Wire(each) for each in socket.socketpair()]
            for each in made:
                ends.callback(each.close)
            return made

        yield make


@pytest.fixture
def pair(connect):
    """Both ends of a connection."""
    return connect()


@pytest.fixture
def quick(monkeypatch):
    """Whoever is silent is waited for only a moment."""
    monkeypatch.setattr(wires, "HANDSHAKE_SECONDS_MAX", 0.2)


def both(first, second):
    """Run two ends at once; what each returned or raised."""

    def outcome(call):
        try:
            return call()
        except Exception as error:  # noqa: BLE001 - it is the outcome
            return error

    with ThreadPoolExecutor(2) as pool:
        return [each.result(10) for each in [pool.submit(outcome, c) for c in (first, second)]]


def test_what_is_no_beginning_of_a_message(pair):
    """Who lost the place in the stream notices at once, however long the bytes say it is."""
    driver, task = pair
    task._socket.sendall(b"a part of a message, " * 3)
    with pytest.raises(OutOfPlaceError, match="not the beginning"):
        driver.receive(time.monotonic() + 10)


def test_both_ends_prove_themselves(pair):
    """The driver learns who came; then either may speak."""
    driver, task = pair
    found, nothing = both(lambda: verify(driver, SECRET), lambda: prove(task, SECRET, HELLO))
    assert (found, nothing) == (HELLO, None)
    driver.send(b"work")
    assert task.receive() == b"work"


def test_a_task_without_the_secret_is_refused(pair):
    """And hears nothing from the driver but the challenge."""
    driver, task = pair

    def refusing():
        try:
            return verify(driver, SECRET)
        finally:
            driver.sever()

    refused, unheard = both(refusing, lambda: prove(task, b"t" * 32, HELLO))
    assert isinstance(refused, ImpostorError)
    assert isinstance(unheard, EOFError | OSError)


def test_a_driver_without_the_secret_is_refused(pair):
    """A task does no work for whoever happens to listen at the address."""
    driver, task = pair

    def pretend():
        driver.send(b"c" * 32)
        answer = driver.receive()
        driver.send(os.urandom(32))
        return answer

    answered, refused = both(pretend, lambda: prove(task, SECRET, HELLO))
    assert isinstance(refused, ImpostorError)
    assert SECRET not in answered, "the secret itself is never sent"


def recorded(driver, task):
    """All that a task sends while it proves itself."""
    sent = []
    plain = task.send
    task.send = lambda message, until=None: (sent.append(bytes(message)), plain(message, until))
    both(lambda: verify(driver, SECRET), lambda: prove(task, SECRET, HELLO))
    return sent


def test_an_answer_seen_before_is_refused(connect):
    """Each connection has a challenge of its own."""
    (answer,) = recorded(*connect())
    driver, task = connect()

    def replay():
        task.receive()
        task.send(answer)

    refused, _ = both(lambda: verify(driver, SECRET), replay)
    assert isinstance(refused, ImpostorError)


def test_a_driver_cannot_use_the_task_s_own_answer(pair):
    """Its digest sent back, with its own challenge as the driver's, is none of the driver's."""
    driver, task = pair

    def reflect():
        driver.send(b"c" * 32)
        answer = driver.receive()
        driver.send(answer[:32])

    _, refused = both(reflect, lambda: prove(task, SECRET, HELLO))
    assert isinstance(refused, ImpostorError)


def test_an_answer_cannot_be_put_to_another_use(connect):
    """Whoever stands between may pass on what a task said of itself, and nothing else."""
    (driver, impostor), (other, asked) = connect(), connect()

    def relay():
        """Let a task answer the driver's challenge, and say something else in its name."""
        other.send(impostor.receive())
        answer = other.receive()
        impostor.send(answer[:64] + b"somebody else")

    with ThreadPoolExecutor(1) as pool:
        proving = pool.submit(prove, asked, SECRET, HELLO)
        refused, _ = both(lambda: verify(driver, SECRET), relay)
        other.sever()
        assert isinstance(proving.exception(10), EOFError | OSError)
    assert isinstance(refused, ImpostorError)


@pytest.mark.parametrize("cut", [0, 31, 32, 63, 64])
def test_an_answer_that_is_cut_short_is_refused(connect, cut):
    """Also where the digest itself is not whole, or nothing at all is there."""
    (answer,) = recorded(*connect())
    driver, task = connect()
    refused, _ = both(lambda: verify(driver, SECRET), lambda: task.send(answer[:cut]))
    assert isinstance(refused, ImpostorError)


def test_a_hello_that_is_too_long_is_refused_unread(pair):
    """Whoever is not known yet cannot have memory set aside: only the length was sent."""
    driver, task = pair
    length = header_of(1 << 40)
    refused, _ = both(lambda: verify(driver, SECRET), lambda: task._socket.sendall(length))
    assert isinstance(refused, ImpostorError)
    driver._socket.sendall(length)
    with pytest.raises(ImpostorError):
        prove(task, SECRET, HELLO)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("said", [b"", b"\0\0\0", header_of(70) + b"half"])
def test_silence_is_waited_for_a_moment(connect, said):
    """Before anything, in the middle of a length, in the middle of an answer."""
    (driver, task), (other, asked) = connect(), connect()
    task._socket.sendall(said)
    other._socket.sendall(said[:5])
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        verify(driver, SECRET)
    with pytest.raises(TimeoutError):
        prove(asked, SECRET, HELLO)
    assert time.monotonic() - began < 5


@pytest.mark.usefixtures("quick")
def test_one_byte_at_a_time_gains_no_time(pair):
    """The time is for the whole of it, not for each byte."""
    driver, task = pair
    over = threading.Event()

    def drip():
        with contextlib.suppress(OSError):
            while not over.wait(0.01):
                task._socket.sendall(b"\0")

    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        with pytest.raises((TimeoutError, ImpostorError)):
            verify(driver, SECRET)
    finally:
        over.set()
        dripping.join()


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n" * 9, b"\xff" * 200, b"\0" * 200])
def test_who_speaks_another_protocol_is_refused(pair, garbage):
    """A browser, a scanner, zeros."""
    driver, task = pair
    task._socket.sendall(garbage)
    with pytest.raises(ImpostorError):
        verify(driver, SECRET)


def test_who_hangs_up_is_gone(pair):
    """EOFError at either end, at once."""
    driver, task = pair
    task.close()
    with pytest.raises((EOFError, OSError)):
        verify(driver, SECRET)
    with pytest.raises((EOFError, OSError)):
        driver.receive()


SIZES = [0, 1, 7, 8, 64 * 1024, 64 * 1024 + 1, 5_000_000]


def test_messages_of_any_size(pair):
    """One after the other, without a boundary lost; also where one send is not enough."""
    one, other = pair
    messages = [os.urandom(size) for size in SIZES]
    _, found = both(
        lambda: [one.send(each) for each in messages],
        lambda: [bytes(other.receive()) for _ in messages],
    )
    assert found == messages
    assert one.is_quiet()
    assert other.is_quiet()


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_messages_in_pieces(pair, size):
    """A stream has no messages: what is cut anywhere comes out whole."""
    one, other = pair
    messages = [os.urandom(each) for each in (0, 5, 40, 3000)]
    stream = b"".join(header_of(len(each)) + each for each in messages)

    def send():
        for at in range(0, len(stream), size):
            one._socket.sendall(stream[at : at + size])

    _, found = both(send, lambda: [bytes(other.receive()) for _ in messages])
    assert found == messages


@pytest.mark.parametrize("said", [b"", b"\0\0", header_of(9) + b"half"])
def test_the_end_of_the_other_side(pair, said):
    """Between two messages or within one: EOFError, never a part of a message."""
    one, other = pair
    one._socket.sendall(said)
    one.close()
    assert not other.is_quiet(), "the end is something that came"
    with pytest.raises(EOFError):
        other.receive()


def test_a_message_that_is_not_taken(pair):
    """Whoever sends gives up in time."""
    one, _ = pair
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        one.send(b"x" * 50_000_000, began + 0.2)
    assert time.monotonic() - began < 5


def test_severing_ends_a_wait_in_another_thread(pair):
    """Of both ends; and twice is once."""
    one, other = pair
    with ThreadPoolExecutor(2) as pool:
        waits = [pool.submit(each.receive) for each in pair]
        one.sever()
        one.sever()
        assert all(isinstance(each.exception(10), EOFError | OSError) for each in waits)
    assert not other.is_quiet()


def test_whoever_forgets_a_connection_closes_it():
    """Also in a cycle, as a failure and its trace make one: the other end hears of it."""
    mine, theirs = socket.socketpair()
    forgotten = Wire(mine)
    del mine
    cycle = [forgotten]
    cycle.append(cycle)
    del forgotten, cycle
    gc.collect()
    with theirs:
        assert theirs.recv(1) == b""


def test_over_tcp():
    """The same with a socket of that kind, whose small messages leave at once."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = Wire(socket.create_connection(listener.getsockname()))
        driver = Wire(listener.accept()[0])
    for each in (task, driver):
        assert each._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert each._socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    found, _ = both(lambda: verify(driver, SECRET), lambda: prove(task, SECRET, HELLO))
    assert found == HELLO
    task.close()
    with pytest.raises(EOFError):
        driver.receive()
    driver.close()
