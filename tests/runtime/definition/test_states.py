"""Holds the section ``state``: Coral's sixteen combinations, its forms and its defaults."""

from __future__ import annotations

import msgspec
import pytest

from atoll.runtime.actors.interface import ActorType
from atoll.runtime.definition.states import combination_misfit, read_state
from atoll.runtime.definition.structs import Duration, EventCount, Sliding, StateModes

MODES = ("calc-local", "collect-local", "spark-batch", "log-batch")
TABLE = [
    ("----", True),
    ("---G", True),
    ("--S-", True),
    ("--SG", False),
    ("-L--", True),
    ("-L-G", True),
    ("-LS-", True),
    ("-LSG", False),
    ("C---", True),
    ("C--G", True),
    ("C-S-", True),
    ("C-SG", False),
    ("CL--", True),
    ("CL-G", True),
    ("CLS-", True),
    ("CLSG", False),
]
"""Row by row: which functions are on, and whether that is valid."""


class Stateful(ActorType[msgspec.Struct]):
    """Has all state functions."""

    name = "stateful"
    stateful = True
    modes = frozenset(MODES)


class Local(Stateful):
    """Has the first only."""

    name = "local"
    modes = frozenset({"calc-local"})


class Stateless(ActorType[msgspec.Struct]):
    """Has none."""

    name = "stateless"


@pytest.mark.parametrize(("row", "valid"), TABLE, ids=[row for row, _ in TABLE])
def test_the_validity_table(row, valid):
    """All sixteen rows, judged as sets and read from JSON; the first is for stateless types."""
    on = [letter != "-" for letter in row]
    modes = frozenset(mode for mode, flag in zip(MODES, on, strict=True) if flag)
    assert (combination_misfit(modes, stateful=False) is None) == valid
    given = dict(zip(MODES, on, strict=True))
    _, problems = read_state(given, Stateful(), log_incoming=True)
    assert (not problems) == (valid and any(on))
    assert {each.kind for each in problems} <= {"state"}


def test_the_defaults():
    """A stateful actor has calc-local on, and keeps it when another is turned on."""
    assert read_state(None, Stateful(), log_incoming=False) == (StateModes(calc_local=True), [])
    assert read_state(None, Stateless(), log_incoming=False) == (StateModes(), [])
    both = StateModes(calc_local=True, spark_batch=EventCount(1))
    assert read_state({"spark-batch": True}, Stateful(), log_incoming=True) == (both, [])


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        ({}, None),
        ({"event-count": 10}, EventCount(10)),
        ({"duration": {"hours": 1, "minutes": 10, "seconds": 20}}, Duration(4_220_000)),
        ({"duration": {"seconds": 0.5}}, Duration(500)),
        ({"duration": {"days": 2}}, Duration(172_800_000)),
        ({"duration": {"seconds": 0}}, None),
        ({"duration": {"months": 1}}, None),
        ({"sliding-window": {"size": 5, "slide": 2}}, Sliding(5, 2, "events")),
        (
            {"sliding-window": {"size": 60, "slide": 10, "units": "seconds"}},
            Sliding(60_000, 10_000, "ms"),
        ),
        ({"sliding-window": {"size": 5, "slide": 5}}, EventCount(5)),
        ({"sliding-window": {"size": 5, "slide": 5, "units": "seconds"}}, Duration(5_000)),
        ({"sliding-window": {"size": 5, "slide": 0}}, None),
        ({"sliding-window": {"size": 5, "slide": 6}}, None),
        ({"event-count": 10, "duration": {"seconds": 1}}, None),
        ({"event-count": 0}, None),
        ({"event-count": True}, None),
        ({"event-count": 2.5}, None),
    ],
)
def test_updates(update, expected):
    """Exactly one of three; a window that slides by its size tumbles."""
    given = {"collect-local": {"enabled": True, "update": update}}
    modes, problems = read_state(given, Stateful(), log_incoming=False)
    assert bool(problems) == (expected is None)
    if expected is not None:
        assert modes == StateModes(calc_local=True, collect_local=expected)


@pytest.mark.parametrize(
    ("given", "kind", "log"),
    [
        ({"calc-local": {"enabled": True}}, Stateful(), True),
        ({"calc-local": 1}, Stateful(), True),
        ({"spark-batch": True}, Stateful(), False),
        ({"log-batch": {"update": {"event-count": 1}}}, Stateful(), False),
        ({"spark-batch": True}, Local(), True),
        ({"calc-local": False}, Local(), True),
        ({"calc-local": True}, Stateless(), True),
        ({"spark": True}, Stateful(), True),
        ([], Stateful(), True),
        ({"collect-local": {"enabled": "yes"}}, Stateful(), True),
        ({"collect-local": {"update": None, "more": 1}}, Stateful(), True),
    ],
)
def test_what_cannot_be(given, kind, log):
    """Forms that are wrong, a log that is not kept, functions that the type has not."""
    _, problems = read_state(given, kind, log_incoming=log)
    assert {each.kind for each in problems} == {"state"}


def test_a_function_that_is_off_stays_off():
    """The long form may say so, whatever its update."""
    given = {"collect-local": {"enabled": False, "update": {"event-count": 3}}}
    assert read_state(given, Stateful(), log_incoming=False)[0] == StateModes(calc_local=True)
