"""State for other tools: Arrow and Parquet with the PState's own columns."""
