"""What a microbatch changed in a PState, as rows."""
