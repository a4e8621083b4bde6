"""Options by name: known, in range, and a mistake says what was meant."""

from __future__ import annotations

import pytest

from atoll.errors import DeclarationError
from atoll.microbatch.control.options import LEVELS, Options, bounds_of, levels_of
from atoll.microbatch.control.tuning import Settings, effective

NAMES = sorted(Options().by_name())


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


@pytest.mark.parametrize(
    ("former", "now"),
    [
        ("topology.microbatch.pstate.flush.path.count", "pstate.flush.max.entries"),
        ("worker.combined.transfer.limit", "topology.spark.batch.max.rows"),
    ],
)
def test_a_former_name_is_taken_for_the_present_one(former, now):
    """Declared, stored on a root or set while it runs; where both stand, the present one counts."""
    assert Options().with_values({former: 7}).by_name()[now] == 7
    assert Options().with_values({former: 7, now: 8}).by_name()[now] == 8
    stored = Settings({"module": {"": {former: 7}}})
    assert stored.at("module") == {now: 7}
    assert stored.beyond_bounds() == []
    assert effective({}, stored, "mb").by_name()[now] == 7
    assert stored.changed("module", "", former, 9).values["module"] == {"": {now: 9}}
    assert stored.changed("module", "", now, None).values["module"] == {}
    assert levels_of(former) == levels_of(now)


@pytest.mark.parametrize("value", [0, -1, 1.5, "7", True])
def test_a_value_out_of_range_is_refused(value):
    """Whole numbers from one."""
    with pytest.raises(DeclarationError):
        Options().with_values({"depot.microbatch.max.records": value})


@pytest.mark.parametrize("name", NAMES)
def test_each_option_has_a_least_and_a_greatest_value(name):
    """Both are taken, the default lies between them, and what is beyond says what may be."""
    least, most = bounds_of(name)
    assert 0 <= least <= Options().by_name()[name] <= most < 1 << 53
    for value in (least, most):
        assert Options().with_values({name: value}).by_name()[name] == value
    for value in (least - 1, most + 1, 1 << 63, 10**17, 10**100_000):
        with pytest.raises(DeclarationError, match=f"from {least} to {most}"):
            Options().with_values({name: value})


@pytest.mark.parametrize("name", NAMES)
def test_each_option_can_be_set_and_taken_back_at_each_of_its_levels(name):
    """What is left is as if it had never been set."""
    for level in levels_of(name):
        of = "" if level == "module" else "x"
        value = bounds_of(name)[1]
        changed = Settings().changed(level, of, name, value)
        assert changed.at(level, of) == {name: value}
        assert changed.changed(level, of, name, None).at(level, of) == {}


@pytest.mark.parametrize("name", NAMES)
def test_what_was_stored_beyond_the_bounds_counts_as_the_bound(name):
    """Roots of earlier versions, which had no greatest values, open and say what is used."""
    least, most = bounds_of(name)
    for stored, used in ((1 << 62, most), (least - 1, least)):
        settings = Settings({"module": {"": {name: stored}}})
        assert effective({}, settings, "mb").by_name()[name] == used
        assert settings.beyond_bounds() == [(name, stored, used)]
        assert settings.changed("module", "", name, None).beyond_bounds() == []


def test_options_of_another_version_are_left_alone():
    """They count for nothing, and are no mistake."""
    settings = Settings({level: {"": {"of.another.version": 1 << 62}} for level in LEVELS})
    assert settings.beyond_bounds() == []
    assert effective({}, settings, "mb").by_name() == Options().by_name()
