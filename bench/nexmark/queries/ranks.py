"""Prices in three ranks, as the reporting queries (q15, q16, q17) tell them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from atoll.aggregates import Aggregator

__all__ = ["by_rank", "rank_fields"]

RANKS = {
    "rank1": "price < 10000",
    "rank2": "price >= 10000 AND price < 1000000",
    "rank3": "price >= 1000000",
}


def by_rank(**aggregates: Aggregator) -> dict[str, Aggregator]:
    """Each aggregate over all rows as ``total_...``, and over the rows of each rank."""
    return {
        f"{rank}_{name}": aggregate if test is None else aggregate.where(test)
        for name, aggregate in aggregates.items()
        for rank, test in {"total": None, **RANKS}.items()
    }


def rank_fields(*names: str) -> dict[str, type[int]]:
    """The fields that hold :func:`by_rank`."""
    return {f"{rank}_{name}": int for name in names for rank in ("total", *RANKS)}
