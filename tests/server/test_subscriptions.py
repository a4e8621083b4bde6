"""Subscriptions over a real connection: events, resuming, silence, limits and ends."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import contextmanager

import httpx
import pytest

import atoll
from atoll import Map, agg, start
from atoll.server import ServerSettings, create_app
from atoll.server.serve import bind, serve

ROUTE = "/v1/modules/live/pstates/counts/subscribe"


@pytest.fixture
def app(tmp_path):
    """A module that runs by itself."""
    module = atoll.Module("live")
    words = module.depot("words", "who string, word string", partition_by="who", partitions=2)
    mb = module.microbatch("mb", vnode_count=4)
    counts = mb.pstate("counts", Map(str, Map(str, int)))
    hidden = mb.pstate("hidden", Map(str, int), private=True)
    source = mb.source(words, start_from=start.beginning())
    source.aggregate(counts["who"]["word"], agg.count())
    source.aggregate(hidden["who"], agg.count())
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


def say(app, *words, who="ann"):
    """Append, and wait until it is committed."""
    done = app.topology("mb").status()["processed"]
    app.depot("words").append([{"who": who, "word": word} for word in words])
    app.topology("mb").wait_processed(done + len(words))


def test_events_carry_each_commit_s_changes(app):
    """First the value, then what differs, each with the commit's number as its id."""
    say(app, "a", "b")
    with served(app) as (client, _):
        with client.stream("GET", ROUTE, params={"path": '[["key","ann"]]'}) as response:
            assert response.status_code == 200
            assert response.headers["content-type"].startswith("text/event-stream")
            assert response.headers["cache-control"] == "no-store"
            told = events(response)
            first = next(told)
            assert (first["event"], first["data"]["new"]) == ("snapshot", {"a": 1, "b": 1})
            assert first["id"] == str(app.topology("mb").status()["committed"])
            say(app, "x", who="bob")
            say(app, "a")
            second = next(told)
            assert second["event"] == "change"
            assert second["data"]["differences"] == [
                {"path": ["a"], "kind": "changed", "old": 1, "new": 2}
            ]
            assert int(second["id"]) == second["data"]["microbatch"] > int(first["id"])
        say(app, "c")
        headers = {"Last-Event-ID": second["id"]}
        with client.stream(
            "GET", ROUTE, params={"path": '[["key","ann"]]'}, headers=headers
        ) as response:
            resumed = next(each for each in events(response) if "event" in each)
            assert (resumed["event"], resumed["data"]["new"]) == ("change", {"c": 1})
        with client.stream("GET", ROUTE, params={"after": "99"}) as response:
            again = next(events(response))
            assert (again["event"], again["data"]["reason"]) == ("resync", "gap")


def test_pages_carry_the_id_only_at_their_end(app):
    """So that who breaks off between two begins again with the first."""
    say(app, *"abcde")
    params = {"path": '[["key","ann"]]', "page_entries": 2}
    with served(app) as (client, _), client.stream("GET", ROUTE, params=params) as response:
        told = events(response)
        pages = [next(told) for _ in range(3)]
        assert [("id" in page, page["data"]["page"], page["data"]["last"]) for page in pages] == [
            (False, 0, False),
            (False, 1, False),
            (True, 2, True),
        ]
        assert [page["data"]["new"] for page in pages] == [
            {"a": 1, "b": 1},
            {"c": 1, "d": 1},
            {"e": 1},
        ]


def test_silence_is_filled_and_moves_the_id_on(app):
    """A comment and the id, which no client takes for an event."""
    say(app, "a")
    params = {"path": '[["key","nobody"]]'}
    with (
        served(app, heartbeat_seconds=0.05) as (client, _),
        client.stream("GET", ROUTE, params=params) as response,
    ):
        told = events(response)
        assert next(told)["data"]["new"] is None
        say(app, "b")
        committed = str(app.topology("mb").status()["committed"])
        beat = next(each for each in told if each.get("id") == committed)
        assert set(beat) == {"", "id"}


def test_errors_are_problems_as_of_any_route(app):
    """Before the first event; nothing stays open."""
    say(app, "a", "b")
    with served(app) as (client, context):
        for params, status, code in (
            ({"path": "{"}, 400, "E-USAGE"),
            ({"path": "[" * 5_000}, 400, "E-PATH"),
            ({"path": '[["key","ann"],["key","a"],["key","b"]]'}, 400, "E-PATH"),
            ({"path": '[["key","ann"],["map_vals"]]'}, 400, "E-PATH"),
            ({"after": "x"}, 400, "E-USAGE"),
            ({"page_entries": 0}, 422, "E-USAGE"),
        ):
            answer = client.get(ROUTE, params=params)
            assert (answer.status_code, answer.json()["code"]) == (status, code), params
        for name in ("hidden", "none"):
            answer = client.get(ROUTE.replace("counts", name))
            assert (answer.status_code, answer.json()["code"]) == (404, "E-NOT-FOUND")
        answer = client.get(ROUTE, headers={"origin": "https://elsewhere.example"})
        assert answer.json()["code"] == "E-ORIGIN"
        assert not context.subscriptions


def test_so_many_at_once_and_no_more(app):
    """One more is refused until another has gone."""
    with served(app, subscriber_count_max=1) as (client, context):
        with client.stream("GET", ROUTE) as response:
            told = events(response)
            next(told)
            refused = client.get(ROUTE)
            assert (refused.status_code, refused.json()["code"]) == (503, "E-BUSY")
        _until(lambda: not context.subscriptions)
        with client.stream("GET", ROUTE) as response:
            assert next(events(response))["event"] == "snapshot"


def test_one_who_does_not_read_is_cut_off(app):
    """Nothing piles up for it, and the others go on."""
    say(app, *[f"{number}-{'x' * 2_000}" for number in range(2_000)])
    with served(app, event_timeout_seconds=0.2) as (client, context):
        deaf = socket.create_connection((client.base_url.host, client.base_url.port))
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        request = f"GET {ROUTE}?page_entries=100 HTTP/1.1\r\nHost: {client.base_url.host}\r\n\r\n"
        deaf.settimeout(60)
        deaf.sendall(request.encode())
        assert deaf.recv(12) == b"HTTP/1.1 200"  # it subscribed, and reads nothing from here on
        _until(lambda: not context.subscriptions)
        deaf.close()
        with client.stream("GET", ROUTE, params={"path": '[["key","bob"]]'}) as response:
            assert next(events(response))["data"]["new"] is None


def test_the_end_of_the_service_or_the_module_ends_the_answer(app):
    """At once, without waiting for silence."""
    ended = threading.Event()

    def listen(client):
        with client.stream("GET", ROUTE) as response:
            for _ in events(response):
                pass
        ended.set()

    with served(app) as (client, context):
        listener = threading.Thread(target=listen, args=(client,))
        listener.start()
        _until(lambda: context.subscriptions)
        app.close()
        assert ended.wait(60)
        listener.join()
        stream = client.stream("GET", ROUTE)
        told = events(stream.__enter__())
        next(told)
        began = time.monotonic()
    assert time.monotonic() - began < 30  # for ever, if the end waited for the reader
    stream.__exit__(None, None, None)


def _until(done, seconds=60):
    """Wait until it is so."""
    until = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < until
        threading.Event().wait(0.01)
