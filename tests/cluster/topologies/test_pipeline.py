"""Reading ahead changes when a microbatch is read, and nothing that it commits.

Every life is lived twice by the same steps on a virtual clock, without the option and with it:
backlogs, lost attempts, restarts, pauses, going back, other limits and another parallelism
between a read-ahead and its use. The commits must be equal, and so must the state and what was
appended. Then defects are planted into the real code, and the same comparison must catch them.
"""

from __future__ import annotations

import contextlib
import functools
import random
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest

import atoll
from atoll import Map, agg, path, start
from atoll.engine.exchange.ahead import ReadAhead, Share
from atoll.errors import RescheduleError
from atoll.microbatch import coordinator
from atoll.microbatch.commits.objects import Commit
from atoll.microbatch.commits.progress import standing_commits
from atoll.storage.local import LocalStore
from atoll.testing import TopologyTestDriver
from atoll.testing.clock import VirtualClock

PIPELINE = "topology.microbatch.pipeline"
RECORDS_MAX = "depot.microbatch.max.records"
ROW = "n long, k long, at long"
WINDOW = "k long, window_start long, window_end long, seen long"
PSTATES = {"counts": ("sums", "trail"), "echo": ("heard",)}
LIVES = (2, 3, 7)
STEPS = 24
BAD = 37


def _checked(row: Any) -> dict[str, int]:
    if row.n % BAD == BAD - 1:
        raise ValueError("bad")
    found: dict[str, int] = row.asdict()
    return found


def _follow(row: Any, trail: Any) -> None:
    trail[row.k] = (trail.get(row.k, 0) * 31 + row.n + 1) % 1_000_003


def declare(pipeline: int) -> atoll.Module:
    """Two topologies, the second of what the first appends: folds, order, event time, rejects."""
    module = atoll.Module("ahead")
    rows = module.depot("rows", ROW, partition_by="k", partitions=2)
    late = module.depot("late", ROW, partitions=1)
    closed = module.depot("closed", WINDOW, partitions=1)
    rejected = module.dead_letter_depot("rejected")
    given = {PIPELINE: pipeline, RECORDS_MAX: 4, "pstate.history.seconds": 0}
    options = {**given, "pstate.history.microbatches": 1_000}
    counts = module.microbatch("counts", vnode_count=8, options=options, dead_letter=rejected)
    read = counts.source(rows, start_from=start.beginning()).map(_checked, emits=ROW)
    read.aggregate(counts.pstate("sums", Map(int, int))["k"], agg.sum("n"))
    read.process(_follow, key="k", states=[counts.pstate("trail", Map(int, int))])
    timed = read.with_watermark("at", "1 second")
    windows, behind = timed.window("at", "5 seconds", split_late=True)
    windows.aggregate_windows("k", seen=agg.count()).append_to(closed)
    behind.append_to(late)
    echo = module.microbatch("echo", vnode_count=4, options=options)
    heard = echo.pstate("heard", Map(int, int))
    echo.source(closed, start_from=start.beginning()).aggregate(heard["k"], agg.sum("seen"))
    return module


@dataclass
class Told:
    """What came of a life."""

    commits: dict[str, list[Commit]]
    state: dict[str, Any]
    depots: dict[str, list[Any]]
    failed: dict[str, int]
    used: int


def live(number: int, pipeline: int, root: Any) -> Told:
    """One life, by steps that follow from its number alone."""
    rng = random.Random(number)
    module = declare(pipeline)
    with TopologyTestDriver(module, root=root, parallelism=4, clock=VirtualClock()) as driver:
        told = Told({}, {}, {}, {}, 0)
        appended = 0
        for _ in range(STEPS):
            appended = _step(driver, rng, appended, told)
        driver.app.topology("counts").resume()
        driver.run_until_idle()
        return _told(driver, root, told)


def _step(driver: TopologyTestDriver, rng: random.Random, appended: int, told: Told) -> int:
    match rng.randrange(12):
        case 0 | 1 | 2:
            count = rng.randrange(5, 25)
            made = range(appended, appended + count)
            rows = [{"n": n, "k": n * 7919 % 11, "at": n * 400 - n % 5 * 900} for n in made]
            driver.depot("rows").append(rows)
            appended += count
        case 3:
            after_work = rng.random() < 0.5
            driver.fail_next_attempt("counts", times=rng.randrange(1, 3), after_work=after_work)
        case 4:
            _count(driver, told)
            driver.restart()
        case 5:
            driver.app.topology("counts").pause()
            driver.app.topology("counts").resume()
        case 6:
            last = driver.app.topology("counts").status()["committed"]
            to = max(driver.status("counts")["readable_from"], last - rng.randrange(1, 4))
            if last > to:
                driver.app.topology("counts").rollback(to, keep_appended=True)
                driver.app.topology("counts").resume()
        case 7:
            driver.app.options.set(RECORDS_MAX, rng.randrange(2, 8), depot="rows")
        case 8:
            with contextlib.suppress(RescheduleError):  # the attempt was one that fails
                driver.app.cluster.set_parallelism("counts", str(rng.randrange(1, 5)))
        case 9:
            driver.advance(rng.random() * 5)
        case _:
            driver.run()
    return appended


def _count(driver: TopologyTestDriver, told: Told) -> None:
    for name in PSTATES:
        status = driver.status(name)
        told.used += status["read_ahead"]["used"]
        for code, times in status["attempts_failed_total"].items():
            told.failed[code] = told.failed.get(code, 0) + times


def _told(driver: TopologyTestDriver, root: Any, told: Told) -> Told:
    _count(driver, told)
    for name, pstates in PSTATES.items():
        last = driver._loops[name].published
        told.commits[name] = [
            _bare(each) for each in standing_commits(LocalStore(root), "ahead", name, last)
        ]
        for pstate in pstates:
            told.state[pstate] = dict(driver.pstate(pstate).select(path.all()))
    for depot in ("late", "closed", "rejected"):
        held = driver.depot(depot)
        (begins,), (ends,) = held.start_offsets(), held.end_offsets()
        told.depots[depot] = held.read(0, begins, ends).to_pylist()
    return told


def _bare(commit: Commit) -> Commit:
    """A commit without what is drawn by lot: tokens, and the files that are named by them."""
    appends = [
        msgspec.structs.replace(
            each, file=msgspec.structs.replace(each.file, name="", size=0, crc=0)
        )
        for each in commit.appends
    ]
    touched = {
        name: msgspec.structs.replace(each, logs=[], checkpoints=[])
        for name, each in commit.pstates.items()
    }
    return msgspec.structs.replace(commit, tokens=[], appends=appends, pstates=touched)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The lives without the option, each lived once."""
    return functools.cache(lambda number: live(number, 0, tmp_path_factory.mktemp("plain")))


@pytest.mark.parametrize("number", LIVES)
def test_the_commits_are_those_that_are_made_without_it(plain, number, tmp_path):
    """And no attempt fails because of it."""
    piped = live(number, 1, tmp_path)
    assert plain(number).used == 0 < piped.used
    assert replace(piped, used=0) == plain(number)


# Defects ------------------------------------------------------------------------------------------


def _whatever_was_kept(kept: ReadAhead, program: Any, _spec: Any, _only: Any = None) -> Any:
    found = kept._kept.pop((program.module, program.topology), None)
    return found.shares if found is not None and found.program is program else {}


def _whoever_kept_it(kept: ReadAhead, program: Any, spec: Any, only: Any = None) -> Any:
    found = kept._kept.get((program.module, program.topology))
    return {} if found is None else KNOWN_TAKE(kept, found.program, spec, only)


def _of_the_attempt_before(share: Share, _spec: Any) -> Any:
    return [*share.blobs, *share.packers.waybills(share.packers.spec, share.only)]


def _one_too_few(state: Any, commit: Any, seen: Any) -> Any:
    guess = KNOWN_EXPECTED(state, commit, seen)
    if guess is None:
        return None
    fewer = {name: [(s, max(s, e - 1)) for s, e in each] for name, each in guess.ranges.items()}
    return msgspec.structs.replace(guess, ranges=fewer)


KNOWN_TAKE = ReadAhead.take
KNOWN_EXPECTED = coordinator.expected
DEFECTS = {
    "used for whatever plan comes": (3, ReadAhead, "take", _whatever_was_kept),
    "used on another placement": (7, ReadAhead, "take", _whoever_kept_it),
    "handed on as an attempt's that never was": (7, Share, "parcels", _of_the_attempt_before),
    "never what is read": (3, coordinator, "expected", _one_too_few),
}
"""Each with a life that something happens in between a read-ahead and its use."""


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_caught(plain, name, tmp_path, monkeypatch):
    """By the comparison above, in one of its lives."""
    life, *defect = DEFECTS[name]
    monkeypatch.setattr(*defect)
    piped = live(life, 1, tmp_path)
    assert piped.used == 0 or replace(piped, used=0) != plain(life)
    print(f"\nplanted: {name}: {piped.failed}, {piped.used} used")
