"""Which rows belong together, and which change of a row is which: arithmetic on whole columns.

Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]


def pairs(left: Numbers, right: Numbers) -> tuple[Numbers, Numbers]:
    """The positions of equal numbers in both: by the left one, then by the right one."""
    order = np.argsort(right, kind="stable")
    ordered = right[order]
    begins = np.searchsorted(ordered, left, "left")
    counts = np.searchsorted(ordered, left, "right") - begins
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(np.arange(len(left)), counts), order[np.repeat(begins, counts) + within]


def added_up(left: Numbers, right: Numbers, times: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Each pair of a left and a right number once, with the sum of its times; none that is 0.

    The numbers are -1 or more; what comes out is in the order of them.
    """
    width = int(right.max(initial=-1)) + 2
    codes, place = np.unique((left + 1) * width + right + 1, return_inverse=True)
    total = np.zeros(len(codes), np.int64)
    np.add.at(total, place, times)
    changed = np.flatnonzero(total)
    return codes[changed] // width - 1, codes[changed] % width - 1, total[changed]


def same(one: Numbers, other: Numbers) -> tuple[Numbers, Numbers]:
    """Positions of equal numbers in both, each position at most once: the first with the first.

    Numbers below 0 are equal to none.
    """
    ranked = [_ranked(each) for each in (one, other)]
    width = 1 + max(int(ranks.max(initial=0)) for _, ranks in ranked)
    codes = [numbers * width + ranks for numbers, ranks in ranked]
    places = [np.flatnonzero(each >= 0) for each in (one, other)]
    _, first, second = np.intersect1d(
        codes[0][places[0]], codes[1][places[1]], assume_unique=True, return_indices=True
    )
    return places[0][first], places[1][second]


def numbered(columns: list[Numbers]) -> Numbers:
    """One number for each row of columns: rows have the same where all columns have."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        _, number = np.unique(column, return_inverse=True)
        codes = codes * (int(number.max(initial=0)) + 1) + number
        _, codes = np.unique(codes, return_inverse=True)
    return codes.astype(np.int64)


def _ranked(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """The numbers, and how many equal ones come before each."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1)) if len(ordered) else order
    counts = np.diff(starts, append=len(ordered))
    ranks = np.empty(len(numbers), np.int64)
    ranks[order] = np.arange(len(ordered)) - np.repeat(starts, counts)
    return numbers, ranks
