"""Local item suggestion: who sells in category 10 and lives in Oregon, Idaho or California.

Persons are filtered behind the join, so that an auction waits for its seller only, not for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexmark.reading import depot_rows

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site


def build(site: Site) -> None:
    """Declare it."""
    out = site.output("name string, city string, state string, id long")
    auctions = site.auctions().where("category = 10").select("id", "seller")
    persons = site.persons().select("id AS seller", "name", "city", "state")
    sold = auctions.incremental_join(persons, on="seller", unique="right")
    near = sold.where("lower(state) IN ('or', 'id', 'ca')")
    near.select("name", "city", "state", "id").append_to(out)


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    return depot_rows(app)
