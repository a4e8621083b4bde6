"""Where data and work belong: vnodes, and which parallel unit owns each (pure)."""
