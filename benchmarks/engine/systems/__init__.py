"""The systems that are asked. Each holds the same rows, in memory or mapped, with two threads.

A system has a ``name``, ``version()``, ``open(tables)``, ``run(question, parameters, variant)``, which is what is timed, and
``arrow(answer)``, which is not. Which tables there are is ``tables.Tables``.
"""

import importlib

THREADS = 2
"""Threads of every system."""

MODULES = {"SplayDB": "splaydb", "DuckDB": "duckdb_memory", "Polars": "polars_frames"}
"""File of each system, in the order of the columns of a report."""


def load(name: str):
    """The class of a system.

    Raises
    ------
    ImportError
        If its package is not installed.
    """
    return importlib.import_module(f"{__name__}.{MODULES[name]}").System
