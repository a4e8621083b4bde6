"""The list of metrics in the documentation is what is exported, no more and no less."""

from __future__ import annotations

import re
from pathlib import Path

from atoll.server import metrics, runtime_metrics
from atoll.server.collectors import sources
from atoll.server.collectors.sources import SourceCollector
from atoll.server.metrics import Metrics, _Families

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "http.md"


def exported():
    """By name, as a scrape has it, the labels."""
    runtime = re.findall(r"^(atoll_runtime_\w+) +\w+ +(.+)$", runtime_metrics.__doc__, re.MULTILINE)
    found = {name: re.sub(r" \(.*\)", "", labels) for name, labels in runtime}
    own = Metrics({})
    families = [*_Families().all(), *SourceCollector({}).collect()]
    for family in [*families, *own.requests.describe(), *own.seconds.describe()]:
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = getattr(family, "_labelnames", None)
        found[name] = ", ".join(labels) if labels else None
    found["atoll_http_requests_total"] = ", ".join(own.requests._labelnames)
    found["atoll_http_request_duration_seconds"] = ", ".join(own.seconds._labelnames)
    return found


def listed():
    """The same as the page lists it."""
    section = PAGE.read_text(encoding="utf-8").split("\n## Metrics\n")[1].split("\n## ")[0]
    found = {}
    for left, labels in re.findall(r"^\| (`.+) \| (.+) \|$", section, re.MULTILINE):
        for name in re.findall(r"`(atoll_\w+)`", left):
            found[name] = labels
    return found


def test_the_metrics_in_the_docs_are_those_that_are_exported_with_their_labels():
    """And so is the table in the source."""
    assert listed() == exported()
    tables = "".join(each.__doc__ for each in (metrics, runtime_metrics, sources))
    table = re.findall(r"^(atoll_\w+) ", tables, re.MULTILINE)
    assert set(table) == set(exported())
