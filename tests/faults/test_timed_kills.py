"""SIGKILL, and a disk that refuses, over all that goes by time and over an update with migrations.

Tumbling, sliding and session windows with late rows, timers by both clocks, a tick, a private
PState, a compound aggregate of windows, a migration of a PState and one of a depot: the module of
``timed_scenario.py``. A dry run counts the storage layer's calls and the points of the protocol,
and keeps what every commit shows. Then lives die at one call, or at two points one after the
other: what lies there is what the last commit showed in the dry run, and the end is the oracle's.
"""

from __future__ import annotations

import errno
import json
import random
import shutil
import time
from collections import Counter
from typing import Any

import pytest
from harness import Zygote, kept_seeds, replay, report, seed, spread, volume, zygote
from timed_oracle import expected, partition_records
from timed_scenario import FAR_MS, PER_ROUND
from trial import scratch

ROUNDS = 5
MODULES = ("timed_scenario", "timed_lives")
SUITE = "timed kills"
EVERY = volume(ci=800, soak=16)
PAIRS = volume(ci=2, soak=24)
DISK_FAULTS = volume(ci=2, soak=24)
ERRORS = (errno.ENOSPC, errno.EIO)


@pytest.fixture(scope="module")
def dry():
    """What an undisturbed life says, by word; its end is the oracle's."""
    root = scratch()
    with zygote(*MODULES) as children:
        ended = children.run("timed_lives:undisturbed", root=str(root), rounds=ROUNDS)
    ended.expect(killed=False, about="the dry run")
    shutil.rmtree(root)
    told = {word: json.loads(ended.said(word)[0]) for word in ("final", "calls", "points", "after")}
    _is_expected(told["final"])
    return told


def _is_expected(found: dict[str, Any], *, clock_is_exact: bool = True) -> None:
    """All is as the oracle says; what a life trimmed of its depot is a beginning of it."""
    for name, wanted in expected(ROUNDS).items():
        if name == "ticks" and not clock_is_exact:
            assert set(found[name].values()) == {1}, f"I3: {name}: {found[name]}"
        else:
            assert found[name] == wanted, f"I3: {name} is {found[name]}, not {wanted}"
    for partition, (start, records) in enumerate(found["clicks"]):
        wanted = partition_records(ROUNDS, partition)
        assert records == wanted[start:], f"I1: clicks {partition} from {start} on: {records}"


def _survives(
    zygote: Zygote,
    deaths: list[tuple[str, dict[str, Any]]],
    dry: dict[str, Any],
    *,
    lose_local: bool,
    about: str,
) -> list[list[Any]]:
    """Die of each in turn (a later one may not be reached any more), then finish."""
    root = scratch()
    died: list[list[Any]] = []
    try:
        for index, (function, arguments) in enumerate(deaths):
            ended = zygote.run(
                f"timed_lives:{function}", root=str(root), rounds=ROUNDS, **arguments
            )
            if index == 0 or ended.status != 0:
                ended.expect(killed=True, about=f"death {index + 1}")
                died += map(json.loads, ended.said("dying"))
                assert len(died) == index + 1, "it died before it was told to"
            looked = zygote.run("timed_lives:check", root=str(root), after=dry["after"])
            looked.expect(killed=False, about=f"what death {index + 1} left")
            if lose_local:
                shutil.rmtree(root / "local", ignore_errors=True)
        final = _finish(zygote, root)
        assert final["commits"] == dry["final"]["commits"], "other commits than undisturbed"
    except AssertionError as error:
        raise AssertionError(f"{about}\n{error}\nkept: {root}") from None
    shutil.rmtree(root)
    return died


def _finish(zygote: Zygote, root: Any, *, clock_is_exact: bool = True) -> dict[str, Any]:
    """Let a last life finish, and two more look: one of them has lost its local state."""
    ended = zygote.run("timed_lives:finish", root=str(root), rounds=ROUNDS)
    ended.expect(killed=False, about="the last life")
    final, *others = (json.loads(ended.said(word)[0]) for word in ("final", "again", "rebuilt"))
    for found in (final, *others):
        _is_expected(found, clock_is_exact=clock_is_exact)
        same = found["ticks"] == final["ticks"] and found["commits"] == final["commits"]
        assert same, f"I8: recovering once more changed it: {found} {final}"
    assert ended.said("findings") == ["[]", "[]"], ended.said("findings")
    return final


def test_the_workload_has_a_bit_of_everything(dry):
    """Else the kills would show nothing."""
    final = dry["final"]
    assert all(final[name] for name in final if name != "waiting"), final
    assert all(final["dropped"])
    assert len(final["slid"]) > len({tuple(each[:3]) for each in final["slid"]}), "none came again"
    assert max(each[3] for each in final["sessions"]) > 1, "no sessions were merged"
    assert max(each[5] for each in final["sessions"]) > 2
    far = [each for each in final["by_clock"] if each[1] >= FAR_MS]
    assert 0 < len(far) < ROUNDS * PER_ROUND // 4, "timers were taken back, and others were not"
    shown = dry["after"]["timed"]
    assert any(each["waiting"] for each in shown)


@pytest.mark.slow
def test_killed_before_any_call_it_ends_as_the_oracle_says(dry):
    """In half of the cases a call that is a write is torn; a third lose their local state."""
    began = time.monotonic()
    total, kinds = dry["calls"]
    assert {"open", "write", "fsync", "link", "unlink", "mkdir"} <= set(kinds), kinds
    offset = random.Random(seed()).randrange(EVERY)
    # calls are not exactly the same in every run, since two threads take part: leave the last ones
    numbers = [*kept_seeds(SUITE), *range(1 + offset, total - total // 50, EVERY)]

    def killed(zygote, number):
        about = f"killed before call {number} of about {total}; {replay('test_timed_kills.py')}"
        death = ("at_call", {"number": number, "torn": number // EVERY % 2 == 0})
        return _survives(zygote, [death], dry, lose_local=number % 3 == 0, about=about)

    outcomes = spread(killed, numbers, *MODULES)
    failed = [(number, said) for number, said in outcomes if isinstance(said, AssertionError)]
    hit = Counter(said[0][0] for _, said in outcomes if not isinstance(said, AssertionError))
    report(SUITE, sum(hit.values()), len(failed), began, calls=total, every=EVERY, kinds=hit)
    assert not failed, f"{len(failed)} of {len(numbers)} failed, the first:\n{failed[0][1]}"


@pytest.mark.slow
def test_killed_twice_it_ends_as_the_oracle_says(dry):
    """At any point of the protocol, then at another while it recovers or later."""
    began = time.monotonic()
    chance = random.Random(seed())
    points = dry["points"]
    cases = [
        (one, chance.randint(1, points[one]), other, chance.randint(1, 2))
        for one, other in (chance.choices(sorted(points), k=2) for _ in range(PAIRS))
    ]

    def killed(zygote, case):
        one, visit, other, second = case
        about = f"killed at {case}; {replay('test_timed_kills.py')}"
        deaths = [
            ("at_point", {"point": one, "visit": visit}),
            ("at_point", {"point": other, "visit": second}),
        ]
        lose_local = cases.index(case) % 3 == 0
        return _survives(zygote, deaths, dry, lose_local=lose_local, about=about)

    outcomes = spread(killed, cases, *MODULES)
    failed = [(case, said) for case, said in outcomes if isinstance(said, AssertionError)]
    deaths = sum(len(said) for _, said in outcomes if not isinstance(said, AssertionError))
    report("timed crash pairs", deaths, len(failed), began, pairs=len(cases))
    assert not failed, f"{len(failed)} of {len(cases)} failed, the first:\n{failed[0][1]}"


@pytest.mark.slow
def test_a_disk_that_refuses_changes_nothing(dry):
    """Full or broken, for one call, for some or for long; also in the middle of the update."""
    began = time.monotonic()
    total, _ = dry["calls"]
    chance = random.Random(seed())
    cases = [
        (chance.randint(1, total), ERRORS[index % 2], (1, 4, 40)[index % 3])
        for index in range(DISK_FAULTS)
    ]

    def refused(zygote, case):
        number, error, times = case
        root = scratch()
        try:
            ended = zygote.run(
                "timed_lives:suffer",
                120.0,
                root=str(root),
                rounds=ROUNDS,
                number=number,
                error=error,
                times=times,
            )
            ended.expect(killed=False, about="the life on that disk")
            _finish(zygote, root, clock_is_exact=False)
        except AssertionError as failure:
            about = f"refused {case}; {replay('test_timed_kills.py')}"
            raise AssertionError(f"{about}\n{failure}\nkept: {root}") from None
        shutil.rmtree(root)
        return json.loads(ended.said("suffered")[0])

    outcomes = spread(refused, cases, *MODULES)
    failed = [(case, said) for case, said in outcomes if isinstance(said, AssertionError)]
    faults = sum(said[0] for _, said in outcomes if not isinstance(said, AssertionError))
    report("timed disk faults", faults, len(failed), began, cases=len(cases))
    assert not failed, f"{len(failed)} of {len(cases)} failed, the first:\n{failed[0][1]}"
