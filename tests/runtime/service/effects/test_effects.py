"""Effects outside: files exactly once, requests and statements at least once with a key."""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise

import pytest
from waiting import until

from atoll.cluster.local import LocalCluster
from atoll.runtime.service.effects.outside import read_outside
from atoll.runtime.service.runtimes import Runtimes
from atoll.runtime.service.showing import actor_stats

ENTRY = {"name": "in", "type": "httpbroadcast"}


def pipeline(*actors, links=None):
    """Actors one after the other."""
    names = [each["name"] for each in actors]
    linked = [{"from": one, "to": two} for one, two in pairwise(names)]
    return {"name": "r", "actors": list(actors), "links": links or linked}


@contextmanager
def running(root, outside=None):
    """The runtimes of a root, and the one that runs; made of nothing."""
    with LocalCluster(root, engine="inline") as cluster:
        runtimes = Runtimes(cluster, outside=outside)
        runtimes.open()
        yield runtimes
        runtimes.close()


def started(runtimes, definition):
    """The runtime, made and started, or as it was."""
    found = next(iter(runtimes), None) or runtimes.create(definition)
    return found if found.status == "running" else runtimes.start(found)


LOG = {"name": "log", "type": "log", "params": {"file": "out.jsonl"}}


def lines(root, runtime):
    """What the file holds."""
    file = root / runtime.module / "files" / "out.jsonl"
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.parametrize("copies", [1, 2])
def test_case_27_a_generator_writes_exactly_ten_identical_objects(tmp_path, copies):
    """At ten a second, ten in all; each copy has a generator of its own."""
    generator = {
        "name": "gen",
        "type": "generator",
        "params": {"format": {"field1": "abc"}, "timer": {"rate": 10, "times": 10}},
    }
    definition = {**pipeline(generator, LOG), "distribution": {"copies": copies}}
    with running(tmp_path) as runtimes:
        runtime = started(runtimes, definition)
        until(lambda: len(lines(tmp_path, runtime)) == 10 * copies)
        states = actor_stats(runtimes.running(runtime), "gen")["instances"]
        assert [each["state"]["count"] for each in states] == [10] * copies
        assert set(lines(tmp_path, runtime)) == {'{"field1":"abc"}'}


def test_case_27_several_such_runtimes_at_once_write_ten_each(tmp_path):
    """Each has a file and a generator of its own."""
    timer = {"rate": 50, "times": 10}
    generator = {"name": "gen", "type": "generator", "params": {"format": {"a": 1}, "timer": timer}}
    with running(tmp_path) as runtimes:
        several = [started(runtimes, pipeline(generator, LOG)) for _ in range(3)]
        for runtime in several:
            until(lambda runtime=runtime: len(lines(tmp_path, runtime)) == 10)
        assert [lines(tmp_path, each) for each in several] == [['{"a":1}'] * 10] * 3


def test_a_file_has_each_line_once_whatever_was_written_before_the_end(tmp_path):
    """Lines that a process wrote without keeping that it had are taken back first."""
    with running(tmp_path) as runtimes:
        runtime = started(runtimes, pipeline(ENTRY, LOG))
        runtimes.running(runtime).send("in", [{"n": 1}, {"n": 2}])
        until(lambda: len(lines(tmp_path, runtime)) == 2)
    file = tmp_path / runtime.module / "files" / "out.jsonl"
    with file.open("a") as out:
        out.write('{"n":3}\n{"n":')  # a process that was killed in the middle
    with running(tmp_path) as runtimes:
        runtimes.running(runtime).send("in", [{"n": 3}])
        until(lambda: lines(tmp_path, runtime)[-1:] == ['{"n":3}'])
        assert lines(tmp_path, runtime) == ['{"n":1}', '{"n":2}', '{"n":3}']
        assert until(lambda: runtimes.effects(runtime)["done"] == {"file": 3})


class Handler(BaseHTTPRequestHandler):
    """Answers JSON; the first requests with a 503."""

    def do_POST(self):
        """Remember, and answer."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.seen.append((self.headers["idempotency-key"], self.headers["host"], body))
        status = 503 if len(self.server.seen) <= self.server.failing else 200
        data = json.dumps({"got": body}).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        """Say nothing."""


@pytest.fixture
def server():
    """A server on this machine."""
    with HTTPServer(("127.0.0.1", 0), Handler) as found:
        found.seen, found.failing = [], 1
        thread = threading.Thread(target=found.serve_forever, daemon=True)
        thread.start()
        yield found
        found.shutdown()


def client(port):
    """An actor that asks a server, and one that keeps the field of its answers."""
    params = {
        "mode": "static",
        "response": "emit",
        "method": "POST",
        "url": f"http://localhost.test:{port}/x",
    }
    return {"name": "ask", "type": "httpclient", "params": params, "log": {"outgoing": True}}


def test_a_request_is_made_after_the_commit_and_its_answer_passed_on_once(
    tmp_path, server, monkeypatch
):
    """Tried again with the same key while the other side cannot; only where it is allowed to."""
    import socket

    found = socket.getaddrinfo

    def resolve(host, port, *more, **named):
        return found("127.0.0.1" if host == "localhost.test" else host, port, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    rules = tmp_path / "outside.json"
    port = server.server_port
    rules.write_text(json.dumps({"http": {"local": [f"localhost.test:{port}"]}}))
    after = {"name": "json", "type": "json", "params": {"template": {"s": "${status}"}}}
    definition = pipeline(ENTRY, client(port), after)
    with running(tmp_path / "root", read_outside(rules)) as runtimes:
        runtime = started(runtimes, definition)
        runtimes.running(runtime).send("in", [{"n": 1}])
        until(lambda: runtimes.effects(runtime)["done"] == {"http": 1})
        here = runtimes.running(runtime)
        here.wait_all()
        counters = here.counters()[1]
        assert counters["ask"] == {"json": 1, "effects": 1, "answers": 1}
        assert counters["json"] == {"json": 1, "emitted": 1}
    keys = {key for key, _, _ in server.seen}
    assert (len(server.seen), len(keys)) == (2, 1)
    assert server.seen[0][1:] == (f"localhost.test:{port}", {"n": 1})


def test_a_request_that_is_not_allowed_is_not_made_and_counted(tmp_path, server):
    """Nothing outside without the operator's word."""
    with running(tmp_path) as runtimes:
        runtime = started(runtimes, pipeline(ENTRY, client(server.server_port)) | {"name": "r"})
        runtimes.running(runtime).send("in", [{"n": 1}])
        shown = until(lambda: (e := runtimes.effects(runtime))["failed"] and e)
        assert shown["failed"] == {"http": 1}
        assert "not allowed" in shown["error"]
    assert server.seen == []


def test_a_statement_runs_on_a_configured_database_and_emits_its_rows(tmp_path):
    """Values of events are bound, never written into the statement."""
    file = tmp_path / "shop.db"
    with sqlite3.connect(file) as connection:
        connection.execute("create table orders (id text, total real)")
    connection.close()
    rules = tmp_path / "outside.json"
    rules.write_text(json.dumps({"sql": {"shop": {"sqlite": str(file)}}}))
    put = {
        "name": "put",
        "type": "sql",
        "params": {
            "database": "shop",
            "statement": "insert into orders values (:id, :total) returning id, total",
            "parameters": {"id": "${id}", "total": "${total}"},
        },
        "log": {"outgoing": True},
    }
    keep = {"name": "keep", "type": "httpbroadcast", "log": {"incoming": True}}
    with running(tmp_path / "root", read_outside(rules)) as runtimes:
        runtime = started(runtimes, pipeline(ENTRY, put, keep))
        hostile = "'); drop table orders; --"
        runtimes.running(runtime).send("in", [{"id": hostile, "total": 2.5}, {"id": "b"}])
        until(lambda: runtimes.effects(runtime)["done"] == {"sql": 1})
        here = runtimes.running(runtime)
        here.wait_all()
        assert here.counters()[1]["put"]["failure"] == 1
        logged = here.app.depot("events").read(0, 0, here.app.depot("events").end_offsets()[0])
        events = [json.loads(each) for each in logged.column("event").to_pylist()]
        assert events[-1]["data"] == [{"id": hostile, "total": 2.5}]
    with sqlite3.connect(file) as connection:
        assert connection.execute("select id, total from orders").fetchall() == [(hostile, 2.5)]
    connection.close()


def test_a_file_that_cannot_be_written_does_not_repeat_requests_beside_it(tmp_path):
    """Lines wait until it can be; the statements of the same microbatch run once."""
    file = tmp_path / "shop.db"
    with sqlite3.connect(file) as connection:
        connection.execute("create table orders (id text)")
    connection.close()
    (tmp_path / "taken").write_text("no folder")
    rules = tmp_path / "outside.json"
    rules.write_text(
        json.dumps({"sql": {"shop": {"sqlite": str(file)}}, "files": str(tmp_path / "taken")})
    )
    put = {
        "name": "put",
        "type": "sql",
        "params": {
            "database": "shop",
            "statement": "insert into orders values (:id)",
            "parameters": {"id": "${id}"},
        },
    }
    log = {"name": "log", "type": "log", "params": {"file": "x.jsonl"}}
    links = [{"from": "in", "to": "put"}, {"from": "in", "to": "log"}]
    with running(tmp_path / "root", read_outside(rules)) as runtimes:
        runtime = started(runtimes, pipeline(ENTRY, put, log, links=links))
        runtimes.running(runtime).send("in", [{"id": "a"}, {"id": "b"}])
        until(lambda: "taken" in (runtimes.effects(runtime)["error"] or ""))
        worker = runtimes._lives.here[runtime.id].effects
        for _ in range(3):
            with pytest.raises(OSError, match="taken"):
                worker.perform()
        assert worker.progress.done == {"sql": 2}
        (tmp_path / "taken").unlink()
        until(lambda: runtimes.effects(runtime)["done"] == {"sql": 2, "file": 2})
    with sqlite3.connect(file) as connection:
        assert connection.execute("select count(*) from orders").fetchall() == [(2,)]
    connection.close()
