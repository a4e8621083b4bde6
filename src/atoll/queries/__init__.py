"""Query functions: declared, bound to types, answered over views of the state."""
