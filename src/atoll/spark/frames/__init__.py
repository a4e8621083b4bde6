"""The DataFrames of a job: what is read, which columns are used, what stands between."""
