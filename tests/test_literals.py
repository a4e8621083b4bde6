"""Values in expressions: each says what it is, and nothing in a text can end it."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import pytest

import atoll
from atoll import Map, agg, lit, start
from atoll.errors import DeclarationError
from atoll.literals import shown
from atoll.testing import TopologyTestDriver

AWARE = dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.timezone(dt.timedelta(hours=1)))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("all", "'all'"),
        ("it's \\ 'x'", "'it\\'s \\\\ \\'x\\''"),
        (7, "7"),
        (-(2**63) + 1, str(-(2**63) + 1)),
        (True, "true"),
        (None, "NULL"),
        (1.5, "1.5D"),
        (float("nan"), "double('nan')"),
        (Decimal("1.50"), "1.50BD"),
        (dt.date(2026, 1, 2), "DATE'2026-01-02'"),
        (AWARE, "TIMESTAMP'2026-01-02 02:04:05.000006Z'"),
        (b"\x01\xff", "X'01ff'"),
        (uuid.UUID(int=1), "'00000000-0000-0000-0000-000000000001'"),
    ],
)
def test_each_value_has_its_text(value, text):
    """As Spark reads it."""
    assert lit(value) == text


TEXTS = ["all", 'say "x"', "ä\n\t", "", "a; -- b", "/* c */"]
ODD = ["it's", "'", "x' OR 'y", "a\\b", "\\", "\\'", "both ' and \"", "\\\\' OR '"]
"""Which only Spark computes."""


@pytest.mark.parametrize("value", TEXTS + ODD)
def test_a_text_is_shown_as_it_is_written(value):
    """In errors, and where a target is shown."""
    assert shown(lit(value)) == f"lit({value!r})"


@pytest.mark.parametrize("value", TEXTS)
def test_a_text_is_itself(value):
    """Computed where it is a key and where it is a column; shown as it is written."""
    module = atoll.Module("values")
    depot = module.depot("depot", "v long")
    mb = module.microbatch("mb", vnode_count=1)
    totals = mb.pstate("totals", Map(str, Map(str, int)))
    rows = mb.source(depot, start_from=start.beginning()).with_columns(kind=lit(value), one=1)
    rows.aggregate(totals[lit(value)]["kind"], agg.sum("one"))
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.app.wait(driver.depot("depot").append([{"v": 1}, {"v": 2}]))
        assert driver.pstate("totals").get() == {value: {value: 2}}


def test_numbers_stand_for_themselves():
    """As keys and as columns; a text is always an expression."""
    module = atoll.Module("numbers")
    depot = module.depot("depot", "v long")
    mb = module.microbatch("mb", vnode_count=1)
    totals = mb.pstate("totals", Map(int, int))
    rows = mb.source(depot, start_from=start.beginning())
    rows.aggregate(totals[7], agg.sum("v"))
    assert repr(totals[7]) == 'totals["7"]'
    assert repr(mb.pstate("x", Map(str, int))[lit("all")]) == "x[lit('all')]"
    with pytest.raises(DeclarationError, match=r"totals\[''\]: a part is an expression"):
        totals[""]
    with pytest.raises(DeclarationError, match="cannot stand"):
        rows.with_columns(a=object())
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.app.wait(driver.depot("depot").append([{"v": 1}, {"v": 2}]))
        assert driver.pstate("totals").get() == {7: 3}
