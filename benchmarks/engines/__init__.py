"""The engines of the benchmark, one file each. README.md says how to add one.

A file is read by the runner, which has none of the engines' packages, and by the worker, which has those of one: whatever is
not of the standard library or pyarrow is imported inside functions.
"""

import importlib

NAMES = [
    "splay",
    "splay-fast",
    "splay-small",
    "splay-memory",
    "splay-http",
    "splay-flight",
    "splay-postgres",
    "duckdb",
    "clickhouse",
    "clickhouse-zstd",
    "clickhouse-server",
    "questdb",
    "polars",
    "polars-parquet",
    "datafusion",
    "postgresql",
    "influxdb",
    "influxdb2",
    "arcticdb",
    "vaex",
    "pandas",
    "timescaledb",
    "kdb",
]
"""All engines in the order of a report."""


def module_name(name: str) -> str:
    """The file of an engine. A suffix keeps ``import duckdb`` from finding ours when a file is run by its path."""
    return name.replace("-", "_") + "_engine"


def load(name: str):
    """The class of an engine, by its name here or by the name of a module of yours that has an ``Engine``.

    Raises
    ------
    KeyError
        If there is no engine of that name.
    """
    if "." in name:
        return importlib.import_module(name).Engine
    if name not in NAMES:
        raise KeyError(f"no engine {name}; there are {', '.join(NAMES)}")
    return importlib.import_module(f"{__name__}.{module_name(name)}").Engine
