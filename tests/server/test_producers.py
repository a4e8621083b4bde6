"""Producers over HTTP, before a real depot: sent again, refused, and headers that cannot be."""

import pytest
from fakes import FakeApp
from fastapi.testclient import TestClient

from atoll.ddl import parse_ddl
from atoll.depot import Depot, DepotSpec
from atoll.server import create_app

URL = "/v1/modules/key-pairs/depots/numbers/records"


@pytest.fixture
def post(tmp_path):
    """Append numbers as a producer; the answer."""
    app = FakeApp()
    spec = DepotSpec("numbers", parse_ddl("v long NOT NULL"))
    with Depot(tmp_path / "numbers", spec) as depot:
        app._depots["numbers"] = depot
        client = TestClient(create_app(app), base_url="http://127.0.0.1:7410")

        def call(values, kind="application/json", **headers):
            names = {f"Atoll-Producer-{name.title()}": text for name, text in headers.items()}
            body = "\n".join(f'{{"v": {value}}}' for value in values)
            if kind == "application/json":
                body = "[" + body.replace("\n", ",") + "]"
            return client.post(URL, content=body, headers={"content-type": kind, **names})

        yield call


@pytest.mark.parametrize("kind", ["application/json", "application/x-ndjson"])
def test_sent_again(post, kind):
    """The first answer again, marked; with the next number it is another append."""
    first = post([1, 2], kind, id="p", sequence="3").json()
    again = post([1, 2], kind, id="p", sequence="3").json()
    assert first["duplicate"] is False
    assert again == {**first, "duplicate": True}
    assert post([1, 2], kind, id="p", sequence="4").json()["offsets"] == {"0": [2, 4]}
    assert post([1, 2], kind).json()["offsets"] == {"0": [4, 6]}


@pytest.mark.parametrize(
    ("values", "sequence", "epoch", "problem"),
    [([1], "5", "2", "gap"), ([9], "3", "2", "conflict"), ([1], "4", "1", "stale epoch")],
)
def test_refused(post, values, sequence, epoch, problem):
    """409, with the code and the reason."""
    assert post([1], id="p", sequence="3", epoch="2").status_code == 200
    answer = post(values, id="p", sequence=sequence, epoch=epoch)
    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "E-PRODUCER"
    assert answer.json()["context"]["problem"] == problem


@pytest.mark.parametrize(
    "headers",
    [
        {"id": "p"},
        {"sequence": "1"},
        {"epoch": "1"},
        {"id": "p", "sequence": "-1"},
        {"id": "p", "sequence": "1.5"},
        {"id": "p", "sequence": "9" * 30},
        {"id": "p", "sequence": "1", "epoch": "x"},
        {"id": "", "sequence": "1"},
        {"id": "x" * 161, "sequence": "1"},
        {"id": "topology/m/t", "sequence": "1"},
    ],
)
def test_headers_that_cannot_be(post, headers):
    """400, and nothing is stored."""
    answer = post([1], **headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "E-USAGE")
    assert post([1]).json()["offsets"] == {"0": [0, 1]}
