"""Holds that every acceptance case of Coral's behaviour has a test of its number, or a reason.

The tests are named ``test_case_<number>_...`` and stand with what they hold.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ABSENT = {
    31: "permissions: Atoll's service asks nobody who they are yet",
    32: "permissions, as 31",
    33: "permissions, as 31",
    34: "permissions, as 31",
    38: "addresses of Akka's actors: there are none",
}
"""Cases that have no test, and why they cannot have one."""

PARTLY = {
    19: "the messages of a running consumer: there is no source for a broker yet",
    21: "a sibling that does not answer within a second: siblings answer at once or not at all; "
    "a query to cassandra: its answer follows the commit, so it comes as an event",
    24: "ids of child actors: a group is a state, not an actor",
    25: "`orphaned-actor` of a single actor among linked ones is told too",
    30: "passwords: everybody is let in, as in Coral's mode accept-all, the only one there is",
    36: "modes that choose a machine are refused; workers join in tests/placement",
    37: "a configuration file: the environment stands in its place",
    40: "a query that comes in an event: statements are the definition's",
}
"""What of a case cannot apply, though the rest of it is held."""


def _numbers():
    text = "".join(file.read_text() for file in Path(__file__).parent.rglob("test_*.py"))
    return {int(number) for number in re.findall(r"^def test_case_(\d+)_", text, re.MULTILINE)}


@pytest.mark.parametrize("number", range(1, 41))
def test_every_case_is_held_or_explained(number):
    """Forty cases; none is forgotten, and none that is held is called absent."""
    assert (number in _numbers()) != (number in ABSENT)


def test_what_is_partly_held_is_held():
    """A case that applies in part has its test."""
    assert set(PARTLY) <= _numbers()
