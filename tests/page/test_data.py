"""The routes that the page needs, over a real module."""

import json
import threading

import pytest
from page_shop import build, fill
from starlette.testclient import TestClient

from atoll import LocalCluster
from atoll.depot.producers.table import Producer
from atoll.server import create_app
from atoll.server.context import Served
from atoll.server.page.live import Live, Looking, ModuleEvents

SALES = "/v1/modules/shop/topologies/sales"


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """The module after four microbatches."""
    with LocalCluster(tmp_path_factory.mktemp("data"), engine="inline") as cluster:
        found = cluster.deploy(build())
        fill(found)
        yield found


@pytest.fixture(scope="module")
def client(app):
    """A client of its service."""
    with TestClient(create_app(app), base_url="http://127.0.0.1:7410") as found:
        yield found


class TestGraph:
    """The module as nodes and edges."""

    def test_nodes_and_edges(self, client):
        """Each edge joins two nodes; a step has the line that declared it."""
        graph = client.get("/v1/modules/shop/graph").json()
        nodes = {each["id"]: each for each in graph["nodes"]}
        assert len(nodes) == len(graph["nodes"])
        assert all({each["from"], each["to"]} <= set(nodes) for each in graph["edges"])
        kinds = {each["kind"] for each in graph["nodes"]}
        assert kinds == {"depot", "step", "pstate"}
        mapped = next(each for each in graph["nodes"] if each["label"] == "map check")
        assert mapped["place"].startswith("page_shop.py:")
        assert {"from": "depot:orders", "to": mapped["id"]} in graph["edges"]
        assert nodes["pstate:total"]["topology"] == "sales"

    def test_steps_are_called_as_in_the_status(self, client):
        """So that counts find their nodes."""
        graph = client.get("/v1/modules/shop/graph").json()
        steps = {each["step"] for each in graph["nodes"] if each["kind"] == "step"}
        counted = {each["step"] for each in client.get(SALES).json()["operators_total"]}
        assert counted
        assert counted <= steps


class TestMicrobatches:
    """The last ones, and one of them."""

    def test_listing(self, client):
        """In short, oldest first; behind one only those after it."""
        found = client.get(f"{SALES}/microbatches").json()["microbatches"]
        ids = [each["id"] for each in found]
        assert ids == sorted(ids)
        assert sum(each["records"] for each in found) == 120
        assert {"prime", "process", "commit", "publish", "tidy", "total"} <= set(found[0])
        assert "ranges" not in found[0]
        behind = client.get(f"{SALES}/microbatches", params={"after": ids[0]}).json()
        assert [each["id"] for each in behind["microbatches"]] == ids[1:]

    def test_one(self, client):
        """What it read and changed, by step and PState."""
        listed = client.get(f"{SALES}/microbatches").json()["microbatches"]
        number = next(each["id"] for each in listed if each["records"])
        one = client.get(f"{SALES}/microbatches/{number}").json()
        read = sum(end - start for start, end in one["ranges"]["orders"])
        assert read == one["records"]
        assert one["vnodes"]["by_customer"] > 1
        assert one["vnodes"]["total"] == 1
        assert one["appended"] == {"audit": 19}
        assert one["committed_at_ms"] > 0

    def test_one_that_is_not_remembered(self, client):
        """Says which are."""
        found = client.get(f"{SALES}/microbatches/9999")
        assert found.status_code == 404
        assert "1 to" in found.json()["hint"]


class TestRollbackPlan:
    """What going back would do."""

    def test_what_it_would_do(self, client, app):
        """The counts are those of the abandoned microbatches, and nothing changes."""
        before = app.topology("sales").status()["committed"]
        found = client.post(f"{SALES}/rollback", json={"to_microbatch": 1, "dry_run": True}).json()
        assert found["refused"] is None
        assert found["microbatches"] == before - 1
        listed = client.get(f"{SALES}/microbatches", params={"after": 1}).json()["microbatches"]
        assert found["records"] == sum(each["records"] for each in listed)
        assert found["appended"] == {"audit": 19 * 3}
        status = app.topology("sales").status()
        assert (status["committed"], status["state"]) == (before, "running")

    def test_one_that_is_refused(self, client):
        """It says why, as the rollback itself would."""
        wanted = {"to_microbatch": 999, "dry_run": True}
        plan = client.post(f"{SALES}/rollback", json=wanted).json()
        refused = client.post(f"{SALES}/rollback", json={"to_microbatch": 999}).json()
        assert plan["refused"]["message"] == refused["detail"]
        assert plan["refused"]["hint"] == refused["hint"]


class TestLive:
    """The stream that all pages share."""

    def test_it_is_told_at_once_and_when_something_changed(self):
        """Nothing is told twice."""
        looks = iter([{"at": 1}, {"at": 1}, {"at": 2}])
        live = Live(lambda: next(looks))
        assert live.next(0) == {"at": 1}
        assert live.next(0) is None
        assert live.next(0) == {"at": 2}

    def test_closing_ends_a_wait(self):
        """At once, from another thread."""
        live = Live(dict)
        live.next(0)
        waiting = threading.Thread(target=live.next)
        waiting.start()
        live.close()
        waiting.join(10)
        assert not waiting.is_alive()
        assert live.closed
        assert live.next(0) is None

    def test_all_share_one_look(self, app):
        """Within half a second the modules are looked at once."""
        now = [0.0]
        looking = Looking(Served({"shop": app}, {}), now=lambda: now[0])
        first = looking.look()
        assert looking.look() is first
        now[0] = 1.0
        assert looking.look() is not first
        told = first["modules"]["shop"]
        assert told["topologies"]["sales"]["lag"] == {"orders": 0}
        assert told["depots"]["orders"] == 120

    def test_as_an_event(self):
        """One event, one line of data."""
        assert ModuleEvents().piece({"a": 1}) == b'event: modules\ndata: {"a":1}\n\n'


class TestWalking:
    """A PState place by place."""

    URL = "/v1/modules/shop/pstates"

    def test_pages_of_a_map(self, client):
        """Forwards from any key, and backwards; every page is in order."""
        found, start = [], None
        while True:
            asked = {"start": start, "beyond": start is not None, "limit": 7}
            page = client.post(f"{self.URL}/by_customer/walk", json=asked).json()
            assert page["kind"] == "map"
            found += [each["label"] for each in page["entries"]]
            if not page["more"]:
                break
            start = [found[-1]]
        assert found == [f"c{number:03}" for number in range(30)]
        asked = {"start": ["c010"], "beyond": True, "limit": 3, "backwards": True}
        page = client.post(f"{self.URL}/by_customer/walk", json=asked).json()
        assert [each["label"] for each in page["entries"]] == ["c007", "c008", "c009"]
        assert page["more"]
        assert all(each["value"] is None for each in page["entries"]), "nothing below is read"

    def test_down_to_a_value(self, client):
        """Each entry says the step that leads to it; the place says how Python writes it."""
        path, kinds = [], []
        for _ in range(3):
            page = client.post(f"{self.URL}/by_customer/walk", json={"path": path}).json()
            kinds.append(page["kind"])
            if page["entries"]:
                path.append(json.loads(page["entries"][1]["step"]))
        assert kinds == ["map", "map", "value"]
        assert page["python"] == "key('c001').key('salt')"
        assert page["value"] == "200"
        assert page["node"] == "int"

    def test_structs_and_sets(self, client):
        """Fields of one stored apart; elements, which lead nowhere."""
        path = [["key", "tea"]]
        page = client.post(f"{self.URL}/items/walk", json={"path": path}).json()
        assert [each["label"] for each in page["entries"]] == ["count", "customers"]
        assert page["entries"][0]["value"] == "40"
        path.append(["field", "customers"])
        page = client.post(f"{self.URL}/items/walk", json={"path": path, "limit": 2}).json()
        assert page["kind"] == "set"
        assert [each["label"] for each in page["entries"]] == ["c000", "c001"]
        assert page["entries"][0]["step"] is None

    def test_where_there_is_nothing(self, client):
        """That is an answer, no error."""
        page = client.post(f"{self.URL}/by_customer/walk", json={"path": [["key", "none"]]}).json()
        assert (page["kind"], page["entries"]) == ("nothing", [])
        assert client.post(f"{self.URL}/total/walk", json={}).json()["kind"] == "value"

    def test_as_of(self, client):
        """An earlier microbatch."""
        found = [
            client.post(f"{self.URL}/total/walk", params={"as_of": each}, json={}).json()
            for each in (1, 2)
        ]
        assert [each["as_of"] for each in found] == [1, 2]
        assert int(found[1]["value"]) == 2 * int(found[0]["value"])

    @pytest.mark.parametrize("path", [[["all"]], [["key", 7]], [["key", "a"], ["set", 1]]])
    def test_a_path_that_leads_to_no_one_place(self, client, path):
        """Is refused with what to do."""
        found = client.post(f"{self.URL}/by_customer/walk", json={"path": path})
        assert found.status_code == 400
        assert found.json()["hint"]

    def test_vnodes(self, client):
        """How much each takes, and who owns it."""
        found = client.get(f"{self.URL}/by_customer/vnodes").json()
        assert len(found["bytes"]) == len(found["units"]) == 16
        assert all(found["bytes"])
        assert client.get(f"{self.URL}/none/vnodes").status_code == 404


class TestDepots:
    """What the page shows of depots."""

    URL = "/v1/modules/shop/depots/orders"

    def test_about(self, client, app):
        """Fields with types, how records are placed and kept, and who appends."""
        app.depot("audit").append([{"customer": "x", "cents": 1}], producer=Producer("me", 7))
        found = client.get(f"{self.URL}/about").json()
        assert found["fields"][0] == {"name": "customer", "type": "STRING", "nullable": False}
        assert found["placed"] == "by customer"
        assert found["retention"] == {"records_max": None, "age_seconds_max": None}
        audit = client.get("/v1/modules/shop/depots/audit/about").json()
        mine = next(each for each in audit["producers"] if each["id"] == "me")
        assert (mine["sequence"], mine["records"]) == (7, 1)

    def test_peek(self, client):
        """So many records from somewhere on, over partitions, each with its place."""
        found = client.get(f"{self.URL}/peek", params={"limit": 45}).json()["records"]
        assert len(found) == 45
        places = [(each["partition"], each["offset"]) for each in found]
        assert places == sorted(set(places))
        asked = {"from": "5", "partition": 2, "limit": 2}
        found = client.get(f"{self.URL}/peek", params=asked).json()["records"]
        assert [(each["partition"], each["offset"]) for each in found] == [(2, 5), (2, 6)]
        assert set(found[0]["record"]) == {"customer", "item", "cents", "gift"}


def test_known_options(client):
    """Every one that stands, with its default, bounds and levels."""
    known = client.get("/v1/modules/shop/options/known").json()
    stands = client.get("/v1/modules/shop/options").json()["topologies"]["sales"]["options"]
    assert set(known) == set(stands)
    for each in known.values():
        low, high = each["bounds"]
        assert low <= each["default"] <= high


def test_story(client, app):
    """Newest first; of each kind what tells it."""
    app.options.set("depot.max.fetch", 99, topology="sales")
    app.options.unset("depot.max.fetch", topology="sales")
    events = client.get("/v1/modules/shop/story").json()["events"]
    times = [each["at_ms"] for each in events]
    assert times == sorted(times, reverse=True)
    texts = [each["text"] for each in events if each["kind"] == "option"]
    option = "topology sales depot.max.fetch"
    assert sorted(texts) == [f"{option} = 99", f"{option} taken back"]
    assert {"life", "revision"} <= {each["kind"] for each in events}
