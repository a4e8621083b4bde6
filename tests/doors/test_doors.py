"""Doors: a root read from services that run nothing, and what they pass on to who runs a module."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest

import atoll
from atoll import LocalCluster, Map, agg, path, start
from atoll.client.errors import ServiceUnreachableError
from atoll.errors import NotFoundError, RecordsRefusedError, StoppedError, UsageError
from atoll.server import create_app, serve
from atoll.server.doors import passing_on
from atoll.server.doors.announcing import announced_host, announcing
from atoll.server.doors.modules import DoorModules
from atoll.server.doors.owners import announce_owner, owner_of
from atoll.server.serve import address_of, bind
from atoll.storage.local import LocalStore


@pytest.fixture(autouse=True)
def _silent(silent_logs):
    """What threads log is in nobody's way."""


def declared():
    """A module that counts words."""
    module = atoll.Module("shop")
    words = module.depot("words", "word string NOT NULL, n long", partitions=2)
    mb = module.microbatch("mb", vnode_count=4, options={"pstate.history.microbatches": 50})
    counts = mb.pstate("counts", Map(str, int))
    mb.source(words, start_from=start.beginning()).aggregate(counts["word"], agg.sum("n"))
    module.query("how_many", word=str).lookup(counts["word"], "n").returns("n")
    return module


class Owner:
    """A process that runs the module and is served, as ``atoll run`` does it."""

    def __init__(self, root):
        self.open = ExitStack()
        listener = bind("127.0.0.1", 0)
        self.cluster = self.open.enter_context(LocalCluster(root, engine="inline"))
        self.cluster.on_change(announcing(root, address_of(listener).url))
        app = self.cluster.deploy(declared())
        service = create_app(app, cluster=self.cluster.whole)
        self.url = self.open.enter_context(serve(service, listener)).url

    def close(self):
        """End it."""
        self.open.close()


@pytest.fixture
def root(tmp_path):
    """A root."""
    return tmp_path / "root"


@pytest.fixture
def owner(root):
    """Who runs the module."""
    made = Owner(root)
    yield made
    made.close()


@pytest.fixture
def door(owner, root):
    """The address of a door."""
    with serve(create_app(door=DoorModules(root)), bind("127.0.0.1", 0)) as address:
        yield address.url


def test_a_client_does_not_see_which_door_it_uses(owner, door):
    """Appends, waits, reads, queries, changes, options and commands by way of the door."""
    with atoll.connect(door) as app, atoll.connect(owner.url) as there:
        assert (app.depots(), app.pstates(), app.topologies()) == (["words"], ["counts"], ["mb"])
        receipt = app.depot("words").append([{"word": "a", "n": 3}])
        assert set(app.wait(receipt)) == {"mb"}
        assert app.pstate("counts").get("a") == there.pstate("counts").get("a") == 3
        assert app.pstate("counts").select(path.key("a")) == [3]
        assert app.query("how_many", word="a") == 3
        with app.subscribe("counts", path.key("a")) as changes:
            assert changes.next(10).new == 3
            there.wait(there.depot("words").append({"word": "a", "n": 1}))
            assert changes.next(10).new == 4
        assert sum(map(len, app.depot("words").tail(follow=False))) == 2
        assert app.pstate("counts").export().to_table().num_rows == 1
        assert app.status()["topologies"]["mb"]["state"] == "running"
        app.topology("mb").pause()
        assert there.topology("mb").status()["state"] == "paused"
        app.topology("mb").resume()
        app.options.set("depot.max.fetch", 77)
        assert there.options.get("depot.max.fetch") == 77
        assert app.cluster.describe() == there.cluster.describe()
        assert app.pstate("counts").as_of(1).get("a") == 3
        with pytest.raises(RecordsRefusedError):
            app.depot("words").append({"n": 1})
        with pytest.raises(NotFoundError):
            app.pstate("no")


def test_reads_go_on_while_nothing_runs(owner, door):
    """State, depots and subscriptions; the rest says that nobody answers, and when to try again."""
    with atoll.connect(door, retry_seconds=0) as app:
        app.wait(app.depot("words").append({"word": "a", "n": 3}))
        owner.close()
        assert app.pstate("counts").get("a") == 3
        assert app.depot("words").everything().count == 1
        with app.subscribe("counts", path.key("a")) as changes:
            assert changes.next(10).new == 3
    status = httpx.get(f"{door}/v1/status").json()["modules"]["shop"]
    assert (status["state"], status["error"]["code"]) == ("stopped", "E-UNREACHABLE")


def test_who_waits_too_long_is_told(owner, root):
    """503 with Retry-After when no owner comes in time."""
    application = create_app(door=DoorModules(root))
    (passing,) = [each for each in application.user_middleware if each.cls is passing_on.PassingOn]
    passing.kwargs["failover_seconds"] = 0.05
    owner.close()
    with serve(application, bind("127.0.0.1", 0)) as address:
        answer = httpx.get(f"{address.url}/v1/modules/shop/topologies/mb")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["code"] == "E-UNREACHABLE"
        with (
            atoll.connect(address.url, retry_seconds=0) as app,
            pytest.raises(ServiceUnreachableError, match="does not answer"),
        ):
            app.depot("words").append({"word": "a", "n": 1})


def test_a_takeover_between_appends(owner, door, root):
    """The next owner is found by its number; each append is stored once, before, during, after."""
    with atoll.connect(door) as app:
        depot = app.depot("words")
        for number in range(5):
            depot.append({"word": "x", "n": number})
        owner.close()
        with ThreadPoolExecutor(1) as pool:
            meanwhile = pool.submit(lambda: [depot.append({"word": "x", "n": 1}) for _ in range(3)])
            later = Owner(root)
            try:
                assert len(meanwhile.result(30)) == 3
                for number in range(5):
                    depot.append({"word": "x", "n": number})
                app.wait(depot.everything())
                assert app.pstate("counts").get("x") == 10 + 3 + 10
                assert depot.everything().count == 13
            finally:
                later.close()


def test_one_that_was_taken_over_is_asked_no_more(owner, door, root):
    """While the first still listens: what it would refuse goes to the second."""
    with atoll.connect(door) as app:
        app.wait(app.depot("words").append({"word": "y", "n": 1}))
        second = Owner(root)
        try:
            app.wait(app.depot("words").append({"word": "y", "n": 1}))
            assert app.pstate("counts").get("y") == 2
            assert owner_of(LocalStore(root), "shop").url == second.url
        finally:
            second.close()


def test_the_next_version_of_a_module_is_shown(owner, door):
    """A door notices another deployment by itself."""
    module = declared()
    more = module.microbatch("more", vnode_count=1)
    total = more.pstate("total", int, initial=0)
    more.source(module.depots["words"]).aggregate(total, agg.count())
    with atoll.connect(door) as app:
        assert app.pstates() == ["counts"]
        owner.cluster.deploy(module)
        assert app.pstates() == ["counts", "total"]


def test_addresses(tmp_path):
    """That of the highest epoch or of none."""
    store = LocalStore(tmp_path)
    with pytest.raises(StoppedError, match="nobody has run"):
        owner_of(store, "m")
    from atoll.microbatch.epochs import claim_epoch

    first = claim_epoch(store, "m")
    with pytest.raises(StoppedError, match="nowhere, or not yet"):
        owner_of(store, "m")
    announce_owner(store, "m", first.number, "http://one")
    announce_owner(store, "m", first.number, "http://one")
    assert owner_of(store, "m").url == "http://one"
    second = claim_epoch(store, "m")
    with pytest.raises(StoppedError):
        owner_of(store, "m")
    announce_owner(store, "m", second.number, "http://two")
    announce_owner(store, "m", first.number, "http://one")
    assert owner_of(store, "m").url == "http://two"


def test_a_token_is_not_carried_where_all_can_read_it(owner, door, root):
    """An owner that says http on another machine is not sent what says who calls."""
    store = LocalStore(root)
    epoch = owner.cluster.apps["shop"].epoch.number
    store.delete(f"meta/addresses/shop/{epoch:020d}")
    announce_owner(store, "shop", epoch, "http://10.255.255.1:7410")
    answer = httpx.get(
        f"{door}/v1/modules/shop/topologies/mb", headers={"authorization": "Bearer t"}
    )
    assert answer.status_code == 503
    assert "https" in answer.json()["hint"]


def test_what_can_be_announced():
    """An address, whole."""
    assert announced_host(None) == ()
    assert announced_host("https://a.example") == ("a.example",)
    assert announced_host("http://[::1]:5") == ("[::1]",)
    for wrong in ("a.example", "ftp://a", "http://a/b", "http://"):
        with pytest.raises(UsageError, match="no address"):
            announced_host(wrong)
