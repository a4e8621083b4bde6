"""Which units fragments get, and what has to change when the cluster does."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection

import msgspec
import pytest
from clusters import lose
from hypothesis import given, settings
from hypothesis import strategies as st

from atoll.errors import AtollError
from atoll.placement.info import ClusterInfo, Fragment, Worker
from atoll.placement.mapping import Mapping
from atoll.placement.policies.policy import parse_policy, target
from atoll.placement.reschedule.change import Request, UnitChange
from atoll.placement.reschedule.plan import plan
from atoll.placement.reschedule.replan import choose_units, replan
from atoll.placement.workers import cordon, join, uncordon


def cluster(*sizes: int) -> ClusterInfo:
    """A cluster of workers w0, w1, ... with so many units each, ids from 0 on."""
    info = ClusterInfo()
    for number, size in enumerate(sizes):
        info = join(info, f"w{number}", "here", size)
    return info


def with_fragments(info: ClusterInfo, *fragments: Fragment, **policies: str) -> ClusterInfo:
    """The cluster with these fragments, and the policies of their topologies."""
    return msgspec.structs.replace(info, fragments=fragments, policies=policies)


def hash_fragment(number: int, units: Collection[int], vnodes: int = 16, **other) -> Fragment:
    """A hash fragment of topology ``t``, even over the units; a root unless told."""
    owners = Mapping.even(vnodes, units).units
    values = {"topology": "t", "name": f"f{number}", "root": number, "pstates": (), **other}
    return Fragment(id=number, kind="hash", owners=owners, **values)


def source(number: int, *units: int) -> Fragment:
    """A source fragment of topology ``t``."""
    return Fragment(number, "t", f"f{number}", "source", number, (), units)


def singleton(number: int, unit: int) -> Fragment:
    """A singleton fragment of topology ``t``."""
    return Fragment(number, "t", f"f{number}", "singleton", number, (), (unit,))


def after(info: ClusterInfo, changes: dict[int, UnitChange]) -> ClusterInfo:
    """The cluster after the changes, which a reschedule must find nothing against."""
    if not changes:
        return info
    return plan(info, Request(changes, info.revision), keep_policies=True).info


@st.composite
def choices(draw: st.DrawFn) -> tuple[ClusterInfo, int, set[int]]:
    """A cluster with gone and cordoned workers, a count, and the units of a fragment."""
    workers, unit = [], 0
    for number, size in enumerate(draw(st.lists(st.integers(1, 4), max_size=5))):
        units = tuple(range(unit, unit + size))
        gone, cordoned = draw(st.sampled_from([(False, False), (False, True), (True, False)]))
        workers.append(Worker(number, f"w{number}", "here", units, gone, cordoned))
        unit += size
    current = draw(st.sets(st.integers(0, unit + 2)))
    return ClusterInfo(workers=tuple(workers)), draw(st.integers(0, unit + 2)), current


def one_by_one(info: ClusterInfo, count: int, current: set[int]) -> tuple[int, ...]:
    """What :func:`choose_units` promises, one unit after the other."""
    owner = {unit: worker for worker in info.workers for unit in worker.units}
    chosen = current & set(info.live_units())
    while True:
        taken = Counter(owner[unit].id for unit in chosen)
        free = set(info.schedulable_units()) - chosen
        if len(chosen) > count:
            chosen.remove(
                max(chosen, key=lambda u: (owner[u].cordoned, taken[owner[u].id], owner[u].id, u))
            )
        elif len(chosen) < count and free:
            chosen.add(min(free, key=lambda u: (taken[owner[u].id], owner[u].id, u)))
        else:
            return tuple(sorted(chosen))


@settings(max_examples=300)
@given(choices())
def test_units_are_chosen_as_one_by_one(drawn: tuple) -> None:
    """From the emptiest worker, given up at the fullest, cordoned ones first."""
    info, count, current = drawn
    assert one_by_one(info, count, current) == choose_units(info, count, current)


@given(choices())
def test_chosen_units_may_run_and_change_least(drawn: tuple) -> None:
    """Live ones, new ones schedulable, as many as asked if there are, and the fewest changes."""
    info, count, current = drawn
    chosen = set(choose_units(info, count, current))
    stay = current & set(info.live_units())
    usable = stay | set(info.schedulable_units())
    assert chosen <= usable
    assert len(chosen) == min(count, len(usable))
    assert len(chosen - current) == max(0, len(chosen) - len(stay))
    assert chosen == set(choose_units(info, count, chosen)), "a second look changes nothing"
    assert choose_units(info, count, current) == choose_units(info, count, sorted(current)[::-1])


@given(choices(), st.data())
def test_growing_and_shrinking_take_the_same_way(drawn: tuple, data: st.DataObject) -> None:
    """Units that were added are those given up again."""
    info, count, _ = drawn
    info = msgspec.structs.replace(
        info, workers=tuple(msgspec.structs.replace(w, cordoned=False) for w in info.workers)
    )
    few = choose_units(info, count, ())
    many = choose_units(info, count + data.draw(st.integers(0, 9)), few)
    assert few == choose_units(info, count, many)


def test_cordoned_units_are_given_up_first() -> None:
    """Even where another worker has more of them."""
    info = cordon(cluster(3, 2), [1])
    assert choose_units(info, 3, [0, 1, 2, 3]) == (0, 1, 2)
    assert choose_units(info, 5, [0, 3]) == (0, 1, 2, 3)


def test_units_that_hold_least_are_given_up() -> None:
    """Where workers hold as many, the lightest unit of them goes, whatever its id."""
    info = cluster(2, 2)
    held = {0: 10, 1: 30, 2: 20, 3: 5}
    assert choose_units(info, 3, [0, 1, 2, 3], held) == (0, 1, 2)
    assert choose_units(info, 2, [0, 1, 2, 3], held) == (1, 2)
    assert choose_units(info, 1, [0, 1, 2, 3], held) == (1,)
    assert choose_units(info, 3, [0, 1, 2, 3], {**held, 0: 1}) == (1, 2, 3)
    uneven = cluster(3, 1)  # the fuller worker gives up its lightest, not the lightest of all
    assert choose_units(uneven, 3, [0, 1, 2, 3], held) == (1, 2, 3)


# ---------------------------------------------------------------------------------- replanning


def test_adaptive_grows_and_shrinks_with_the_cluster() -> None:
    """A worker joins: its units are used. It is lost: they are no longer."""
    alone = with_fragments(cluster(2), source(1, 0, 1), hash_fragment(2, [0, 1]))
    assert replan(alone) == {}
    joined = join(alone, "w1", "here", 2)
    grown = UnitChange(added=(2, 3))
    assert replan(joined) == {1: grown, 2: grown}
    both = after(joined, replan(joined))
    shrunk = UnitChange(removed=(2, 3))
    assert replan(lose(both, "w1")) == {1: shrunk, 2: shrunk}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("adaptive", {1: UnitChange(added=(2, 3, 4, 5))}),
        ("fixed(3)", {1: UnitChange(added=(2,))}),
        ("bounded(4)", {1: UnitChange(added=(2, 4))}),
        ("ratio(0.5)", {1: UnitChange(added=(2,))}),
        ("ratio(0.1)", {1: UnitChange(removed=(1,))}),
        ("fixed(1)", {1: UnitChange(removed=(1,))}),
        ("fixed(2)", {}),
        ("custom", {}),
        ("fixed(99)", {1: UnitChange(added=(2, 3, 4, 5))}),
    ],
)
def test_each_policy_asks_for_its_count(policy: str, expected: dict) -> None:
    """Two units on the first of three workers with two each; growth goes to the emptiest."""
    info = with_fragments(cluster(2, 2, 2), hash_fragment(1, [0, 1]), t=policy)
    assert replan(info) == expected


@pytest.mark.parametrize("policy", ["adaptive", "fixed(4)", "bounded(4)", "ratio(0.5)", "custom"])
def test_gone_units_are_replaced_under_every_policy(policy: str) -> None:
    """Four of eight units, two of them on a lost worker; the others take over for all four."""
    fragment = hash_fragment(1, [0, 1, 2, 3])
    info = with_fragments(lose(cluster(2, 2, 4), "w1"), fragment, t=policy)
    chosen = UnitChange(added=(4, 5, 6, 7) if policy == "adaptive" else (4, 5), removed=(2, 3))
    if policy == "ratio(0.5)":  # of the six that are left
        chosen = UnitChange(added=(4,), removed=(2, 3))
    assert replan(info) == {1: chosen}


def test_custom_keeps_its_count_while_there_are_units() -> None:
    """Losing units without others to take over shrinks it; what comes later is not its own."""
    info = lose(with_fragments(cluster(2, 2), hash_fragment(1, [0, 1, 2, 3]), t="custom"), "w1")
    assert replan(info) == {1: UnitChange(removed=(2, 3))}
    small = after(info, replan(info))
    assert replan(join(small, "w1", "here", 2)) == {}


def test_no_more_units_than_vnodes() -> None:
    """A fragment of few vnodes leaves units unused; a source has no such limit."""
    info = with_fragments(cluster(8), hash_fragment(1, [0, 1], vnodes=3), source(2, 0))
    assert replan(info) == {
        1: UnitChange(added=(2,)),
        2: UnitChange(added=(1, 2, 3, 4, 5, 6, 7)),
    }


def test_only_the_topologies_asked_for() -> None:
    """And only roots: a follower goes where its root goes."""
    mine = hash_fragment(1, [0])
    follower = hash_fragment(2, [0], root=1)
    other = hash_fragment(3, [0], topology="u")
    info = with_fragments(cluster(2), mine, follower, other)
    grown = UnitChange(added=(1,))
    assert replan(info) == {1: grown, 3: grown}
    assert replan(info, ["t"]) == {1: grown}
    assert replan(info, []) == {}


@pytest.mark.parametrize("policy", ["adaptive", "fixed(3)", "bounded(3)", "ratio(0.75)", "custom"])
def test_a_cordon_alone_changes_nothing(policy: str) -> None:
    """Nor does taking it back; what a cordoned worker has stays, and it gets nothing new."""
    units = [0, 1, 2, 3] if policy == "adaptive" else [0, 1, 2]
    info = with_fragments(cluster(2, 2), hash_fragment(1, units), singleton(2, 3), t=policy)
    assert replan(info) == {}
    cordoned = cordon(info, [1])
    assert replan(cordoned) == {}
    assert replan(uncordon(cordoned, [1])) == {}
    grown = join(cordoned, "w2", "here", 1)
    added = {unit for change in replan(grown).values() for unit in change.added}
    assert added <= {4}


def test_a_cordoned_worker_gives_up_first() -> None:
    """And takes over for nobody, even if the topology must do with less."""
    info = cordon(with_fragments(cluster(2, 2), hash_fragment(1, [0, 1, 2]), t="fixed(2)"), [0])
    assert replan(info) == {1: UnitChange(removed=(1,))}
    lost = cordon(
        lose(with_fragments(cluster(2, 2), hash_fragment(1, [0, 2]), t="custom"), "w0"), [1]
    )
    assert replan(lost) == {1: UnitChange(removed=(0,))}


def test_the_lightest_units_are_given_up() -> None:
    """With sizes a smaller count costs the fewest bytes."""
    fragment = hash_fragment(1, [0, 1, 2, 3], vnodes=4)
    info = with_fragments(cluster(4), fragment, t="fixed(3)")
    assert replan(info) == {1: UnitChange(removed=(3,))}
    assert replan(info, sizes={1: [5, 2, 9, 7]}) == {1: UnitChange(removed=(1,))}


# ---------------------------------------------------------------------------------- singletons


def test_singletons_move_only_when_their_unit_is_gone() -> None:
    """Whatever joins, and whatever the policy; then to the unit with the fewest actors."""
    info = with_fragments(cluster(1, 1), singleton(1, 1), source(2, 0, 1), t="adaptive")
    joined = join(info, "w2", "here", 1)
    assert replan(joined) == {2: UnitChange(added=(2,))}
    lost = lose(joined, "w1")
    moved = {
        1: UnitChange(added=(0,), removed=(1,)),
        2: UnitChange(added=(2,), removed=(1,)),
    }
    assert replan(lost) == moved


def test_singletons_share_what_is_left() -> None:
    """Several of one lost unit spread; actors planned in the same look count, followers too."""
    alone = [singleton(number, 0) for number in range(1, 5)]
    info = lose(with_fragments(cluster(1, 2), *alone), "w0")
    assert [replan(info)[number].added for number in range(1, 5)] == [(1,), (2,), (1,), (2,)]
    busy = [hash_fragment(5, [1]), hash_fragment(6, [1], root=5)]
    info = lose(with_fragments(cluster(1, 2), *alone, *busy, t="custom"), "w0")
    assert [replan(info)[number].added for number in range(1, 5)] == [(2,), (2,), (1,), (2,)]


def test_singletons_go_where_others_leave_room() -> None:
    """What the same look adds and takes away counts, with the followers of what it moves."""
    moved = [hash_fragment(1, [0]), hash_fragment(2, [0], root=1), source(3, 2)]
    info = lose(with_fragments(cluster(1, 2), *moved, singleton(4, 0), t="custom"), "w0")
    assert replan(info)[1].added == (1,)
    assert replan(info)[4].added == (2,)
    shrunk = lose(
        with_fragments(cluster(1, 2), source(3, 1, 2), singleton(4, 0), t="fixed(1)"), "w0"
    )
    assert replan(shrunk)[3].removed == (2,)
    assert replan(shrunk)[4].added == (2,)


def test_a_singleton_goes_to_no_cordoned_worker() -> None:
    """It stays under a cordon, and when its unit is gone it goes elsewhere or waits."""
    info = with_fragments(cluster(1, 1, 1), singleton(1, 0))
    assert replan(cordon(info, [0])) == {}
    assert replan(cordon(lose(info, "w0"), [1])) == {1: UnitChange(added=(2,), removed=(0,))}
    assert replan(cordon(lose(info, "w0"), [1, 2])) == {}


# ---------------------------------------------------------------------------------- the whole


@pytest.mark.parametrize("policy", ["adaptive", "fixed(2)", "bounded(2)", "ratio(0.5)", "custom"])
def test_without_any_unit_a_topology_waits(policy: str) -> None:
    """All workers lost: no change; one comes back under its name: all is as it was for it."""
    fragments = (source(1, 0, 1), hash_fragment(2, [0, 1]), singleton(3, 0))
    info = with_fragments(cluster(2), *fragments, t=policy)
    lost = lose(info, "w0")
    assert replan(lost) == {}
    back = replan(join(lost, "w0", "there", 2))
    assert {change.added for change in back.values()} <= {()}
    assert replan(ClusterInfo(fragments=fragments)) == {}


def test_a_policy_that_is_none_is_told() -> None:
    """A damaged cluster info is no reason to guess."""
    info = with_fragments(cluster(1), hash_fragment(1, [0]), t="lots")
    with pytest.raises(AtollError, match="'lots' is no policy"):
        replan(info)


def random_event(rng: random.Random, info: ClusterInfo) -> ClusterInfo:
    """The cluster after a worker joined, came back, was lost, or was cordoned or not."""
    name = f"w{rng.randrange(5)}"
    known = [worker.id for worker in info.workers if worker.name == name]
    match rng.choice(["join", "join", "lose", "cordon", "uncordon", "policy"]):
        case "lose" if known:
            return lose(info, name)
        case "cordon" if known:
            return cordon(info, known)
        case "uncordon" if known:
            return uncordon(info, known)
        case "policy":
            text = rng.choice(["adaptive", "fixed(3)", "bounded(5)", "ratio(0.4)", "custom"])
            return msgspec.structs.replace(info, policies={"t": text})
    return join(info, name, "here", rng.randint(1, 4))


def check_settled(before: ClusterInfo, info: ClusterInfo) -> None:
    """What holds once the changes of a look at the cluster are made."""
    live = set(info.live_units())
    assert replan(info) == {}, "a second look asks for nothing"
    for fragment in info.roots():
        units, was = set(fragment.units), set(before.fragment(fragment.id).units)
        may = (live & was) | set(info.schedulable_units())
        assert units <= live if may else units == was
        assert units - was <= set(info.schedulable_units())
        if may and fragment.kind != "singleton":
            policy = parse_policy(info.policies["t"], custom_allowed=True)
            cap = None if fragment.kind == "source" else len(fragment.owners)
            assert len(units) == min(target(policy, len(live), cap, len(was)), len(may))
        if fragment.kind == "singleton" and was <= live:
            assert units == was


@pytest.mark.parametrize("seed", range(4))
def test_random_lives_of_a_cluster(seed: int) -> None:
    """Every change passes the checks of a reschedule, settles at once, and runs on live units."""
    rng = random.Random(seed)
    fragments = (
        source(1, 0, 1),
        hash_fragment(2, [0, 1], vnodes=32),
        hash_fragment(3, [0, 1], vnodes=32, root=2),
        hash_fragment(4, [0], vnodes=3),
        singleton(5, 0),
        singleton(6, 1),
    )
    info = with_fragments(cluster(2), *fragments, t="adaptive")
    for _ in range(400):
        before = random_event(rng, info)
        info = after(before, replan(before))
        check_settled(before, info)


def test_a_count_in_the_place_of_the_present_one() -> None:
    """Within what the policy allows, and as far as there are units."""
    info = with_fragments(cluster(4, 4), hash_fragment(1, (0, 1)), t="load(1,6)")
    for count, units in ((4, 4), (1, 1), (9, 6)):
        changes = replan(info, ["t"], counts={"t": count})
        assert len(changes[1].apply((0, 1))) == units
    assert replan(info) == {}
