"""What functions must not give: each error says what to write."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import atoll
from atoll import Map, start
from atoll.errors import DeclarationError, TopologyFailedError
from atoll.testing import TopologyTestDriver


@dataclass
class Out:
    """A row."""

    v: int


def returns(row, *_):
    """One row."""
    return {"v": row.v}


def yields(row, *_):
    """One row."""
    yield {"v": row.v}


def yields_and_returns(row, *_):
    """Both: what is returned would be lost."""
    yield {"v": row.v}
    return {"v": row.v}


def only_returns(row, *_):
    """A generator that returns its row."""
    if row.v < 0:
        yield None
    return Out(row.v)


def nothing(_row, *_):
    """None."""


@pytest.mark.parametrize(
    ("method", "function", "emits", "problem", "hint"),
    [
        ("process", returns, "v long", "returned a row", "write yield"),
        ("process", yields_and_returns, "v long", "returned a row", "write yield"),
        ("process", only_returns, "v long", "returned a row", "write yield"),
        ("process", only_returns, None, "returned a row", "write yield"),
        ("process", yields, None, "declares no emits=", 'emits="v long"'),
        ("flat_map", returns, "v long", "returned a row", "yield it"),
        ("flat_map", yields_and_returns, "v long", "returned a row", "yield it"),
        ("flat_map", nothing, "v long", "returned None", "[] for none"),
        ("map", yields, "v long", "returned a generator", "flat_map"),
        ("map", nothing, "v long", "returned None", "return a row"),
    ],
)
def test_the_error_says_what_to_write(method, function, emits, problem, hint):
    """At once: the same rows would bring it again."""
    module = atoll.Module("given")
    depot = module.depot("depot", "v long")
    mb = module.microbatch(
        "mb", vnode_count=1, options={"topology.microbatch.retry.max.attempts": 1}
    )
    rows = mb.source(depot, start_from=start.beginning())
    if method == "process":
        state = mb.pstate("state", Map(int, int))
        rows.process(function, key="v", states=[state], emits=emits)
    else:
        getattr(rows, method)(function, emits=emits).append_to(module.depot("out", "v long"))
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot("depot").append({"v": 1})
        with pytest.raises(TopologyFailedError, match=problem) as raised:
            driver.microbatch()
        assert hint in raised.value.hint
        assert raised.value.context.get("line") is None


def test_timers_need_on_timer():
    """Told where the step is declared."""
    mb = atoll.Module("timed").microbatch("mb")
    rows = mb.source(mb.module.depot("depot", "v long"))
    with pytest.raises(DeclarationError, match="3 arguments") as raised:
        rows.process(
            lambda row, state: None,
            key="v",
            states=[mb.pstate("s", Map(int, int))],
            on_timer=lambda timer, state, timers: None,
        )
    assert "timers" in raised.value.hint
    with pytest.raises(DeclarationError, match="2 arguments") as raised:
        rows.process(
            lambda row, state, timers: None, key="v", states=[mb.pstate("t", Map(int, int))]
        )
    assert "on_timer=" in raised.value.hint


def test_columns_may_stand_beside_those_of_the_row():
    """A star in emits=: all columns of the row, those of the same name replaced, others behind."""
    module = atoll.Module("beside")
    depot = module.depot("depot", "k string, v long", is_global=True)
    out = module.depot("out", "k string, v double, ok boolean, n long", is_global=True)
    same = module.depot("same", "k string, v long", is_global=True)
    mb = module.microbatch("mb", vnode_count=1)
    state = mb.pstate("state", dict[str, int])

    def spoil(row):
        row.k = "changed"
        yield {"v": row.v / 2}
        yield {"v": None, "k": "b"}

    def count(row, state):
        state[row.k] = state.get(row.k, 0) + 1
        yield {"n": state[row.k]}

    rows = mb.source(depot, start_from=start.beginning())
    rows = rows.flat_map(spoil, emits="*, v double")
    rows = rows.map(lambda row: {"ok": row.v is not None}, emits="*, ok boolean")
    rows.process(count, key="upper(k)", states=[state], emits="*,n long").append_to(out)
    mb.source(depot, start_from=start.beginning()).map(lambda row: {}, emits="*").append_to(same)
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.app.wait(driver.depot(depot).append([{"k": "a", "v": 3}]))
        assert atoll.rows(driver.depot(out).read(0, 0, 2)) == [
            {"k": "a", "v": 1.5, "ok": True, "n": 1},
            {"k": "b", "v": None, "ok": False, "n": 1},
        ]
        assert atoll.rows(driver.depot(same).read(0, 0, 1)) == [{"k": "a", "v": 3}]


def test_a_star_stands_only_where_rows_are_added_to():
    """Batches are given whole, and questions add already."""
    mb = atoll.Module("star").microbatch("mb")
    rows = mb.source(mb.module.depot("depot", "v long"))
    with pytest.raises(DeclarationError, match="cannot stand in emits="):
        rows.map_batches(lambda batches: batches, emits="*, n long")
