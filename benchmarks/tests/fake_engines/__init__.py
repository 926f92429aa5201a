"""Engines that go right and wrong on purpose; they run in the tests' own environment."""

from engines.duckdb_engine import Engine as DuckDB


class Right(DuckDB):
    """DuckDB, with what is installed here."""

    requirements = ()
    title = "Right"
