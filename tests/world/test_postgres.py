"""The PostgreSQL of the tests answers, and every test has a database of its own."""

import pytest
from postgres import database, postgres_server

__all__ = ["database", "postgres_server"]

psycopg = pytest.importorskip("psycopg")


def test_each_database_is_empty(database):
    """And may be written to, also in two phases."""
    with psycopg.connect(database) as connection:
        connection.execute("create table t (v int)")
        connection.execute("insert into t values (1)")
        assert connection.execute("select count(*) from t").fetchone() == (1,)
        assert connection.execute("show max_prepared_transactions").fetchone() == ("64",)
