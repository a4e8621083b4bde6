"""What the service answers to requests made from its own description; and reading them strictly."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks
from starlette.testclient import TestClient

import atoll
from atoll import LocalCluster, Map, agg, start
from atoll.server import create_app

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))

from harness import soaking

_CASES, _CASES_SOAKED = 2, 200
"""By route; all together some hundred, and more than 10,000 when soaking."""
_ENDLESS = r"/(subscribe|records|wait|stream|live|events)$|reschedule|parallelism"
"""Answers that wait or never end: their tests hold them one by one."""
_CHECKED = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.unsupported_method,
]


@pytest.fixture(autouse=True)
def _silent(silent_logs):
    """What threads log is in nobody's way."""


@pytest.fixture(scope="module")
def service():
    """A service over a module that runs."""
    module = atoll.Module("shop")
    words = module.depot("words", "word string, n long")
    mb = module.microbatch("mb", vnode_count=2)
    counts = mb.pstate("counts", Map(str, int))
    mb.source(words, start_from=start.beginning()).aggregate(counts["word"], agg.sum("n"))
    module.query("how_many", word=str).lookup(counts["word"], "n").returns("n")
    with LocalCluster(engine="inline") as cluster:
        app = cluster.deploy(module)
        app.wait(app.depot("words").append([{"word": "a", "n": 1}]))
        yield create_app(app, cluster=cluster.whole)


@pytest.fixture
def client(service):
    """A client of it."""
    with TestClient(service, base_url="http://127.0.0.1:7410") as made:
        yield made


def operations(service):
    """All that is described, but for what never ends."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", service, headers={"host": "127.0.0.1"})
    return [each.ok() for each in schema.exclude(path_regex=_ENDLESS).get_all_operations()]


def test_made_requests_find_nothing(service):
    """No answer but those described: statuses, content types, shapes; no fault of the service."""
    cases = _CASES_SOAKED if soaking() else _CASES
    tried = 0
    for operation in operations(service):

        @settings(
            derandomize=True,
            max_examples=cases,
            database=None,
            deadline=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(operation.as_strategy())
        def made(case):
            nonlocal tried
            tried += 1
            case.path_parameters = {
                name: {"module": "shop", "depot": "words", "pstate": "counts"}.get(name, value)
                for name, value in (case.path_parameters or {}).items()
            }
            case.call_and_validate(headers={"host": "127.0.0.1"}, checks=_CHECKED)

        made()
    assert tried >= 30 * min(cases, 2)
