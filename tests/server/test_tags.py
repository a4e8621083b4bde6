"""State reads say which commit they are of, and answer 304 to who knows it."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

import atoll
from atoll import Map, agg, start
from atoll.codec.values.exchange import VALUES
from atoll.server import create_app
from atoll.server.tags import at_one_commit, matches
from atoll.testing import TopologyTestDriver

COUNTS = "/v1/modules/tagged/pstates/counts"
PATH = {"path": '[["key","a"]]'}


@pytest.fixture(scope="module")
def driver():
    """A module that commits when it is told to."""
    module = atoll.Module("tagged")
    words = module.depot("words", "word string")
    options = {"pstate.history.microbatches": 9}
    mb = module.microbatch("mb", vnode_count=1, options=options)
    counts = mb.pstate("counts", Map(str, int))
    mb.source(words, start_from=start.beginning()).aggregate(counts["word"], agg.count())
    with TopologyTestDriver(module, engine="inline") as made:
        yield made


@pytest.fixture
def client(driver):
    """A client of the service."""
    with TestClient(create_app(driver.app), base_url="http://127.0.0.1:7410") as made:
        yield made


def commit(driver):
    """One more."""
    driver.depot("words").append({"word": "a"})
    driver.microbatch()


def test_a_tag_names_the_commit_and_saves_reading_it_again(driver, client):
    """304 until the next commit, and after a rollback another timeline."""
    timeline = driver.app.topology("mb").published.timeline
    commit(driver)
    first = client.get(f"{COUNTS}/value", params=PATH)
    count = first.json()["value"]
    tag = first.headers["etag"]
    number = driver.app.topology("mb").published.id
    assert tag == f'"{timeline}.{number}"'
    known = {"if-none-match": f'"9.9", {tag}'}
    unchanged = client.get(f"{COUNTS}/value", params=PATH, headers=known)
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    assert unchanged.headers["etag"] == tag
    as_values = client.get(f"{COUNTS}/value", params=PATH, headers={**known, "accept": VALUES})
    assert (as_values.status_code, as_values.headers["content-type"]) == (200, VALUES)
    commit(driver)
    changed = client.get(f"{COUNTS}/value", params=PATH, headers=known)
    assert (changed.status_code, changed.json()) == (200, {"value": count + 1})
    earlier = client.get(f"{COUNTS}/value", params={**PATH, "as_of": number}, headers=known)
    assert earlier.status_code == 304
    driver.app.topology("mb").rollback(number)
    back = client.get(f"{COUNTS}/value", params=PATH)
    assert back.json() == {"value": count}
    assert back.headers["etag"] != tag
    driver.app.topology("mb").resume()


def test_other_reads_say_it_too(driver, client):
    """``select`` and ``get``; all values with ``one=false``."""
    commit(driver)
    tag = client.get(f"{COUNTS}/value", params={"path": "[]"}).headers["etag"]
    selected = client.post(f"{COUNTS}/select", json={"path": [["key", "a"]]})
    assert selected.headers["etag"] == tag
    assert client.post(f"{COUNTS}/get", json={"keys": ["a"]}).headers["etag"] == tag
    absent = client.post(f"{COUNTS}/get", json={"keys": ["no"]})
    assert absent.json() == {"found": False, "value": None}
    several = client.get(f"{COUNTS}/value", params={"path": '[["keys"]]', "one": "false"})
    assert several.json() == {"values": ["a"]}
    for wrong in ("{}", "[", "7"):
        assert client.get(f"{COUNTS}/value", params={"path": wrong}).status_code == 400


def test_a_read_among_many_commits_names_the_one_it_saw(driver):
    """Where a commit comes with every read, one of them is pinned."""
    pstate = driver.app.pstate("counts")

    def reading(seen):
        commit(driver)
        return seen.get("a")

    value, history = at_one_commit(pstate, reading)
    assert pstate.as_of(history.commit_id).get("a") == value


@pytest.mark.parametrize(
    ("given", "known"),
    [('"0.7"', True), ('W/"0.7"', True), ('"1", "0.7"', True), ("*", True), ('"0.8"', False)],
)
def test_lists_of_tags(given, known):
    """Weak or strong, one of several, or any."""
    assert matches(given, '"0.7"') == known
