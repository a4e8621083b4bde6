"""Which records, and how much of what is due, a microbatch takes."""
