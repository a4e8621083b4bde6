"""Reschedules: every check by its name and in its place, and plans for every kind of change."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from clusters import is_even
from hypothesis import given
from hypothesis import strategies as st

from atoll.errors import RescheduleError, UsageError
from atoll.placement.info import ClusterInfo, Fragment, Worker
from atoll.placement.reschedule.change import Request, UnitChange
from atoll.placement.reschedule.checks import check
from atoll.placement.reschedule.plan import ReschedulePlan, plan
from atoll.placement.reschedule.rebalance import Move, moves_least

SOURCE, COUNT, TOP, TOTAL, YOUNG, PAIR, LAST = range(1, 8)
UNKNOWN = 99
STARTING = {"young"}


def cluster() -> ClusterInfo:
    """Five workers of two units, c cordoned and d gone, and one fragment of every sort.

    The top and the last follow the count; the pair has fewer vnodes than there are units.
    """
    workers = (
        Worker(0, "a", "host", (0, 1)),
        Worker(1, "b", "host", (2, 3)),
        Worker(2, "c", "host", (4, 5), cordoned=True),
        Worker(3, "d", "host", (6, 7), gone=True, cordoned=True),
        Worker(4, "e", "host", (8, 9)),
    )
    eight = (0, 0, 0, 1, 1, 1, 2, 2)
    fragments = (
        Fragment(SOURCE, "words", "source", "source", SOURCE, (), (0, 1, 2)),
        Fragment(COUNT, "words", "count", "hash", COUNT, ("$$counts",), eight),
        Fragment(TOP, "words", "top", "hash", COUNT, ("$$counts", "$$top"), eight),
        Fragment(TOTAL, "sums", "total", "singleton", TOTAL, ("$$total",), (2,)),
        Fragment(YOUNG, "young", "new", "hash", YOUNG, ("$$new",), eight),
        Fragment(PAIR, "sums", "pair", "hash", PAIR, ("$$pair",), (0, 1)),
        Fragment(LAST, "words", "last", "hash", COUNT, ("$$counts", "$$last"), eight),
    )
    policies = {"words": "adaptive", "sums": "fixed(2)", "young": "adaptive"}
    return ClusterInfo(7, workers, fragments, policies, 5, 10, 8)


def request(plans: dict[int, tuple[list[int], list[int]]], **options: Any) -> Request:
    """A request of fragment: (added, removed), at the cluster's revision."""
    changes = {each: UnitChange(tuple(on), tuple(off)) for each, (on, off) in plans.items()}
    return Request(changes, **{"revision": 7, **options})


def refused(info: ClusterInfo, asked: Request, **options: Any) -> RescheduleError:
    """The error that a request gets, alike checked and planned; nothing has changed.

    And it is fit to be read: one line in lower case without a full stop, and what to do.
    """
    before = msgspec.json.encode(info)
    options.setdefault("starting", STARTING)
    with pytest.raises(RescheduleError) as caught:
        check(info, asked, **options)
    with pytest.raises(RescheduleError) as planned:
        plan(info, asked, **options)
    error = caught.value
    assert str(error) == str(planned.value)
    assert msgspec.json.encode(info) == before
    assert "\n" not in error.message
    assert error.message[0].islower()
    assert not error.message.endswith(".")
    assert error.hint
    assert error.context["problem"] in (RescheduleError.__doc__ or "").replace("\n    ", " ")
    return error


def granted(asked: Request, **options: Any) -> ReschedulePlan:
    """The plan that a request gets on the cluster."""
    return plan(cluster(), asked, starting=STARTING, **options)


# The checks, each by its name ---------------------------------------------------------------------


def test_unavailable():
    """While the cluster starts or recovers nothing is taken, and the reason is told."""
    error = refused(cluster(), request({}), unavailable="it is recovering")
    assert error.context == {"problem": "unavailable"}
    assert error.message.endswith("it is recovering")


@pytest.mark.parametrize("asked", [6, 8])
def test_stale_revision(asked: int):
    """Only the current revision; the error says which one that is."""
    error = refused(cluster(), request({}, revision=asked))
    assert error.context == {"problem": "stale revision", "revision": 7, "asked": asked}


@pytest.mark.parametrize("left", [(), (3,)])
def test_no_workers(left: tuple[int, ...]):
    """None at all, or none that has not gone."""
    info = cluster()
    info = msgspec.structs.replace(info, workers=tuple(info.worker(each) for each in left))
    assert refused(info, request({})).context == {"problem": "no workers"}


def test_cordoned_workers_run():
    """With all others gone fragments can still be taken off them, only not put on them."""
    info = cluster().with_owners({COUNT: (4, 5) * 4})
    info = msgspec.structs.replace(info, workers=(info.worker(2), info.worker(3)))
    assert plan(info, request({COUNT: ([], [4])})).owners == {COUNT: (5,) * 8}
    error = refused(info, request({PAIR: ([5], [0])}))
    assert error.context["problem"] == "cordoned worker"


@pytest.mark.parametrize("removed", [[], [4]])
def test_cordoned_worker(removed: list[int]):
    """No new actor comes to it, not even in the place of an old one."""
    error = refused(cluster(), request({PAIR: ([4, 8], removed)}))
    where = {"fragment": PAIR, "unit": 4, "worker": 2}
    assert error.context == {"problem": "cordoned worker", **where}
    assert "fragment 6 (pair)" in error.message
    assert "worker 2 (c)" in error.message


def test_conflicting_changes():
    """Two fragments of one root that ask for different things; with the root, or without."""
    for first, second in ((TOP, LAST), (COUNT, TOP)):
        asked = request({first: ([3], []), second: ([3], [0])}, resolve=True)
        error = refused(cluster(), asked)
        where = {"fragments": [first, second], "root": COUNT}
        assert error.context == {"problem": "conflicting changes", **where}


@pytest.mark.parametrize("resolve", [False, True])
def test_unknown_fragment(resolve: bool):
    """The hint lists what there is."""
    error = refused(cluster(), request({UNKNOWN: ([3], [])}, resolve=resolve))
    assert error.context == {"problem": "unknown fragment", "fragment": UNKNOWN}
    assert error.hint == "there are: 1, 2, 3, 4, 5, 6, 7"


def test_fragment_not_running():
    """Its topology is still starting."""
    error = refused(cluster(), request({YOUNG: ([3], [])}))
    where = {"fragment": YOUNG, "topology": "young"}
    assert error.context == {"problem": "fragment not running", **where}


def test_follows_another():
    """Only the root can be changed; both are named."""
    error = refused(cluster(), request({TOP: ([3], [])}))
    assert error.context == {"problem": "follows another", "fragment": TOP, "root": COUNT}
    assert error.message == "fragment 3 (top) runs where fragment 2 (count) runs"


def test_unit_without_actor():
    """A unit to remove runs no actor of this fragment, though perhaps of another."""
    error = refused(cluster(), request({PAIR: ([], [2])}))
    assert error.context == {"problem": "unit without actor", "fragment": PAIR, "unit": 2}
    assert error.hint == "its actors run on parallel units 0, 1"


@pytest.mark.parametrize("unit", [-1, 10])
def test_unknown_unit(unit: int):
    """A unit that nobody has."""
    error = refused(cluster(), request({COUNT: ([unit], [])}))
    assert error.context == {"problem": "unknown unit", "fragment": COUNT, "unit": unit}


def test_unknown_unit_of_a_worker_that_has_gone():
    """Its unit cannot run; that it was cordoned, too, does not matter any more."""
    error = refused(cluster(), request({COUNT: ([6], [])}))
    assert error.context == {"problem": "unknown unit", "fragment": COUNT, "unit": 6}
    assert error.message.endswith("as worker 3 (d) has gone")


def test_unit_occupied():
    """It runs an actor of the fragment and would not lose it."""
    error = refused(cluster(), request({COUNT: ([3, 1], [0])}))
    assert error.context == {"problem": "unit occupied", "fragment": COUNT, "unit": 1}


@pytest.mark.parametrize(
    ("fragment", "removed"), [(SOURCE, [0, 1, 2]), (COUNT, [0, 1, 2]), (TOTAL, [2])]
)
def test_nothing_left(fragment: int, removed: list[int]):
    """Whatever its kind."""
    error = refused(cluster(), request({fragment: ([], removed)}))
    assert error.context == {"problem": "nothing left", "fragment": fragment}


@pytest.mark.parametrize("change", [([3], []), ([3, 8], [2]), ([2, 3], [2])])
def test_singleton(change: tuple):
    """It runs on one unit, so it moves or stays."""
    error = refused(cluster(), request({TOTAL: change}))
    assert error.context == {"problem": "singleton", "fragment": TOTAL}
    assert "fragment 4 (total)" in error.message


def test_more_units_than_vnodes():
    """A unit without a vnode would have nothing to do."""
    error = refused(cluster(), request({PAIR: ([3], [])}))
    assert error.context == {"problem": "more units than vnodes", "fragment": PAIR}
    assert granted(request({PAIR: ([3, 8], [0, 1])})).owners[PAIR] in ((3, 8), (8, 3))


# Their order --------------------------------------------------------------------------------------

STALE = {"revision": 3}
RESOLVE = {"resolve": True}


@pytest.mark.parametrize(
    ("first", "second", "asked"),
    [
        ("stale revision", "cordoned worker", request({COUNT: ([4], [])}, **STALE)),
        (
            "cordoned worker",
            "conflicting changes",
            request({TOP: ([3], []), LAST: ([4], [])}, **RESOLVE),
        ),
        ("cordoned worker", "unknown fragment", request({UNKNOWN: ([4], [])})),
        (
            "conflicting changes",
            "unknown fragment",
            request({TOP: ([3], []), LAST: ([8], []), UNKNOWN: ([3], [])}, **RESOLVE),
        ),
        ("unit without actor", "unknown unit", request({COUNT: ([10], [9])})),
        ("unknown unit", "unit occupied", request({COUNT: ([0, 10], [])})),
        ("unit without actor", "nothing left", request({COUNT: ([], [0, 1, 2, 3])})),
        ("unit occupied", "singleton", request({TOTAL: ([2], [])})),
        ("unit occupied", "more units than vnodes", request({PAIR: ([0, 3], [])})),
        ("nothing left", "singleton", request({TOTAL: ([], [2])})),
    ],
)
def test_the_earlier_of_two_problems_is_told(first: str, second: str, asked: Request):
    """Neighbours in the order of checks, both in one request (two fragments or one)."""
    assert refused(cluster(), asked).context["problem"] == first, f"not {second}"


def test_the_state_of_the_cluster_comes_first():
    """Unavailable, then the revision, then the workers, then what is asked for."""
    empty = msgspec.structs.replace(cluster(), workers=())
    stale, wrong = request({}, **STALE), request({UNKNOWN: ([3], [])})
    assert refused(empty, stale, unavailable="it starts").context["problem"] == "unavailable"
    assert refused(empty, stale).context["problem"] == "stale revision"
    assert refused(empty, wrong).context["problem"] == "no workers"


@pytest.mark.parametrize("change", [([10], []), ([], [9])])
def test_what_a_fragment_is_comes_before_its_units(change: tuple):
    """Not running before following, and following before any unit."""
    assert refused(cluster(), request({TOP: change})).context["problem"] == "follows another"
    for each in (YOUNG, TOP):
        error = refused(cluster(), request({each: change}), starting={"young", "words"})
        assert error.context["problem"] == "fragment not running"


def test_fragments_are_checked_in_ascending_order():
    """All checks of one fragment come before the first of the next, however it was asked."""
    late, early = (PAIR, ([3], [])), (COUNT, ([1], []))
    for pair in ((late, early), (early, late)):
        assert refused(cluster(), request(dict(pair))).context["problem"] == "unit occupied"
    late, early = (PAIR, ([], [5])), (TOTAL, ([3], []))
    assert refused(cluster(), request(dict((late, early)))).context["problem"] == "singleton"


def test_resolved_changes_are_checked_in_the_order_of_their_roots():
    """The last fragment's change is one of the second."""
    asked = request({PAIR: ([3], []), LAST: ([0], [])}, resolve=True)
    assert refused(cluster(), asked).context["fragment"] == COUNT


def test_a_refusal_of_one_fragment_refuses_all():
    """Good changes beside a bad one are not done."""
    error = refused(cluster(), request({SOURCE: ([3], []), COUNT: ([3], []), PAIR: ([0], [])}))
    assert error.context["problem"] == "unit occupied"


# What is granted ----------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{}, {COUNT: ([], [])}, {COUNT: ([], []), TOTAL: ([], [])}])
def test_nothing_asked_for_is_no_action(changes: dict):
    """Granted, without a new revision, whatever the mapping is like."""
    info = cluster()
    idle = plan(info, request(changes), starting=STARTING)
    assert idle.is_noop
    assert idle.info is info
    assert (idle.owners, idle.moves, idle.vnodes_moved, idle.bytes_moved) == ({}, {}, 0, 0)


def test_scale_out():
    """One unit more takes its share and nobody else's; followers follow, others stay."""
    out = granted(request({COUNT: ([3], [])}))
    assert out.vnodes == {COUNT: {0: (3, 2), 1: (3, 2), 2: (2, 2), 3: (0, 2)}}
    assert out.vnodes_moved == 2
    assert {each.target for each in out.moves[COUNT]} == {3}
    assert not out.is_noop
    assert out.info.revision == 8
    for each in (COUNT, TOP, LAST):
        assert out.info.fragment(each).owners == out.owners[COUNT]
    for each in (SOURCE, TOTAL, YOUNG, PAIR):
        assert out.info.fragment(each) == cluster().fragment(each)


def test_scale_in():
    """What the removed units had goes to those that stay."""
    less = granted(request({COUNT: ([], [0, 2])}))
    assert less.owners == {COUNT: (1,) * 8}
    assert less.vnodes == {COUNT: {0: (3, 0), 1: (3, 8), 2: (2, 0)}}
    assert less.moves[COUNT] == [Move(v, 0, 1) for v in range(3)] + [
        Move(6, 2, 1),
        Move(7, 2, 1),
    ]


def test_migration():
    """A unit for a unit: all others keep every vnode."""
    moved = granted(request({COUNT: ([9], [1])}))
    assert moved.owners == {COUNT: (0, 0, 0, 9, 9, 9, 2, 2)}


def test_leaving_a_cordoned_or_lost_worker():
    """Units of such workers can be removed; so can those that no worker has any more."""
    owners = (0, 0, 5, 5, 6, 6, 77, 77)
    info = cluster().with_owners({COUNT: owners})
    away = plan(info, request({COUNT: ([8, 9], [5, 6, 77])}), {COUNT: [1] * 8})
    assert away.info.fragment(COUNT).units == (0, 8, 9)
    assert away.bytes_moved == away.vnodes_moved == 6


def test_a_singleton_moves():
    """With all that it has; its unit may be rebuilt in place as well."""
    moved = granted(request({TOTAL: ([8], [2])}), sizes={TOTAL: [50]})
    assert moved.owners == {TOTAL: (8,)}
    assert moved.moves == {TOTAL: [Move(0, 2, 8)]}
    assert moved.bytes_moved == 50
    assert granted(request({TOTAL: ([2], [2])})).owners == {TOTAL: (2,)}


def test_a_source_has_units_only():
    """Nothing moves: depots are read from wherever the actors are."""
    wider = granted(request({SOURCE: ([9, 3], [1])}))
    assert wider.owners == {SOURCE: (0, 2, 3, 9)}
    assert (wider.moves, wider.vnodes) == ({SOURCE: []}, {SOURCE: {}})
    assert (wider.vnodes_moved, wider.bytes_moved) == (0, 0)
    assert wider.info.fragment(SOURCE).owners == (0, 2, 3, 9)


def test_rebuilding_in_place_keeps_everything():
    """Nothing moves, yet it is an action with a revision of its own; policies stay."""
    again = granted(request({COUNT: ([1, 0], [0, 1])}))
    assert again.changes[COUNT].rebuilt == (0, 1)
    assert again.info.fragments == cluster().fragments
    assert again.info.policies == cluster().policies
    assert again.vnodes_moved == again.bytes_moved == 0
    assert not again.is_noop
    assert again.info.revision == 8


def test_rebuilding_beside_a_move():
    """A unit in both lists keeps what it has while another comes."""
    both = granted(request({COUNT: ([1, 3], [1, 0])}))
    assert both.owners == {COUNT: (3, 3, 3, 1, 1, 1, 2, 2)}


def test_many_fragments_at_once():
    """One revision for all; each plan is the one that it would get alone."""
    changes = {COUNT: ([3], []), SOURCE: ([3], []), TOTAL: ([3], [2]), PAIR: ([], [1])}
    together = granted(request(changes))
    assert together.info.revision == 8
    for root, change in changes.items():
        alone = granted(request({root: change}))
        assert alone.owners[root] == together.owners[root]
        assert alone.moves[root] == together.moves[root]
    assert list(together.owners) == sorted(changes)


@pytest.mark.parametrize("asked", [[TOP], [LAST, TOP], [COUNT, TOP, LAST]])
def test_followers_change_their_root_when_resolved(asked: list[int]):
    """One of them, or several that agree: the same as asking the root."""
    change = ([3, 8], [1])
    resolved = granted(request(dict.fromkeys(asked, change), resolve=True))
    assert resolved == granted(request({COUNT: change}))


def test_policies_of_what_a_person_moved_become_custom():
    """So that no policy takes it back; a policy's own changes keep it."""
    asked = request({TOTAL: ([3], [2]), COUNT: ([2], [2])})
    by_hand = granted(asked).info.policies
    assert by_hand == {"words": "adaptive", "sums": "custom", "young": "adaptive"}
    assert granted(asked, keep_policies=True).info.policies == cluster().policies
    assert cluster().policies["sums"] == "fixed(2)"


# Bytes --------------------------------------------------------------------------------------------


def test_only_bytes_that_change_worker_count():
    """Unit 3 is beside unit 2, unit 8 is elsewhere."""
    sizes = {COUNT: [10, 20, 30, 40, 50, 60, 70, 80]}
    assert granted(request({COUNT: ([3], [2])}), sizes=sizes).bytes_moved == 0
    assert granted(request({COUNT: ([8], [2])}), sizes=sizes).bytes_moved == 150


def test_small_vnodes_move_first():
    """The plan is made with the sizes, not only counted with them."""
    sizes = {COUNT: [10, 90, 90, 90, 20, 90, 90, 90]}
    out = granted(request({COUNT: ([9], [])}), sizes=sizes)
    assert [each.vnode for each in out.moves[COUNT]] == [0, 4]
    assert out.bytes_moved == 30


def test_vnodes_stay_on_their_worker_where_they_can():
    """What unit 2 gives up goes to unit 3 beside it, though another would take it as well."""
    moved = granted(request({COUNT: ([3, 8], [1, 2])}), sizes={COUNT: [1] * 8})
    assert moved.moves[COUNT][-2:] == [Move(6, 2, 3), Move(7, 2, 3)]
    assert moved.bytes_moved == 3


def test_units_that_no_worker_has_are_apart():
    """Two units that were taken from their workers are not one place."""
    info = cluster().with_owners({COUNT: (77, 77, 77, 77, 78, 78, 78, 78)})
    assert plan(info, request({COUNT: ([], [77])}), {COUNT: [1] * 8}).bytes_moved == 4


def test_bytes_that_are_not_known_are_not_made_up():
    """Unless none changes worker."""
    assert granted(request({COUNT: ([8], [2])})).bytes_moved is None
    assert granted(request({COUNT: ([3], [2])})).bytes_moved == 0
    asked = request({COUNT: ([8], [2]), TOTAL: ([8], [2])})
    assert granted(asked, sizes={TOTAL: [5]}).bytes_moved is None


def test_sizes_of_another_fragment():
    """A size per vnode, or none at all."""
    with pytest.raises(UsageError):
        granted(request({COUNT: ([8], [2])}), sizes={COUNT: [1, 2, 3]})


# Values and any request ---------------------------------------------------------------------------


def test_changes_are_sets():
    """Order and duplicates mean nothing, also when read from JSON."""
    change = UnitChange(added=(3, 1, 3), removed=(2, 0, 2))
    assert change == UnitChange((1, 3), (0, 2))
    assert (change.added, change.removed, change.rebuilt) == ((1, 3), (0, 2), ())
    text = b'{"changes": {"2": {"added": [3, 1, 3], "removed": [2, 0]}}, "revision": 7}'
    assert msgspec.json.decode(text, type=Request) == Request({2: change}, 7)


SOME_UNITS = st.lists(st.integers(-1, 11), max_size=4).map(tuple)
REQUESTS = st.builds(
    Request,
    st.dictionaries(st.integers(0, 8), st.builds(UnitChange, SOME_UNITS, SOME_UNITS), max_size=4),
    st.just(7),
    st.booleans(),
)


@given(REQUESTS)
def test_any_request_is_refused_or_done(asked: Request):
    """A granted one gives each root the units asked for, evenly, by the fewest moves."""
    info = cluster()
    try:
        done = plan(info, asked)
    except RescheduleError:
        return
    for root, change in done.changes.items():
        fragment, after = info.fragment(root), done.info.fragment(root)
        assert after.units == change.apply(fragment.units)
        assert done.owners[root] == after.owners
        if fragment.kind != "source":
            assert is_even(after.mapping)
            least = moves_least(fragment.mapping, change.added, change.removed)
            assert len(done.moves[root]) == least
    assert all(each.owners == done.info.fragment(each.root).owners for each in done.info.fragments)
    assert done == plan(info, asked)


CHANGES = st.builds(UnitChange, SOME_UNITS, SOME_UNITS)


@given(REQUESTS, st.integers(0, 8), CHANGES)
def test_a_granted_request_ends_its_revision(asked: Request, fragment: int, change: UnitChange):
    """Whoever looked at the cluster before has to look again; one of nothing ends nothing."""
    try:
        done = plan(cluster(), asked)
    except RescheduleError:
        return
    later = Request({fragment: change}, 7)
    if done.is_noop:
        assert done.info == cluster()
    else:
        assert refused(done.info, later).context["problem"] == "stale revision"
