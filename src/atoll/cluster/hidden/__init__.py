"""The state that steps keep by themselves, found again by the next version."""
