"""Nexmark's stream of auction events, seeded and vectorised.

The model is the one published for Nexmark and used by its implementations: an online auction
house whose events are people registering, auctions opening and bids being placed, 1 : 3 : 46 in
every 50. What makes it a good test is its skew:

- half of all bids go to the *hot* auction, the newest whose id is a multiple of 100; the others to
  any auction in flight;
- three quarters of the bids come from a hot bidder, three quarters of the auctions from a hot
  seller, chosen the same way among the people;
- an id may be a little ahead of its person or auction (the *lead*), so references dangle;
- prices spread evenly over six orders of magnitude;
- events are out of order within groups of a chosen size, so event time runs back and forth.

Event ``n`` depends on nothing but the seed and ``n``: any range can be made alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from atoll.demo import words
from atoll.demo.randomness import Draws
from atoll.errors import UsageError

Numbers = NDArray[np.int64]

_EPOCH_EVENTS = 50
_EPOCH_PERSONS = 1
_EPOCH_AUCTIONS = 3
FIRST_ID = 1000
FIRST_CATEGORY = 10
_CATEGORIES = 5
_HOT_STRIDE = 100
_LEAD = 10
_CHANNELS_OTHER = 10_000
_SITE = "https://auctions.example.com/"
_SHUFFLE_STEP = 953
"""Prime to any sensible group size, so that stepping by it visits a whole group."""

PERSON_DDL = (
    "id long NOT NULL, name string, email_address string, credit_card string, "
    "city string, state string, date_time timestamp"
)
AUCTION_DDL = (
    "id long NOT NULL, item_name string, description string, initial_bid long, reserve long, "
    "date_time timestamp, expires timestamp, seller long, category long"
)
BID_DDL = (
    "auction long NOT NULL, bidder long NOT NULL, price long NOT NULL, channel string, "
    "url string, date_time timestamp"
)

_TIME = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class NexmarkSettings:
    """Which stream.

    Attributes:
        seed: Streams with the same settings are equal.
        events_per_second: How densely events lie in event time.
        first_event_time_us: When the first one happened, microseconds since 1970.
        out_of_order_group: Events are shuffled in time within groups of so many; 1: in order.
        active_people: How many of the newest people do anything.
        auctions_in_flight: How many of the newest auctions take bids.
        hot_auction_ratio: One bid in so many is *not* for the hot auction.
        hot_seller_ratio: One auction in so many is not by the hot seller.
        hot_bidder_ratio: One bid in so many is not by the hot bidder.
    """

    seed: int = 1
    events_per_second: int = 10_000
    first_event_time_us: int = 1_436_918_400_000_000
    out_of_order_group: int = 250
    active_people: int = 1_000
    auctions_in_flight: int = 100
    hot_auction_ratio: int = 2
    hot_seller_ratio: int = 4
    hot_bidder_ratio: int = 4

    def __post_init__(self) -> None:
        """Refuse what makes no stream."""
        counts = {name: getattr(self, name) for name in self.__slots__ if name != "seed"}
        wrong = [name for name, value in counts.items() if value < 1]
        if wrong or self.out_of_order_group % _SHUFFLE_STEP == 0:
            name = wrong[0] if wrong else "out_of_order_group"
            raise UsageError(
                f"{name} cannot be {counts[name]}", hint="leave it out for the default"
            )


@dataclass(frozen=True, slots=True)
class Events:
    """A range of the stream by kind, each in the stream's order."""

    persons: pa.RecordBatch
    auctions: pa.RecordBatch
    bids: pa.RecordBatch

    @property
    def count(self) -> int:
        """All events of the range."""
        return int(self.persons.num_rows + self.auctions.num_rows + self.bids.num_rows)


class Nexmark:
    """The stream."""

    def __init__(self, settings: NexmarkSettings | None = None) -> None:
        self.settings = settings or NexmarkSettings()

    def events(self, start: int, count: int) -> Events:
        """The events with the numbers from ``start`` on."""
        numbers = np.arange(start, start + count, dtype=np.int64)
        place = numbers % _EPOCH_EVENTS
        is_person = place < _EPOCH_PERSONS
        is_bid = place >= _EPOCH_PERSONS + _EPOCH_AUCTIONS
        return Events(
            self._persons(numbers[is_person]),
            self._auctions(numbers[~is_person & ~is_bid]),
            self._bids(numbers[is_bid]),
        )

    def _persons(self, numbers: Numbers) -> pa.RecordBatch:
        draws = Draws(self.settings.seed, numbers)
        first = words.pick(words.FIRST_NAMES, draws.below(0, len(words.FIRST_NAMES)))
        last = words.pick(words.LAST_NAMES, draws.below(1, len(words.LAST_NAMES)))
        city = draws.below(2, len(words.CITIES))
        ids = _last_person(numbers) + FIRST_ID
        card = [words.digits(draws.below(purpose, 10_000), 4) for purpose in (3, 4, 5, 6)]
        return _batch(
            id=pa.array(ids),
            name=words.joined(first, " ", last),
            email_address=words.joined(first, ".", last, words.digits(ids), "@example.com"),
            credit_card=words.joined(card[0], " ", card[1], " ", card[2], " ", card[3]),
            city=words.pick(words.CITIES, city),
            state=words.pick(words.STATES, city),
            date_time=self._times(numbers),
        )

    def _auctions(self, numbers: Numbers) -> pa.RecordBatch:
        settings = self.settings
        draws = Draws(settings.seed, numbers)
        initial = _prices(draws, 0)
        hot = _last_person(numbers) // _HOT_STRIDE * _HOT_STRIDE
        seller = np.where(
            draws.below(1, settings.hot_seller_ratio) > 0, hot, self._any_person(draws, numbers, 2)
        )
        # Lengths are such that, on average, the wanted number of auctions is in flight.
        span = settings.auctions_in_flight * _EPOCH_EVENTS // _EPOCH_AUCTIONS
        horizon_ms = np.maximum(span * 1_000 // settings.events_per_second * 2, 1)
        opened = self._time_us(numbers)
        closed = opened + (1 + draws.below(3, int(horizon_ms))) * 1_000
        quality = words.pick(words.QUALITIES, draws.below(4, len(words.QUALITIES)))
        item = words.pick(words.ITEMS, draws.below(5, len(words.ITEMS)))
        return _batch(
            id=pa.array(_last_auction(numbers) + FIRST_ID),
            item_name=words.joined(quality, " ", item),
            description=words.pick(words.DESCRIPTIONS, draws.below(6, len(words.DESCRIPTIONS))),
            initial_bid=pa.array(initial),
            reserve=pa.array(initial + _prices(draws, 7)),
            date_time=pa.array(opened, _TIME),
            expires=pa.array(closed, _TIME),
            seller=pa.array(seller + FIRST_ID),
            category=pa.array(FIRST_CATEGORY + draws.below(8, _CATEGORIES)),
        )

    def _bids(self, numbers: Numbers) -> pa.RecordBatch:
        settings = self.settings
        draws = Draws(settings.seed, numbers)
        newest = _last_auction(numbers)
        oldest = np.maximum(newest - settings.auctions_in_flight, 0)
        any_auction = oldest + draws.below(0, newest - oldest + 1 + _LEAD)
        auction = np.where(
            draws.below(1, settings.hot_auction_ratio) > 0,
            newest // _HOT_STRIDE * _HOT_STRIDE,
            any_auction,
        )
        hot = _last_person(numbers) // _HOT_STRIDE * _HOT_STRIDE + 1
        bidder = np.where(
            draws.below(2, settings.hot_bidder_ratio) > 0, hot, self._any_person(draws, numbers, 3)
        )
        channel, url = _channels(draws)
        return _batch(
            auction=pa.array(auction + FIRST_ID),
            bidder=pa.array(bidder + FIRST_ID),
            price=pa.array(_prices(draws, 4)),
            channel=channel,
            url=url,
            date_time=self._times(numbers),
        )

    def _any_person(self, draws: Draws, numbers: Numbers, purpose: int) -> Numbers:
        """One of the active people, or one about to register."""
        people = _last_person(numbers) + 1
        active = np.minimum(people, self.settings.active_people)
        return people - active + draws.below(purpose, active + _LEAD)

    def _time_us(self, numbers: Numbers) -> Numbers:
        group = self.settings.out_of_order_group
        shuffled = numbers // group * group + numbers * _SHUFFLE_STEP % group
        return (
            self.settings.first_event_time_us
            + shuffled * 1_000_000 // self.settings.events_per_second
        )

    def _times(self, numbers: Numbers) -> pa.Array:
        return pa.array(self._time_us(numbers), _TIME)


def _last_person(numbers: Numbers) -> Numbers:
    """The newest person when each event happens, counting from 0."""
    place = np.minimum(numbers % _EPOCH_EVENTS, _EPOCH_PERSONS - 1)
    return numbers // _EPOCH_EVENTS * _EPOCH_PERSONS + place


def _last_auction(numbers: Numbers) -> Numbers:
    """The newest auction when each event happens, counting from 0; at first none, so -1 is 0."""
    place = numbers % _EPOCH_EVENTS
    opened = np.minimum(np.maximum(place - _EPOCH_PERSONS + 1, 0), _EPOCH_AUCTIONS)
    return np.maximum(numbers // _EPOCH_EVENTS * _EPOCH_AUCTIONS + opened - 1, 0)


def _prices(draws: Draws, purpose: int) -> Numbers:
    """In cents, from 1 to a million whole ones, evenly by order of magnitude."""
    whole: NDArray[np.float64] = 10.0 ** (draws.unit(purpose) * 6.0)
    return np.rint(whole * 100.0).astype(np.int64)


def _channels(draws: Draws) -> tuple[pa.Array, pa.Array]:
    """Channel and address of each bid: one of four hot channels, or of thousands."""
    hot = len(words.CHANNELS)
    number = draws.below(6, _CHANNELS_OTHER)
    place = np.where(draws.below(5, 2) > 0, number % hot, hot + number)
    channels, addresses = _channel_pool()
    return words.pick(channels, place), words.pick(addresses, place)


@cache
def _channel_pool() -> tuple[pa.Array, pa.Array]:
    """All channels with their addresses, the hot ones first; the same in all streams.

    An address has three directories; nine in ten of those of no hot channel end with its number.
    """
    hot = len(words.CHANNELS)
    draws = Draws(0, np.arange(hot + _CHANNELS_OTHER))
    numbers = words.digits(np.arange(_CHANNELS_OTHER))
    channels = [*words.CHANNELS.to_pylist(), *words.joined("channel-", numbers).to_pylist()]
    directories = [words.letters(draws.below(purpose, 26**5), 5) for purpose in (1, 2, 3)]
    first, second, third = directories
    address = words.joined(_SITE, first, "/", second, "/", third, "/item.htm?query=1")
    tracked = words.joined(address.slice(hot), "&channel_id=", numbers)
    is_tracked = pa.array(draws.below(4, 10) > 0).slice(hot)
    others = pc.if_else(is_tracked, tracked, address.slice(hot))
    return pa.array(channels), pa.concat_arrays([address.slice(0, hot), others])


def _batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)
