"""Plans as text: the grammar, its round trip, and slips that are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll.errors import UsageError
from atoll.placement.reschedule.change import UnitChange
from atoll.placement.reschedule.text import format_plan, parse_plan

EXAMPLE = {
    12: UnitChange(added=(5,), removed=(0, 3)),
    13: UnitChange(removed=(4,)),
    14: UnitChange(added=(2,)),
}
UNITS = st.lists(st.integers(0, 10**18 - 1), max_size=5).map(tuple)
CHANGES = st.builds(UnitChange, UNITS, UNITS)
PLANS = st.dictionaries(st.integers(0, 10**18 - 1), CHANGES, max_size=5)


@pytest.mark.parametrize(
    "text",
    [
        "12-[0,3]+[5];13-[4];14+[2]",
        "14+[2];13-[4];12-[0,3]+[5]",
        "  12 - [ 0 , 3 ]\t+ [ 5 ] ;\n13-[4] ; 14 +[2]\n",
        "012-[3,0,3]+[05];13-[4,4];14+[2,2]",
    ],
)
def test_the_example(text: str):
    """In any order, with white space, leading zeros and ids twice."""
    assert parse_plan(text) == EXAMPLE


def test_the_canonical_form():
    """Ascending fragments and units, removed before added, no white space."""
    assert format_plan(dict(reversed(EXAMPLE.items()))) == "12-[0,3]+[5];13-[4];14+[2]"


@given(PLANS)
def test_round_trip(changes: dict[int, UnitChange]):
    """What is written is read back; changes of nothing are not written."""
    asked = {fragment: change for fragment, change in changes.items() if change != UnitChange()}
    text = format_plan(changes)
    assert asked == (parse_plan(text) if text else {})


@given(st.text("0129-+[],; x\n", max_size=20))
def test_any_text_is_read_or_refused(text: str):
    """Never another error; what is read is written to mean the same."""
    try:
        changes = parse_plan(text)
    except UsageError:
        return
    assert changes == parse_plan(format_plan(changes))


@pytest.mark.parametrize(
    "item",
    [
        "",
        " ",
        "x",
        "-[1]",
        "+[1]",
        "a-[1]",
        "-1-[1]",
        "12-[]",
        "12+[]",
        "12-[1]+[]",
        "12-[1,]",
        "12-[,1]",
        "12-[1",
        "12-1",
        "12+[5]-[3]",
        "12-[1]-[2]",
        "12+[1]+[2]",
        "12-[1]+[2]+[3]",
        "12-[-1]",
        "12-[1.5]",
        "12-[0x1]",
        "12-[1]x",
        "12:-[1]",
        "1 2-[1]",
        "12-[1 2]",
        "١٢-[1]",
        "12-[1000000000000000000]",
        pytest.param("1" * 5000 + "-[1]", id="5000 digits"),
    ],
)
def test_items_that_cannot_be_read(item: str):
    """Quoted as they stand, whatever stands beside them; the hint shows the grammar."""
    for text in (item, f"7-[1];{item}", f"{item};7-[1]"):
        with pytest.raises(UsageError) as caught:
            parse_plan(text)
        assert f"the item {item!r} of the plan cannot be read" == caught.value.message
        assert "12-[0,3]+[5];13-[4];14+[2]" in caught.value.hint


def test_an_item_that_changes_nothing():
    """A fragment alone is a slip, not a request for nothing."""
    with pytest.raises(UsageError, match="'12' of the plan changes nothing"):
        parse_plan("12;13-[4]")


def test_a_fragment_twice():
    """Which one is meant cannot be known, even when both say the same."""
    with pytest.raises(UsageError, match=r"'012-\[4\]' .* names fragment 12 again"):
        parse_plan("12-[4];012-[4]")
