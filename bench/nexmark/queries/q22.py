"""Directories: the parts of each bid's address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexmark.reading import depot_rows

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site


DIRECTORIES = {"dir1": 4, "dir2": 5, "dir3": 6}


def build(site: Site) -> None:
    """Declare it."""
    bid = {"auction": "long", "bidder": "long", "price": "long", "channel": "string"}
    columns = {**bid, **dict.fromkeys(DIRECTORIES, "string")}
    out = site.output(", ".join(f"{name} {kind}" for name, kind in columns.items()))
    parts = [f"split_part(url, '/', {n}) AS {name}" for name, n in DIRECTORIES.items()]
    site.bids().select(*bid, *parts).append_to(out)


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    return depot_rows(app)
