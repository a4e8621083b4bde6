"""Nexmark on Atoll: the stream, the queries as modules, and what they are held against.

- :mod:`nexmark.site`: the depots and the topology that every query starts from.
- :mod:`nexmark.queries`: one module per query.
- ``reference/``: each query in DuckDB's SQL, over all records at once.
"""
