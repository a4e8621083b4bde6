"""Reports of the experiments become tables and plots, and nothing else of the page changes."""

import json
import re
import sys
import xml.etree.ElementTree as ET

import pytest

from experiments import publish

REPORTS = {
    "pipelining": {
        "rows": [
            {
                "records": records,
                "plain_ms": 12.5,
                "piped_ms": 10.0,
                "ratio": 1.25,
                "plain_cpu_ms": 9.0,
                "piped_cpu_ms": 9.5,
                "piped_records_per_second": records * 100,
                "load_average": 1.1,
            }
            for records in (100, 1_000, 10_000)
        ]
    },
    "throughput": {
        "batch": 160_000,
        "wait_us": 20.0,
        "load_average": 1.2,
        "kinds": [
            {
                "kind": kind,
                "rows": [
                    {
                        "units": units,
                        "records_per_second": 1_000 * units,
                        "microbatch_ms": 9.5,
                        "speed_up": float(units),
                    }
                    for units in (1, 2, 16)
                ],
            }
            for kind in ("computes", "waits")
        ],
    },
    "faults": {
        "keys": 100_000,
        "load_average": 1.3,
        "rows": [
            {"records": size, "variant": variant, "ms": 8.5, "cpu_ms": 7.5, "share": 1.0}
            for size in (2_000, 100_000)
            for variant in ("all", "no fsync")
        ],
    },
    "recovery": {
        "rows": [
            {
                "keys": keys,
                "first_commit": {"median": 9.5, "worst": 12.0},
                "spark_alone": {"median": 9.25},
                "beyond_spark": {"median": 0.25},
                "all_vnodes_kept": 0.1,
                "all_vnodes_rebuilt": 0.6,
                "load_average": 1.4,
            }
            for keys in (10_000, 10_000_000)
        ]
    },
}


@pytest.fixture
def page(tmp_path, monkeypatch):
    """A page with all places, and reports of all experiments."""
    made = tmp_path / "page.md"
    places = [f"# {name}\n\n<!-- {name} -->\nold\n<!-- end -->\n\nstays" for name in REPORTS]
    made.write_text("\n\n".join(places))
    monkeypatch.setattr(publish, "PAGE", made)
    monkeypatch.setattr(publish, "FIGURES", tmp_path)
    for name, report in REPORTS.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(report))
    return made


def run(monkeypatch, folder):
    """The command."""
    monkeypatch.setattr(sys, "argv", ["publish", "--from", str(folder)])
    publish.main()


def test_each_report_becomes_a_table_and_a_plot(page, tmp_path, monkeypatch):
    """In its place, as often as it is published; rows are as long as their head."""
    run(monkeypatch, tmp_path)
    once = page.read_text()
    run(monkeypatch, tmp_path)
    assert page.read_text() == once
    assert once.count("stays") == 4
    assert "old" not in once
    for name, report in REPORTS.items():
        (place,) = re.findall(rf"<!-- {name} -->(.*?)<!-- end -->", once, re.DOTALL)
        rows = [line.count("|") for line in place.splitlines() if line.startswith("|")]
        assert len(set(rows)) == 1 < len(rows)
        assert ET.fromstring((tmp_path / f"experiment-{name}.svg").read_text()) is not None
        assert f"figures/experiment-{name}.svg" in place
        assert report
    assert "| 10,000,000 | 9.5 | 12.0 | 9.25 | 0.25 | 0.1 | 0.6 | 1.4 |" in once
    assert "| nothing | 8.5 | 7.5 | 1.0 | 8.5 | 7.5 | 1.0 |" in once


def test_what_was_not_measured_stays(page, tmp_path, monkeypatch):
    """A report may come another day."""
    (tmp_path / "faults.json").unlink()
    run(monkeypatch, tmp_path)
    assert page.read_text().count("old") == 1


def test_a_page_without_the_place_is_refused(page, tmp_path, monkeypatch):
    """Rather than losing a table."""
    page.write_text(page.read_text().replace("<!-- recovery -->", ""))
    with pytest.raises(SystemExit, match="one place for recovery"):
        run(monkeypatch, tmp_path)


def test_the_page_of_the_documentation_has_all_places():
    """Where the commands will write."""
    text = publish.PAGE.read_text()
    for name in REPORTS:
        assert publish.placed(text, name, "new").count("new") >= 1
