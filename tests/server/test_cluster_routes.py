"""The routes of the cluster over a real module: what they answer, change and refuse."""

import json
import threading

import pytest
from scaled import FOLLOWER, MODULE, PAIRS, REFUSED, SUM, body, build, in_python, running
from starlette.testclient import TestClient

from atoll.errors import RescheduleError
from atoll.placement.reschedule.change import UnitChange
from atoll.placement.reschedule.text import format_plan
from atoll.server import create_app

CLUSTER = f"/v1/modules/{MODULE}/cluster"
PARALLELISM = f"/v1/modules/{MODULE}/topologies/mb/parallelism"


def client_of(*apps):
    """A client of a service over these modules."""
    return TestClient(create_app(*apps), base_url="http://127.0.0.1:7410")


@pytest.fixture(scope="module")
def still(tmp_path_factory):
    """A client of a module of two vnodes that no test changes, and its cluster."""
    with running(tmp_path_factory.mktemp("still")) as (_, app), client_of(app) as client:
        yield client, app.cluster


@pytest.fixture
def moving(tmp_path):
    """The local cluster, the module of 12 vnodes, and a client."""
    with running(tmp_path / "root", vnode_count=12) as (cluster, app), client_of(app) as client:
        yield cluster, app, client


def problem(answer, status):
    """The problem of an answer that must be one."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert found["status"] == status
    assert "Traceback" not in answer.text
    return found


def reschedule(client, **wanted):
    """Ask for it as of the current revision, unless another is given."""
    revision = client.get(CLUSTER).json()["revision"]
    return client.post(f"{CLUSTER}/reschedule", json={"revision": revision, **wanted})


def refused_in_python(cluster, found, changes=None, revision=None, **options):
    """The same request, or taking PAIRS off unit 0, raises what HTTP answered, dry or not."""
    changes = {PAIRS: UnitChange((), (0,))} if changes is None else changes
    revision = cluster.info().revision if revision is None else revision
    for dry_run in (False, True):
        with pytest.raises(RescheduleError) as raised:
            cluster.reschedule(changes, revision=revision, dry_run=dry_run, **options)
        error = raised.value
        assert (error.code, error.message, error.hint) == tuple(
            found[name] for name in ("code", "detail", "hint")
        )
        assert json.loads(json.dumps(error.context)) == found["context"]


def units(client, fragment=PAIRS):
    """For each unit of a fragment how many vnodes it owns."""
    matrix = client.get(CLUSTER).json()["matrix"][str(fragment)]
    return {int(unit): vnodes for unit, vnodes in matrix.items()}


class TestLooking:
    """``GET .../cluster``."""

    def test_all_of_it(self, still):
        """Revision, policies, workers in every state, fragments and the matrix."""
        client, cluster = still
        found = client.get(CLUSTER).json()
        assert found == json.loads(json.dumps(cluster.describe()))
        assert found["policies"] == {"mb": "adaptive"}
        states = [(each["id"], each["state"], each["units"]) for each in found["workers"]]
        assert states == [(0, "running", [0, 1, 2]), (1, "cordoned", [3, 4]), (2, "gone", [5])]
        assert found["matrix"][str(PAIRS)] == {"0": 1, "1": 1}
        assert found["fragments"][FOLLOWER - 1]["follows"] == PAIRS

    def test_no_such_module(self, still):
        """As every route says it."""
        client, _ = still
        assert problem(client.get("/v1/modules/other/cluster"), 404)["code"] == "E-NOT-FOUND"


class TestReschedule:
    """``POST .../cluster/reschedule``."""

    def test_both_forms_do_the_same(self, moving):
        """By fragment, and as text; the answer is the next revision and what moved."""
        _, app, client = moving
        before = app.cluster.info().revision
        done = reschedule(client, changes={str(PAIRS): {"removed": [3, 4]}})
        assert done.status_code == 200
        assert done.json()["revision"] == before + 1 == app.cluster.info().revision
        assert done.json()["fragments"][str(PAIRS)]["removed"] == [3, 4]
        assert done.json()["vnodes_moved"] == 4
        assert units(client) == units(client, FOLLOWER) == {0: 4, 1: 4, 2: 4}
        assert reschedule(client, plan=f" {PAIRS}-[0]; {SUM}-[0]+[2]").status_code == 200
        assert units(client) == {1: 6, 2: 6}
        assert units(client, SUM) == {2: 1}
        assert client.get(CLUSTER).json()["policies"] == {"mb": "custom"}

    def test_a_dry_run_answers_the_same_and_changes_nothing(self, moving):
        """But for its flag."""
        _, _, client = moving
        before = client.get(CLUSTER).json()
        asked = {"changes": {str(PAIRS): {"removed": [4, 1]}}}
        dry = reschedule(client, **asked, dry_run=True).json()
        assert client.get(CLUSTER).json() == before
        done = reschedule(client, **asked).json()
        assert (dry.pop("dry_run"), done.pop("dry_run")) == (True, False)
        assert dry == done

    def test_resolved_a_follower_stands_for_its_root(self, moving):
        """The answer names the root."""
        _, _, client = moving
        done = reschedule(client, plan=f"{FOLLOWER}-[2]", resolve=True).json()
        assert list(done["fragments"]) == [str(PAIRS)]

    def test_records_in_flight_are_counted_once(self, moving):
        """The state after moves under load is that of the records."""
        _, app, client = moving
        rows = [{"k": number % 17, "v": number % 5} for number in range(200)]
        for first, plan in ((0, "-[3,4]"), (50, "-[0,1]"), (100, "+[0,1]"), (150, "-[2]")):
            app.depot("pairs").append(rows[first : first + 50])
            assert reschedule(client, plan=f"{PAIRS}{plan}").status_code == 200
        app.topology("mb").wait_processed(200)
        assert app.pstate("total").get() == sum(each["v"] for each in rows)

    def test_nothing_to_do_is_no_mistake(self, moving):
        """The revision stays."""
        _, app, client = moving
        before = app.cluster.info().revision
        done = reschedule(client, changes={}).json()
        assert (done["revision"], done["fragments"]) == (before, {})

    @pytest.mark.parametrize("case", REFUSED)
    def test_refused(self, still, case):
        """Each check, by its problem; nothing has changed. The text form is refused alike.

        And so is a dry run, and the same request in Python.
        """
        client, cluster = still
        before = cluster.info()
        asked = body(REFUSED[case], before.revision)
        found = problem(client.post(f"{CLUSTER}/reschedule", json=asked), 409)
        assert found["code"] == "E-RESCHEDULE"
        assert found["context"]["problem"] == case.partition(",")[0]
        assert found["hint"]
        dry = {**asked, "dry_run": True}
        assert client.post(f"{CLUSTER}/reschedule", json=dry).json() == found
        asked["plan"] = format_plan(REFUSED[case]["changes"])
        del asked["changes"]
        assert client.post(f"{CLUSTER}/reschedule", json=asked).json() == found
        refused_in_python(cluster, found, **in_python(REFUSED[case], before.revision))
        assert cluster.info() == before

    def test_a_stale_revision_tells_the_current_one(self, still):
        """So a script can look and try again."""
        client, cluster = still
        asked = {"plan": f"{PAIRS}-[0]", "revision": 0}
        context = problem(client.post(f"{CLUSTER}/reschedule", json=asked), 409)["context"]
        assert (context["revision"], context["asked"]) == (cluster.info().revision, 0)

    def test_refused_while_no_worker_is_running(self, moving):
        """That is no fault of the request: 503."""
        cluster, app, client = moving
        cluster.lose_worker("spare")
        cluster.lose_worker("local")
        found = problem(reschedule(client, plan=f"{PAIRS}-[0]"), 503)
        assert found["context"]["problem"] == "no workers"
        refused_in_python(app.cluster, found)

    def test_refused_while_the_module_stops(self, moving):
        """A 503: somebody else may run it soon."""
        _, app, client = moving
        app.cluster.close()
        found = problem(reschedule(client, plan=f"{PAIRS}-[0]"), 503)
        assert found["context"]["problem"] == "unavailable"
        refused_in_python(app.cluster, found)

    def test_refused_while_a_topology_recovers(self, moving, monkeypatch):
        """It delivers what the life before it owed, and runs nothing yet."""
        _, app, client = moving
        monkeypatch.setattr(type(app._loops["mb"]), "recovering", True)
        found = problem(reschedule(client, plan=f"{PAIRS}-[0]"), 409)
        assert found["context"]["problem"] == "fragment not running"
        refused_in_python(app.cluster, found)

    def test_not_taken(self, moving):
        """A first microbatch that fails leaves all as it was; the answer says why."""
        _, app, client = moving
        before = app.cluster.info()
        app.depot("pairs").append({"k": 1, "v": -1})
        found = problem(reschedule(client, plan=f"{PAIRS}-[0]"), 409)
        assert found["context"]["problem"] == "not taken"
        assert "below nothing" in found["detail"]
        assert app.cluster.info() == before

    @pytest.mark.parametrize(
        "wrong",
        [
            {},
            {"changes": {str(PAIRS): {}}, "plan": "2-[0]"},
            {"plan": ""},
            {"plan": "2"},
            {"plan": "2-[0];2+[1]"},
            {"plan": "2+[1]-[0]"},
        ],
    )
    def test_what_cannot_be_read_says_how_to_write_it(self, still, wrong):
        """Both forms, none of them, and mistakes of the text."""
        client, _ = still
        found = problem(reschedule(client, **wrong), 400)
        assert found["code"] == "E-USAGE"
        assert found["hint"]

    @pytest.mark.parametrize(
        "wrong",
        [
            {"changes": {"x": {}}},
            {"changes": {"02": {}}},
            {"changes": {" 2": {}}},
            {"changes": {"-2": {}}},
            {"changes": {"9" * 19: {}}},
            {"changes": {"2": {"added": ["1"]}}},
            {"changes": {"2": {"added": [True]}}},
            {"changes": {"2": {"added": [1.0]}}},
            {"changes": {"2": {"added": [-1]}}},
            {"changes": {"2": {"adding": [1]}}},
            {"changes": {"2": {"added": [0] * 10_001}}},
            {"changes": {str(n): {} for n in range(10_001)}},
            {"changes": []},
            {"plan": 2},
            {"plan": "2-[0];" * 20_000},
            {"plan": "2-[0]", "revision": "1"},
            {"plan": "2-[0]", "revision": True},
            {"plan": "2-[0]", "revision": -1},
            {"plan": "2-[0]", "revision": None},
            {"plan": "2-[0]", "dry_run": "yes"},
            {"plan": "2-[0]", "dryrun": True},
        ],
        ids=lambda wrong: json.dumps(wrong)[:40],
    )
    def test_bodies_are_strict(self, still, wrong):
        """No type is turned into another, no unknown field passed over, no list endless."""
        client, cluster = still
        before = cluster.info()
        assert problem(reschedule(client, **wrong), 422)["code"] == "E-USAGE"
        assert cluster.info() == before

    def test_ten_thousand_are_taken(self, still):
        """The longest lists reach the checks."""
        client, _ = still
        changes = {str(number): {} for number in range(9_999)}
        found = problem(reschedule(client, changes=changes), 409)
        assert found["context"]["problem"] == "unknown fragment"
        changes = {str(PAIRS): {"removed": list(range(10_000))}}
        found = problem(reschedule(client, changes=changes), 409)
        assert found["context"]["problem"] == "unit without actor"

    def test_of_several_at_once_one_is_done(self, moving):
        """All name the same revision; the others are told that it is stale."""
        _, app, client = moving
        revision = app.cluster.info().revision
        answers = []

        def ask(unit):
            asked = {"plan": f"{PAIRS}-[{unit}]", "revision": revision}
            answers.append(client.post(f"{CLUSTER}/reschedule", json=asked))

        threads = [threading.Thread(target=ask, args=(unit,)) for unit in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert sorted(each.status_code for each in answers) == [200, 409, 409, 409]
        assert app.cluster.info().revision == revision + 1


class TestParallelism:
    """``POST .../topologies/{topology}/parallelism``."""

    def test_policies(self, moving):
        """It takes effect at once, and answers to workers from then on."""
        cluster, app, client = moving
        app.cluster.uncordon([1])
        for policy, kept, count in (
            ("2", "fixed(2)", 2),
            ("bounded(4)", "bounded(4)", 4),
            ("RATIO(0.4)", "ratio(0.4)", 2),
            ("adaptive", "adaptive", 5),
        ):
            assert client.post(PARALLELISM, json={"policy": policy}).status_code == 200
            assert client.get(CLUSTER).json()["policies"] == {"mb": kept}
            assert len(units(client)) == count
        cluster.add_worker("more", 2)
        assert len(units(client)) == 7

    def test_dry_run(self, moving):
        """It says what the policy would move."""
        _, _, client = moving
        before = client.get(CLUSTER).json()
        dry = client.post(PARALLELISM, json={"policy": "1", "dry_run": True}).json()
        assert dry["dry_run"]
        assert dry["vnodes_moved"] > 0
        assert client.get(CLUSTER).json() == before

    @pytest.mark.parametrize(
        ("asked", "status"),
        [
            ({"policy": "0"}, 400),
            ({"policy": "ratio(1.1)"}, 400),
            ({"policy": "custom"}, 400),
            ({"policy": "many"}, 400),
            ({"policy": 4}, 422),
            ({"policy": "1" * 101}, 422),
            ({}, 422),
            ({"policy": "2", "revision": 1}, 422),
        ],
        ids=str,
    )
    def test_what_is_no_policy(self, still, asked, status):
        """Refused with what can be written."""
        client, _ = still
        found = problem(client.post(PARALLELISM, json=asked), status)
        assert (found["code"], bool(found["hint"])) == ("E-USAGE", True)

    def test_no_such_topology(self, still):
        """The hint names those that there are."""
        client, _ = still
        wanted = {"policy": "2"}
        found = problem(client.post(PARALLELISM.replace("/mb/", "/no/"), json=wanted), 404)
        assert "mb" in found["hint"]


class TestWorkers:
    """``POST .../cluster/cordon``, ``uncordon`` and ``remove``."""

    def test_draining(self, moving):
        """Cordon, move everything off, remove: each answers with the cluster."""
        _, _, client = moving
        found = client.post(f"{CLUSTER}/cordon", json={"workers": [1]}).json()
        plan = ";".join(
            f"{each['id']}-[3,4]"
            for each in found["fragments"]
            if each["follows"] is None and {3, 4} <= {actor["unit"] for actor in each["actors"]}
        )
        refused = problem(client.post(f"{CLUSTER}/remove", json={"workers": [1]}), 409)
        assert refused["context"]["problem"] == "worker occupied"
        assert refused["context"]["fragments"][str(PAIRS)] == [3, 4]
        assert reschedule(client, plan=plan).status_code == 200
        found = client.post(f"{CLUSTER}/remove", json={"workers": [1, 2]}).json()
        assert found == client.get(CLUSTER).json()
        assert [each["id"] for each in found["workers"]] == [0]

    def test_uncordon(self, moving):
        """It may get new actors again; asked twice it makes no further revision."""
        _, app, client = moving
        found = client.post(f"{CLUSTER}/uncordon", json={"workers": [1]}).json()
        assert found["workers"][1]["state"] == "running"
        again = client.post(f"{CLUSTER}/uncordon", json={"workers": [1, 1]}).json()
        assert again["revision"] == found["revision"] == app.cluster.info().revision

    @pytest.mark.parametrize("action", ["cordon", "uncordon", "remove"])
    def test_refused(self, still, action):
        """An unknown worker; a body that is none."""
        client, cluster = still
        before = cluster.info()
        found = problem(client.post(f"{CLUSTER}/{action}", json={"workers": [0, 9]}), 404)
        assert "9" in found["detail"]
        for wrong in ({}, {"workers": []}, {"workers": [-1]}, {"workers": ["0"]}, {"workers": 0}):
            problem(client.post(f"{CLUSTER}/{action}", json=wrong), 422)
        problem(client.post(f"{CLUSTER}/{action}", json={"workers": [0] * 10_001}), 422)
        problem(client.post(f"{CLUSTER}/{action}", json={"workers": [0], "all": True}), 422)
        assert cluster.info() == before

    def test_pages_of_other_sites_are_kept_out(self, still):
        """As from every write."""
        client, _ = still
        sent = {"json": {"workers": [0]}, "headers": {"origin": "http://evil.example"}}
        assert problem(client.post(f"{CLUSTER}/cordon", **sent), 403)["code"] == "E-ORIGIN"


def test_options_are_set_and_shown(tmp_path):
    """As Python sets them; what cannot be is a problem, and changes nothing."""
    url = f"/v1/modules/{MODULE}/options"
    with running(tmp_path) as (_, app), client_of(app) as client:
        name = "depot.microbatch.max.records"
        answer = client.post(url, json={"option": name, "value": 9, "depot": "pairs"})
        assert answer.json() == client.get(url).json() == app.options.describe()
        assert answer.json()["set"] == {"depot": {"pairs": {name: 9}}}
        assert app.options.get(name, depot="pairs") == 9
        for wrong, status in (
            ({"option": name, "value": 0}, 400),
            ({"option": "topology.microbatch.ack.branching.factor", "value": 1}, 400),
            ({"option": name, "value": 1, "depot": "other"}, 404),
            ({"option": name, "value": "1"}, 422),
            ({"option": name}, 422),
        ):
            problem(client.post(url, json=wrong), status)
        client.post(url, json={"option": name, "value": None, "depot": "pairs"})
        assert app.options.describe()["set"] == {}


class TestOfTheRoot:
    """``/v1/cluster``: all modules of the root at once."""

    @pytest.fixture
    def both(self, tmp_path):
        """Two modules on one root, and a client."""
        with running(tmp_path / "root", vnode_count=12) as (cluster, app):
            more = cluster.deploy(build(4, name="more"))
            application = create_app(app, more, cluster=cluster.whole)
            with TestClient(application, base_url="http://127.0.0.1:7410") as client:
                yield cluster, client

    def test_one_matrix_one_reschedule_one_cordon(self, both):
        """Fragments of both modules move by one request; workers are those of all."""
        cluster, client = both
        found = client.get("/v1/cluster").json()
        assert found == json.loads(json.dumps(cluster.whole.describe()))
        assert found["policies"] == {f"{MODULE}/mb": "adaptive", "more/mb": "adaptive"}
        theirs = next(
            each["id"]
            for each in found["fragments"]
            if (each["module"], each["topology"], each["kind"]) == ("more", "mb", "hash")
        )
        plan = f"{PAIRS}-[0];{theirs}-[1]"
        wanted = {"plan": plan, "revision": found["revision"], "timeout_seconds": 20}
        dry = client.post("/v1/cluster/reschedule", json={**wanted, "dry_run": True}).json()
        done = client.post("/v1/cluster/reschedule", json=wanted)
        assert done.status_code == 200, done.text
        assert done.json() == {**dry, "dry_run": False}
        matrix = client.get("/v1/cluster").json()["matrix"]
        assert "0" not in matrix[str(PAIRS)]
        assert "1" not in matrix[str(theirs)]
        stale = client.post("/v1/cluster/reschedule", json=wanted)
        assert problem(stale, 409)["context"]["problem"] == "stale revision"
        for action, state in (("cordon", "cordoned"), ("uncordon", "running")):
            answer = client.post(f"/v1/cluster/{action}", json={"workers": [0]}).json()
            assert answer["workers"][0]["state"] == state
            assert client.get(CLUSTER).json()["workers"][0]["state"] == state
        found = client.post("/v1/cluster/remove", json={"workers": [2]}).json()
        assert [each["id"] for each in found["workers"]] == [0, 1]
        assert (
            client.post("/v1/cluster/leave", json={"workers": [1]}).json()["workers"][1]["state"]
            == "leaving"
        )
        assert not {"3", "4"} & client.get("/v1/cluster").json()["matrix"][str(PAIRS)].keys()
        answer = client.post("/v1/cluster/units", json={"units": 6})
        assert answer.json() == client.get("/v1/cluster").json()
        assert len(answer.json()["workers"][0]["units"]) == 6
        for wrong in (0, 1025, "2", None):
            problem(client.post("/v1/cluster/units", json={"units": wrong}), 422)
        asked = {"module": "more", "topology": "mb", "policy": "fixed(2)"}
        assert client.post("/v1/cluster/parallelism", json=asked).status_code == 200
        assert client.get("/v1/cluster").json()["policies"]["more/mb"] == "fixed(2)"
        asked["topology"] = "other"
        assert problem(client.post("/v1/cluster/parallelism", json=asked), 404)

    def test_a_service_that_was_not_told_of_it_says_so(self, still):
        """With what to do."""
        client, _ = still
        assert "atoll run" in problem(client.get("/v1/cluster"), 400)["hint"]


@pytest.mark.parametrize("seconds", [0, -1, 301, "60", None, True])
def test_the_waiting_time_of_a_reschedule_has_bounds(still, seconds):
    """Of both forms."""
    client, _ = still
    for path, wanted in (
        (f"{CLUSTER}/reschedule", {"plan": "2-[0]", "revision": 1}),
        (PARALLELISM, {"policy": "2"}),
    ):
        answer = client.post(path, json={**wanted, "timeout_seconds": seconds, "dry_run": True})
        assert "timeout_seconds" in problem(answer, 422)["detail"]


def test_the_waiting_time_of_a_reschedule_can_be_given(moving):
    """After it the request is refused, and everything is where it was."""
    _, app, client = moving
    app.depot("pairs").append([{"k": 1, "v": -1}])  # fails again and again
    before = units(client)
    found = problem(reschedule(client, plan=f"{PAIRS}-[0]", timeout_seconds=0.2), 409)
    assert found["context"]["problem"] == "not taken"
    asked = {"policy": "1", "timeout_seconds": 0.2}
    assert problem(client.post(PARALLELISM, json=asked), 409)
    assert units(client) == before
