"""The parts of the demonstration without Spark: recount, feeder, pictures, declaration."""

import threading
import time
from collections import defaultdict

import pyarrow as pa
import pytest
from rich.console import Console

from atoll.demo import auctions
from atoll.demo.feeder import Feeder
from atoll.demo.nexmark import Nexmark
from atoll.demo.recount import Recount
from atoll.demo.view import Picture, line, screen

STATUS = {
    "committed": 12,
    "version": 1,
    "state": "running",
    "processed": 123_456,
    "lag": {"bids": [5, 6], "persons": [0]},
    "durations_ms": {"process": 80.0, "total": 95.5},
    "records_per_second": 20_001.4,
    "error": None,
}


def folded(events):
    """What the topology must make of some events, by plain Python."""
    state = {
        "people_by_state": defaultdict(int),
        "bids_by_auction": {},
        "bids_by_bidder": {},
    }
    for person in events.persons.to_pylist():
        state["people_by_state"][person["state"]] += 1
    for bid in events.bids.to_pylist():
        for name, key in (("bids_by_auction", "auction"), ("bids_by_bidder", "bidder")):
            row = state[name].setdefault(bid[key], {"bids": 0, "total": 0, "highest": 0})
            row["bids"] += 1
            row["total"] += bid["price"]
            row["highest"] = max(row["highest"], bid["price"])
    for name, source, by in (
        ("top_auctions", "bids_by_auction", "bids"),
        ("top_bidders", "bids_by_bidder", "total"),
    ):
        state[name] = sorted(state[source].values(), key=lambda row: -row[by])[:10]
    total = {
        "bids": events.bids.num_rows,
        "total": sum(bid["price"] for bid in events.bids.to_pylist()),
    }
    state["by_category"] = {10: {"bids": 0, "total": 0}, 0: total}
    return state


@pytest.fixture(scope="module")
def events():
    """Some events."""
    return Nexmark().events(0, 5_000)


def test_the_recount_agrees_with_plain_python(events):
    """In two parts, as the feeder gives them."""
    recount = Recount()
    for start in (0, 2_500):
        recount.add(Nexmark().events(start, 2_500))
    assert recount.differences(folded(events)) == []
    assert (recount.events, recount.bids) == (5_000, 4_600)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("people_by_state", lambda state: state.update({"XX": 1})),
        ("bids_by_auction", lambda state: state[1000].update(total=0)),
        ("bids_by_bidder", lambda state: state.popitem()),
        ("top_auctions", lambda state: state.reverse()),
        ("top_bidders", lambda state: state.pop()),
        ("bids over all", lambda state: None),
    ],
)
def test_the_recount_finds_every_difference(events, name, change):
    """One wrong number anywhere is named."""
    recount = Recount()
    recount.add(events)
    state = folded(events)
    if name.startswith("bids over"):
        state["by_category"][10]["bids"] = 1
    else:
        change(state[name])
    assert [each for each in recount.differences(state) if name in each]


class FakeDepot:
    """Counts what is appended."""

    def __init__(self):
        self.rows = 0
        self.fail = False

    def append(self, batch):
        """Take a batch."""
        assert isinstance(batch, pa.RecordBatch)
        if self.fail:
            raise OSError("disk full")
        self.rows += batch.num_rows


class FakeApp:
    """Three depots."""

    def __init__(self):
        self.depots = {name: FakeDepot() for name in ("persons", "auctions", "bids")}

    def depot(self, name):
        """By name."""
        return self.depots[name]

    @property
    def rows(self):
        """All rows appended."""
        return sum(depot.rows for depot in self.depots.values())


def wait_until(condition, seconds=60.0):
    """Poll for something that another thread does."""
    ends_at = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends_at
        threading.Event().wait(0.005)


@pytest.mark.parametrize("rate", [0, 5_000])
def test_the_feeder_counts_what_it_appends(rate):
    """What was appended is what the recount holds, however fast."""
    app = FakeApp()
    feeder = Feeder(app, Nexmark(), rate, lambda: 0)
    feeder.start()
    wait_until(lambda: app.rows >= 500)
    feeder.stop()
    assert feeder.recount.events == app.rows
    assert feeder.recount.bids == app.depots["bids"].rows


@pytest.mark.parametrize("rate", [0, 5_000])
def test_the_feeder_waits_for_a_topology_that_lags(rate):
    """With too much waiting it appends nothing, and goes on when that is done."""
    app, lag = FakeApp(), [10**9]
    feeder = Feeder(app, Nexmark(), rate, lambda: lag[0])
    feeder.start()
    threading.Event().wait(0.25)
    assert app.rows == 0
    lag[0] = 0
    wait_until(lambda: app.rows > 0)
    feeder.stop()


def test_the_feeder_reports_what_ended_it():
    """An append that fails is raised where it is stopped, and its events are not counted."""
    app = FakeApp()
    app.depots["bids"].fail = True
    feeder = Feeder(app, Nexmark(), 1_000, lambda: 0)
    feeder.start()
    wait_until(lambda: feeder.error is not None)
    with pytest.raises(OSError, match="disk full"):
        feeder.stop()
    assert feeder.recount.events == 0


def test_pictures(events):
    """Everything that matters is on the screen, before and after there is state."""
    console = Console(width=120, record=True, file=None, quiet=False)
    empty = Picture(status=STATUS, generated=0, seconds_left=59.6)
    full = Picture(
        status={**STATUS, "error": {"message": "x"}, "state": "failed"},
        generated=1,
        seconds_left=-1.0,
        state={
            "by_category": {0: {"bids": 7, "total": 100}, 10: {"bids": 8, "total": 200}},
            "top_auctions": [{"auction": 1_100, "bids": 46, "highest": 12_345}],
            "top_bidders": [{"bidder": 1_001, "bids": 3, "total": 99_999_99}],
        },
    )
    with console.capture() as captured:
        console.print(screen(empty))
        console.print(screen(full))
    text = captured.get()
    for words in ("60 s left", "20,001", "123,456", "11", "2 process", "80.0", "not listed yet"):
        assert words in text
    for words in ("failed", "0 s left", "1100", "46", "123.45", "99,999.99"):
        assert words in text
    assert line(full) == "microbatch 12: 123,456 records, 20,001/s, lag 11, 96 ms"


def test_the_module_declares():
    """Its parts, as the rest of the demonstration names them."""
    assert list(auctions.module.depots) == ["persons", "auctions", "bids"]
    assert {"top_auctions", "top_bidders", "by_category", "bids_by_auction"} <= set(
        auctions.module.pstates()
    )
