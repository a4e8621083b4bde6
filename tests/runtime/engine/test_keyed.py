"""Which state can be moved by key, and which groups move: pure decisions."""

from __future__ import annotations

import itertools

import pytest

from atoll.runtime.definition.read import read_definition
from atoll.runtime.engine.intake import copy_of_vnode, key_vnode
from atoll.runtime.engine.keyed import doubled, owner_of, strays, unmovable
from atoll.runtime.engine.program import program_of

SUM = {"name": "sum", "type": "stats", "params": {"field": "v"}, "group": {"by": "k"}}


def actor(name, kind, **params):
    """An actor of a definition."""
    return {"name": name, "type": kind, "params": params}


def reason(*before, last=SUM, by="k"):
    """Why the state of the last of some actors in a row cannot be moved."""
    actors = [actor("in", "httpbroadcast"), *before, last]
    names = [each["name"] for each in actors]
    links = [{"from": a, "to": b} for a, b in itertools.pairwise(names)]
    distribution = {"by": by} if by else {}
    whole = {"name": "r", "actors": actors, "links": links, "distribution": distribution}
    return unmovable(program_of("r", read_definition(whole), 2))


TABLE = {"a": {"x": 1}, "b": {"y": 2}}


@pytest.mark.parametrize(
    "before",
    [
        actor("m", "threshold", key="v", threshold=1),
        actor("m", "sample", fraction=0.5),
        actor("m", "minmax", field="v", min=0, max=1),
        actor("m", "linearregression", intercept=0, weights={"v": 1}),
        actor("m", "json", template={"k": "${k}", "v": 1}),
        actor("m", "lookup", key="c", function="enrich", lookup=TABLE, default={"x": 2}),
        actor("m", "lookup", key="c", function="filter", lookup={"a": {"k": 1}}),
        actor("m", "tabulate", dimensions=["k"], value="v", functions=["sum"])
        | {"group": {"by": "k"}},
    ],
)
def test_what_passes_the_key_on_lets_state_behind_it_move(before):
    """The field reaches the actor as it came in."""
    assert reason(before) is None


@pytest.mark.parametrize(
    "before",
    [
        actor("m", "minmax", field="k", min=0, max=1),
        actor("m", "linearregression", intercept=0, weights={"v": 1}, outcome="k"),
        actor("m", "json", template={"k": "${c}"}),
        actor("m", "json", template={"v": "${v}"}),
        actor("m", "lookup", key="c", function="enrich", lookup={"a": {"k": 1}}),
        actor("m", "lookup", key="c", function="enrich", lookup=TABLE, default={"k": 2}),
        actor("m", "lookup", key="c", function="check", lookup=TABLE),
        actor("m", "lookup", key="c", function="filter", lookup=TABLE, default={"x": 2}),
        actor("m", "function", function="v", outputfield="k"),
        actor("m", "httpclient", mode="static", response="emit", method="GET", url="http://a"),
    ],
)
def test_what_may_change_the_key_keeps_state_behind_it_where_it_is(before):
    """Also at a distance: what it emits passes another actor."""
    assert "may have another 'k'" in reason(before)
    assert "may have another 'k'" in reason(before, actor("n", "sample", fraction=1))


def test_a_dotted_name_in_a_template_is_a_path_and_no_field():
    """``${a.b}`` is the field b of an object, and the key the field "a.b"."""
    made = actor("m", "json", template={"a.b": "${a.b}"})
    assert reason(made, last={**SUM, "group": {"by": "a.b"}}, by="a.b") is not None


def test_state_that_is_not_by_the_key_has_no_copy_to_go_to():
    """Round robin, no groups, groups by another field."""
    assert "round robin" in reason(by=None)
    assert "is not grouped by 'k'" in reason(last={**SUM, "group": {"by": "c"}})
    assert "is not grouped by 'k'" in reason(last={n: v for n, v in SUM.items() if n != "group"})


def test_strays_are_the_groups_that_another_copy_owns():
    """All of them, once, with what is kept; offers, failures and what is of no group stay."""
    groups = {f"={at}": f"kept {at}" for at in range(50)}
    states = {1: {"sum": {0: {"": "seen", **groups}, -1: {"": "offer"}}, "": {-3: {"": "life"}}}}
    assert doubled(states) is None
    found = list(strays(states, 3))
    owners = {str(at): copy_of_vnode(key_vnode(str(at)), 3) for at in range(50)}
    assert {(owner, group) for owner, _, _, group, _ in found} == {
        (owner, group) for group, owner in owners.items() if owner != 1
    }
    assert {kept for *_, kept in found} <= set(groups.values())
    assert list(strays(states, 1)) == []
    assert owner_of("7", 3) == owners["7"]


def test_a_group_in_two_copies_is_found():
    """Of the same instance: another instance's is another state."""
    states = {1: {"s": {0: {"=a": "x"}, 1: {"=b": "x"}}}, 2: {"s": {0: {"=b": "x", "=a": "y"}}}}
    assert doubled(states) == ("s", "a", [1, 2])
    del states[2]["s"][0]["=a"]
    assert doubled(states) is None
