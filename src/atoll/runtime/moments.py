"""Running statistics of numbers: count, mean, variance, extremes, and sums, one number at a time.

The mean and the sum of squared deviations are updated as by B. P. Welford, *Note on a method for
calculating corrected sums of squares and products*, Technometrics 4 (1962), and two parts joined
as by T. F. Chan, G. H. Golub and R. J. LeVeque, *Updating formulae and a pairwise algorithm for
computing sample variances*, COMPSTAT 1982. Neither subtracts sums of squares, so numbers
with a large common part keep their variance. Sums carry what rounding lost, as by A. Neumaier,
*Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen*, ZAMM 54 (1974).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

NUMBER_MAX = 1e140
"""Squares of deviations of larger numbers could leave the range of floats."""


class Moments(msgspec.Struct, frozen=True):
    """Of the numbers so far: count, mean, sum of squared deviations from it, extremes."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    least: float = math.inf
    most: float = -math.inf

    @classmethod
    def of(cls, numbers: Iterable[float]) -> Moments:
        """Of these numbers, in their order."""
        moments = cls()
        for number in numbers:
            moments = moments.add(number)
        return moments

    def add(self, number: float) -> Moments:
        """With one number more; its size is at most ``NUMBER_MAX``."""
        count = self.count + 1
        delta = number - self.mean
        mean = self.mean + delta / count
        squares = self.squares + delta * (number - mean)
        return Moments(count, mean, squares, min(self.least, number), max(self.most, number))

    def join(self, other: Moments) -> Moments:
        """Of the numbers of both."""
        if not self.count or not other.count:
            return self if self.count else other
        count = self.count + other.count
        delta = other.mean - self.mean
        share = other.count / count
        return Moments(
            count,
            self.mean + delta * share,
            self.squares + other.squares + delta * delta * self.count * share,
            min(self.least, other.least),
            max(self.most, other.most),
        )

    @property
    def variance(self) -> float:
        """Of the numbers as all there are; NaN for none."""
        return self.squares / self.count if self.count else math.nan

    @property
    def sd(self) -> float:
        """The deviation of the numbers as all there are; NaN for none."""
        return math.sqrt(self.variance)

    @property
    def sample_sd(self) -> float:
        """The deviation of the numbers as a sample; NaN for fewer than two."""
        return math.sqrt(self.squares / (self.count - 1)) if self.count > 1 else math.nan


class Sum(msgspec.Struct, frozen=True):
    """A sum and what rounding lost of it."""

    total: float = 0.0
    lost: float = 0.0

    def add(self, number: float) -> Sum:
        """With one number more."""
        total = self.total + number
        if abs(self.total) >= abs(number):
            lost = (self.total - total) + number
        else:
            lost = (number - total) + self.total
        return Sum(total, self.lost + lost)

    def join(self, other: Sum) -> Sum:
        """With the numbers of another."""
        joined = self.add(other.total)
        return Sum(joined.total, joined.lost + other.lost)

    @property
    def value(self) -> float:
        """The sum."""
        return self.total + self.lost
