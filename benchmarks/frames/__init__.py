"""Lazy frames of SplayDB beside Vaex, Polars, DuckDB and pandas: the same questions over the same files (README.md)."""
