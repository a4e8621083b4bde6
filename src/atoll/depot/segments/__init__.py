"""The segment files of a depot: their bytes, their order, and how long they stay."""
