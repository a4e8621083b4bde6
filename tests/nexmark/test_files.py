"""The files of q10 hold each row once, however often and how interrupted they are written."""

from __future__ import annotations

import random

import pyarrow.dataset as ds

from atoll.testing import TopologyTestDriver
from nexmark.queries import q10
from nexmark.site import Site


def rows_of(folder):
    """Their rows, with the folders that they lie in."""
    table = ds.dataset(folder, format="parquet", partitioning="hive", exclude_invalid_files=True)
    columns = ["auction", "bidder", "price", "date_time", "day", "minute"]
    return sorted(tuple(row[name] for name in columns) for row in table.to_table().to_pylist())


def bids(first, count):
    """Bids of several minutes."""
    return [
        {"auction": n, "bidder": n % 7, "price": n, "date_time": f"2026-01-01T12:{n % 5:02}:00Z"}
        for n in range(first, first + count)
    ]


def test_each_row_is_in_one_file(tmp_path, monkeypatch):
    """While records come, over writers that die between two files, and over repetitions."""
    site, dice = Site("q10"), random.Random(10)
    q10.build(site)
    write_dataset, left = ds.write_dataset, 0

    def dying(*arguments, **settings):
        nonlocal left
        left -= 1
        if left == 0:
            raise OSError("killed")
        write_dataset(*arguments, **settings)

    monkeypatch.setattr(q10.ds, "write_dataset", dying)
    with TopologyTestDriver(site.module) as driver:
        for turn in range(6):
            driver.depot("bid").append(bids(turn * 40, 40))
            driver.run_until_idle()
            left = dice.randint(1, 4)
            try:
                q10.write(driver.app, tmp_path, run=15)
            except OSError:
                continue
        left = 0
        q10.write(driver.app, tmp_path, run=15)
        assert rows_of(tmp_path) == sorted(q10.results(driver.app))
        again = q10.write(driver.app, tmp_path, run=15)
        assert again < 2 * 15  # the last run of each depot partition
    assert len(rows_of(tmp_path)) == 240
    assert (tmp_path / "day=2026-01-01").is_dir()
