"""What is recorded of a topology: plans and commits, which of them count, which ones stay."""
