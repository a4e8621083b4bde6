"""The queries over RisingWave's records give the rows that its own tests expect."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from pathlib import Path

import pytest

import atoll
from nexmark import queries
from nexmark.checking import differences
from nexmark.feeds import recorded, tables
from nexmark.site import KINDS, TOPOLOGY, Site

FOLDER = Path(__file__).parents[3] / "shared" / "nexmark"
NAMES = [name for name in queries.NAMES if (FOLDER / f"{name}.expected.tsv").exists()]
LISTED = "auction IN (1007, 1020, 2001, 2019, 2087)"
BUILT = {"q2": {"chosen": LISTED}}
"""What queries are built with, where these records need other constants."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="../shared/nexmark is not there"),
]


@pytest.fixture(scope="module")
def cluster():
    """One for all queries: each is a module of its own."""
    with atoll.LocalCluster(parallelism=2) as cluster:
        yield cluster


def wanted(name):
    """The rows of the file, each value as what it looks like."""
    lines = (FOLDER / f"{name}.expected.tsv").read_text(encoding="utf-8").splitlines()
    return [tuple(map(parsed, cells(line))) for line in lines if line.strip()]


def cells(line):
    """Separated by tabs, or by blanks other than the one within a time."""
    return line.split("\t") if "\t" in line else re.split(r"\s+(?!\d\d:\d\d)", line)


def parsed(text):
    """A number, a time or a text."""
    for kind in (Decimal, dt.datetime.fromisoformat):
        try:
            return kind(text)
        except (ArithmeticError, ValueError):
            continue
    return text


def site_of(name, label, vnode_count):
    """A query under a module name of its own."""
    site = Site(f"{name}-{label}", vnode_count=vnode_count)
    queries.load(name).build(site, **BUILT.get(name, {}))
    return site


@pytest.mark.parametrize("name", NAMES)
def test_all_data_first(cluster, name):
    """The topology comes when the depots are full, and starts from the beginning."""
    site = site_of(name, "after", vnode_count=5)
    depots = atoll.Module(site.name)
    records = {kind: tables(recorded(FOLDER))[kind] for kind in site.reads}
    for kind in records:
        ddl, key = KINDS[kind]
        depots.depot(kind, ddl, partition_by=key, partitions=site.partitions)
    app = cluster.deploy(depots)
    for kind, table in records.items():
        app.depot(kind).append(table)
    app = cluster.update(site.module)
    app.topology(TOPOLOGY).wait_processed(sum(table.num_rows for table in records.values()))
    assert differences(queries.load(name).results(app), wanted(name)) == []


@pytest.mark.parametrize("name", NAMES)
def test_record_by_record(cluster, name):
    """While the topology runs; it cuts microbatches where it likes."""
    site = site_of(name, "during", vnode_count=64)
    app = cluster.deploy(site.module)
    count = 0
    for piece in recorded(FOLDER):
        for kind in piece.keys() & set(site.reads):
            app.depot(kind).append(piece[kind])
            count += piece[kind].num_rows
    app.topology(TOPOLOGY).wait_processed(count)
    assert differences(queries.load(name).results(app), wanted(name)) == []
