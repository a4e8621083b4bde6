"""The other commands against a running service, their two formats, and each way to fail."""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from fakes import FakePState

import atoll as package
from atoll.schema import List, Map, Set, Struct


class TestQuery:
    """``atoll query``."""

    def test_a_scalar(self, atoll, url):
        """Plain in a table, JSON on demand."""
        assert atoll("query", "key-pairs", "global_sum").out == "11\n"
        assert atoll("query", "key-pairs", "global_sum", "-o", "json").out == "11\n"

    def test_fresh(self, atoll, url, app):
        """It waits first; an exit code of its own when that takes too long."""
        assert atoll("query", "key-pairs", "global_sum", "--fresh").out == "11\n"
        assert app.waited == ("global_sum", 60.0)
        done = atoll("query", "key-pairs", "global_sum", "--fresh", "--timeout", "0.5")
        assert (done.code, done.out) == (5, "")
        assert "E-WAIT-TIMEOUT" in done.err
        done = atoll("query", "key-pairs", "global_sum", "--fresh", "--as-of", "3")
        assert (done.code, "never fresh" in done.err) == (1, True)

    def test_nested_maps(self, atoll, url):
        """A column for each level of keys."""
        done = atoll("query", "key-pairs", "pair_counts")
        assert done.out.splitlines() == [
            "key 1  key 2  value",
            "-----  -----  -----",
            "a      b          1",
        ]
        done = atoll("query", "key-pairs", "pair_counts", "-o", "json")
        assert json.loads(done.out) == {"a": {"b": 1}}

    def test_structs_sets_and_lists(self, atoll, url, app):
        """A struct's fields are columns; a set's elements are rows."""
        app._pstates["s"] = FakePState(
            Map(int, Struct(n=int, tag=str)), [{5: {"n": 1, "tag": "x"}, 6: {"n": 2, "tag": None}}]
        )
        assert atoll("query", "key-pairs", "s").out.splitlines() == [
            "key  n  tag",
            "---  -  ----",
            "5    1  x",
            "6    2  null",
        ]
        app._pstates["s"] = FakePState(Set(str), [["a", "b"]])
        assert atoll("query", "key-pairs", "s").out.split() == ["value", "-----", "a", "b"]
        app._pstates["s"] = FakePState(Map(str, List(int)), [{"a": [1, 2]}])
        assert atoll("query", "key-pairs", "s").out.splitlines()[2:] == ["a        1", "a        2"]

    def test_keys_are_typed_by_the_schema(self, atoll, url, app):
        """What is typed becomes an int, a field's name, a tuple, as the schema wants."""
        schema = Map(int, Struct(by=Map(tuple[int, str], float), n=int))
        app._pstates["s"] = pstate = FakePState(schema, [1.5])
        done = atoll("query", "key-pairs", "s", "7", "by", '[1, "a"]')
        assert done.out == "1.5\n", done.err
        assert len(pstate.paths) == 1

    def test_a_path(self, atoll, url, app):
        """Whatever it leads to, by shape: pairs, structs, values."""
        app._pstates["s"] = pstate = FakePState(Map(str, int), [("a", 1), ("b", 2)])
        done = atoll("query", "key-pairs", "s", "--path", '[["all"]]')
        assert done.out.split() == ["key", "value", "---", "-----", "a", "1", "b", "2"]
        pstate.values = [{"n": 1}, {"n": 2, "m": 3}]
        done = atoll("query", "key-pairs", "s", "--path", '[["all"]]')
        assert done.out.split() == ["n", "m", "-", "----", "1", "null", "2", "3"]
        pstate.values = [None, 3]
        done = atoll("query", "key-pairs", "s", "--path", '[["all"]]', "-o", "json")
        assert json.loads(done.out) == [None, 3]

    def test_tables_are_limited_and_say_so(self, atoll, url, app):
        """A table of a large map asks for its first entries only."""
        app._pstates["s"] = FakePState(Map(int, int), [dict.fromkeys(range(100), 0)])
        done = atoll("query", "key-pairs", "s")
        assert "the first 100" in done.err
        done = atoll("query", "key-pairs", "s", "--limit", "0")
        assert done.err == ""

    def test_control_characters_do_not_reach_the_terminal(self, atoll, url, app):
        """Data cannot drive the terminal."""
        app._pstates["s"] = FakePState(Map(str, str), [{"a\x1b[2J": "x\ny"}])
        out = atoll("query", "key-pairs", "s").out
        assert "\x1b" not in out
        assert "\\u001b[2J" in out
        assert "x\\ny" in out

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["other"], "no PState 'other'"),
            (["global_sum", "a"], "nothing can be looked up"),
            (["typed", "x"], "no key of type int"),
            (["typed", "1", "zzz"], "no field 'zzz'"),
            (["global_sum", "--path", "{"], "--path is no JSON"),
            (["global_sum", "--path", "7"], "--path is no array"),
            (["global_sum", "a", "--path", "[]"], "--path stands alone"),
            (["global_sum", "--path", '[["nonsense"]]'], ""),
        ],
    )
    def test_mistakes(self, atoll, url, app, arguments, words):
        """Each says what, what to do, and a code."""
        app._pstates["typed"] = FakePState(Map(int, Struct(n=int, more=Set(int))), [1])
        done = atoll("query", "key-pairs", *arguments)
        assert (done.code, done.out) == (1, "")
        assert words in done.err
        assert "to do: " in done.err
        assert "code: E-" in done.err


class TestStatus:
    """``atoll status``, ``pause`` and ``resume``."""

    def test_table(self, atoll, url):
        """One row per topology."""
        lines = atoll("status").out.splitlines()
        assert lines[0].split()[:4] == ["module", "topology", "state", "id"]
        assert lines[2].split() == [
            "key-pairs", "mb", "running", "7", "1", "process", "1234", "5", "12", "92",
        ]  # fmt: skip

    def test_json(self, atoll, url, app):
        """Everything that the service says."""
        found = json.loads(atoll("status", "key-pairs", "-o", "json").out)
        assert found["modules"]["key-pairs"] == app.status()

    def test_an_unknown_module(self, atoll, url):
        """Says what runs."""
        done = atoll("status", "other")
        assert done.code == 1
        assert "running: key-pairs" in done.err

    def test_a_failed_topology_says_why(self, atoll, url, app, monkeypatch):
        """The error stands below the table."""
        error = {"code": "E-X", "message": "out of luck", "hint": "wait", "context": {"row": 1}}
        status = {**app.topology("mb").status(), "state": "failed", "error": error}
        monkeypatch.setattr(app.topology("mb"), "status", lambda: status)
        assert atoll("status").err.splitlines() == [
            "key-pairs/mb: out of luck",
            "where: row=1",
            "to do: wait",
            " code: E-X",
        ]

    def test_pause_and_resume(self, atoll, url, app):
        """They act and say what is now."""
        done = atoll("pause", "key-pairs", "mb")
        assert (done.code, done.err) == (0, "mb of key-pairs is paused after microbatch 7\n")
        assert app.topology("mb").state == "paused"
        done = atoll("resume", "key-pairs", "mb", "-o", "json")
        assert json.loads(done.out)["state"] == "running"
        assert atoll("pause", "key-pairs", "other").code == 1

    def test_options(self, atoll, url, app):
        """They are shown, set at a level, and taken back."""
        lines = atoll("options", "key-pairs").out.splitlines()
        assert lines[0].split() == ["option", "mb"]
        assert ["topology.microbatch.retry.max.attempts", "5"] in [x.split() for x in lines]
        name = "depot.microbatch.max.records"
        done = atoll("options", "key-pairs", name, "9", "--topology", "mb")
        assert [name, "9"] in [x.split() for x in done.out.splitlines()]
        done = atoll("options", "key-pairs", name, "3", "--depot", "numbers")
        assert done.out.splitlines()[-1].split() == [name, "depot", "numbers", "3"]
        done = atoll("options", "key-pairs", name, "--unset", "--topology", "mb", "-o", "json")
        assert json.loads(done.out)["set"] == {"depot": {"numbers": {name: 3}}}
        ack = "topology.microbatch.ack.branching.factor"
        for arguments, words in {
            (name,): "needs a value, or --unset",
            (name, "1", "--unset"): "needs a value, or --unset",
            (name, "0"): "from 1 to 1000000000",
            (ack, "1"): "Spark's scheduler",
            (name, "1", "--depot", "other"): "no depot 'other'",
            ("--depot", "numbers"): "which option?",
        }.items():
            done = atoll("options", "key-pairs", *arguments)
            assert (done.code, done.out) == (1, "")
            assert words in done.err
        assert atoll("options", "key-pairs", name, "x").code == 2

    def test_checkpoint(self, atoll, url, app):
        """It says which microbatch it is as of."""
        done = atoll("checkpoint", "key-pairs", "mb")
        said = "mb of key-pairs is in checkpoints as of microbatch 8\n"
        assert (done.code, done.err) == (0, said)
        done = atoll("checkpoint", "key-pairs", "mb", "-o", "json")
        assert json.loads(done.out)["checkpoint"] == 8

    def test_rollback(self, atoll, url, app):
        """It acts, says what is now and how to go on; a refusal names what is possible."""
        done = atoll("rollback", "key-pairs", "mb", "--to-microbatch", "5")
        assert (done.code, done.out) == (0, "")
        assert "mb of key-pairs is paused" in done.err
        assert "atoll resume key-pairs mb" in done.err
        assert app.topology("mb").rolled_back == (5, False)
        atoll("rollback", "key-pairs", "mb", "--to-microbatch", "6", "--keep-appended")
        assert app.topology("mb").rolled_back == (6, True)
        done = atoll("rollback", "key-pairs", "mb", "--to-microbatch", "2")
        assert done.code == 1
        assert "possible are 3 to 7" in done.err
        assert atoll("rollback", "key-pairs", "mb").code == 2

    def test_query_as_of(self, atoll, url, app):
        """The state after an earlier microbatch, by keys and by a path."""
        app.pstate("global_sum").earlier[5] = type(app.pstate("global_sum"))(int, [3])
        done = atoll("query", "key-pairs", "global_sum", "--as-of", "5")
        assert (done.code, done.out) == (0, "3\n")
        done = atoll("query", "key-pairs", "global_sum", "--as-of", "5", "--path", "[]")
        assert (done.code, "3" in done.out) == (0, True)
        done = atoll("query", "key-pairs", "global_sum", "--as-of", "4")
        assert (done.code, done.out) == (1, "")
        assert "it can be read as of [5]" in done.err


class TestWatchAndAsk:
    """Changes as lines, answers as JSON."""

    def test_watch(self, atoll, url, app):
        """All until the end; keys by the schema, a path, a position, so many."""
        done = atoll("watch", "key-pairs", "pair_counts", "a", "b")
        lines = [json.loads(line) for line in done.out.splitlines()]
        assert (done.code, [line["kind"] for line in lines]) == (0, ["snapshot", "change"])
        assert lines[0]["path"] == "key('a').key('b')"
        done = atoll("watch", "key-pairs", "pair_counts", "--path", '[["keys"]]', "--count", "1")
        assert [json.loads(line)["path"] for line in done.out.splitlines()] == ["keys()"]
        done = atoll("watch", "key-pairs", "global_sum", "--after", "7@1")
        assert [json.loads(line)["after"] for line in done.out.splitlines()] == ["7@1"]

    def test_watch_what_cannot_be(self, atoll, url, app):
        """The service's own words."""
        done = atoll("watch", "key-pairs", "none")
        assert (done.code, done.out) == (1, "")
        assert "E-NOT-FOUND" in done.err
        done = atoll("watch", "key-pairs", "global_sum", "a", "--path", "[]")
        assert "stands alone" in done.err
        done = atoll("watch", "key-pairs", "global_sum", "--path", "{")
        assert "path is no JSON" in done.err

    def test_ask(self, atoll, url, app):
        """Values as JSON, or as texts."""
        done = atoll("ask", "key-pairs", "echo", "n=1", "t=a=b", "--timeout", "5")
        assert json.loads(done.out) == {"n": 1, "t": "a=b", "within": 5.0}
        assert "E-NOT-FOUND" in atoll("ask", "key-pairs", "none").err
        assert "write NAME=VALUE" in atoll("ask", "key-pairs", "echo", "n").err


class TestFailures:
    """A service that is not there, is no Atoll, or breaks."""

    COMMANDS = (
        ["status"],
        ["query", "m", "p"],
        ["append", "m", "d", '{"v": 1}'],
        ["pause", "m", "t"],
        ["resume", "m", "t"],
        ["checkpoint", "m", "t"],
        ["rollback", "m", "t", "--to-microbatch", "3"],
    )

    @pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
    def test_nothing_listens(self, atoll, command):
        """The address, and how to start a service."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        done = atoll(*command, "--url", f"http://127.0.0.1:{port}")
        assert (done.code, done.out) == (1, "")
        assert "E-UNREACHABLE" in done.err
        assert "atoll run" in done.err

    @pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
    def test_something_else_listens(self, atoll, command):
        """An answer that is not Atoll's is named as such."""

        class Other(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(404)
                self.end_headers()
                self.wfile.write(b"<html>")

            do_POST = do_GET  # noqa: N815 - http.server's name

            def log_message(self, *arguments):
                pass

        server = HTTPServer(("127.0.0.1", 0), Other)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            done = atoll(*command, "--url", f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
        assert done.code == 1
        assert "no Atoll: HTTP 404" in done.err

    @pytest.mark.parametrize("address", ["nonsense", "ftp://x", "http://[", "http://127.0.0.1:x"])
    def test_no_address(self, atoll, address):
        """An address that is none."""
        done = atoll("status", "--url", address)
        assert done.code == 1
        assert "E-USAGE" in done.err or "E-UNREACHABLE" in done.err

    def test_the_service_breaks(self, atoll, url, app):
        """A crash there is an error here, with the id to look for."""
        app.pstate("global_sum").values = ValueError("the secret is 1234")
        done = atoll("query", "key-pairs", "global_sum")
        assert done.code == 1
        assert "E-INTERNAL" in done.err
        assert "request_id" in done.err

    def test_a_remote_error_of_an_unknown_kind(self, atoll, url, monkeypatch):
        """A code that this client does not know is shown as it is."""
        from atoll.cli.client import error_of

        error = error_of({"code": "E-NEW", "detail": "x", "hint": "y", "context": {"hint": 1}})
        assert (error.code, error.message, error.hint) == ("E-NEW", "x", "y")

    def test_wrong_usage(self, atoll):
        """Unknown commands and options: exit code 2."""
        assert atoll("nonsense").code == 2
        assert atoll("status", "--nonsense").code == 2
        assert atoll("status", "-o", "xml").code == 2


def test_version(atoll):
    """Name and version."""
    assert atoll("version").out == f"atoll {package.__version__}\n"
