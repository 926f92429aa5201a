"""Times of calls, for benchmarks that set statements side by side."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

    import splay


def milliseconds(run: Callable[[], object], repeats: int) -> list[float]:
    """How long each of some runs takes."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1000)
    return times


def beside_duckdb(name: str, statement: str, db: splay.Database, con: duckdb.DuckDBPyConnection, repeats: int) -> float:
    """DuckDB's median time for a statement over SplayDB's, both of which it prints."""
    ours = statistics.median(milliseconds(lambda: db.sql(statement).to_arrow(), repeats))
    theirs = statistics.median(milliseconds(lambda: con.sql(statement).to_arrow_table(), repeats))
    print(f"{name:55} splay {ours:9.1f} ms   duckdb {theirs:9.1f} ms   {theirs / ours:6.2f} times", flush=True)
    return theirs / ours
