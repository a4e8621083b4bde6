"""The microbatch loop: plans, attempts, commits, and what decides between them."""
