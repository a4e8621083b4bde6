"""An independent count of everything generated, to hold the state against.

It shares nothing with the topology: plain numpy over the batches as they are made.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atoll.demo.nexmark import Events

Numbers = NDArray[np.int64]


class _ByKey:
    """Count, sum and maximum of prices for each of some dense whole keys."""

    def __init__(self) -> None:
        self.count: Numbers = np.zeros(0, dtype=np.int64)
        self.total: Numbers = np.zeros(0, dtype=np.int64)
        self.highest: Numbers = np.zeros(0, dtype=np.int64)

    def add(self, keys: Numbers, prices: Numbers) -> None:
        """Take over some bids."""
        missing = int(keys.max(initial=-1)) + 1 - len(self.count)
        if missing > 0:
            more = np.zeros(max(missing, len(self.count)), dtype=np.int64)
            self.count = np.concatenate([self.count, more])
            self.total = np.concatenate([self.total, more])
            self.highest = np.concatenate([self.highest, more])
        np.add.at(self.count, keys, 1)
        np.add.at(self.total, keys, prices)
        np.maximum.at(self.highest, keys, prices)

    def as_state(self) -> dict[int, dict[str, int]]:
        """As the PState shows it."""
        return {
            int(key): {
                "bids": int(self.count[key]),
                "total": int(self.total[key]),
                "highest": int(self.highest[key]),
            }
            for key in np.flatnonzero(self.count)
        }


class Recount:
    """What the PStates must hold after all events given."""

    def __init__(self) -> None:
        self.events = 0
        self.bids = 0
        self.total = 0
        self._by_auction = _ByKey()
        self._by_bidder = _ByKey()
        self._people: Counter[str] = Counter()

    def add(self, events: Events) -> None:
        """Take over some events."""
        prices = events.bids.column("price").to_numpy()
        self.events += events.count
        self.bids += events.bids.num_rows
        self.total += int(prices.sum())
        self._by_auction.add(events.bids.column("auction").to_numpy(), prices)
        self._by_bidder.add(events.bids.column("bidder").to_numpy(), prices)
        self._people.update(events.persons.column("state").to_pylist())

    def differences(self, state: dict[str, Any]) -> list[str]:
        """In words, each PState that does not hold what it must; empty when all do.

        Args:
            state: The whole content of each PState by name.
        """
        wanted: dict[str, Any] = {
            "people_by_state": dict(self._people),
            "bids_by_auction": self._by_auction.as_state(),
            "bids_by_bidder": self._by_bidder.as_state(),
        }
        wrong = [
            f"{name} differs from the recount"
            for name, expected in wanted.items()
            if state[name] != expected
        ]
        wrong += self._wrong_tops(state)
        categories = state["by_category"].values()
        for field, expected in (("bids", self.bids), ("total", self.total)):
            found = sum(category[field] for category in categories)
            if found != expected:
                wrong.append(f"{field} over all categories: {found}, recounted {expected}")
        return wrong

    def _wrong_tops(self, state: dict[str, Any]) -> list[str]:
        """The lists' orders against the greatest of the recount; ties may stand either way."""
        wrong = []
        for name, by, counted in (
            ("top_auctions", "bids", self._by_auction.count),
            ("top_bidders", "total", self._by_bidder.total),
        ):
            found = [row[by] for row in state[name] or []]
            greatest = np.sort(counted[counted > 0])[::-1][:10].tolist()
            if found != greatest:
                wrong.append(f"{name}: {found}, recounted {greatest}")
        return wrong
