"""Who may call which route: the table of roles, and the gate that holds it."""
