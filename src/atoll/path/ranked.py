"""Steps by rank, in maps and sets that are declared with ``ranked=``. They read only."""

from __future__ import annotations

from typing import Any, Self

from atoll.errors import PathError
from atoll.path.steps import Step, Steps


class RankedSteps(Steps):
    """To entries by their rank among all, which begins at 0, and to ranks.

    What a map's entry gives is what :meth:`all` gives: (key, value); of a set its element.
    """

    __slots__ = ()

    def top(self, count: int) -> Self:
        """To the first entries by rank, in that order."""
        _check_ranks("top", count)
        if count < 0:
            raise PathError(f"top({count}) of less than nothing", hint="ranked(-3) are the last 3")
        return self._add(Step("ranked", (0, count)))

    def ranked(self, start: int = 0, stop: int | None = None) -> Self:
        """To the entries from one rank up to another, in that order, cut as Python's slices.

        ``ranked(0, 3)`` are the first three, ``ranked(10, 20)`` the second ten, ``ranked(-1)`` is
        the last one.
        """
        _check_ranks("ranked", start, *(() if stop is None else (stop,)))
        return self._add(Step("ranked", (start, stop)))

    def rank_of(self, key: Any) -> Self:
        """To the rank of a key or an element; nowhere when it is missing or has none."""
        return self._add(Step("rank_of", (key,)))

    def around(self, key: Any, before: int = 0, after: int = 0) -> Self:
        """To a key's entry with those next to it by rank, in that order; nowhere without a rank.

        ``around(key, before=1)`` are the previous entry, if there is one, and the key's own: SQL's
        ``LAG``; ``after=1`` its ``LEAD``; ``before=9`` is ``ROWS BETWEEN 9 PRECEDING AND CURRENT
        ROW``.
        """
        _check_ranks("around", before, after)
        if before < 0 or after < 0:
            raise PathError(
                f"around takes numbers of entries, not {min(before, after)}",
                hint="before=9 are the nine before the key",
            )
        return self._add(Step("around", (key, before, after)))

    def quantile(self, share: float) -> Self:
        """To the first entry up to which that share of all lie; nowhere when there are none.

        ``quantile(0.5)`` is the median: of n entries that of rank ``max(ceil(share * n), 1) - 1``,
        SQL's ``PERCENTILE_DISC``.
        """
        if type(share) not in (int, float) or not 0 <= share <= 1:
            raise PathError(
                f"a quantile is a number from 0 to 1, not {share!r}", hint="the median is 0.5"
            )
        return self._add(Step("quantile", (share,)))

    def ranked_before(self, *order: Any) -> Self:
        """To the entries that come before an order, in the order of ranks.

        Args:
            order: A value for each of the first terms of ``ranked=``. Where that is ``"-value"``
                ``ranked_before(10)`` are the entries of more than 10, the greatest first.
        """
        return self._add(Step("ranked_before", _order("ranked_before", order)))

    def ranked_after(self, *order: Any) -> Self:
        """To the entries that come after an order, as :meth:`ranked_before`."""
        return self._add(Step("ranked_after", _order("ranked_after", order)))


def _order(name: str, order: tuple[Any, ...]) -> tuple[Any, ...]:
    if not order:
        raise PathError(f"{name}() needs a value", hint=f"write {name}(10)")
    return order


def _check_ranks(name: str, *ranks: Any) -> None:
    for each in ranks:
        if type(each) is not int:
            raise PathError(f"{name} takes ranks, not {each!r}", hint="the first is 0")
