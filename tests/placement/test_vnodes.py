"""Vnodes: the CRC rule, both sides of it, its spread, and which counts may be."""

from __future__ import annotations

import zlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll.codec import encode_columns, encode_element
from atoll.errors import DeclarationError
from atoll.placement.vnodes import check_vnode_count, vnode_of, vnodes_of
from atoll.schema import Scalar


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))), st.integers(1, 32_768))
def test_both_sides_agree(texts: list[str], count: int) -> None:
    """A column's vnodes are those of its keys, all below the count."""
    scalar = Scalar("str")
    vnodes = vnodes_of(encode_columns([pa.array(texts, pa.string())], [scalar]), count)
    assert vnodes.dtype == np.uint16
    encoded = [encode_element(text, scalar) for text in texts]
    assert [zlib.crc32(key) % count for key in encoded] == vnodes.tolist()
    assert [vnode_of(key, count) for key in encoded] == vnodes.tolist()


def test_one_vnode_holds_everything() -> None:
    """A count of 1 puts every key into vnode 0."""
    keys = encode_columns([pa.array(range(100))], [Scalar("int")])
    assert not vnodes_of(keys, 1).any()


def test_neighbouring_ints_spread_evenly() -> None:
    """Counting ids, the commonest keys of all, do not pile up in a few vnodes."""
    keys = encode_columns([pa.array(range(256_000))], [Scalar("int")])
    counts = np.bincount(vnodes_of(keys, 256), minlength=256)
    assert counts.min() > 800
    assert counts.max() < 1200


@pytest.mark.parametrize("count", [1, 256, 32_768])
def test_counts_that_may_be(count: int) -> None:
    """From 1 to 32,768."""
    assert count == check_vnode_count(count)


@pytest.mark.parametrize("count", [0, -1, 32_769, True, 1.0, "256", None])
def test_counts_that_may_not_be(count: object) -> None:
    """Everything else is refused at declaration."""
    with pytest.raises(DeclarationError, match="vnode count"):
        check_vnode_count(count)
