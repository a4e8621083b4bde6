"""The routes, one router per file; they hold no logic of their own."""

from atoll.server.routes import depots, modules, operations, pstates, topologies

__all__ = ["depots", "modules", "operations", "pstates", "topologies"]
