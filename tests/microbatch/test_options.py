"""Options by name: known, in range, and a mistake says what was meant."""

from __future__ import annotations

import pytest

from atoll.errors import DeclarationError
from atoll.microbatch.options import Options


def test_options_are_set_by_their_public_names():
    """One is changed, the others keep their defaults."""
    options = Options().with_values({"depot.microbatch.max.records": 7})
    assert options.microbatch_records_max == 7
    assert options.by_name()["depot.microbatch.max.records"] == 7
    assert options.phase_timeout_seconds == Options().phase_timeout_seconds


def test_an_unknown_name_is_refused_with_the_nearest():
    """A slip of the pen is no silent default."""
    with pytest.raises(DeclarationError) as raised:
        Options().with_values({"depot.microbatch.max.record": 7})
    assert "depot.microbatch.max.records" in str(raised.value)


@pytest.mark.parametrize("value", [0, -1, 1.5, "7", True])
def test_a_value_out_of_range_is_refused(value):
    """Whole numbers from one."""
    with pytest.raises(DeclarationError):
        Options().with_values({"depot.microbatch.max.records": value})
