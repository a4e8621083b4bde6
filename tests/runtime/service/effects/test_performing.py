"""One request or statement: one outcome, in bounded time, whatever the other side does."""

from __future__ import annotations

import socket
import sqlite3
import threading
import time

import pytest

from atoll.outside import asking
from atoll.outside.asking import Transient
from atoll.outside.urls import UrlRules
from atoll.runtime.service.effects import performing
from atoll.runtime.service.effects.outside import Database, Outside
from atoll.runtime.service.effects.performing import perform_http, perform_sql
from atoll.runtime.service.effects.worker import EffectWorker


@pytest.fixture
def dripping():
    """The port of a server that sends a byte now and then, and never an end."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                while not ended.wait(0.02):
                    try:
                        connection.sendall(b"x")
                    except OSError:
                        return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        ended.set()
        thread.join(5)


def request(port):
    """What asks that server."""
    return {"method": "GET", "url": f"http://127.0.0.1:{port}/", "headers": {}, "body": None}


def test_a_request_is_given_up_in_its_time_however_its_answer_drips(dripping, monkeypatch):
    """One limit in all, not one for each read."""
    monkeypatch.setattr(asking, "_SECONDS_MAX", 0.3)
    outside = Outside(UrlRules(local=frozenset({f"127.0.0.1:{dripping}"})))
    before = time.monotonic()
    with pytest.raises(Transient, match=r"no whole answer in 0\.3 s"):
        perform_http(request(dripping), "key", outside)
    assert time.monotonic() - before < 5


def statement(text, paramstyle, **parameters):
    """What a driver is given."""
    database = Database(lambda: sqlite3.connect(":memory:"), paramstyle)
    return performing._bound(text, parameters, database)


@pytest.mark.parametrize(
    ("paramstyle", "text", "values"),
    [
        ("qmark", "select ?, ':b', 5 % 2 -- :c\n, ?::int", [1, 1]),
        ("pyformat", "select %(a)s, ':b', 5 %% 2 -- :c\n, %(a)s::int", {"a": 1}),
        ("named", "select :a, ':b', 5 % 2 -- :c\n, :a::int", {"a": 1}),
    ],
)
def test_parameters_are_written_as_a_driver_wants_them(paramstyle, text, values):
    """Quoted texts, comments and casts stay; a percent sign is no parameter."""
    given = "select :a, ':b', 5 % 2 -- :c\n, :a::int"
    assert statement(given, paramstyle, a=1) == (text, values)


def test_a_name_ends_for_the_driver_where_it_ended_when_it_was_checked():
    """Parameters are of ASCII: what follows is no part of the name."""
    assert statement("select :aé", "qmark", a=1) == ("select ?é", [1])


def test_a_comment_without_an_end_takes_no_longer_than_its_length():
    """A definition is anybody's; each statement runs through this at every event."""
    before = time.monotonic()
    assert statement("select :a " + "/*" * 200_000, "qmark", a=1)[1] == [1]
    assert time.monotonic() - before < 2


def test_a_statement_that_cannot_be_bound_is_an_outcome():
    """Nothing is raised."""
    database = Database(lambda: sqlite3.connect(":memory:"), "qmark")
    wanted = {"database": "d", "statement": "select :a", "parameters": {}}
    assert "error" in perform_sql(wanted, Outside(databases={"d": database}))


def test_an_effect_that_raises_is_an_error_and_the_next_one_is_performed():
    """A thread that ended would leave all that follows waiting, without a word."""

    def raising():
        raise UnicodeError("label too long")

    worker = EffectWorker.__new__(EffectWorker)
    assert worker._tried(raising) == {"error": "UnicodeError: label too long"}
