"""What the benchmark's runs come to: medians, ratios, the table, and what is refused."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from memory import PeakMemory, disk_bytes, open_files
from nexmark.peer_queries import PEER_QUERIES
from nexmark.queries import NAMES
from nexmark.report import compared, table, wrong_rows

BENCH = Path(__file__).parents[2] / "bench"


def report(**fields):
    """A round of one side."""
    base = {
        "events": 1_000,
        "seconds": 1.0,
        "cpu_seconds": 0.002,
        "durations_ms": [10.0],
        "memory_bytes": {"driver": 1_000_000, "java": 2_000_000, "workers": 0},
        "disk_bytes": 500_000,
        "rows": 7,
    }
    return base | fields


def test_a_side_is_the_median_of_its_rounds():
    """One bad round changes nothing; memory and space are the most that any round took."""
    ours = [
        report(seconds=0.5),
        report(seconds=50.0, memory_bytes={"driver": 9_000_000, "java": 0, "workers": 0}),
        report(seconds=0.4, disk_bytes=900_000),
    ]
    theirs = [report(seconds=2.0, cpu_seconds=0.004), report(seconds=1.0, cpu_seconds=0.004)]
    result = compared("q0", {"atoll": ours, "peer": theirs}, way="")
    assert result["atoll"]["events_per_second"] == 2_000
    assert result["peer"]["events_per_second"] == 750
    assert result["ratio"] == 2.67
    assert result["cpu_ratio"] == 2.0
    assert result["atoll"]["memory_mb"]["driver"] == 9
    assert result["atoll"]["disk_mb"] == 0.9


def test_there_is_no_ratio_of_one_side():
    """With one side left out there is nothing to compare, off Linux no processor time."""
    result = compared("q0", {"atoll": [report(cpu_seconds=None)]}, way="")
    assert "ratio" not in result
    assert result["atoll"]["cpu_us_per_event"] is None
    assert "| q0 | 1,000 |  |  | 10 | 3 | 0 | the same |" in table([result])


def test_the_table_says_how_the_peer_does_it_and_what_failed():
    """Every line has as many cells as the head."""
    both = {"atoll": [report()], "peer": [report(seconds=4.0)]}
    lines = table(
        [compared("q4", both, way="another way"), {"query": "q5", "failed": "peer: refused"}]
    ).splitlines()
    assert len({line.count("|") for line in lines}) == 1
    assert "| 4.00 |" in lines[2]
    assert "another way" in lines[2]
    assert "failed: peer: refused" in lines[3]


def test_a_result_with_missing_rows_is_refused():
    """What was measured must be the whole work."""
    assert wrong_rows("q0", "peer", [report(), report(rows=6)], 7) == (
        "q0: peer ended with 6 rows, not with 7"
    )
    assert wrong_rows("q0", "peer", [report()], 7) is None
    assert wrong_rows("q12", "peer", [report()], None) is None


def test_every_query_has_a_peer():
    """And where it is another query than the published one, Spark's reason is there."""
    assert set(NAMES) <= set(PEER_QUERIES)
    for query in PEER_QUERIES.values():
        assert bool(query.way) == bool(query.refused)
        assert query.mode in {"append", "update"}


def test_memory_and_files_of_this_process_are_seen(tmp_path):
    """Memory taken while it is watched counts; a file with a hole takes what it holds."""
    with PeakMemory() as memory:
        taken = bytearray(b"x") * 50_000_000
    assert memory.peak["driver"] > len(taken)
    assert open_files()["driver"] > 3
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(10**9)
        file.write(b"some")
    assert 0 < disk_bytes(tmp_path) < 10**6


@pytest.mark.parametrize("names", ["q0,q99", "nothing"])
def test_an_unknown_query_is_refused(names):
    """Before anything is generated."""
    done = subprocess.run(
        [sys.executable, str(BENCH / "nexmark.py"), "--queries", names],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"no query {names.split(',')[-1]}; there are q0" in done.stderr


@pytest.fixture
def script():
    """``bench/nexmark.py``; its name is also the package's."""
    spec = importlib.util.spec_from_file_location("nexmark_script", BENCH / "nexmark.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def ran(script, monkeypatch, capsys):
    """Runs the script with sides that report as told; what it printed, and the runs in turn."""

    def run(sides, *options):
        turns = []

        def run_side(side, query, records, warmup, timeout):
            turns.append(side)
            assert len(list((records / "bid").iterdir())) == 3
            return {"sink": "parquet"} | sides[side]

        monkeypatch.setattr(script, "run_side", run_side)
        sizes = ["--events", "4000", "--batch", "2000", "--warmup", "1"]
        monkeypatch.setattr(sys, "argv", ["nexmark.py", "--queries", "q0", *sizes, *options])
        script.main()
        return capsys.readouterr().out, turns

    return run


def test_the_sides_alternate_and_all_rows_are_there(ran):
    """Rows are held against DuckDB's answer over the files; the JSON is one line."""
    whole = report(rows=46 * 6_000 // 50)
    printed, turns = ran({"atoll": whole, "peer": whole}, "--rounds", "3", "--json")
    assert turns == ["atoll", "peer", "peer", "atoll", "atoll", "peer"]
    result = json.loads(printed)
    assert (result["events"], result["batch"], result["rounds"]) == (4_000, 2_000, 3)
    assert result["queries"][0]["ratio"] == 1.0


@pytest.mark.parametrize("side", ["atoll", "peer"])
def test_a_row_too_few_fails_the_query(ran, side):
    """On either side."""
    sides = {name: report(rows=46 * 6_000 // 50) for name in ("atoll", "peer")}
    sides[side] = report(rows=46 * 6_000 // 50 - 1)
    printed, _ = ran(sides, "--rounds", "1", "--json")
    (result,) = json.loads(printed)["queries"]
    assert result["failed"] == f"q0: {side} ended with 5519 rows, not with 5520"


def test_a_side_that_fails_does_not_end_the_others(ran):
    """The table says why."""
    sides = {"atoll": report(rows=46 * 6_000 // 50), "peer": {"failed": "peer: no memory"}}
    printed, turns = ran(sides)
    assert "failed: peer: no memory" in printed
    assert turns == ["atoll", "peer"]
