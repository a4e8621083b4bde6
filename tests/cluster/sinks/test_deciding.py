"""Which parcel a sink gets next, without any sink."""

from __future__ import annotations

import pytest

from atoll.cluster.sinks.deciding import next_parcel
from atoll.errors import SinkError


@pytest.mark.parametrize(
    ("held", "noted", "last", "first"),
    [
        (0, 0, 0, 1),
        (0, 0, 5, 1),
        (3, 3, 5, 4),
        (4, 3, 5, 5),  # the answer was lost
        (5, 3, 5, 6),
        (3, 3, 3, 4),
        (None, 3, 5, 4),
        (None, 0, 0, 1),
    ],
)
def test_the_targets_word_counts(held, noted, last, first):
    """Where it has one; else what was noted."""
    assert next_parcel(held, noted, last) == first


@pytest.mark.parametrize(("held", "noted", "last"), [(2, 3, 5), (0, 1, 1), (6, 3, 5), (1, 0, 0)])
def test_what_cannot_be_is_refused(held, noted, last):
    """Less than was noted, more than was made; with what to do, and both numbers."""
    with pytest.raises(SinkError) as raised:
        next_parcel(held, noted, last)
    assert raised.value.context["held"] == held
    assert raised.value.hint
