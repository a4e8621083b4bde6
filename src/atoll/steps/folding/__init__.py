"""What steps share that fold rows by key: ``aggregate``, ``agg``, windows, distinct counts."""
