"""The demonstration: an auction house's stream, a module over it, and a live view."""

from atoll.demo.nexmark import Events, Nexmark, NexmarkSettings

__all__ = ["Events", "Nexmark", "NexmarkSettings"]
