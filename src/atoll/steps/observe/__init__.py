"""What a commit says of rows: how far event time is, how many were dropped."""
