"""The queries, each in a file of its name.

A file has ``build(site)``, which declares the query on a :class:`~nexmark.site.Site`, and
``results(app)``, which reads the result of a running one as rows (tuples, in any order), as the
SQL of the same name under ``reference/`` gives them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site

__all__ = ["FALLING", "JOINS", "NAMES", "Query", "load"]

NAMES = (
    "q0",
    "q1",
    "q2",
    "q3",
    "q4",
    "q5",
    "q6",
    "q7",
    "q8",
    "q9",
    "q10",
    "q11",
    "q12",
    "q13",
    "q14",
    "q15",
    "q16",
    "q17",
    "q18",
    "q19",
    "q20",
    "q21",
    "q22",
)
"""Nexmark's own."""

JOINS = ("outer", "anti", "interval")
"""More joins over the same records, which it does not have."""

FALLING = ("top_categories", "busy_auctions")
"""Two of our own, whose orders fall as well as rise."""


class Query(Protocol):
    """What each file is."""

    def build(self, site: Site) -> None:
        """Declare it."""

    def results(self, app: App) -> list[tuple[object, ...]]:
        """Its rows now."""


def load(name: str) -> Query:
    """The query of that name."""
    return cast("Query", import_module(f"nexmark.queries.{name}"))
