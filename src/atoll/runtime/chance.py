"""Chance that is the same at every attempt: numbers that follow from who asks.

A microbatch that is tried again has to decide as before, so nothing here has a state. A uniform
number is the SplitMix64 mix (Steele, Lea and Flood, *Fast splittable pseudorandom number
generators*, OOPSLA 2014) of an origin's hash and a number; over arrays it gives the same bit for
bit.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_GAMMA = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_MASK = (1 << 64) - 1
_SCALE = 2.0**-53


def uniform(origin: str, number: int) -> float:
    """The number of this origin, in [0, 1)."""
    mixed = (_seed(origin) + (number + 1) * _GAMMA) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * _FIRST) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * _SECOND) & _MASK
    mixed ^= mixed >> 31
    return (mixed >> 11) * _SCALE


def uniforms(origin: str, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """The same as :func:`uniform`, for many numbers of an origin."""
    mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(_GAMMA)
    mixed += np.uint64(_seed(origin))
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(_FIRST)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(_SECOND)
    mixed ^= mixed >> np.uint64(31)
    found: NDArray[np.float64] = (mixed >> np.uint64(11)).astype(np.float64) * _SCALE
    return found


@lru_cache(maxsize=4096)
def _seed(origin: str) -> int:
    return int.from_bytes(hashlib.blake2b(origin.encode(), digest_size=8).digest(), "little")
