"""``atoll tail``: a depot's records on stdout, as ``atoll append`` reads them."""

from __future__ import annotations

import io
import json
import sys
import threading

import pyarrow as pa
import pytest

import atoll as package

DDL = "who string, cents long, tags array<string>, at timestamp"


@pytest.fixture
def app(tmp_path):
    """A real module: two depots of one schema."""
    module = package.Module("shop")
    for name in ("orders", "copy"):
        module.depot(name, DDL, partition_by=lambda row, count: row["cents"] % count, partitions=2)
    with package.LocalCluster(tmp_path, engine="inline") as cluster:
        yield cluster.deploy(module)


ROWS = [
    {"who": "ann, or so", "cents": 0, "tags": ["a", "b"], "at": "2026-01-02T03:04:05.000006Z"},
    {"who": None, "cents": 1, "tags": None, "at": None},
    {"who": "bob", "cents": 2, "tags": [], "at": None},
]


@pytest.fixture
def orders(app):
    """The depot with three records."""
    depot = app.depot("orders")
    for row in ROWS:
        depot.append_stream([depot.codec.from_json_lines(json.dumps(row).encode())])
    return depot


def test_records_are_written_one_a_line(atoll, url, orders):
    """All of them, one partition, from an offset, so many, with their places."""
    done = atoll("tail", "shop", "orders")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert (done.code, done.err) == (0, "")
    assert sorted(lines, key=lambda row: row["cents"]) == ROWS
    done = atoll("tail", "shop", "orders", "--partition", "0", "--from", "1", "--offsets")
    assert json.loads(done.out) == {"partition": 0, "offset": 1, "record": ROWS[2]}
    done = atoll("tail", "shop", "orders", "--partition", "0", "--count", "1")
    assert [json.loads(line)["cents"] for line in done.out.splitlines()] == [0]
    assert atoll("tail", "shop", "orders", "--from", "end").out == ""


@pytest.mark.parametrize("kind", ["json", "csv", "arrow"])
def test_what_is_written_can_be_appended_again(
    atoll, url, app, orders, tmp_path, monkeypatch, kind
):
    """In each format; nothing changes on the way."""
    file = tmp_path / f"rows.{'jsonl' if kind == 'json' else kind}"
    written = io.BytesIO()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="utf-8"))
        assert atoll("tail", "shop", "orders", "--format", kind).code == 0
        sys.stdout.flush()
        file.write_bytes(written.getvalue())
    assert atoll("append", "shop", "copy", "--file", str(file)).code == 0
    found = [table(app.depot(name)) for name in ("orders", "copy")]
    assert found[0].equals(found[1])


def table(depot):
    """All that a depot holds."""
    return pa.concat_tables(batch.table for batch in depot.tail(follow=False)).sort_by("cents")


def test_followed_records_come_as_they_are_appended(atoll, url, app, orders):
    """Until so many have; an error says where to go on."""
    appending = threading.Timer(0.1, lambda: app.depot("orders").append({"cents": 9}))
    appending.start()
    done = atoll("tail", "shop", "orders", "--follow", "--count", "4")
    appending.join()
    cents = [json.loads(line)["cents"] for line in done.out.splitlines()]
    assert sorted(cents) == [0, 1, 2, 9]


def test_what_cannot_be_is_said(atoll, url, orders):
    """In the service's words."""
    done = atoll("tail", "shop", "none")
    assert (done.code, done.out) == (1, "")
    assert "E-NOT-FOUND" in done.err
    done = atoll("tail", "shop", "orders", "--from", "7")
    assert "offsets of its own" in done.err
    done = atoll("tail", "shop", "orders", "--format", "arrow", "--offsets")
    assert "--offsets is for json and csv" in done.err


def test_a_followed_tail_says_where_to_go_on(atoll, url, orders):
    """In its last line on stderr, however it ended: the record after the last one written."""
    done = atoll("tail", "shop", "orders", "--follow", "--count", "2")
    position = done.err.strip().rpartition("--from ")[2]
    rest = atoll("tail", "shop", "orders", "--from", position)
    told = [json.loads(line)["cents"] for line in (done.out + rest.out).splitlines()]
    assert sorted(told) == [0, 1, 2]
