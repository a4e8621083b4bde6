"""Nexmark's stream: the same for the same seed, in any chunks, with the published proportions."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll.ddl import parse_ddl
from atoll.demo.nexmark import AUCTION_DDL, BID_DDL, FIRST_ID, PERSON_DDL, Nexmark, NexmarkSettings
from atoll.demo.randomness import Draws
from atoll.errors import UsageError


@given(cuts=st.lists(st.integers(0, 400), max_size=4), start=st.integers(0, 10**9))
def test_chunks_do_not_matter(cuts, start):
    """Any way of cutting a range gives the same events."""
    stream = Nexmark()
    whole = stream.events(start, 400)
    edges = [0, *sorted(cuts), 400]
    parts = [stream.events(start + low, high - low) for low, high in itertools.pairwise(edges)]
    for kind in ("persons", "auctions", "bids"):
        table = pa.Table.from_batches([getattr(part, kind) for part in parts])
        assert pa.Table.from_batches([getattr(whole, kind)]) == table.combine_chunks()


def test_seeds_differ():
    """Another seed is another stream of the same shape."""
    one, other = (Nexmark(NexmarkSettings(seed=seed)).events(0, 1_000) for seed in (1, 2))
    assert one.bids.num_rows == other.bids.num_rows
    assert one.bids.column("price") != other.bids.column("price")


def test_proportions_and_ids():
    """1 : 3 : 46 in every 50; ids of people and auctions count up from 1000 without gaps."""
    events = Nexmark().events(0, 50_000)
    assert (events.persons.num_rows, events.auctions.num_rows, events.bids.num_rows) == (
        1_000,
        3_000,
        46_000,
    )
    assert events.persons.column("id").to_pylist() == list(range(FIRST_ID, FIRST_ID + 1_000))
    assert events.auctions.column("id").to_pylist() == list(range(FIRST_ID, FIRST_ID + 3_000))
    assert events.count == 50_000


def test_skew():
    """About half of the bids meet a hot auction, three quarters a hot bidder."""
    bids = Nexmark().events(1_000_000, 100_000).bids
    auction = bids.column("auction").to_numpy() - FIRST_ID
    bidder = bids.column("bidder").to_numpy() - FIRST_ID
    assert 0.49 < np.mean(auction % 100 == 0) < 0.52
    assert 0.74 < np.mean(bidder % 100 == 1) < 0.77


def test_references_stay_near():
    """Bids go to auctions in flight, or at most the lead ahead; never to an id below the first."""
    for start in (0, 5_000_000):
        bids = Nexmark().events(start, 10_000).bids
        newest = start // 50 * 3 + 600
        auction = bids.column("auction").to_numpy() - FIRST_ID
        assert auction.min() >= max(start // 50 * 3 - 200, 0)
        assert auction.max() <= newest + 10
        assert bids.column("bidder").to_numpy().min() >= FIRST_ID


def test_prices_span_six_orders_of_magnitude():
    """Prices lie in [1, 1,000,000] whole ones and evenly by order of magnitude."""
    prices = Nexmark().events(0, 100_000).bids.column("price").to_numpy()
    assert prices.min() >= 100
    assert prices.max() <= 100_000_000
    shares = np.histogram(np.log10(prices), bins=6, range=(2, 8))[0] / len(prices)
    assert np.all(np.abs(shares - 1 / 6) < 0.01)


def test_event_time_is_skewed_within_groups():
    """Times jump within a group and stay inside it, each used once; a group of 1 is in order."""
    skewed = Nexmark().events(0, 1_000)
    times = np.concatenate(
        [
            batch.column("date_time").cast(pa.int64()).to_numpy()
            for batch in (skewed.persons, skewed.auctions, skewed.bids)
        ]
    )
    assert len(np.unique(times)) == 1_000
    bid_times = skewed.bids.column("date_time").cast(pa.int64()).to_numpy()
    assert np.any(np.diff(bid_times) < 0)
    assert np.max(np.maximum.accumulate(bid_times) - bid_times) <= 250 * 100
    ordered = Nexmark(NexmarkSettings(out_of_order_group=1)).events(0, 1_000).bids
    assert np.all(np.diff(ordered.column("date_time").cast(pa.int64()).to_numpy()) > 0)


def test_auctions_close_after_they_open():
    """An auction lasts at least a millisecond, and its reserve is above its first price."""
    auctions = Nexmark().events(0, 50_000).auctions
    opened = auctions.column("date_time").cast(pa.int64()).to_numpy()
    closed = auctions.column("expires").cast(pa.int64()).to_numpy()
    assert (closed - opened).min() >= 1_000
    reserve = auctions.column("reserve").to_numpy()
    assert np.all(reserve > auctions.column("initial_bid").to_numpy())
    assert set(auctions.column("category").to_pylist()) == {10, 11, 12, 13, 14}


def test_batches_have_the_declared_schemas():
    """What is generated is what the depots of the demonstration declare."""
    events = Nexmark().events(0, 100)
    for batch, ddl in (
        (events.persons, PERSON_DDL),
        (events.auctions, AUCTION_DDL),
        (events.bids, BID_DDL),
    ):
        declared = parse_ddl(ddl)
        assert declared.names == batch.schema.names
        assert declared.types == batch.schema.types
        assert not any(column.null_count for column in batch.columns)


def test_a_million_events_take_moments():
    """Generating is far faster than processing: it must never be what a demonstration measures."""
    import time

    started_at = time.process_time()  # others on this machine do not count
    Nexmark().events(0, 200_000)
    assert time.process_time() - started_at < 2.0


def test_draws_are_even():
    """Each purpose is a stream of its own, evenly spread."""
    draws = Draws(7, np.arange(100_000))
    for purpose in (0, 1, 50):
        counts = np.bincount(draws.below(purpose, 10), minlength=10)
        assert counts.min() > 9_600
        assert counts.max() < 10_400
    assert abs(np.corrcoef(draws.unit(0), draws.unit(1))[0, 1]) < 0.02


def test_settings_are_checked():
    """A stream without people, or whose shuffle would repeat itself, is refused."""
    for wrong in ({"active_people": 0}, {"out_of_order_group": 953}, {"events_per_second": -1}):
        with pytest.raises(UsageError):
            NexmarkSettings(**wrong)
