"""The HTTP service: append, select, status, metrics. Only it imports the web framework."""

from atoll.server.app import create_app
from atoll.server.serve import ServingAddress, serve
from atoll.server.settings import ServerSettings

__all__ = ["ServerSettings", "ServingAddress", "create_app", "serve"]
