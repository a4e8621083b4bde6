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
