"""Rows appended to a depot of another module: each once, in order, however long it is away."""

from __future__ import annotations

import shutil

import pytest

import atoll
from atoll import Map, agg, start
from atoll.cluster.updates.mirrors import _check_target
from atoll.errors import (
    DeclarationError,
    DeployError,
    TopologyFailedError,
    UsageError,
)
from atoll.microbatch.parcels.box import ParcelBox, boxes_for
from atoll.storage.local import LocalStore
from atoll.testing import TopologyTestDriver
from atoll.views.deployment import DepotDeployment

DDL = "item string, n long"
BEGINNING = start.beginning()


def shop(columns=DDL, partition_by="item", depot="sales"):
    """Owns the depot, and sums what comes."""
    module = atoll.Module("shop")
    module.depot("other", DDL)
    if depot is None:
        return module
    sales = module.depot(depot, columns, partition_by=partition_by, partitions=2)
    mb = module.microbatch("mb", vnode_count=2)
    totals = mb.pstate("totals", Map(str, int))
    mb.source(sales, start_from=BEGINNING).aggregate(totals["item"], agg.sum("n"))
    return module


def till(columns=DDL, options=None, appends=True):
    """Appends what it reads to the shop's depot, beside what it keeps itself."""
    module = atoll.Module("till")
    sold = module.depot("sold", DDL, partition_by="item", partitions=1)
    mb = module.microbatch("mb", vnode_count=2, options=options)
    counts = mb.pstate("counts", Map(str, int))
    rows = mb.source(sold, start_from=BEGINNING)
    rows.aggregate(counts["item"], agg.count())
    if appends:
        rows.append_to(module.mirror_depot("shop", "sales", columns))
    return module


@pytest.fixture
def root(tmp_path):
    """A root on which the shop is deployed, and does not run."""
    with TopologyTestDriver(shop(), root=tmp_path / "root"):
        pass
    return tmp_path / "root"


def sell(driver, *numbers):
    """One microbatch of the till."""
    driver.depot("sold").append([{"item": f"i{n % 3}", "n": n} for n in numbers])
    driver.microbatch()


def stored(app):
    """What the shop's depot holds, in order per depot partition."""
    return [
        [
            row["n"]
            for batch in app.depot("sales").tail(partition=part, follow=False)
            for row in batch.rows()
        ]
        for part in (0, 1)
    ]


def all_of(app):
    """The same, sorted."""
    return sorted(n for part in stored(app) for n in part)


def waiting(root):
    """What waits for the shop."""
    (box,) = boxes_for(LocalStore(root), "shop", "sales")
    return box.waiting()


def test_rows_of_another_module_are_stored_once_and_in_order(root):
    """They count in what the owner makes of its depot; nothing is left behind."""
    with TopologyTestDriver(till(), root=root) as sender:
        for first in range(0, 12, 3):
            sell(sender, *range(first, first + 3))
        with TopologyTestDriver(shop(), root=root) as owner:
            assert owner.run_until_idle()
            assert all_of(owner.app) == list(range(12))
            assert all(part == sorted(part) for part in stored(owner.app))
            assert owner.pstate("totals").get("i0") == 0 + 3 + 6 + 9
            owner.app.take_parcels()
            assert all_of(owner.app) == list(range(12))
            assert waiting(root).parcels == 0
            left = [path for path in root.rglob("parcel-rows/**/*") if path.is_file()]
            assert left == []


def test_while_the_owner_is_away_they_wait_and_are_seen(root):
    """In the sender's status and the owner's; the sender itself goes on, also over restarts."""
    with TopologyTestDriver(till(), root=root) as sender:
        sell(sender, 1, 2)
        sender.restart()
        sell(sender, 3)
        assert sender.pstate("counts").get("i1") == 1
        status = sender.app.topology("mb").status()["parcels"]["shop.sales"]
        assert (status["waiting_parcels"], status["waiting_records"]) == (2, 3)
        assert status["oldest_ms"] > 0
    assert waiting(root).records == 3
    with TopologyTestDriver(shop(), root=root) as owner:
        (told,) = owner.app.status()["depots"]["sales"]["parcels"]
        assert (told["module"], told["topology"], told["waiting_records"]) == ("till", "mb", 3)
        owner.run_until_idle()
        assert all_of(owner.app) == [1, 2, 3]


def test_two_running_modules_pass_rows_on_by_themselves(root):
    """In two clusters on one root, as two processes are; until the owner shows them."""
    with (
        atoll.LocalCluster(root, engine="inline") as here,
        atoll.LocalCluster(root, engine="inline") as there,
    ):
        owner, sender = here.deploy(shop()), there.deploy(till())
        tail = owner.depot("sales").tail()
        sender.depot("sold").append([{"item": "i1", "n": n} for n in range(5)])
        found = []
        while len(found) < 5:
            batch = tail.next(20)
            assert batch is not None
            found += [row["n"] for row in batch.rows()]
        assert found == list(range(5))


def test_beyond_the_bound_no_more_are_made_and_it_is_said_why(root):
    """The topology waits, without losing anything, and goes on when they are taken."""
    options = {"topology.parcels.max.records": 3}
    with TopologyTestDriver(till(options=options), root=root) as sender:
        sell(sender, 1, 2)
        sell(sender, 3, 4)
        sender.depot("sold").append([{"item": "i2", "n": 5}])
        assert [sender.step() for _ in range(3)] == ["failed"] * 3
        status = sender.app.topology("mb").status()
        assert (status["state"], status["error"]["code"]) == ("running", "E-BACKLOG")
        assert "4 rows wait for depot 'sales' of module 'shop'" in status["error"]["message"]
        with TopologyTestDriver(shop(), root=root) as owner:
            owner.app.take_parcels()
            sender.run_until_idle()
            owner.run_until_idle()
            assert all_of(owner.app) == [1, 2, 3, 4, 5]
        assert sender.app.topology("mb").status()["error"] is None


def test_a_rollback_of_the_sender_names_what_was_appended(root):
    """And appends it again where that is wanted, as with depots of its own."""
    with TopologyTestDriver(till(), root=root) as sender:
        sell(sender, 1)
        sell(sender, 2)
        topology = sender.app.topology("mb")
        with pytest.raises(UsageError, match=r"1 in shop\.sales"):
            topology.rollback(1)
        topology.rollback(1, keep_appended=True)
        topology.resume()
        sender.run_until_idle()
        sell(sender, 3)
    with TopologyTestDriver(shop(), root=root) as owner:
        owner.run_until_idle()
        assert all_of(owner.app) == [1, 2, 2, 3]


def test_rows_that_were_sent_arrive_whatever_becomes_of_the_sender(root):
    """It is updated so that it appends no more, and its folder is deleted."""
    with TopologyTestDriver(till(), root=root) as sender:
        sell(sender, 1, 2)
        sender.update(till(appends=False))
    shutil.rmtree(root / "till")
    with TopologyTestDriver(shop(), root=root) as owner:
        owner.run_until_idle()
        assert all_of(owner.app) == [1, 2]


def test_an_update_of_the_owner_that_breaks_it_is_refused_by_name(root):
    """The depot gone, another schema, another way of partitioning; and gone while rows wait."""
    with TopologyTestDriver(till(), root=root) as sender:
        sell(sender, 1, 2)
        with atoll.LocalCluster(root, engine="inline") as cluster:
            gone = ["depot:sales", "pstate:totals", "topology:mb"]
            with pytest.raises(
                DeployError, match="'till' mirrors the depot 'sales', which would be gone"
            ):
                cluster.deploy(shop(depot=None), remove=gone)
            with pytest.raises(DeployError, match="'till' mirrors the depot 'sales' as"):
                cluster.deploy(shop(columns=f"{DDL}, more string"))
            with pytest.raises(
                DeployError,
                match="'till' appends to the depot 'sales', which would be partitioned by a fun",
            ):
                cluster.deploy(shop(partition_by=lambda _row, _count: 0))
            sender.update(till(appends=False))
            with pytest.raises(DeployError, match="2 rows of topology 'mb' of module 'till' wait"):
                cluster.deploy(shop(depot=None), remove=gone)


def test_rows_sent_before_the_depot_was_changed_are_of_its_schema_when_taken(root):
    """Columns that came since are null."""
    with TopologyTestDriver(till(), root=root) as sender:
        sell(sender, 1)
        sender.update(till(appends=False))
    with TopologyTestDriver(shop(columns=f"{DDL}, more string"), root=root) as owner:
        owner.run_until_idle()
        rows = [row for batch in owner.depot("sales").tail(follow=False) for row in batch.rows()]
        assert rows == [{"item": "i1", "n": 1, "more": None}]


def test_a_depot_by_a_function_is_refused_as_target(tmp_path):
    """Its own module's code alone could try it, and rows that were sent must not be refused."""
    with TopologyTestDriver(shop(partition_by=lambda _row, _count: 0), root=tmp_path):
        pass
    with pytest.raises(DeclarationError, match="is partitioned by a function"):
        TopologyTestDriver(till(), root=tmp_path)


def test_a_depot_by_a_field_called_function_is_a_target(tmp_path):
    """It is not taken for one that goes by a function; one of an old release may be either."""
    columns = "function string, n long"
    made = atoll.Module("shop")
    made.depot("sales", columns, partition_by="function", partitions=2)
    with TopologyTestDriver(made, root=tmp_path):
        pass
    sender = atoll.Module("till")
    sold = sender.depot("sold", columns, partitions=1)
    mb = sender.microbatch("mb", vnode_count=2)
    mb.source(sold, start_from=BEGINNING).append_to(sender.mirror_depot("shop", "sales", columns))
    with TopologyTestDriver(sender, root=tmp_path) as till_driver:
        till_driver.depot("sold").append({"function": "f", "n": 1})
        till_driver.microbatch()
    with TopologyTestDriver(made, root=tmp_path) as shop_driver:
        shop_driver.app.take_parcels()
        assert all_of(shop_driver.app) == [1]


def test_of_an_old_release_it_is_said_how_to_tell_the_two_apart(tmp_path):
    """The deployment object then has no word on it."""
    columns = "function string, n long"
    there = DepotDeployment(columns, 2, "function")
    depot = atoll.Module("till").mirror_depot("shop", "sales", columns)
    with pytest.raises(DeclarationError, match="start that module once with this release"):
        _check_target(depot, there)
    _check_target(depot, DepotDeployment(columns, 2, "function", by_function=False))


def test_a_depot_that_is_not_mirrored_is_refused_with_what_to_do():
    """The hint is the call to make."""
    module = atoll.Module("till")
    rows = module.microbatch("mb").source(module.depot("sold", DDL))
    with pytest.raises(DeclarationError, match="belongs to module 'shop'") as raised:
        rows.append_to(shop().depots["sales"])
    assert "mirror_depot('shop', 'sales'" in str(raised.value.hint)


def test_rows_that_the_depot_could_refuse_fail_where_they_are_made(tmp_path):
    """A null where the owner has NOT NULL: in the sender's microbatch, so nothing is sent."""
    strict = "item string, n long NOT NULL"
    with TopologyTestDriver(shop(columns=strict), root=tmp_path):
        pass
    with TopologyTestDriver(till(columns=strict), root=tmp_path) as sender:
        sender.depot("sold").append([{"item": "i", "n": None}])
        with pytest.raises(TopologyFailedError, match="does not hold"):
            sender.microbatch()
    assert boxes_for(LocalStore(tmp_path), "shop", "sales") == []


def test_a_damaged_parcel_holds_up_its_own_sender_alone_and_is_told(root):
    """Neither skipped nor stored in part; restored it is taken."""
    with TopologyTestDriver(till(), root=root) as sender:
        sell(sender, 1)
        sell(sender, 2)
    first = min(path for path in root.rglob("parcel-rows/**/*") if path.is_file())
    whole = first.read_bytes()
    first.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with TopologyTestDriver(shop(), root=root) as owner:
        assert owner.app.take_parcels() == 0
        (told,) = owner.app.status()["depots"]["sales"]["parcels"]
        assert "E-DAMAGE" in told["error"]
        assert told["waiting_parcels"] == 2
        first.write_bytes(whole)
        assert owner.app.take_parcels() == 2
        assert owner.app.status()["depots"]["sales"]["parcels"][0]["error"] is None
        assert all_of(owner.app) == [1, 2]


def test_a_parcel_that_is_missing_is_named_and_nothing_behind_it_is_taken(root):
    """However it was lost."""
    with TopologyTestDriver(till(), root=root) as sender:
        sell(sender, 1)
        sell(sender, 2)
    (box,) = boxes_for(LocalStore(root), "shop", "sales")
    box.store.delete(box.objects.name(1))
    with TopologyTestDriver(shop(), root=root) as owner:
        assert owner.app.take_parcels() == 0
        error = owner.app.status()["depots"]["sales"]["parcels"][0]["error"]
        assert "parcel 1 for depot 'sales' is missing" in error
        assert all_of(owner.app) == []


def test_two_lives_of_the_sender_make_one_parcel_of_a_commit(root):
    """Also one that slept until the other had gone on, and the owner had dropped what it took."""
    with TopologyTestDriver(till(), root=root) as sender:
        sell(sender, 1)
    store = LocalStore(root)
    (box,) = boxes_for(store, "shop", "sales")
    made = box.read(1)
    ParcelBox(store, "shop", "sales", ("till", "mb")).send(
        made.timeline, made.commit, made.files, 0
    )
    assert box.objects.numbers() == [1]
    with TopologyTestDriver(shop(), root=root) as owner:
        owner.app.take_parcels()
        assert box.objects.numbers() == [1]  # the last one stays, so no number comes twice
        sender = ParcelBox(store, "shop", "sales", ("till", "mb"))
        sender.send(made.timeline, made.commit, made.files, 0)
        assert waiting(root).parcels == 0
        store.write(made.files[0].name, b"brought back")  # by one that slept in the midst of it
        owner.app.take_parcels()
        assert waiting(root).parcels == 0
        assert all_of(owner.app) == [1]
