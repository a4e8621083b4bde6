"""A module of all that goes by time and of what changes in a module's life, and its records.

The other scenario (``scenario.py``) has none of this: tumbling, sliding and session windows with
late rows, timers by both clocks, a tick, a private PState that is shown only by what a step makes
of it, windows that a second topology folds into a compound aggregate; and in the middle of its
life an update with a migration of a PState and one of a depot whose records wait meanwhile.

A test driver moves it, on a virtual clock: which records a microbatch has, and what time it is
then, is the same in every life. So whatever a life died of, every commit is known in advance, and
late rows can be compared, too.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scenario import digest, say, tuned

import atoll
from atoll import List, Map, Struct, agg, start
from atoll.ddl import parse_ddl
from atoll.depot.reader import DepotReader
from atoll.fsck.root import check_root
from atoll.storage.folders import depot_folder
from atoll.storage.local import LocalStore
from atoll.testing import TopologyTestDriver
from atoll.testing.clock import START, VirtualClock
from atoll.views.deployment import latest_deployment

__all__ = ["MODULE", "OUTPUTS", "PER_ROUND", "STATES", "build", "clock_ms", "live", "record_of"]

MODULE = "timed"
PARTITIONS, USERS = 2, 5
PER_ROUND = 8
UPDATE_AT = 2 * PER_ROUND + 5
"""The module is updated after so many records; the last five of them wait to be processed then."""
STATES = {"timed": ("profile", "ticks", "waiting", "heard"), "after": ("summary",)}
"""The public PStates, by topology."""

START_MS = round(START.timestamp() * 1000)
FAR_MS = START_MS + 10 * 86_400_000
"""Timers set for then are taken back, or run after the last round."""
ROUND_MS, TICK_MS = 3_100, 2_000
DELAY_MS, SIZE_MS, SLIDE_MS, LATENESS_MS, GAP_MS, AFTER_MS = (
    5_000,
    10_000,
    5_000,
    3_000,
    2_500,
    12_000,
)

_COMMON = "n long, user long, at long, ring long"
CLICKS = {1: f"{_COMMON}, v long", 2: f"{_COMMON}, amount long NOT NULL"}
ROW = f"{_COMMON}, amount long"
_WINDOW = "user long, window_start long, window_end long, n long, total long"
_RANG = "user long, ring long, n long"
OUTPUTS = {
    "closed": _WINDOW,
    "slid": _WINDOW,
    "late": ROW,
    "sessions": f"{_WINDOW}, nth long",
    "by_clock": _RANG,
    "by_event": _RANG,
}
"""The depots that the first topology appends to."""

_OPTIONS = {
    "pstate.history.seconds": 0,
    "pstate.checkpoint.interval.commits": 4,
    "pstate.history.microbatches": 2,
    "pstate.migration.vnodes.per.microbatch": 1,
}


# Records ------------------------------------------------------------------------------------------


def record_of(number: int) -> dict[str, int]:
    """The n-th record as the oracle and the steps know it; some come behind their time."""
    round_number, place = divmod(number, PER_ROUND)
    at = 100_000 + round_number * 9_000 + (place * 5 % PER_ROUND) * 1_100 + number
    if number % 11 == 5:
        at -= 15_500
    elif number % 13 == 7:
        at -= 40_000
    return {
        "n": number,
        "user": (round_number + number * 7919 % 3) % USERS,  # some vnodes have none in a round
        "at": at,
        "ring": START_MS + number * 677 % 20_000,
        "amount": (number * 31 % 17 - 5) * 100,
    }


def stored(record: dict[str, int], version: int) -> dict[str, int]:
    """The record as a version of the depot takes it."""
    kept = dict(record)
    amount = kept.pop("amount")
    return {**kept, "v": amount // 100} if version == 1 else {**kept, "amount": amount}


def clock_ms(round_number: int) -> int:
    """What the clock shows in a round."""
    return START_MS + (round_number + 1) * ROUND_MS


# The module ---------------------------------------------------------------------------------------


def by_user(record: Any, partitions: int) -> int:
    """Where a record goes."""
    return int(record["user"]) % partitions


def _as_row(row: Any) -> dict[str, int]:
    known: dict[str, int] = row.asdict()
    if "v" in known:
        known["amount"] = known.pop("v") * 100
    return known


def _with_amount(record: dict[str, Any]) -> dict[str, Any]:
    """The depot's migration."""
    return {**{k: v for k, v in record.items() if k != "v"}, "amount": record["v"] * 100}


def tenfold(value: int) -> dict[str, int]:
    """The PState's migration."""
    return {"digest": value, "tenfold": 10 * value}


def _follow(row: Any, profile: Any) -> None:
    profile[row.user] = digest(profile.get(row.user, 0), row.n * 7 + row.amount)


def _follow_tenfold(row: Any, profile: Any) -> None:
    known = profile.get(row.user) or {"digest": 0}
    profile[row.user] = tenfold(digest(known["digest"], row.n * 7 + row.amount))


def _ring(row: Any, waiting: Any, timers: Any) -> None:
    timers.at(row.ring, row.n)
    known = waiting.get(row.user) or []
    if row.n % 4 == 0:
        timers.at(FAR_MS + row.n, row.n)
        waiting[row.user] = [*known, row.n]
    elif row.n % 4 == 2:
        cancelled = [timers.cancel(FAR_MS + each) for each in known]
        assert all(cancelled)
        waiting.pop(row.user, None)


def _ring_after(row: Any, heard: Any, timers: Any) -> None:
    timers.at(row.at + AFTER_MS, row.n)
    heard[row.user] = heard.get(row.user, 0) + 1


def _rang(timer: Any, waiting: Any, timers: Any) -> Iterator[dict[str, int]]:
    if timer.time_ms >= FAR_MS:
        left = [each for each in waiting[timer.key] if each != timer.payload]
        if left:
            waiting[timer.key] = left
        else:
            waiting.pop(timer.key)
    yield {"user": timer.key, "ring": timer.time_ms, "n": timer.payload}


def _rang_after(timer: Any, heard: Any, timers: Any) -> Iterator[dict[str, int]]:
    heard[timer.key] += 1_000
    yield {"user": timer.key, "ring": timer.time_ms, "n": timer.payload}


def _count_sessions(row: Any, secret: Any) -> Iterator[dict[str, int]]:
    secret[row.user] = secret.get(row.user, 0) + 1
    yield {**row.asdict(), "nth": secret[row.user]}


def build(version: int) -> atoll.Module:
    """The module before the update, or after it."""
    module = atoll.Module(MODULE)
    clicks = module.depot(
        "clicks", CLICKS[version], partition_by=by_user, partitions=PARTITIONS, retain_records=6
    )
    outputs = {name: module.depot(name, ddl, partitions=1) for name, ddl in OUTPUTS.items()}
    mb = module.microbatch("timed", vnode_count=4, options=_OPTIONS)
    profile = mb.pstate(
        "profile", Map(int, int if version == 1 else Struct(digest=int, tenfold=int))
    )
    if version == 2:
        clicks.migrated("amount", _with_amount)
        profile.migrated("tenfold", tenfold)
    rows = mb.source(clicks, start_from=start.beginning()).map(_as_row, emits=ROW)
    rows.process(_follow if version == 1 else _follow_tenfold, key="user", states=[profile])
    rows = rows.with_watermark("at", f"{DELAY_MS // 1000} seconds")
    _windows(mb, rows, outputs)
    waiting = mb.pstate("waiting", Map(int, List(int)))
    rung = rows.process(
        _ring, key="user", states=[waiting], on_timer=_rang, timers="processing", emits=_RANG
    )
    rung.append_to(outputs["by_clock"])
    heard = mb.pstate("heard", Map(int, int))
    rung = rows.process(
        _ring_after, key="user", states=[heard], on_timer=_rang_after, timers="event", emits=_RANG
    )
    rung.append_to(outputs["by_event"])
    ticks = mb.pstate("ticks", Map(int, int))
    mb.source(module.tick("tick", f"{TICK_MS // 1000} seconds")).aggregate(
        ticks["tick"], agg.count()
    )
    _after(module, outputs["closed"])
    return module


def _windows(mb: Any, rows: Any, outputs: dict[str, Any]) -> None:
    folds = {"n": agg.count(), "total": agg.sum("amount")}
    tumbling, late = rows.window("at", "10 seconds", split_late=True)
    tumbling.aggregate_windows("user", **folds).append_to(outputs["closed"])
    late.append_to(outputs["late"])
    sliding = rows.window("at", "10 seconds", "5 seconds", allowed_lateness="3 seconds")
    sliding.aggregate_windows("user", **folds).append_to(outputs["slid"])
    secret = mb.pstate("secret", Map(int, int), private=True)
    sessions = rows.session_window("at", "2500 milliseconds").aggregate_windows("user", **folds)
    counted = sessions.process(
        _count_sessions, key="user", states=[secret], emits=OUTPUTS["sessions"]
    )
    counted.append_to(outputs["sessions"])


def _after(module: atoll.Module, closed: Any) -> None:
    after = module.microbatch("after", vnode_count=2, options=_OPTIONS)
    each = Struct(n=int, total=int)
    summary = after.pstate("summary", Map(int, Struct(windows=int, by_start=Map(int, each))))
    after.source(closed, start_from=start.beginning()).aggregate(
        summary["user"],
        windows=agg.count(),
        by_start=agg.map("window_start", agg.struct(n=agg.sum("n"), total=agg.sum("total"))),
    )


# A process's life ---------------------------------------------------------------------------------


def reader(root: Path | str, name: str) -> DepotReader | None:
    """A depot as it lies there; None before it is deployed."""
    store = LocalStore(Path(root))
    known = latest_deployment(store, MODULE)
    if known is None:
        return None
    depot = known.depots[name]
    folder = depot_folder(store.root, MODULE, name)
    return DepotReader(folder, parse_ddl(depot.ddl), migrations=depot.migrations)


def records_of(depot: Any) -> list[tuple[int, ...]]:
    """All records of a depot of one partition, sorted."""
    if depot is None or not sum(depot.end_offsets()):
        return []
    rows = depot.read(0, 0, depot.end_offsets()[0]).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


class Life:
    """A deployed module that goes on with what is there.

    Args:
        root: The root.
        rounds: How many rounds a whole life has.
        after_commit: Called with a topology's name and its commit's id.
    """

    def __init__(
        self, root: str, rounds: int, after_commit: Callable[[Life, str, int], None]
    ) -> None:
        there = reader(root, "clicks")
        self.known = sum(there.end_offsets()) if there is not None else 0
        self.rounds, self.after_commit = rounds, after_commit
        self.version = 2 if self.known >= UPDATE_AT else 1
        at_ms = clock_ms(max(0, self.known - 1) // PER_ROUND) if self.known else START_MS
        clock = VirtualClock()
        clock.advance((at_ms - START_MS) / 1000)
        self.driver = TopologyTestDriver(
            build(self.version), root=root, engine="inline", parallelism=2, clock=clock
        )

    def run(self) -> None:
        """Append and process until all is done."""
        say("found", self.known)
        if self.known and self.known % PER_ROUND == 0:
            self.settle()
        while self.known < self.rounds * PER_ROUND:
            number = self.known // PER_ROUND
            self._move_to(clock_ms(number))
            self.driver.app.cluster.resize("timed", 1 + number % 2)
            upto = (number + 1) * PER_ROUND
            if self.known < UPDATE_AT < upto:
                self._append(UPDATE_AT)
                self.driver.update(build(2))
                self.version = 2
                say("updated", self.known)
            self._append(upto)
            self.settle()
        self._move_to(FAR_MS + ROUND_MS)
        self.settle()

    def settle(self) -> None:
        """Let both topologies do all there is to do, one after the other."""
        for name in STATES:
            while (ran := self.driver.microbatch(name)) is not None:
                self.after_commit(self, name, ran.id)
        say("done", self.known)

    def _move_to(self, at_ms: int) -> None:
        self.driver.advance(max(0, at_ms - self.driver.clock.now_ms()) / 1000)

    def _append(self, upto: int) -> None:
        """Calls of one to three records, the same calls in every life."""
        while self.known < upto:
            numbers = range(self.known, min(self.known + 1 + self.known % 3, upto))
            say("try", len(numbers))
            records = [stored(record_of(each), self.version) for each in numbers]
            assert self.driver.depot("clicks").append(records).count == len(records)
            self.known += len(records)
            say("acked", self.known)


def _nothing(*_: Any) -> None:
    """After a commit."""


@contextlib.contextmanager
def living(
    root: str, rounds: int, after_commit: Callable[[Life, str, int], None] = _nothing
) -> Iterator[Life]:
    """A life, with depots that rotate and are trimmed all the time."""
    with tuned():
        life = Life(root, rounds, after_commit)
        try:
            yield life
        finally:
            life.driver.close()


def state_of(owner: Any) -> dict[str, Any]:
    """The public PStates in one form for both versions, from an app, a driver or a reader."""
    found: dict[str, Any] = {}
    for name in (each for names in STATES.values() for each in names):
        known = owner.pstate(name).get() or {}
        if name == "profile":
            known = {key: tenfold(v) if isinstance(v, int) else v for key, v in known.items()}
        found[name] = known
    return as_json(found)


def everything(life: Life) -> dict[str, Any]:
    """All that can be seen of a life."""
    driver = life.driver
    time = driver.status("timed")["time"]
    clicks = driver.depot("clicks")
    spans = [*zip(clicks.start_offsets(), clicks.end_offsets(), strict=True)]
    return as_json(
        {
            **state_of(driver),
            **{name: records_of(driver.depot(name)) for name in OUTPUTS},
            "watermarks": sorted(set(time["watermarks"].values())),
            "dropped": sorted(time["dropped"].values()),
            "commits": {name: driver.status(name)["committed"] for name in STATES},
            "clicks": [
                [start, clicks.read(part, start, end).to_pylist()]
                for part, (start, end) in enumerate(spans)
            ],
        }
    )


def as_json(value: Any) -> Any:
    """As JSON would give it back."""
    return json.loads(json.dumps(value, sort_keys=True))


def live(root: str, rounds: int) -> None:
    """Go on and finish; tell what there is then, in the next life, and without local state."""
    with living(root, rounds) as life:
        life.run()
        say("final", everything(life))
    for word in ("again", "rebuilt"):
        with living(root, rounds) as life:
            life.run()
            say(word, everything(life))
        say("findings", [str(each) for each in check_root(root, stores=True).findings])
        shutil.rmtree(Path(root) / "local", ignore_errors=True)
