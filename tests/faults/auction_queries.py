"""Queries over a stream of auctions, each beside a plain fold of the same records.

The queries are those of Nexmark that RisingWave's scaling tests run, in Python steps and state
steps, so that the inline engine can run them. A query is one topology over three depots of two
partitions each, and every one of its results is the same in whatever order the depots are read.
The folds share nothing with it but the records.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import atoll
from atoll import List, Map, Set, Struct, agg, path
from atoll.demo.nexmark import Nexmark, NexmarkSettings

__all__ = ["QUERIES", "Auctions", "Query", "auctions", "expected", "query_module", "result"]

Row = dict[str, Any]
SECONDS = 20
"""Of event time that a stream lasts, however many events it has."""


# The stream ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Auctions:
    """The records of a stream by depot, in order."""

    persons: list[Row]
    auctions: list[Row]
    bids: list[Row]

    def parts(self, count: int) -> list[Auctions]:
        """The stream in so many consecutive parts."""
        return [
            Auctions(
                *(rows[len(rows) * n // count : len(rows) * (n + 1) // count] for rows in all_)
            )
            for n in range(count)
            for all_ in [self.by_depot().values()]
        ]

    def first(self, part: int, count: int) -> Auctions:
        """The first so many of so many parts."""
        return Auctions(*(rows[: len(rows) * part // count] for rows in self.by_depot().values()))

    def by_depot(self) -> dict[str, list[Row]]:
        """The records of each depot."""
        return {"persons": self.persons, "auctions": self.auctions, "bids": self.bids}

    @property
    def count(self) -> int:
        """All records."""
        return sum(map(len, self.by_depot().values()))


def auctions(events: int, seed: int = 1) -> Auctions:
    """The first events of the stream of a seed."""
    settings = NexmarkSettings(seed=seed, events_per_second=max(1, events // SECONDS))
    made = Nexmark(settings).events(0, events)
    return Auctions(
        _rows(made.persons, "id", "state", "date_time"),
        _rows(made.auctions, "id", "seller", "category", "date_time", "expires"),
        _rows(made.bids, "auction", "bidder", "price", "date_time"),
    )


def _rows(batch: Any, *columns: str) -> list[Row]:
    """Plain rows, numbered; instants as milliseconds."""
    table = batch.select(list(columns)).to_pydict()
    for name in ("date_time", "expires"):
        if name in table:
            table[name] = [round(each.timestamp() * 1000) for each in table[name]]
    rows = zip(*table.values(), strict=True)
    return [{"n": n, **dict(zip(table, row, strict=True))} for n, row in enumerate(rows)]


# The queries --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Query:
    """One of Nexmark's.

    Attributes:
        declare: Adds its steps to a topology, given the streams of the three depots by name.
        fold: What its PStates hold after all records, by name; keys become text.
    """

    declare: Callable[[Any, Mapping[str, Any]], None]
    fold: Callable[[Auctions], dict[str, Any]]


_STATES = ("OR", "ID", "CA")
_WINDOW_MS = 10_000
_SLIDE_MS = 2_000
_POPULAR = 20
_TOP = 1_000


def _q3(mb: Any, streams: Mapping[str, Any]) -> None:
    """Who sells in a category and lives in some states: a join that either side completes."""
    homes = mb.pstate("homes", Map(int, str))
    offers = mb.pstate("offers", Map(int, Map(int, int)))
    q3 = mb.pstate("q3", Map(int, Map(int, str)))

    def person(row, homes, offers, q3):
        if row.state in _STATES:
            homes[row.id] = row.state
            for auction in list(offers[row.id]):
                q3[row.id][auction] = row.state

    def auction(row, homes, offers, q3):
        if row.category == 10:
            offers[row.seller][row.id] = 1
            home = homes.get(row.seller)
            if home is not None:
                q3[row.seller][row.id] = home

    streams["persons"].process(person, key="id", states=[homes, offers, q3])
    streams["auctions"].process(auction, key="seller", states=[homes, offers, q3])


def _fold_q3(stream: Auctions) -> dict[str, Any]:
    homes = {each["id"]: each["state"] for each in stream.persons if each["state"] in _STATES}
    found: dict[int, dict[int, str]] = defaultdict(dict)
    for each in stream.auctions:
        if each["category"] == 10 and each["seller"] in homes:
            found[each["seller"]][each["id"]] = homes[each["seller"]]
    return {"q3": found}


_WON = "category long, one long, before long, after long"


def _winning(mb: Any, streams: Mapping[str, Any]) -> Any:
    """The highest valid bid of each auction, the earliest of equals; how it changed, as rows.

    A bid may come before its auction, and waits for it then.
    """
    lots = mb.pstate("lots", Map(int, Struct(category=int, opens=int, closes=int)))
    waiting = mb.pstate("waiting", Map(int, Map(int, Struct(price=int, at=int))))
    best = mb.pstate("best", Map(int, Struct(price=int, at=int, n=int)))

    def opened(row, lots, waiting, best):
        lot = {"category": row.category, "opens": row.date_time, "closes": row.expires}
        lots[row.id] = lot
        offers = [{**bid, "n": n} for n, bid in waiting[row.id].items()]
        yield from _offered(lot, offers, row.id, best)

    def bid(row, lots, waiting, best):
        lot = lots.get(row.auction)
        if lot is None:
            waiting[row.auction][row.n] = {"price": row.price, "at": row.date_time}
        else:
            offer = {"price": row.price, "at": row.date_time, "n": row.n}
            yield from _offered(lot, [offer], row.auction, best)

    states = [lots, waiting, best]
    first = streams["auctions"].process(opened, key="id", states=states, emits=_WON)
    return first.union(streams["bids"].process(bid, key="auction", states=states, emits=_WON))


def _offered(lot: Row, offers: Iterable[Row], auction: int, best: Any) -> Iterator[Row]:
    before = best.get(auction)
    valid = [each for each in offers if lot["opens"] <= each["at"] <= lot["closes"]]
    after = max(([before] if before else []) + valid, key=_worth, default=None)
    if after is not None and after != before:
        best[auction] = after
        paid = before["price"] if before else 0
        yield {"category": lot["category"], "one": 1, "before": paid, "after": after["price"]}


def _worth(bid: Row) -> tuple[int, int, int]:
    return bid["price"], -bid["at"], -bid["n"]


def _winners(stream: Auctions) -> dict[int, tuple[int, Row]]:
    """For each auction its category and its winning bid."""
    lots = {each["id"]: each for each in stream.auctions}
    found: dict[int, tuple[int, Row]] = {}
    for each in stream.bids:
        lot = lots.get(each["auction"])
        if lot is None or not lot["date_time"] <= each["date_time"] <= lot["expires"]:
            continue
        bid = {"price": each["price"], "at": each["date_time"], "n": each["n"]}
        known = found.get(each["auction"])
        if known is None or _worth(bid) > _worth(known[1]):
            found[each["auction"]] = (lot["category"], bid)
    return found


def _q4(mb: Any, streams: Mapping[str, Any]) -> None:
    """The average winning price per category, kept as sum and count."""
    q4 = mb.pstate("q4", Map(int, Struct(total=int, auctions=int)))

    def gain(row):
        more = row.after - row.before
        return {"category": row.category, "more": more, "auctions": int(row.before == 0)}

    gains = _winning(mb, streams).map(gain, emits="category long, more long, auctions long")
    gains.aggregate(q4["category"], total=agg.sum("more"), auctions=agg.sum("auctions"))


def _fold_q4(stream: Auctions) -> dict[str, Any]:
    found: dict[int, Row] = defaultdict(lambda: {"total": 0, "auctions": 0})
    for category, bid in _winners(stream).values():
        found[category]["total"] += bid["price"]
        found[category]["auctions"] += 1
    return {"q4": found}


def _q5(mb: Any, streams: Mapping[str, Any]) -> None:
    """The auctions with the most bids, per window of ten seconds that slides by two."""
    counts = mb.pstate("counts", Map(int, Map(int, int)))
    most = mb.pstate("most", Map(int, int))
    q5 = mb.pstate("q5", Map(int, Map(int, int)))

    def windows(row):
        for window in _windows(row.date_time):
            yield {"window": window, "auction": row.auction}

    def bid(row, counts, most, q5):
        count = counts[row.window].get(row.auction, 0) + 1
        counts[row.window][row.auction] = count
        if count > most.get(row.window, 0):
            most[row.window] = count
            q5[row.window] = {}
        if count == most.get(row.window):
            q5[row.window][row.auction] = count

    slid = streams["bids"].flat_map(windows, emits="window long, auction long")
    slid.process(bid, key="window", states=[counts, most, q5])


def _windows(at_ms: int) -> list[int]:
    last = at_ms // _SLIDE_MS * _SLIDE_MS
    return [last - n * _SLIDE_MS for n in range(_WINDOW_MS // _SLIDE_MS)]


def _fold_q5(stream: Auctions) -> dict[str, Any]:
    counts: dict[int, Counter[int]] = defaultdict(Counter)
    for each in stream.bids:
        for window in _windows(each["date_time"]):
            counts[window][each["auction"]] += 1
    return {
        "q5": {
            window: {k: v for k, v in count.items() if v == max(count.values())}
            for window, count in counts.items()
        }
    }


def _q7(mb: Any, streams: Mapping[str, Any]) -> None:
    """The highest bid per window."""
    q7 = mb.pstate("q7", Map(int, Struct(highest=int, bids=int)))

    def window(row):
        return {"window": row.date_time // _WINDOW_MS, "price": row.price}

    bids = streams["bids"].map(window, emits="window long, price long")
    bids.aggregate(q7["window"], highest=agg.max("price"), bids=agg.count())


def _fold_q7(stream: Auctions) -> dict[str, Any]:
    found: dict[int, Row] = defaultdict(lambda: {"highest": 0, "bids": 0})
    for each in stream.bids:
        known = found[each["date_time"] // _WINDOW_MS]
        known["highest"] = max(known["highest"], each["price"])
        known["bids"] += 1
    return {"q7": found}


def _q8(mb: Any, streams: Mapping[str, Any]) -> None:
    """Who registered and opened an auction in the same window."""
    came = mb.pstate("came", Map(int, int))
    opened = mb.pstate("opened", Map(int, Map(int, int)))
    q8 = mb.pstate("q8", Map(int, int))

    def person(row, came, opened, q8):
        came[row.id] = row.date_time // _WINDOW_MS
        if came[row.id] in opened[row.id]:
            q8[row.id] = came[row.id]

    def auction(row, came, opened, q8):
        window = row.date_time // _WINDOW_MS
        opened[row.seller][window] = 1
        if came.get(row.seller) == window:
            q8[row.seller] = window

    streams["persons"].process(person, key="id", states=[came, opened, q8])
    streams["auctions"].process(auction, key="seller", states=[came, opened, q8])


def _fold_q8(stream: Auctions) -> dict[str, Any]:
    opened = {(each["seller"], each["date_time"] // _WINDOW_MS) for each in stream.auctions}
    came = {each["id"]: each["date_time"] // _WINDOW_MS for each in stream.persons}
    return {"q8": {person: window for person, window in came.items() if (person, window) in opened}}


def _q9(mb: Any, streams: Mapping[str, Any]) -> None:
    """The winning bid of each auction."""
    _winning(mb, streams)


def _fold_q9(stream: Auctions) -> dict[str, Any]:
    return {"best": {auction: bid for auction, (_, bid) in _winners(stream).items()}}


def _q15(mb: Any, streams: Mapping[str, Any]) -> None:
    """Bids and different bidders per second (per day in the source; a test has no days)."""
    seconds = mb.pstate("seconds", Map(int, Set(int)))
    bids_in = mb.pstate("bids_in", Map(int, int))
    bidders_in = mb.pstate("bidders_in", Map(int, int))

    def second(row):
        return {"second": row.date_time // 1000, "bidder": row.bidder}

    def first(row, seconds):
        if row.second not in seconds[row.bidder]:
            seconds[row.bidder].add(row.second)
            yield {"second": row.second}

    bids = streams["bids"].map(second, emits="second long, bidder long")
    bids.aggregate(bids_in["second"], agg.count())
    new = bids.process(first, key="bidder", states=[seconds], emits="second long")
    new.aggregate(bidders_in["second"], agg.count())


def _fold_q15(stream: Auctions) -> dict[str, Any]:
    bids = Counter(each["date_time"] // 1000 for each in stream.bids)
    bidders = {(each["date_time"] // 1000, each["bidder"]) for each in stream.bids}
    return {"bids_in": bids, "bidders_in": Counter(second for second, _ in bidders)}


def _q18(mb: Any, streams: Mapping[str, Any]) -> None:
    """The last bid of each bidder for each auction."""
    q18 = mb.pstate("q18", Map(int, Map(int, Struct(at=int, n=int, price=int))))

    def bid(row, q18):
        known = q18[row.bidder].get(row.auction)
        if known is None or (known["at"], known["n"]) < (row.date_time, row.n):
            last = {"at": row.date_time, "n": row.n, "price": row.price}
            q18[row.bidder][row.auction] = last

    streams["bids"].process(bid, key="bidder", states=[q18])


def _fold_q18(stream: Auctions) -> dict[str, Any]:
    found: dict[int, dict[int, Row]] = defaultdict(dict)
    for each in sorted(stream.bids, key=lambda each: (each["date_time"], each["n"])):
        last = {"at": each["date_time"], "n": each["n"], "price": each["price"]}
        found[each["bidder"]][each["auction"]] = last
    return {"q18": found}


def _q101(mb: Any, streams: Mapping[str, Any]) -> None:
    """Each auction with its highest bid, 0 where there is none: an outer join."""
    highest = mb.pstate("highest", Map(int, int))
    q101 = mb.pstate("q101", Map(int, Struct(category=int, highest=int)))

    def auction(row, highest, q101):
        q101[row.id] = {"category": row.category, "highest": highest.get(row.id, 0)}

    def bid(row, highest, q101):
        highest[row.auction] = max(highest.get(row.auction, 0), row.price)
        known = q101.get(row.auction)
        if known is not None:
            q101[row.auction] = {**known, "highest": highest[row.auction]}

    streams["auctions"].process(auction, key="id", states=[highest, q101])
    streams["bids"].process(bid, key="auction", states=[highest, q101])


def _fold_q101(stream: Auctions) -> dict[str, Any]:
    highest: dict[int, int] = defaultdict(int)
    for each in stream.bids:
        highest[each["auction"]] = max(highest[each["auction"]], each["price"])
    return {
        "q101": {
            each["id"]: {"category": each["category"], "highest": highest[each["id"]]}
            for each in stream.auctions
        }
    }


def _bids_per_auction(mb: Any, streams: Mapping[str, Any]) -> Any:
    """Counts the bids of each auction, and gives the changes of that."""
    bids_of = mb.pstate("bids_of", Map(int, int))
    return streams["bids"].aggregate(bids_of["auction"], agg.count()).changes()


def _q102(mb: Any, streams: Mapping[str, Any]) -> None:
    """What says whose bids are above the average: the counts, and two singletons over them."""
    total = mb.pstate("total", int, initial=0)
    different = mb.pstate("different", int, initial=0)

    def new(row):
        if row.old is None:
            yield {"auction": row.auction}

    streams["bids"].aggregate(total, agg.count())
    first = _bids_per_auction(mb, streams).flat_map(new, emits="auction long")
    first.aggregate(different, agg.count())


def _fold_q102(stream: Auctions) -> dict[str, Any]:
    counts = Counter(each["auction"] for each in stream.bids)
    return {"bids_of": counts, "total": len(stream.bids), "different": len(counts)}


def _q103(mb: Any, streams: Mapping[str, Any]) -> None:
    """Auctions with many bids, and (q104) those with few: who is in one leaves the other."""
    q103 = mb.pstate("q103", Map(int, int))
    q104 = mb.pstate("q104", Map(int, int))

    def sort(row, q103, q104):
        if row.new >= _POPULAR:
            q103[row.auction] = row.new
            if row.auction in q104:
                del q104[row.auction]
        else:
            q104[row.auction] = row.new

    _bids_per_auction(mb, streams).process(sort, key="auction", states=[q103, q104])


def _fold_q103(stream: Auctions) -> dict[str, Any]:
    counts = Counter(each["auction"] for each in stream.bids)
    return {
        "q103": {k: v for k, v in counts.items() if v >= _POPULAR},
        "q104": {k: v for k, v in counts.items() if v < _POPULAR},
    }


def _q105(mb: Any, streams: Mapping[str, Any]) -> None:
    """The auctions with the most bids, in one list."""
    q105 = mb.pstate("q105", List(Struct(auction=int, bids=int)))
    columns = {"auction": "auction", "bids": "new"}
    ranked = agg.top_n(_TOP, by="new", columns=columns, id="auction")
    _bids_per_auction(mb, streams).aggregate(q105, ranked)


def _fold_q105(stream: Auctions) -> dict[str, Any]:
    counts = Counter(each["auction"] for each in stream.bids)
    return {"q105": sorted(counts.values(), reverse=True)[:_TOP]}


def _q106(mb: Any, streams: Mapping[str, Any]) -> None:
    """How many auctions were won for each price, in one vnode: its lowest key is the minimum."""
    q106 = mb.pstate("q106", Map(int, Map(int, int)))

    def price(row, q106):
        if row.before:
            left = q106[row.one][row.before] - 1
            if left:
                q106[row.one][row.before] = left
            else:
                del q106[row.one][row.before]
        q106[row.one][row.after] = q106[row.one].get(row.after, 0) + 1

    _winning(mb, streams).process(price, key="one", states=[q106])


def _fold_q106(stream: Auctions) -> dict[str, Any]:
    prices = Counter(bid["price"] for _, bid in _winners(stream).values())
    return {"q106": {1: prices}} if prices else {"q106": {}}


QUERIES = {
    "q3": Query(_q3, _fold_q3),
    "q4": Query(_q4, _fold_q4),
    "q5": Query(_q5, _fold_q5),
    "q7": Query(_q7, _fold_q7),
    "q8": Query(_q8, _fold_q8),
    "q9": Query(_q9, _fold_q9),
    "q15": Query(_q15, _fold_q15),
    "q18": Query(_q18, _fold_q18),
    "q101": Query(_q101, _fold_q101),
    "q102": Query(_q102, _fold_q102),
    "q103": Query(_q103, _fold_q103),
    "q105": Query(_q105, _fold_q105),
    "q106": Query(_q106, _fold_q106),
}
"""By name; q103 holds q104 too."""


def query_module(name: str, records_max: int) -> atoll.Module:
    """The module of a query, whose topology is named as it; microbatches are small."""
    module = atoll.Module("nexmark")
    columns = {
        "persons": "n long, id long, state string, date_time long",
        "auctions": "n long, id long, seller long, category long, date_time long, expires long",
        "bids": "n long, auction long, bidder long, price long, date_time long",
    }
    keys = {"persons": "id", "auctions": "id", "bids": "auction"}
    mb = module.microbatch(name, options={"depot.microbatch.max.records": records_max})
    streams = {}
    for depot, ddl in columns.items():
        declared = module.depot(depot, ddl, partition_by=keys[depot], partitions=2)
        streams[depot] = mb.source(declared)
    QUERIES[name].declare(mb, streams)
    return module


def expected(name: str, stream: Auctions) -> dict[str, Any]:
    """What a query's PStates hold after the stream, by a plain fold; as JSON gives it back."""
    return _as_json(QUERIES[name].fold(stream))


def result(app: Any, names: Iterable[str]) -> dict[str, Any]:
    """What these PStates hold, as JSON gives it back; of a ranking only the counts."""
    found: dict[str, Any] = {}
    for name in names:
        pstate = app.pstate(name)
        if name == "q105":
            found[name] = [each["bids"] for each in pstate.get() or []]
        elif pstate.spec.vnode_count == 1:
            found[name] = pstate.get()
        else:
            # A map whose entries were all removed is no entry.
            found[name] = {k: v for k, v in pstate.select(path.all()) if v != {}}
    return _as_json(found)


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value, sort_keys=True))
