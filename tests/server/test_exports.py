"""Exported state over HTTP and at the terminal: whole files, or an error and none."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

import atoll
from atoll import Map, agg, start
from atoll.server import create_app
from atoll.server.serve import bind, serve
from atoll.testing import TopologyTestDriver

ROUTE = "/v1/modules/shop/pstates/counts/export"
OPTIONS = {"pstate.history.microbatches": 2, "pstate.history.seconds": 0}


@pytest.fixture
def driver(tmp_path):
    """Three commits of a count by word, of which two can be read."""
    module = atoll.Module("shop")
    words = module.depot("words", "w string", partition_by="w", partitions=1)
    mb = module.microbatch("mb", vnode_count=4, options=OPTIONS)
    counts = mb.pstate("counts", Map(str, int))
    source = mb.source(words, start_from=start.beginning())
    source.aggregate(counts["w"], agg.count())
    with TopologyTestDriver(module, root=tmp_path / "root") as made:
        for _ in range(3):
            made.depot("words").append([{"w": w} for w in "abcd"])
            made.microbatch()
        yield made


@pytest.fixture
def client(driver):
    """A client of a service over it."""
    application = create_app(driver.app)
    with TestClient(application, base_url="http://127.0.0.1:7410") as found:
        yield found


def test_a_pstate_comes_as_arrow_or_parquet(client):
    """With the metadata; as it is, and as it was."""
    answered = client.get(ROUTE)
    assert answered.headers["content-type"] == "application/vnd.apache.arrow.stream"
    table = pa.ipc.open_stream(io.BytesIO(answered.content)).read_all()
    assert sorted(table.to_pydict()["key"]) == list("abcd")
    assert table.to_pydict()["value"] == [3] * 4
    assert table.schema.metadata[b"atoll.microbatch"] == b"3"
    parquet = client.get(ROUTE, params={"format": "parquet", "as_of": 2}).content
    earlier = pq.read_table(io.BytesIO(parquet))
    assert earlier.to_pydict()["value"] == [2] * 4
    assert earlier.schema.metadata[b"atoll.microbatch"] == b"2"


def test_changes_come_so_too(client):
    """Of the commits after one, up to another one."""
    content = client.get(ROUTE, params={"changes": True, "after": 2}).content
    table = pa.ipc.open_stream(io.BytesIO(content)).read_all()
    assert table.column_names == ["microbatch", "deleted", "key", "value"]
    assert set(table.to_pydict()["microbatch"]) == {3}


def test_what_cannot_be_is_answered_before_anything_is_sent(client):
    """In the words of the export."""
    wrong = [
        {"as_of": 99},
        {"changes": True, "as_of": 3},
        {"after": 2},
        {"field": "none"},
        {"format": "csv"},
        {"changes": True, "after": 0},
    ]
    answers = [client.get(ROUTE, params=params) for params in wrong]
    assert {each.status_code for each in answers} <= {400, 422}
    assert "cannot be read" in answers[0].json()["detail"]


def test_at_the_terminal_it_becomes_a_file(driver, run_atoll, tmp_path, monkeypatch):
    """Parquet or Arrow; the service's error, and no file, where it cannot be."""
    with serve(create_app(driver.app), bind("127.0.0.1", 0)) as address:
        monkeypatch.setenv("ATOLL_URL", address.url)
        file = tmp_path / "counts.parquet"
        done = run_atoll("export", "shop", "counts", "--to", file)
        assert (done.code, done.out, done.err) == (0, "", "4 rows: as of microbatch 3\n")
        assert pq.read_table(file).to_pydict()["value"] == [3] * 4
        assert pq.read_schema(file).metadata[b"atoll.pstate"] == b"counts"
        file = tmp_path / "changes.arrow"
        done = run_atoll("export", "shop", "counts", "--to", file, "--changes", "--after", 2)
        assert done.err == "4 rows: changes after microbatch 2, up to 3\n"
        with pa.ipc.open_file(file) as reader:
            assert reader.read_all().num_rows == 4
        done = run_atoll("export", "shop", "counts", "--to", tmp_path / "x.arrow", "--as-of", 99)
        assert (done.code, "cannot be read" in done.err) == (1, True)
        done = run_atoll("export", "shop", "counts", "--to", tmp_path / "x.csv")
        assert (done.code, "is not clear" in done.err) == (1, True)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [
        "changes.arrow",
        "counts.parquet",
    ]
