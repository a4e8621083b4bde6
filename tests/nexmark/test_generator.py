"""The benchmark's stream: the same for a seed however it is cut, the same in depots and files."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import atoll
from nexmark.generator import Stream, append_pieces, by_kind, files_of, write_files
from nexmark.site import KINDS

EVENTS = 10_000
MICROS = pa.int64()


def whole(stream):
    """All records of a stream, by kind."""
    pieces = [by_kind(piece) for piece in stream.pieces()]
    return {kind: pa.Table.from_batches([piece[kind] for piece in pieces]) for kind in KINDS}


@settings(max_examples=10, deadline=None)
@given(batch=st.integers(50, 1_000), seed=st.integers(0, 2**40))
def test_the_cut_does_not_matter(batch, seed):
    """Pieces of any size hold the same records, and as many pieces come as there must."""
    events = 1_000
    stream = Stream(events=events, batch=batch, seed=seed)
    assert whole(stream) == whole(Stream(events=events, batch=events, seed=seed))
    assert [piece.count for piece in stream.pieces()][:-1] == [batch] * ((events - 1) // batch)


def test_seeds_differ():
    """Another seed is another stream."""
    one, other = (whole(Stream(events=1_000, batch=500, seed=seed)) for seed in (1, 2))
    assert one["bid"].num_rows == other["bid"].num_rows
    assert one["bid"] != other["bid"]


def test_kinds_are_1_3_46():
    """Of every 50 events one is a person, three are auctions, the rest bids."""
    rows = {kind: table.num_rows for kind, table in whole(Stream(events=EVENTS, batch=999)).items()}
    assert rows == {"person": 200, "auction": 600, "bid": 9_200}


@pytest.mark.parametrize(("hot", "share"), [(1, 0.0), (2, 0.5), (10, 0.9)])
def test_hot_auctions_take_their_share(hot, share):
    """All but one in ``hot`` bids are for the newest auction whose number is a multiple of 100.

    The other bids go to any auction, so a little over a hundredth of them meets a hot one.
    """
    bids = whole(Stream(events=50_000, batch=50_000, hot=hot))["bid"]
    numbers = bids["auction"].to_numpy() - 1_000
    hot_share = float(np.mean(numbers % 100 == 0))
    assert share - 0.01 <= hot_share <= share + (1 - share) * 0.05


@pytest.mark.parametrize("disorder", [1, 250, 4_000])
def test_time_runs_back_within_the_disorder(disorder):
    """No bid is later than a group of so many events is long, and some are, unless that is 1."""
    rate = 1_000
    stream = Stream(events=EVENTS, batch=EVENTS, rate=rate, disorder=disorder)
    times = whole(stream)["bid"]["date_time"].combine_chunks().cast(MICROS).to_numpy()
    late = np.maximum.accumulate(times) - times
    assert late.max() <= disorder * 1_000_000 // rate
    assert (late.max() > 0) == (disorder > 1)


def test_depots_and_files_hold_the_same_records(tmp_path):
    """What the peer reads is what Atoll reads; files rise by name and by time of change."""
    stream = Stream(events=EVENTS, batch=3_000)
    written = write_files(tmp_path / "files", stream)
    module = atoll.Module("records")
    for kind, (ddl, key) in KINDS.items():
        module.depot(kind, ddl, partition_by=key, partitions=3)
    with atoll.LocalCluster(tmp_path / "root", engine="inline") as cluster:
        app = cluster.deploy(module)
        assert append_pieces(app, stream.pieces(), KINDS) == written
        for kind in KINDS:
            files = files_of(tmp_path / "files", kind)
            changed = [file.stat().st_mtime for file in files]
            assert changed == sorted(set(changed))
            assert [pq.read_metadata(file).num_rows for file in files] == written[kind]
            depot = app.depot(kind)
            ends = depot.end_offsets()
            parts = [depot.read(part, 0, end) for part, end in enumerate(ends) if end]
            assert len(parts) == len(ends)
            appended = pa.concat_tables(
                [
                    part if isinstance(part, pa.Table) else pa.Table.from_batches([part])
                    for part in parts
                ]
            )
            filed = pa.concat_tables([pq.read_table(file) for file in files])
            order = [(name, "ascending") for name in filed.column_names]
            assert appended.sort_by(order).to_pylist() == filed.sort_by(order).to_pylist()


def test_the_command_reports_its_speed(tmp_path):
    """One line of JSON says how many events were written, and how fast."""
    command = ["-m", "nexmark.generator", "--events", "5000", "--batch", "1000", "--json"]
    for place in ("--out", "--depots"):
        done = subprocess.run(
            [sys.executable, *command, place, str(tmp_path / place)],
            env={"PYTHONPATH": "src:bench"},
            capture_output=True,
            text=True,
            check=True,
        )
        report = json.loads(done.stdout)
        assert report["events"] == 5_000
        assert report["events_per_second"] > 0
    assert len(files_of(tmp_path / "--out", "bid")) == 5
