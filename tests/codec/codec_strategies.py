"""Hypothesis strategies for scalars, their values and columns of them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from hypothesis import strategies as st

from atoll.schema import Scalar

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SPECIAL_TEXT = TEXT | st.text("\0a\x01\x7fÿ", max_size=6)
SPECIAL_BYTES = st.binary(max_size=12) | st.lists(
    st.sampled_from([0, 1, 254, 255]), max_size=6
).map(bytes)
ZONES = st.sampled_from(
    [dt.UTC, dt.timezone(dt.timedelta(hours=5, minutes=30)), dt.timezone(dt.timedelta(hours=-8))]
)
DATETIMES = st.datetimes(
    dt.datetime(2, 1, 1),  # noqa: DTZ001 - the bounds are naive by hypothesis' contract
    dt.datetime(9998, 1, 1),  # noqa: DTZ001 - as above
    timezones=ZONES,
)
DECIMALS = st.builds(
    lambda units: Decimal(units).scaleb(-18),
    st.integers(-(10**28) + 1, 10**28 - 1)
    | st.integers(-999, 999).map(lambda number: number * 10**16),
)

VALUES: dict[str, st.SearchStrategy] = {
    "bool": st.booleans(),
    "int": INT64,
    "float": st.floats(allow_nan=False),
    "str": SPECIAL_TEXT,
    "bytes": SPECIAL_BYTES,
    "date": st.dates(),
    "datetime": DATETIMES,
    "decimal": DECIMALS,
}
"""Values of each kind that keys, stored values and columns can all hold."""

SIMPLE_KINDS = sorted(VALUES)


def scalars(*, optional: bool = True, depth: int = 2) -> st.SearchStrategy[Scalar]:
    """Scalars of every kind, tuples among them down to the depth."""
    flags = st.booleans() if optional else st.just(value=False)
    simple = st.builds(Scalar, st.sampled_from(SIMPLE_KINDS), flags)
    if depth == 0:
        return simple
    members = st.lists(scalars(optional=optional, depth=depth - 1), min_size=1, max_size=3)
    tuples = st.builds(lambda flag, items: Scalar("tuple", flag, tuple(items)), flags, members)
    return simple | tuples


def values_of(scalar: Scalar) -> st.SearchStrategy:
    """Values that the scalar holds."""
    if scalar.kind == "tuple":
        values: st.SearchStrategy = st.tuples(*map(values_of, scalar.items))
    else:
        values = VALUES[scalar.kind]
    return st.none() | values if scalar.optional else values


def arrow_ready(value: object) -> object:
    """A tuple as the struct that Arrow builds from a dict; all others as they are."""
    if isinstance(value, tuple):
        return {f"f{number}": arrow_ready(member) for number, member in enumerate(value)}
    return value
