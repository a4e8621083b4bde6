"""The routes over a small module: what they answer, and how mistakes look."""

import json

import msgspec
import pyarrow as pa
import pytest
from fakes import FakeApp, FakePState, arrow_stream

from atoll import errors
from atoll.depot.receipt import Awaited
from atoll.errors import AtollError, UsageError
from atoll.microbatch.control.options import Options, bounds_of
from atoll.server import create_app

NUMBERS = "/v1/modules/key-pairs/depots/numbers"
PAIRS = "/v1/modules/key-pairs/depots/pairs"
NDJSON = {"content-type": "application/x-ndjson"}
CSV = {"content-type": "text/csv; charset=utf-8"}
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}


def problem(answer):
    """The problem of an answer that must be one."""
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert found["status"] == answer.status_code
    assert found["type"] == f"urn:atoll:error:{found['code'].lower()}"
    assert {"title", "detail"} <= set(found)
    assert "Traceback" not in answer.text
    return found


class TestModules:
    """Which modules run, and their parts."""

    def test_listing(self, client):
        """Names of all parts."""
        parts = {
            "name": "key-pairs",
            "depots": ["numbers", "pairs"],
            "pstates": ["global_sum", "pair_counts"],
            "topologies": ["mb"],
        }
        assert client.get("/v1/modules").json() == {"modules": [parts]}
        assert client.get("/v1/modules/key-pairs").json() == parts
        assert client.get("/v1/modules/key-pairs/depots").json() == {"depots": parts["depots"]}
        assert client.get("/v1/modules/key-pairs/pstates").json() == {"pstates": parts["pstates"]}
        assert client.get("/v1/modules/key-pairs/topologies").json() == {"topologies": ["mb"]}

    def test_several_modules(self):
        """One service may serve several; two of one name it refuses."""
        application = create_app(FakeApp("one"), FakeApp("two"))
        assert list(application.state.context.apps) == ["one", "two"]
        with pytest.raises(UsageError):
            create_app(FakeApp("one"), FakeApp("one"))

    def test_status(self, client, app):
        """Each module's own status, under its name."""
        answer = client.get("/v1/status").json()
        assert answer["modules"] == {"key-pairs": app.status()}
        assert answer["version"]

    def test_pause_and_resume(self, client, app):
        """They act, and answer with the status after."""
        url = "/v1/modules/key-pairs/topologies/mb"
        assert client.post(f"{url}/pause", json={}).json()["state"] == "paused"
        assert app.topology("mb").state == "paused"
        assert client.post(f"{url}/resume", json={}).json()["state"] == "running"
        assert client.get(url).json() == app.topology("mb").status()

    def test_checkpoint(self, client, app):
        """It is written, and the answer says which commit holds it."""
        answer = client.post("/v1/modules/key-pairs/topologies/mb/checkpoint", json={}).json()
        assert answer == {**app.topology("mb").status(), "checkpoint": 8}
        assert app.topology("mb").checkpointed == 8

    def test_rollback(self, client, app):
        """It acts and answers with the status; what is out of range or malformed is refused."""
        url = "/v1/modules/key-pairs/topologies/mb/rollback"
        assert client.post(url, json={"to_microbatch": 5}).json()["state"] == "paused"
        assert app.topology("mb").rolled_back == (5, False)
        client.post(url, json={"to_microbatch": 6, "keep_appended": True})
        assert app.topology("mb").rolled_back == (6, True)
        refused = client.post(url, json={"to_microbatch": 2})
        assert refused.status_code == 400
        assert "3 to 7" in refused.json()["hint"]
        for wrong in ({}, {"to_microbatch": -1}, {"to_microbatch": "x"}, {"to": 5}):
            assert client.post(url, json=wrong).status_code == 422
        assert app.topology("mb").rolled_back == (6, True)

    def test_select_as_of(self, client, app):
        """The state after an earlier microbatch, when it can be read."""
        pstate = app.pstate("global_sum")
        pstate.earlier[5] = FakePState(int, [3])
        url = "/v1/modules/key-pairs/pstates/global_sum/select"
        wanted = {"path": [], "one": True}
        assert client.post(url, json=wanted).json() == {"value": 11}
        assert client.post(f"{url}?as_of=5", json=wanted).json() == {"value": 3}
        refused = client.post(f"{url}?as_of=4", json=wanted)
        assert refused.status_code == 400
        assert client.post(f"{url}?as_of=-1", json=wanted).status_code == 422

    def test_health(self, client):
        """It answers."""
        assert client.get("/healthz").json() == {"status": "ok"}


class TestDepots:
    """Describing depots and appending to them."""

    def test_what_is_no_name(self, client):
        """A name that cannot be is told by what it is a name of, not by a pattern."""
        found = problem(client.get("/v1/modules/key-pairs/pstates/_mb-distinct"))
        assert found["detail"] == "path.pstate: no pstate can be called so"
        assert found["hint"].startswith("use 1 to 63 letters")
        assert "[A-Z" not in json.dumps(found)

    def test_description(self, client):
        """The schema as DDL that reads back, and the offsets."""
        client.post(f"{NUMBERS}/records", json=[{"v": 1}, {"v": 2}])
        found = client.get(NUMBERS).json()
        assert found["ddl"].lower() == "v bigint not null"
        assert (found["start_offsets"], found["end_offsets"], found["records"]) == ([0], [2], 2)
        assert found["partitions"] == 1

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            (b'{"v": 1}', [{"v": 1}]),
            (b' [ {"v": 1},\r\n {"v":\n 2} ] ', [{"v": 1}, {"v": 2}]),
            (b"[]", []),
        ],
    )
    def test_json(self, client, app, body, expected):
        """One record or an array, however it is laid out."""
        headers = {"content-type": "application/json; charset=utf-8"}
        answer = client.post(f"{NUMBERS}/records", content=body, headers=headers)
        assert answer.json() == {
            "appended": len(expected),
            "duplicate": False,
            "offsets": {"0": [0, len(expected)]},
            "refused": 0,
            "refusals": [],
            "token": Awaited("shop", "numbers", {0: len(expected)}).token,
        }
        assert app.depot("numbers").rows == expected

    @pytest.mark.parametrize("body", [b"", b"{", b'[{"v": 1}', b"[" * 3_000, b'{"v": 1} 2'])
    def test_what_is_no_json(self, client, app, body):
        """Refused as a whole, with a hint; nesting without end is refused as well."""
        headers = {"content-type": "application/json"}
        answer = client.post(f"{NUMBERS}/records", content=body, headers=headers)
        assert problem(answer)["code"] == "E-USAGE"
        assert app.depot("numbers").calls == [] or app.depot("numbers").rows == []

    def test_json_values_that_are_no_records(self, client):
        """Each is refused with its place in the array."""
        answer = client.post(f"{NUMBERS}/records", json=[{"v": 1}, 7, None, {"v": "x"}])
        assert [item["line"] for item in problem(answer)["context"]["refusals"]] == [2, 3, 4]

    def test_ndjson(self, client, app):
        """A record a line; blank lines and a missing last newline are fine."""
        body = b'{"v": 1}\n\n{"v": 2}\r\n{"v": 3}'
        answer = client.post(f"{NUMBERS}/records", content=body, headers=NDJSON)
        assert answer.json()["appended"] == 3
        assert app.depot("numbers").rows == [{"v": 1}, {"v": 2}, {"v": 3}]

    def test_ndjson_line_numbers_go_on_over_blocks(self, client, monkeypatch):
        """Lines count from the start of the body, wherever it is cut into blocks."""
        monkeypatch.setattr("atoll.depot.append.texts._BLOCK_BYTES", 16)
        lines = [b'{"v": %d}' % number for number in range(100)]
        lines[41] = lines[98] = b"nonsense"
        headers = NDJSON
        answer = client.post(f"{NUMBERS}/records", content=b"\n".join(lines), headers=headers)
        refusals = problem(answer)["context"]["refusals"]
        assert [item["line"] for item in refusals] == [42, 99]

    def test_csv(self, client, app, monkeypatch):
        """Typed by the schema; quoted newlines, a byte order mark and small blocks are fine."""
        monkeypatch.setattr("atoll.depot.append.texts._BLOCK_BYTES", 7)
        body = '\ufeffk,k2,at\r\na,"x\r\ny",2015-07-15 00:00:00.005\r\n\r\nü,,\r\n'.encode()
        answer = client.post(f"{PAIRS}/records", content=body, headers=CSV)
        assert answer.json()["appended"] == 2, answer.text
        rows = app.depot("pairs").rows
        assert [(row["k"], row["k2"]) for row in rows] == [("a", "x\r\ny"), ("ü", None)]
        assert rows[0]["at"].isoformat() == "2015-07-15T00:00:00.005000+00:00"

    def test_csv_refusals_name_their_lines(self, client):
        """The line that a row begins on, also after rows over several lines."""
        body = b'v\n1\n"x\ny"\n3\n1,2\n\xff\n'
        answer = client.post(f"{NUMBERS}/records", content=body, headers=CSV)
        refusals = problem(answer)["context"]["refusals"]
        assert [item["line"] for item in refusals] == [3, 6, 7]

    @pytest.mark.parametrize("body", [b"x,v\n1,2\n", b'v\n"open'])
    def test_what_is_no_fitting_csv(self, client, body):
        """An unknown column or a quote without end is an error of the whole body."""
        answer = client.post(f"{NUMBERS}/records", content=body, headers=CSV)
        assert problem(answer)["code"] == "E-USAGE"

    def test_arrow(self, client, app):
        """Batches of a stream, cast where no value changes."""
        batches = [pa.record_batch({"v": pa.array(part, pa.int32())}) for part in ([1, 2], [], [3])]
        answer = client.post(f"{NUMBERS}/records", content=arrow_stream(*batches), headers=ARROW)
        assert answer.json()["appended"] == 3
        assert app.depot("numbers").rows == [{"v": 1}, {"v": 2}, {"v": 3}]

    def test_arrow_refusals_count_on(self, client):
        """Rows count from the start of the stream."""
        batches = [pa.record_batch({"v": pa.array(part)}) for part in ([1, 2], [3, None])]
        answer = client.post(f"{NUMBERS}/records", content=arrow_stream(*batches), headers=ARROW)
        assert [item["line"] for item in problem(answer)["context"]["refusals"]] == [4]

    def test_damaged_arrow(self, client, app):
        """Whatever is cut off or scribbled over is refused, and nothing is kept."""
        whole = arrow_stream(pa.record_batch({"v": pa.array(range(1_000))}))
        scribbled = bytearray(whole)
        scribbled[8:40] = b"\xff" * 32
        for body in (whole[:-1_000], whole[:100], b"nonsense", bytes(scribbled), b""):
            answer = client.post(f"{NUMBERS}/records", content=body, headers=ARROW)
            assert problem(answer)["code"] == "E-USAGE", answer.text
        assert app.depot("numbers").rows == []

    def test_arrow_that_announces_too_much(self, client):
        """A length of gigabytes is refused before it is allocated."""
        body = b"\xff\xff\xff\xff" + (2**31 - 1).to_bytes(4, "little") + b"x" * 100
        answer = client.post(f"{NUMBERS}/records", content=body, headers=ARROW)
        assert problem(answer)["code"] == "E-USAGE"

    def test_all_or_nothing_by_default(self, client, app):
        """One bad record refuses the call, with line, reason and counts."""
        body = b'{"v": 1}\n{"v": "x"}\n{}\n'
        answer = client.post(f"{NUMBERS}/records", content=body, headers=NDJSON)
        found = problem(answer)
        assert (answer.status_code, found["code"]) == (422, "E-RECORDS-REFUSED")
        assert found["context"]["refused"] == 2
        assert [item["line"] for item in found["context"]["refusals"]] == [2, 3]
        assert app.depot("numbers").rows == []

    def test_keeping_the_good_ones(self, client, app):
        """With on_invalid=keep the others are listed beside what was kept; 20 at most."""
        body = b'{"v": 1}\n' + b'{"v": "x"}\n' * 30
        url = f"{NUMBERS}/records?on_invalid=keep"
        answer = client.post(url, content=body, headers=NDJSON).json()
        assert (answer["appended"], answer["refused"]) == (1, 30)
        assert [item["line"] for item in answer["refusals"]] == list(range(2, 22))
        assert app.depot("numbers").rows == [{"v": 1}]

    def test_other_choices_are_refused(self, client):
        """on_invalid knows two words."""
        answer = client.post(f"{NUMBERS}/records?on_invalid=maybe", json={"v": 1})
        assert problem(answer)["code"] == "E-USAGE"

    def test_a_line_without_end(self, client, app):
        """Longer than a line may be: refused in the memory of one line."""
        for headers in (NDJSON, CSV):
            answer = client.post(f"{NUMBERS}/records", content=b"x" * 9_000, headers=headers)
            assert "a line is longer" in problem(answer)["detail"]
        assert app.depot("numbers").rows == []

    def test_checking_happens_off_the_event_loop(self, client, app):
        """Appends run in worker threads: they write and sync."""
        client.post(f"{NUMBERS}/records", json={"v": 1})
        client.post(f"{NUMBERS}/records", content=b'{"v": 2}', headers=NDJSON)
        assert all(name.startswith("AnyIO worker") for name in app.depot("numbers").calls)


class TestPStates:
    """Describing PStates and selecting from them."""

    def test_description(self, client):
        """The schema as data that reads back."""
        assert client.get("/v1/modules/key-pairs/pstates/pair_counts").json() == {
            "name": "pair_counts",
            "schema": {"map": ["str", {"map": ["str", "int"]}]},
            "topology": "mb",
            "vnode_count": 16,
        }

    def test_select(self, client, app):
        """Several values, or exactly one."""
        url = "/v1/modules/key-pairs/pstates/pair_counts/select"
        assert client.post(url, json={"path": [["key", "a"]]}).json() == {
            "values": [{"a": {"b": 1}}]
        }
        answer = client.post(url, json={"path": [], "one": True})
        assert answer.json() == {"value": {"a": {"b": 1}}}
        app.pstate("pair_counts").values = [1, 2]
        answer = client.post(url, json={"path": [], "one": True})
        assert (answer.status_code, problem(answer)["code"]) == (400, "E-PATH")

    @pytest.mark.parametrize(
        "body",
        [
            {"path": [["nonsense"]]},
            {"path": [["key"]]},
            {"path": [{"$where": "x"}]},
            {"path": ["key"]},
            {"path": [["__class__", "x"]]},
            {"path": [["filter", "lambda v: v"]]},
            {"path": [[["key", "a"]]]},
        ],
        ids=json.dumps,
    )
    def test_what_is_no_path(self, client, body):
        """Data that is no path is refused with the remedy, and never evaluated."""
        answer = client.post("/v1/modules/key-pairs/pstates/global_sum/select", json=body)
        assert answer.status_code in (400, 422), answer.text
        assert problem(answer)["hint"]

    @pytest.mark.parametrize(
        "body", [{}, {"path": "x"}, {"path": [], "other": 1}, {"path": [], "": 1}, [], "x", 1]
    )
    def test_what_is_no_selection(self, client, body):
        """Unknown members are refused, so that a typing mistake is never silent."""
        answer = client.post("/v1/modules/key-pairs/pstates/global_sum/select", json=body)
        assert (answer.status_code, problem(answer)["code"]) == (422, "E-USAGE")

    @pytest.mark.parametrize("body", [b"{", b"[" * 5_000, b'{"path": ' + b"9" * 5_000 + b"}"])
    def test_what_is_no_json(self, client, body):
        """Malformed, bottomless and absurd bodies are the sender's mistake, not a crash."""
        answer = client.post(
            "/v1/modules/key-pairs/pstates/global_sum/select",
            content=body,
            headers={"content-type": "application/json"},
        )
        assert answer.status_code in (400, 422)
        problem(answer)


class TestProblems:
    """Errors as problem details."""

    @pytest.mark.parametrize(
        "url",
        [
            "/v1/modules/other",
            "/v1/modules/other/depots/numbers",
            "/v1/modules/key-pairs/depots/other",
            "/v1/modules/key-pairs/pstates/other",
            "/v1/modules/key-pairs/topologies/other",
            "/v1/other",
        ],
    )
    def test_not_found(self, client, url):
        """Unknown names say what there is."""
        answer = client.get(url)
        assert (answer.status_code, problem(answer)["code"]) == (404, "E-NOT-FOUND")
        assert problem(answer)["hint"]

    @pytest.mark.parametrize(
        "name",
        ["%2e%2e%2f", "..%2f..%2fetc", "a%00b", "a%0d%0ab", "-a", "a" * 64, "%c0%ae", "a.b", "ü"],
    )
    def test_names_are_validated(self, client, name):
        """What cannot name anything is refused before it is looked up."""
        for url in (f"/v1/modules/{name}", f"/v1/modules/key-pairs/depots/{name}"):
            answer = client.get(url)
            assert answer.status_code in (404, 405, 422), url
            problem(answer)

    def test_wrong_methods(self, client):
        """405 with the methods that work."""
        answer = client.delete("/v1/modules", headers={"content-type": "application/json"})
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
        problem(answer)

    @pytest.mark.parametrize(
        "kind", [getattr(errors, name) for name in errors.__all__], ids=lambda kind: kind.__name__
    )
    def test_every_kind_has_a_status(self, client, app, kind):
        """Each error of Atoll's leaves with its code, hint and context, none as a crash."""
        app.pstate("global_sum").values = kind("went wrong", hint="do this", place={"b": b"\xff"})
        answer = client.post("/v1/modules/key-pairs/pstates/global_sum/select", json={"path": []})
        found = problem(answer)
        assert (found["code"], found["hint"]) == (kind.code, "do this")
        assert found["context"] == {"place": {"b": "/w=="}}

    def test_a_crash_tells_nothing(self, client, app, capsys):
        """An unexpected error is a 500 with a request id, and no word of what happened."""
        app.pstate("global_sum").values = ValueError("the secret is 1234")
        answer = client.post("/v1/modules/key-pairs/pstates/global_sum/select", json={"path": []})
        assert (answer.status_code, problem(answer)["code"]) == (500, "E-INTERNAL")
        assert "1234" not in answer.text
        assert answer.json()["context"]["request_id"] == answer.headers["x-request-id"]


class TestOperations:
    """Metrics and the description of the interface."""

    def test_metrics(self, client):
        """The topologies' numbers and the requests', by route."""
        client.get("/v1/modules/key-pairs/depots/numbers")
        client.get("/v1/modules/other")
        text = client.get("/metrics").text
        labels = 'module="key-pairs",topology="mb"'
        for line in (
            f"atoll_microbatch_id{{{labels}}} 7.0",
            f'atoll_topology_state{{{labels},state="running"}} 1.0',
            f"atoll_topology_processed_records_total{{{labels}}} 1234.0",
            f'atoll_step_duration_seconds_sum{{{labels},step="process"}} 0.09',
            f'atoll_step_duration_seconds_bucket{{le="0.05",{labels},step="process"}} 2.0',
            f'atoll_operator_rows_total{{{labels},operator="map (a.py:1)",rows="rejected"}} 1.0',
            f'atoll_operator_seconds_total{{{labels},operator="map (a.py:1)"}} 0.002',
            f'atoll_unit_rows_total{{{labels},unit="3"}} 8.0',
            f'atoll_skew_ratio{{{labels},of="rows"}} 1.5',
            f'atoll_depot_lag_records{{depot="numbers",depot_partition="0",{labels}}} 5.0',
            'atoll_depot_end_offset{depot="numbers",depot_partition="0",module="key-pairs"} 0.0',
            f'atoll_vnode_openings_total{{{labels},found="behind"}} 2.0',
            f"atoll_logs_applied_total{{{labels}}} 9.0",
            f'atoll_actor_runs_total{{{labels},worker="other"}} 2.0',
            'atoll_cluster_revision{module="key-pairs"} 3.0',
        ):
            assert _normal(line) in [_normal(each) for each in text.splitlines()], line
        assert 'route="/v1/modules/{module}/depots/{depot}",status="200"' in text
        assert 'route="/v1/modules/{module}",status="404"' in text

    def test_a_broken_module_does_not_hide_the_others(self, client, app, monkeypatch):
        """A scrape goes on past a module that cannot answer."""

        def fail():
            raise AtollError("cannot")

        monkeypatch.setattr(app, "topologies", fail)
        assert client.get("/metrics").status_code == 200

    def test_openapi(self, client):
        """It lists every route, and appends with their content types."""
        found = msgspec.json.decode(client.get("/openapi.json").content)
        records = found["paths"]["/v1/modules/{module}/depots/{depot}/records"]["post"]
        assert set(records["requestBody"]["content"]) == {
            "application/json",
            "application/x-ndjson",
            "text/csv",
            "application/vnd.apache.arrow.stream",
        }
        assert len(found["paths"]) >= 12


def _normal(line):
    """A metric line with its labels sorted."""
    name, brace, rest = line.partition("{")
    labels, _, value = rest.partition("}")
    return name, tuple(sorted(labels.split(","))), value if brace else line


@pytest.mark.parametrize("name", sorted(Options().by_name()))
def test_each_option_is_bounded_and_taken_back(client, name):
    """Beyond the greatest value the answer is a refusal and never a failure; null takes it back."""
    url = "/v1/modules/key-pairs/options"
    for value in (1 << 63, 1 << 64, -1, 10**17):
        answer = client.post(url, json={"option": name, "value": value})
        assert (answer.status_code, answer.json()["code"]) == (400, "E-DECLARATION")
    least, most = bounds_of(name)
    for value in (least, most):
        assert client.post(url, json={"option": name, "value": value}).status_code == 200
    assert client.post(url, json={"option": name, "value": None}).json()["set"] == {}


def test_waiting_for_what_was_appended(client, app):
    """The whole depot or up to offsets; before a select; and what cannot be."""
    url = "/v1/modules/key-pairs"
    answer = client.post(
        f"{url}/depots/numbers/wait", json={"ends": {"0": 5}, "timeout_seconds": 9}
    )
    assert answer.json() == {"committed": {"mb": 7}}
    assert app.waited == ("numbers", {0: 5}, 9)
    assert client.post(f"{url}/depots/numbers/wait", json={}).status_code == 200
    assert app.waited == ("numbers", None, 60)
    answer = client.post(f"{url}/depots/numbers/wait", json={"timeout_seconds": 0.5})
    assert (answer.status_code, problem(answer)["code"]) == (504, "E-WAIT-TIMEOUT")
    assert client.post(f"{url}/depots/none/wait", json={}).status_code == 404
    for wrong in ({"ends": {"x": 1}}, {"ends": {"0": -1}}, {"timeout_seconds": 301}, {"end": {}}):
        assert client.post(f"{url}/depots/numbers/wait", json=wrong).status_code == 422
    select = f"{url}/pstates/global_sum/select"
    whole = {"path": [], "one": True}
    assert client.post(f"{select}?fresh_seconds=5", json=whole).json() == {"value": 11}
    assert app.waited == ("global_sum", 5)
    assert client.post(f"{select}?fresh_seconds=0.5", json=whole).status_code == 504
    assert client.post(f"{select}?fresh_seconds=0", json=whole).status_code == 422
    assert client.post(f"{select}?fresh_seconds=5&as_of=3", json=whole).status_code == 400


def test_readiness(client, app):
    """Alive is not ready: a topology that failed, or whose files are lost, is told with why."""
    assert client.get("/readyz").json() == {"ready": True, "reasons": []}
    told = {"code": "E-DAMAGE", "message": "lost", "hint": "checkpoint", "context": {}}
    clock = {**told, "code": "W-CLOCK-BEHIND"}
    status, topology = app.topology("mb").status(), app.topology("mb")
    for changed, ready in (
        ({"warnings": [clock]}, True),
        ({"state": "paused"}, True),
        ({"error": told}, True),  # of an attempt that is tried again
        ({"warnings": [clock, told]}, False),
        ({"state": "failed", "error": told}, False),
    ):
        topology.status = lambda changed=changed: {**status, **changed}
        answer = client.get("/readyz")
        assert answer.status_code == (200 if ready else 503)
        reasons = [] if ready else [{"module": "key-pairs", "topology": "mb", **told}]
        assert answer.json() == {"ready": ready, "reasons": reasons}
        assert client.get("/healthz").status_code == 200
