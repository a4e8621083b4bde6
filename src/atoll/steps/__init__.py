"""The steps of a topology, each in one place: declared, bound, packed and run."""
