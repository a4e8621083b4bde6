"""New PStates of a running topology, filled from what it has read before they were declared."""
