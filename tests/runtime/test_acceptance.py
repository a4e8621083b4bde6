"""Holds that every acceptance case of Coral's behaviour has a test of its number, or a reason.

The tests are named ``test_case_<number>_...`` and stand with what they hold.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

OTHERS = {
    26: "names once used: held by the tests of what serves runtimes",
    29: "the interface over HTTP: held by the tests of what serves runtimes",
    28: "an exception in a runtime's administration: held by the tests of what serves runtimes",
    30: "users and passwords come with the service's own",
    31: "permissions come with the service's own",
    32: "permissions come with the service's own",
    33: "permissions come with the service's own",
    34: "permissions come with the service's own",
    35: "statistics of copies: held by the tests of what counts them",
    36: "two nodes: held by the tests of what serves runtimes",
    37: "Atoll's settings have an order of their own, held by tests/cli",
    38: "addresses of Akka's actors: there are none",
}
"""Cases that types and definitions know nothing of, and why or where they are held."""

PARTLY = {
    19: "the messages of a running consumer: there is no source for a broker yet",
    21: "a sibling that does not answer within a second: siblings answer at once or not at all; "
    "a query to cassandra: its answer follows the commit, so it comes as an event",
    24: "ids of child actors: a group is a state, not an actor",
    25: "`orphaned-actor` of a single actor among linked ones is told too",
    27: "the file itself: an effect, held by the tests of what performs effects",
    40: "a query that comes in an event: statements are the definition's",
}
"""What of a case cannot apply, though the rest of it is held."""


def _numbers():
    text = "".join(file.read_text() for file in Path(__file__).parent.rglob("test_*.py"))
    return {int(number) for number in re.findall(r"^def test_case_(\d+)_", text, re.MULTILINE)}


@pytest.mark.parametrize("number", range(1, 41))
def test_every_case_is_held_or_explained(number):
    """Forty cases; none is forgotten."""
    assert number in _numbers() or number in OTHERS


def test_what_is_partly_held_is_held():
    """A case that applies in part has its test."""
    assert set(PARTLY) <= _numbers()
