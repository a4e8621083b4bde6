"""Puts what the experiments found into the documentation: tables and plots, nothing by hand.

Reads the reports of a folder, writes each one's table between the comments with its name in
``docs/performance.md``, and the plots into ``docs/figures``. A report that is not there leaves its
table as it was. ``--small`` prints instead.

    python bench/pipelining.py --json > build/experiments/pipelining.json
    python bench/experiments.py publish --from build/experiments
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from experiments.common import BENCH
from nexmark.plot import Panel, svg

PAGE = BENCH.parent / "docs" / "performance.md"
FIGURES = BENCH.parent / "docs" / "figures"
WIDE = ("all",)

Report = Mapping[str, Any]


def table(head: list[str], rows: list[list[object]]) -> str:
    """A table of the page, numbers to the right."""
    marks = ["---:"] * len(head)
    lines = [head, marks, *[[_shown(each) for each in row] for row in rows]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def pipelining(report: Report) -> str:
    """One row for each size of a microbatch."""
    head = ["records in a microbatch", "off, ms", "on, ms", "ratio", "off, processors, ms"]
    head += ["on, processors, ms", "records a second, on", "load"]
    names = ["records", "plain_ms", "piped_ms", "ratio", "plain_cpu_ms", "piped_cpu_ms"]
    names += ["piped_records_per_second", "load_average"]
    return table(head, [[row[name] for name in names] for row in report["rows"]])


def throughput(report: Report) -> str:
    """One row for each number of units, both kinds beside each other."""
    computes, waits = (
        {row["units"]: row for row in kind["rows"]}
        for name in ("computes", "waits")
        for kind in report["kinds"]
        if kind["kind"] == name
    )
    head = ["units", "computes, records/s", "ms", "speed-up", "waits, records/s", "ms", "speed-up"]
    names = ["records_per_second", "microbatch_ms", "speed_up"]
    rows: list[list[object]] = [
        [units, *(kind[units][name] for kind in (computes, waits) for name in names)]
        for units in sorted(computes)
    ]
    return table(head, rows) + _note(
        f"Microbatches of {report['batch']:,} records; who waits does so for "
        f"{report['wait_us']:g} µs with each record.",
        report,
    )


def faults(report: Report) -> str:
    """One row for each stand-in, sizes beside each other."""
    sizes = sorted({row["records"] for row in report["rows"]})
    found = {(row["variant"], row["records"]): row for row in report["rows"]}
    variants = list(dict.fromkeys(row["variant"] for row in report["rows"]))
    head = ["taken away"]
    for size in sizes:
        head += [f"{size:,} records, ms", "processors, ms", "of all"]
    rows: list[list[object]] = [
        [
            "nothing" if variant in WIDE else variant,
            *(found[variant, size][name] for size in sizes for name in ("ms", "cpu_ms", "share")),
        ]
        for variant in variants
    ]
    return table(head, rows) + _note(f"A sum over {report['keys']:,} keys.", report)


def recovery(report: Report) -> str:
    """One row for each size of the state."""
    head = ["keys", "start to first new commit, s", "worst, s", "Spark alone, s"]
    head += ["beyond Spark, s", "all vnodes, kept, s", "all vnodes, rebuilt, s", "load"]
    rows: list[list[object]] = [
        [
            row["keys"],
            *(row["first_commit"][name] for name in ("median", "worst")),
            row["spark_alone"]["median"],
            row["beyond_spark"]["median"],
            row["all_vnodes_kept"],
            row["all_vnodes_rebuilt"],
            row["load_average"],
        ]
        for row in report["rows"]
    ]
    return table(head, rows)


def _note(said: str, report: Report) -> str:
    return f"\n\n{said} The load at the end was {report['load_average']}."


def throughput_plot(report: Report) -> str:
    """Records a second over the units."""
    panels = [
        Panel(
            f"Records a second, work that {kind['kind']}",
            {
                "measured": [(row["units"], row["records_per_second"]) for row in kind["rows"]],
                "ideal": [
                    (row["units"], kind["rows"][0]["records_per_second"] * row["units"])
                    for row in kind["rows"]
                ]
                if kind["kind"] == "waits"
                else [],
            },
        )
        for kind in report["kinds"]
    ]
    return svg(panels, "parallel units")


def faults_plot(report: Report) -> str:
    """Milliseconds of a microbatch by how much was taken away."""
    sizes = sorted({row["records"] for row in report["rows"]})
    panels = []
    for size in sizes:
        rows = [row for row in report["rows"] if row["records"] == size]
        lines = {
            name: [(place, row[field]) for place, row in enumerate(rows)]
            for name, field in (("clock", "ms"), ("processors", "cpu_ms"))
        }
        panels.append(Panel(f"{size:,} records, ms of a microbatch", lines))
    order = [row["variant"] for row in report["rows"] if row["records"] == sizes[0]]
    return svg(panels, ", ".join(f"{place}: {name}" for place, name in enumerate(order)))


def recovery_plot(report: Report) -> str:
    """Seconds over the size of the state."""
    rows = report["rows"]
    start = {
        "Atoll": [(row["keys"], row["first_commit"]["median"]) for row in rows],
        "Spark": [(row["keys"], row["spark_alone"]["median"]) for row in rows],
    }
    all_vnodes = {
        "kept": [(row["keys"], row["all_vnodes_kept"]) for row in rows],
        "rebuilt": [(row["keys"], row["all_vnodes_rebuilt"]) for row in rows],
    }
    panels = [
        Panel("Start to first new commit after SIGKILL, s", start, powers=True),
        Panel("A microbatch over all vnodes, s", all_vnodes, powers=True),
    ]
    return svg(panels, "keys")


def pipelining_plot(report: Report) -> str:
    """How much faster, and by how many records."""
    rows = report["rows"]
    small = [row for row in rows if row["records"] < rows[-1]["records"]] or rows
    panels = [
        Panel(
            "Milliseconds of a microbatch",
            {
                name: [(row["records"], row[field]) for row in some]
                for name, field in (("off", "plain_ms"), ("on", "piped_ms"))
            },
            powers=True,
        )
        for some in (small, rows)
    ]
    return svg(panels, "records in a microbatch")


TABLES: dict[str, Callable[[Report], str]] = {
    "pipelining": pipelining,
    "throughput": throughput,
    "faults": faults,
    "recovery": recovery,
}
PLOTS: dict[str, tuple[str, Callable[[Report], str]]] = {
    "pipelining": ("Milliseconds of a microbatch with reading ahead and without", pipelining_plot),
    "throughput": ("Records a second by parallel units", throughput_plot),
    "faults": ("Milliseconds of a microbatch without parts of fault tolerance", faults_plot),
    "recovery": ("Seconds to recover by keys", recovery_plot),
}


def placed(page: str, name: str, text: str) -> str:
    """The page with a text between the comments of that name.

    Raises:
        SystemExit: When the page has no such place.
    """
    place = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- end -->)", re.DOTALL)
    if len(place.findall(page)) != 1:
        raise SystemExit(f"{PAGE} must have one place for {name}")
    return place.sub(lambda found: f"{found[1]}\n{text}\n{found[2]}", page)


def main() -> None:
    """Write what there is."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--from", dest="folder", type=Path, default=Path("build/experiments"))
    parser.add_argument("--small", action="store_true", help="print the tables, change nothing")
    arguments = parser.parse_args()
    page = PAGE.read_text()
    for name, build in TABLES.items():
        file = arguments.folder / f"{name}.json"
        if not file.exists():
            print(f"there is no {file}")
            continue
        report = json.loads(file.read_text())
        about, plot = PLOTS[name]
        drawn = plot(report)
        text = f"{build(report)}\n\n![{about}](figures/experiment-{name}.svg)"
        if arguments.small:
            print(text)
            continue
        page = placed(page, name, text)
        (FIGURES / f"experiment-{name}.svg").write_text(drawn)
    if not arguments.small:
        PAGE.write_text(page)
