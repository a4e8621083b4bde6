"""Requests drawn from the published schemas, right and broken: each is answered, none with a 5xx.

Some hundreds, always the same; with ``ATOLL_SOAK=1`` ten thousand. What is refused says why, what
is accepted is run, and memory does not grow with the number of requests: those that were drawn
first are made again and again for it, since whatever draws them keeps what it drew.
"""

from __future__ import annotations

import gc
import json
import os
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from drawn import ANYTHING, NAMES, OBJECTS, Schemas, broken
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from atoll.cluster.local import LocalCluster
from atoll.runtime.actors.registry import BUILT_IN
from atoll.runtime.definition.read import check_definition
from atoll.runtime.definition.schema import definition_schema
from atoll.runtime.service.runtimes import Runtimes
from atoll.server import create_app

SOAK = os.environ.get("ATOLL_SOAK", "") not in {"", "0"}
JSON = {"content-type": "application/json"}
GROWTH_MIB_MAX = 8
KEPT, ROUNDS = 50, 20
MOSTLY = st.sampled_from([True] * 5 + [False])
FEW_COPIES = st.integers(1, 3)
DISTRIBUTION = st.fixed_dictionaries({}, optional={"copies": FEW_COPIES, "by": NAMES})
SCHEMA = definition_schema()
DRAWN = Schemas(
    SCHEMA,
    {
        "from": NAMES,
        "to": NAMES,
        "copies": FEW_COPIES,
        "by": NAMES,
        "field": NAMES,
        "key": NAMES,
        "DistributionGiven": DISTRIBUTION,
        "TimerParams": st.just({"rate": 5, "times": 2}),
    },
)
ACTORS = st.lists(DRAWN.of(SCHEMA["$defs"]["Actor"]), min_size=1, max_size=4)
LINKS = DRAWN.of(SCHEMA["properties"]["links"])
EXAMPLES = {each.name: None if each.entry or each.aliases else each.example for each in BUILT_IN}
"""Params of those that events can be sent to, and that need no sibling."""


def drawn(count, soaked):
    """How many examples, and that they are the same every time."""
    return settings(
        max_examples=soaked if SOAK else count,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@st.composite
def definitions(draw):
    """A definition as the schema says, most often one that fits together; then perhaps broken."""
    actors = draw(ACTORS)
    if draw(MOSTLY):
        actors = [_fitted(draw, actor, name) for actor, name in zip(actors, "abcd", strict=False)]
        actors.insert(0, {"name": "in", "type": "httpbroadcast"})
    names = [actor["name"] for actor in actors]
    links = [{"from": source, "to": target} for source, target in pairwise(names)]
    if not links or not draw(MOSTLY):
        links = draw(LINKS)
    whole = {"name": "r", "actors": actors, "links": links}
    if draw(st.booleans()):
        whole["distribution"] = draw(DISTRIBUTION)
    return draw(broken(st.just(whole), st.sampled_from([0, 1, 2])))


def _fitted(draw, actor, name):
    """An actor as it was drawn, with fewer sections, and often with params that fit together."""
    kept = {field for field in ("group", "copies", "log", "state") if draw(st.booleans())}
    made = {field: actor[field] for field in actor.keys() & {"type", "params", *kept}}
    if draw(MOSTLY):
        made["params"] = EXAMPLES[made["type"]]
    if EXAMPLES[made["type"]] is None:
        made |= {"type": "threshold", "params": EXAMPLES["threshold"]}
    return {**made, "name": name}


EVENTS = st.lists(OBJECTS | ANYTHING, max_size=4) | OBJECTS | ANYTHING
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(["start", "stop"]),
        "distribution": st.fixed_dictionaries({"copies": FEW_COPIES}),
        "state": st.sampled_from(["keep", "drop", "move"]),
    },
)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A service without Spark whose root is gone afterwards."""
    with LocalCluster(tmp_path_factory.mktemp("root"), engine="inline") as cluster:
        runtimes = Runtimes(cluster)
        runtimes.open()
        application = create_app(runtimes=runtimes)
        with TestClient(application, base_url="http://127.0.0.1:7410") as found:
            yield found
        runtimes.close()


@pytest.fixture(autouse=True)
def _silent(silent_logs):
    """What threads log is in nobody's way."""


def _own_mib():
    """What the process has for itself: pages of the stores' files come and go with the cache."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) / 1024


def asked(client, method, path, body=None):
    """An answer that is no fault of the service, and says why where it refuses."""
    content = b"" if body is None else json.dumps(body).encode()
    answer = client.request(method, path, content=content, headers=JSON)
    assert answer.status_code < 500, (method, path, body, answer.text)
    if answer.status_code >= 400:
        told = answer.json()
        assert told["success"] is False, told
        assert told["reason"], told
        assert told["code"].startswith("E-"), told
    return answer


@pytest.fixture(scope="module")
def answered():
    """How often each status was answered: a tenth at least is made, and a tenth refused."""
    counts = Counter()
    yield counts
    assert 10 * min(counts[201], counts[400]) >= counts.total(), counts


@drawn(80, 1_500)
@given(definitions(), EVENTS, CHANGES)
def test_definitions(client, answered, definition, events, change):
    """Each is refused with all that is wrong, or made; what is made is run, asked and deleted."""
    answered[live(client, definition, events, change)] += 1


def live(client, definition, events, change):
    """A runtime's whole life, if it may begin; the status of its beginning."""
    made = asked(client, "POST", "/api/runtimes", definition)
    problems = check_definition(definition)[1]
    if problems:
        assert made.status_code == 400
        assert len(made.json()["context"]["problems"]) == len(problems)
        return made.status_code
    assert made.status_code == 201
    path = f"/api/runtimes/{made.json()['id']}"
    asked(client, "PATCH", path, {"status": "start"})
    actor = definition["actors"][0]["name"]
    asked(client, "POST", f"{path}/actors/{actor}", events)
    asked(client, "PATCH", path, change)
    asked(client, "GET", f"{path}/stats")
    assert asked(client, "DELETE", path).status_code == 200
    return made.status_code


@pytest.mark.skipif(not SOAK, reason="takes minutes: ATOLL_SOAK=1 runs it")
def test_memory(client):
    """A thousand runtimes made, run and deleted: memory stays where the first rounds left it."""
    kept = []

    @drawn(KEPT, KEPT)
    @given(definitions(), EVENTS, CHANGES)
    def keep(definition, events, change):
        kept.append((definition, events, change))

    keep()
    sizes = []
    for _ in range(ROUNDS):
        for some in kept:
            live(client, *some)
        gc.collect()
        sizes.append(_own_mib())
    print(f"memory by rounds of {len(kept)} runtimes, MiB: {[round(each) for each in sizes]}")
    assert sizes[-1] - sizes[ROUNDS // 4] < GROWTH_MIB_MAX, sizes


def every_type():
    """One actor of each type that runs, behind an entry point."""
    kinds = [each for each in BUILT_IN if each.runs is None and not each.aliases]
    actors = [
        {"name": each.name, "type": each.name, "params": each.example}
        for each in kinds
        if each.name != "httpbroadcast"
    ]
    links = [{"from": "in", "to": each["name"]} for each in actors if each["type"] != "generator"]
    links.append({"from": "generator", "to": "stats"})
    entry = {"name": "in", "type": "httpbroadcast"}
    return {"name": "every", "actors": [entry, *actors], "links": links}


FIELDS = sorted({"customer", "amount", "city", "kind", "key", "message", "query", "x", "y"})
FITTING = st.dictionaries(st.sampled_from(FIELDS) | NAMES, ANYTHING, max_size=5)


@pytest.fixture(scope="module")
def every(client):
    """A runtime with every type, and its actors."""
    definition = every_type()
    made = asked(client, "POST", "/api/runtimes", definition)
    assert made.status_code == 201, made.text
    path = f"/api/runtimes/{made.json()['name']}"
    assert asked(client, "PATCH", path, {"status": "start"}).status_code == 200
    yield path, [each["name"] for each in definition["actors"]]
    asked(client, "DELETE", path)


@drawn(60, 800)
@given(st.data())
def test_events(client, every, data):
    """Sent and shunted to actors of every type: taken, or refused with the reason."""
    path, names = every
    actor = data.draw(st.sampled_from(names))
    sent = data.draw(st.lists(FITTING, max_size=4) | FITTING | EVENTS)
    answer = asked(client, "POST", f"{path}/actors/{actor}", sent)
    assert answer.status_code in (202, 400, 409)
    answer = asked(client, "POST", f"{path}/actors/{actor}/shunt", data.draw(FITTING | ANYTHING))
    assert answer.status_code in (200, 400, 409, 422)
    asked(client, "GET", f"{path}/actors/{actor}/stats")


@drawn(40, 200)
@given(broken(CHANGES), st.sampled_from(["", ".1", ".2", ".9"]))
def test_changes(client, every, change, copy):
    """Of the status, the copies and their state, of the whole and of one copy."""
    path, _ = every
    asked(client, "PATCH", path + copy, change)
    asked(client, "PATCH", path, {"status": "start"})
    asked(client, "GET", f"{path}{copy}/stats")
