"""``atoll runtime`` against a running service: each command, and what it says when it cannot."""

from __future__ import annotations

import json
from functools import partial

import pytest

from atoll.cli import client
from atoll.cli.options import DEFAULT_URL
from atoll.server import create_app, serve
from atoll.server.serve import bind


@pytest.fixture
def atoll(runtimes, run_atoll, monkeypatch):
    """Call ``atoll runtime`` with arguments, against a service over the runtimes."""
    with serve(create_app(runtimes=runtimes), bind("127.0.0.1", 0)) as address:
        monkeypatch.setenv("ATOLL_URL", address.url)
        yield partial(run_atoll, "runtime")


def test_a_runtime_from_the_command_line(atoll, runtimes, tmp_path, definition):
    """Validated, made, started, sent to, asked, scaled, stopped, deleted."""
    file = tmp_path / "runtime.json"
    file.write_text(json.dumps(definition), encoding="utf-8")
    assert "nothing wrong" in atoll("validate", file).err
    assert "coral-runtime1 was made" in atoll("create", file).err
    assert "1 accepted" not in (refused := atoll("send", "runtime1", "low", '{"v": 1}')).err
    assert (refused.code, "E-CONFLICT" in refused.err) == (1, True)
    assert "runtime1 runs" in atoll("start", "runtime1").err
    assert "1 accepted" in atoll("send", "runtime1", "low", '{"v": 15}').err
    events = tmp_path / "events.jsonl"
    events.write_text('{"v": 1}\n{"v": 30}\n', encoding="utf-8")
    assert "2 accepted" in atoll("send", "runtime1", "low", "--file", events).err
    answer = json.loads(atoll("shunt", "runtime1", "low", '{"v": 12}').out)
    assert answer["emitted"] == [{"v": 12}]
    runtimes.running(runtimes.find("runtime1")[0]).wait_all()
    assert [line.split() for line in atoll("stats", "runtime1").out.splitlines()] == [
        ["actor", "emitted", "json", "shunt"],
        ["-----", "-------", "----", "-----"],
        ["low", "2", "3", "1"],
        ["high", "1", "2", "0"],
        ["total", "3", "5", "1"],
    ]
    assert json.loads(atoll("stats", "runtime1", "low", "-o", "json").out)["counters"]["json"] == 3
    assert "json" in atoll("stats", "runtime1.1", "low").out
    assert "has copies: 2" in atoll("scale", "runtime1", "--copies", 2).err
    listed = atoll("list").out.splitlines()[-1].split()
    assert listed[:5] == ["runtime1", "coral", "running", "2", "2"]
    assert json.loads(atoll("show", "runtime1").out)["copies"] == 2
    assert "runtime1 rests" in atoll("stop", "runtime1").err
    assert "coral-runtime1 is deleted" in atoll("delete", "runtime1", "--yes").err
    gone = atoll("show", "runtime1")
    assert (gone.code, "E-NOT-FOUND" in gone.err) == (1, True)


def test_everything_that_is_wrong_with_a_definition_is_said(atoll, tmp_path, definition):
    """By the command alone and by the service in the same words."""
    file = tmp_path / "runtime.json"
    del definition["name"]
    definition["actors"][0]["params"] = {}
    file.write_text(json.dumps(definition), encoding="utf-8")
    alone, asked = atoll("validate", file), atoll("create", file)
    assert alone.code == asked.code == 1
    assert "/name: the runtime has no name" in alone.err
    assert "/actors/0/params: 'key' is missing" in alone.err
    assert alone.err == asked.err


def test_a_file_that_is_refused_in_the_middle_says_where_and_what_was_accepted(
    atoll, runtimes, tmp_path, definition, monkeypatch
):
    """Its lines go in several requests; sent again as a whole, the first would count twice."""
    monkeypatch.setattr("atoll.cli.commands.runtime.events._LINES_MAX", 3)
    runtime = runtimes.start(runtimes.create(definition))
    events = tmp_path / "events.jsonl"
    events.write_text('{"v": 1}\n\n{"v": 2}\n{"v": 3}\n\n{oops\n{"v": 4}\n', encoding="utf-8")
    refused = atoll("send", "runtime1", "low", "--file", events)
    assert refused.code == 1
    assert "line 6: it is no JSON" in refused.err
    assert "send from line 4 on: the 2 events before it were accepted" in refused.err
    running = runtimes.running(runtime)
    running.wait_all()
    assert running.counters()[1]["low"]["json"] == 2


@pytest.mark.parametrize(
    ("line", "environment", "asked"),
    [
        (("--url", "http://h:1"), {"ATOLL_URL": "http://h:2"}, "http://h:1"),
        ((), {"ATOLL_URL": "http://h:2"}, "http://h:2"),
        ((), {}, DEFAULT_URL),
    ],
)
def test_case_37_the_command_line_goes_before_the_environment_and_that_before_the_default(
    run_atoll, monkeypatch, line, environment, asked
):
    """Coral's order, with the environment where its file was."""
    seen = []

    class Noted(client.Client):
        def __init__(self, url):
            seen.append(url)
            super().__init__(url)

        def api(self, *_, **__):
            return []

    monkeypatch.setattr(client, "Client", Noted)
    monkeypatch.delenv("ATOLL_URL", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert run_atoll("runtime", "list", *line).code == 0
    assert seen == [asked]
