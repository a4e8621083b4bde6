"""A connection that breaks: what is sent again, what is not, and that nothing is stored twice."""

from __future__ import annotations

import asyncio
import socket
import threading
from decimal import Decimal

import pytest

import atoll
from atoll import path
from atoll.client.asking.calls import Again, Call, LostAnswerError, pause_before_next
from atoll.client.errors import ServiceError, ServiceUnreachableError, error_of
from atoll.codec.values.exchange import Frames, framed, packed, unpacked
from atoll.errors import NotFoundError, StateError, StoppedError, UsageError

CALL = Call("GET", ("v1",), lambda data: data)
ONCE = Call("POST", ("v1",), lambda data: data, again=Again.UNSENT)


class Flaky:
    """Passes bytes on to a service, and breaks off when told to.

    ``lose_answers`` breaks off that many connections as soon as the service answers.
    """

    def __init__(self, url):
        host, _, port = url.removeprefix("http://").partition(":")
        self.target = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.lose_answers = 0
        self.open = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                here, _ = self.listener.accept()
            except OSError:
                return
            there = socket.create_connection(self.target)
            self.open += [here, there]
            threading.Thread(target=self._pass, args=(here, there, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(there, here, True), daemon=True).start()

    def _pass(self, source, target, answers):
        try:
            while data := source.recv(65536):
                if answers and self.lose_answers:
                    self.lose_answers -= 1
                    break
                target.sendall(data)
        except OSError:
            pass
        for each in (source, target):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def cut(self):
        """Break all connections off."""
        for each in self.open:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def close(self):
        """End."""
        self.listener.close()
        self.cut()


@pytest.fixture
def flaky(url):
    """A way to the service that breaks off."""
    made = Flaky(url)
    yield made
    made.close()


def test_an_append_whose_answer_is_lost_is_stored_once(flaky):
    """It is sent again under its producer's number, and says that it was there."""
    with atoll.connect(flaky.url) as app:
        depot = app.depot("words")
        before = depot.everything().count
        flaky.lose_answers = 2
        receipt = depot.append([{"word": "lost", "n": n} for n in range(3)])
        assert receipt.duplicate
        assert receipt.count == 3
        assert depot.everything().count == before + 3
        flaky.lose_answers = 1
        assert depot.append({"word": "lost", "n": 3}).duplicate
        assert not depot.append({"word": "lost", "n": 4}).duplicate
        assert depot.everything().count == before + 5
        app.wait(receipt)


def test_many_threads_append_at_once(flaky):
    """Each under a producer's name of its own while it does; all are stored once."""
    with atoll.connect(flaky.url) as app:
        depot = app.depot("words")
        before = depot.everything().count
        flaky.lose_answers = 3
        threads = [
            threading.Thread(target=depot.append, args=([{"word": f"t{n}", "n": 1}],))
            for n in range(6)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert depot.everything().count == before + 6


def test_a_subscription_and_a_tail_go_on(flaky):
    """Each change and each record once, though the connection breaks off between them."""
    with atoll.connect(flaky.url) as app:
        depot = app.depot("words")
        app.wait(depot.append({"word": "goes", "n": 1}))
        with (
            app.subscribe("counts", path.key("goes")) as changes,
            depot.tail(atoll.start.end()) as tail,
        ):
            value = changes.next(10).apply()
            for number in range(3):
                app.wait(depot.append({"word": "goes", "n": 1}))
                value = changes.next(10).apply(value)
                assert value == 2 + number
                assert len(tail.next(10)) == 1
                flaky.cut()
            assert changes.next(0.05) is None


def test_closing_ends_a_wait(url):
    """A thread that waits for a change goes on when another closes the subscription."""
    with atoll.connect(url) as app:
        changes = app.subscribe("total")
        assert changes.next(10).kind == "snapshot"
        told = []
        waiting = threading.Thread(target=lambda: told.append(changes.next()))
        waiting.start()
        changes.close()
        waiting.join(10)
        assert told == [None]


def test_nothing_answers():
    """It is said at once, and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ServiceUnreachableError, match="no service answers"):
        atoll.connect(f"http://127.0.0.1:{port}")


def test_mistakes_of_connecting(url, tmp_path):
    """What cannot be connected to, and what else to write."""
    with pytest.raises(NotFoundError, match="no module 'no'"):
        atoll.connect(url, "no")
    with pytest.raises(UsageError, match="as a root folder needs"):
        atoll.connect(str(tmp_path))
    with pytest.raises(UsageError, match="takes no token"):
        atoll.connect(tmp_path, "shop", token="t")
    with pytest.raises(UsageError, match="token"):
        atoll.connect(url, token="a\nb")
    with pytest.raises(UsageError, match="no address"):
        atoll.connect("http://")


def test_for_tasks(flaky):
    """The same from an event loop."""

    async def program():
        async with await atoll.connect_async(flaky.url) as app:
            depot = await app.depot("words")
            flaky.lose_answers = 1
            receipt = await depot.append([{"word": "task", "n": 2}])
            assert receipt.duplicate
            assert set(await app.wait(receipt)) == {"mb"}
            counts = await app.pstate("counts")
            assert await counts.get("task") == 2
            assert await counts.select(path.key("task")) == [2]
            assert await app.query("how_many", word="task") == 2
            changes = app.subscribe("counts", path.key("task"))
            async with changes:
                assert (await anext(changes)).new == 2
                await app.wait(await depot.append([{"word": "task", "n": 2}]))
                flaky.cut()
                assert (await anext(changes)).new == 4
            async with await depot.tail(
                receipt.token, partition=next(iter(receipt.offsets))
            ) as tail:
                assert len(await anext(tail)) == 1
            batches = [batch async for batch in await depot.tail(follow=False)]
            assert sum(map(len, batches)) == (await depot.everything()).count
            assert (await app.topology("mb").status())["state"] == "running"
            assert await app.options.get("depot.max.fetch", topology="mb") > 0
            with pytest.raises(NotFoundError):
                await app.pstate("no")

    asyncio.run(program())


@pytest.mark.parametrize(
    ("call", "error", "again"),
    [
        (CALL, LostAnswerError("x"), True),
        (CALL, ServiceUnreachableError("x"), True),
        (CALL, StoppedError("x"), True),
        (CALL, UsageError("x"), False),
        (CALL, ServiceError("x"), False),
        (ONCE, ServiceUnreachableError("x"), True),
        (ONCE, LostAnswerError("x"), False),
        (ONCE, StoppedError("x"), False),
    ],
)
def test_what_is_sent_again(call, error, again):
    """Only what changes nothing twice, and only while there is time."""
    assert (pause_before_next(call, error, 1, 1.0) is not None) == again
    assert pause_before_next(call, error, 1, 0.0) is None


def test_pauses_grow_to_a_limit():
    """So that a service that comes back is not flooded."""
    pauses = [pause_before_next(CALL, LostAnswerError("x"), n, 1e9) for n in range(1, 9)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == pauses[-2] == 2.0


def test_an_error_of_an_unknown_kind():
    """It keeps code, hint and context."""
    error = error_of({"code": "E-NEW", "detail": "x", "hint": "y", "context": {"self": 1, "a": 2}})
    assert (error.code, error.hint, error.context) == ("E-NEW", "y", {"a": 2})


def test_frames_come_apart_wherever_they_were_cut():
    """Byte by byte as well as at once."""
    values = [{"a": 1}, {"b": [1, (2, 3)]}, {"c": Decimal("1.5")}]
    data = b"".join(map(framed, values))
    for size in (1, 3, 7, len(data)):
        frames, found = Frames(), []
        for at in range(0, len(data), size):
            found += frames.feed(data[at : at + size])
        assert found == values
        assert not frames.cut
    assert Frames().feed(data[:5]) == []
    with pytest.raises(StateError, match="no stream"):
        Frames().feed(b"\xff" * 9)


def test_bytes_that_are_no_value():
    """They are refused by name."""
    for data in (b"", b"\xc1", packed({1: 2})[:-1], b"\xd4\x63\x00"):
        with pytest.raises(StateError, match="no value"):
            unpacked(data)
    with pytest.raises(StateError, match="no value that can be sent"):
        packed(object())
