"""Channels by number: the known ones have theirs, of others it is in the address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexmark.reading import depot_rows

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site


CHANNEL_ID = r"""CASE lower(channel)
    WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
    ELSE nullif(regexp_extract(url, '[&?]channel_id=([^&]*)', 1), '') END"""


def build(site: Site) -> None:
    """Declare it."""
    out = site.output("auction long, bidder long, price long, channel string, channel_id string")
    numbered = site.bids().select(
        "auction", "bidder", "price", "channel", f"{CHANNEL_ID} AS channel_id"
    )
    numbered.where("channel_id IS NOT NULL").append_to(out)


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    return depot_rows(app)
