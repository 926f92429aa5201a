"""A file for each system. Each has ``frames(folder, kind)``, which opens the tables, and ``QUESTIONS``: functions of these frames by name,
which give pyarrow tables. A system runs in a process of its own, and imports nothing of the others.
"""

KINDS = {
    "splay": ("database", "arrow", "parquet"),
    "polars": ("arrow", "parquet"),
    "duckdb": ("arrow", "parquet"),
    "pandas": ("arrow", "parquet"),
    "pyarrow": ("arrow", "parquet"),
    "vaex": ("arrow", "parquet", "hdf5"),
}
"""What each system reads."""

REQUIREMENTS = {"vaex": ["vaex-core==4.19.0", "vaex-hdf5==0.15.0", "pyarrow==26.0.1", "pandas<3"]}
"""Packages of systems that have an environment of their own. The others use that of the tests."""
