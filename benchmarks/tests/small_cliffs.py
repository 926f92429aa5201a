"""Small tables for the tests of the search for cliffs, without the simulator."""

import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cliffs.data import CliffTables, tables
from cliffs.derived import typed

START = 1_570_455_000 * 10**9
SYMBOLS = {"quote": 20, "trade": 20, "tick": 3, "book": 3}


def base(rows: int, symbols: int, seed: int) -> pa.Table:
    """Rows as the simulator gives them, in the six columns that the others are derived from."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "time": pa.array(START + rng.integers(0, 6 * 3600 * 10**9, rows), pa.timestamp("ns")),
            "symbol": [f"S{number}" for number in rng.integers(0, symbols, rows)],
            "venue": [f"V{number}" for number in rng.integers(0, 4, rows)],
            "price": rng.uniform(1, 100, rows).round(2),
            "level": rng.uniform(1, 100, rows).round(2),
            "size": rng.integers(1, 5_000, rows),
        }
    )


def small(folder: pathlib.Path, rows: int = 2_000) -> CliffTables:
    """The four tables as files of a folder."""
    for seed, (table, symbols) in enumerate(SYMBOLS.items()):
        pq.write_table(typed(base(rows, symbols, seed), seed), folder / f"{table}.parquet")
    return tables(folder)
