"""A user's own statements on the user's own database, beside DuckDB on a copy of it: ``python -m splay_bench run mine``."""
