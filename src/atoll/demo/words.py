"""Texts for people, items and bids, taken from short lists or put together from numbers."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

FIRST_NAMES = pa.array(
    ["Ada", "Bruno", "Carla", "Deniz", "Elif", "Fumiko", "Goran", "Hanna", "Ivo", "Jun", "Kofi"]
)
LAST_NAMES = pa.array(
    ["Abel", "Brandt", "Costa", "Dahl", "Eriksen", "Fischer", "Grau", "Hoang", "Ito", "Jansen"]
)
CITIES = pa.array(
    ["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle"]
)
STATES = pa.array(["AZ", "CA", "CA", "ID", "OR", "OR", "WA", "WA"])
"""The state of the city at the same place."""

QUALITIES = pa.array(["plain", "painted", "carved", "signed", "restored", "rare", "tiny", "tall"])
ITEMS = pa.array(["clock", "globe", "lamp", "map", "mirror", "radio", "statue", "teapot", "violin"])
DESCRIPTIONS = pa.array(["as found", "well kept", "with its box", "one of a pair", "slightly worn"])
CHANNELS = pa.array(["Google", "Facebook", "Baidu", "Apple"])
"""The channels that half of the bids come through."""


def pick(words: pa.Array, indices: NDArray[np.int64]) -> pa.Array:
    """The word at each index."""
    return words.take(pa.array(indices))


def digits(numbers: NDArray[np.int64], width: int = 1) -> pa.Array:
    """Each number as text, with leading zeros up to the width."""
    texts = pa.array(numbers).cast(pa.string())
    return pc.utf8_lpad(texts, width, "0") if width > 1 else texts


def letters(numbers: NDArray[np.int64], width: int) -> pa.Array:
    """Each number as so many small letters: its digits to the base 26, the last one first."""
    powers = 26 ** np.arange(width)
    codes = (numbers[:, None] // powers % 26 + ord("a")).astype(np.uint8)
    return pa.array(codes.view(f"S{width}").ravel()).cast(pa.string())


def joined(*parts: pa.Array | str) -> pa.Array:
    """The parts of each row one after the other; a plain text stands in every row."""
    texts = [pa.scalar(part) if isinstance(part, str) else part for part in parts]
    return reduce(lambda left, right: pc.binary_join_element_wise(left, right, ""), texts)
