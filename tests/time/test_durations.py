"""Lengths of time in words."""

from __future__ import annotations

import datetime as dt

import pytest

from atoll.durations import parse_millis
from atoll.errors import DeclarationError


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("10 seconds", 10_000),
        ("1 second", 1_000),
        ("5 Minutes", 300_000),
        ("1 hour 30 minutes", 5_400_000),
        ("INTERVAL 2 DAYS", 172_800_000),
        ("1 week", 604_800_000),
        ("250 milliseconds", 250),
        (dt.timedelta(seconds=1.5), 1_500),
    ],
)
def test_spark_s_words_and_timedeltas(text, millis):
    """To the millisecond."""
    assert parse_millis(text, "it") == millis


@pytest.mark.parametrize(
    "wrong",
    [
        *[
            "",
            "11",
            "ten seconds",
            "10 parsecs",
            "seconds 10",
            "-1 second",
            "1.5 seconds",
            10,
            None,
        ],
        *[dt.timedelta(microseconds=1), dt.timedelta(seconds=-1), "0 seconds", "40000 days"],
    ],
)
def test_everything_else_is_refused(wrong):
    """With an example of what is right."""
    with pytest.raises(DeclarationError, match="it cannot be") as error:
        parse_millis(wrong, "it")
    assert error.value.hint


def test_zero_where_it_may_be():
    """A delay may be none."""
    assert parse_millis("0 seconds", "it", least=0) == 0
