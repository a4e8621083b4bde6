"""Who is in the cluster of a module and what runs where, and changing it."""
