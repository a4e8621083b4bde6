"""The log of changes: each change and each refusal, whoever asked, and never a secret."""

import json
import os
import stat

import pytest
from starlette.testclient import TestClient

from atoll.access.audit import AuditLog, Change, moment, read_audit
from atoll.access.authority import Authority
from atoll.errors import StorageError
from atoll.server import create_app
from atoll.server.access.table import ROWS, Effect

TOPOLOGY = "/v1/modules/shop/topologies/mb"
CANARY = "s3cr3t-canary"


@pytest.fixture
def application(app, root, tokens):
    """A service that keeps a log."""
    return create_app(app, authority=Authority.of(root), audit_root=root)


def test_who_did_what(client, root, tokens, bearer):
    """Name, token, address, what was asked and given, what came of it; the latest first."""
    operator = bearer(tokens["operator"])
    client.post(f"{TOPOLOGY}/pause", json={}, headers=operator)
    client.post(f"{TOPOLOGY}/rollback", json={"to_microbatch": 1}, headers=operator)
    client.post(f"{TOPOLOGY}/pause", json={}, headers=bearer(tokens["viewer"]))
    client.post(f"{TOPOLOGY}/pause", json={})
    client.get(TOPOLOGY, headers=operator)
    answer = client.get("/v1/audit", headers=bearer(tokens["admin"]))
    found = answer.json()["changes"]
    assert [(each["who"], each["outcome"], each["status"]) for each in found] == [
        ("", "refused", 401),
        ("viewer", "refused", 403),
        ("operator", "refused", 400),
        ("operator", "done", 200),
    ]
    assert found[2]["given"] == {"to_microbatch": 1}
    assert found[3]["action"] == f"POST {TOPOLOGY}/pause"
    assert found[3]["token"] == tokens["operator"].split("_")[1]
    assert len(found[3]["request_id"]) == 16
    earlier = client.get(
        "/v1/audit", params={"before": found[2]["at"]}, headers=bearer(tokens["admin"])
    )
    assert earlier.json()["changes"] == found[3:]


def test_every_change_is_noted(application, client, root, tokens, bearer):
    """Whichever route: the table says what changes."""
    names = dict.fromkeys(["topology", "depot", "pstate", "reference", "actor"], "none")
    names["module"] = "shop"
    changing = [
        row for row in ROWS if row.effect is Effect.CHANGES and "session" not in row.template
    ]
    for row in changing:
        path = row.template.format(**names)
        client.request(row.method, path, json={}, headers=bearer(tokens["admin"]))
    noted = {each["route"] for each in read_audit(root, 1_000)}
    assert noted == {f"{row.method} {row.template}" for row in changing}


def test_no_secret_is_in_it(client, root, tokens, bearer):
    """Nor in any other output: tokens, sessions, records, unknown members, parameters, headers."""
    headers = {**bearer(tokens["admin"]), "x-secret": CANARY}
    outputs = []

    def ask(method, path, **more):
        outputs.append(client.request(method, path, **more).text)

    ask("POST", "/v1/session", json={"token": tokens["admin"]})
    cookie = client.cookies["atoll_session"]
    client.cookies.clear()
    ask("POST", "/v1/session", json={"token": f"atoll_{CANARY}"})
    ask("POST", f"{TOPOLOGY}/pause", json={"password": CANARY}, headers=headers)
    ask("POST", f"{TOPOLOGY}/rollback", json={"to_microbatch": 5, "x": CANARY}, headers=headers)
    ask("POST", f"{TOPOLOGY}/pause?token={CANARY}", json={}, headers=headers)
    ask("POST", "/v1/modules/shop/depots/numbers/records", json={"v": CANARY}, headers=headers)
    ask("GET", "/v1/modules", headers=bearer(f"{CANARY}"))
    for path in ("/v1/audit", "/v1/status", "/metrics", "/healthz", "/v1/session", "/openapi.json"):
        ask("GET", path, headers=headers)
    kept = b"".join(file.read_bytes() for file in (root / ".access/audit").iterdir())
    secrets = [tokens["admin"].split("_")[2], cookie, CANARY]
    assert len(kept.splitlines()) == 6
    (login,) = [each for each in read_audit(root, 9) if each["action"] == "POST /v1/session"][1:]
    assert (login["who"], login["outcome"]) == ("admin", "done")
    assert not [each for each in secrets if each.encode() in kept]
    assert not [each for each in secrets[:2] if any(each in text for text in outputs)]
    assert not [text for text in outputs if CANARY in text and "E-RECORDS-REFUSED" not in text]


def test_only_admins_read_it(client, tokens, bearer):
    """An author does not, nor an admin of some modules."""
    for name, status in (("admin", 200), ("author", 403), ("shop", 403)):
        assert client.get("/v1/audit", headers=bearer(tokens[name])).status_code == status


def entry(action="x", at=0.0):
    """An entry."""
    return Change(
        at=moment(at),
        who="ann",
        how="token",
        address="a",
        action=action,
        route="r",
        outcome="done",
        status=200,
    )


def test_files_follow_each_other(tmp_path):
    """For their owner only; the oldest go; what is read is in order, over all of them."""
    log = AuditLog.of(tmp_path)
    log.file_bytes_max, log.files_max = 400, 3
    for number in range(20):
        log.note(entry(str(number), number))
    log.close()
    files = list((tmp_path / ".access/audit").iterdir())
    assert len(files) == 3
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    actions = [int(each["action"]) for each in read_audit(tmp_path, 4)]
    assert actions == [19, 18, 17, 16]


def test_half_a_line_is_passed_over(tmp_path):
    """A killed process may leave one."""
    log = AuditLog.of(tmp_path)
    log.note(entry("whole"))
    log.close()
    (file,) = (tmp_path / ".access/audit").iterdir()
    with file.open("ab") as end:
        end.write(b'{"at": "20')
    assert [each["action"] for each in read_audit(tmp_path, 9)] == ["whole"]


def test_moments_sort_as_time_does():
    """Also within a second."""
    times = [0.000001, 0.5, 1.0, 1.25, 1e9]
    assert sorted(map(moment, times)) == [moment(each) for each in times]


def test_what_cannot_be_noted_does_not_happen(app, root, tokens, bearer, monkeypatch):
    """From the first entry that is lost on; and again as soon as the disk takes some."""
    application = create_app(app, authority=Authority.of(root), audit_root=root)
    full = [True]
    write = os.write

    def writing(descriptor, data):
        if full[0] and b'"route"' in data:
            raise OSError(28, "no space left on device")
        return write(descriptor, data)

    monkeypatch.setattr("atoll.access.audit.os.write", writing)
    headers = bearer(tokens["operator"])
    with TestClient(application, base_url="http://127.0.0.1:7410") as client:
        assert client.post(f"{TOPOLOGY}/pause", json={}, headers=headers).status_code == 200
        refused = client.post(f"{TOPOLOGY}/resume", json={}, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (503, StorageError.code)
        assert app.topology("mb").state == "paused"
        assert client.get("/v1/modules", headers=headers).status_code == 200
        full[0] = False
        assert client.post(f"{TOPOLOGY}/resume", json={}, headers=headers).status_code == 200
    told = [json.dumps(each) for each in read_audit(root, 9)]
    assert "resume" in told[0]
    assert "1 entries could not be written" in told[1]
