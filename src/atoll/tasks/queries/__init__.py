"""Query functions as they run: bound to types, then answered over views of the state."""
