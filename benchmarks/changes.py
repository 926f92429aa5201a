"""What corrections cost in a table of many dates: deletion, replacement and undo of one date, beside a scan for its rows.

    python benchmarks/changes.py [--dates 3000] [--rows 200] [--runs 9]

Prints medians in milliseconds. The partitions themselves are small, so that what is measured is what a change costs beyond them.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

import splay

DAY_NS = 86_400_000_000_000
FIRST_DAY = 15_000


def rows(days: np.ndarray, of_day: int, seed: int) -> pa.Table:
    """The same number of trades of ten symbols on each day."""
    rng = np.random.default_rng(seed)
    times = np.repeat(days * DAY_NS, of_day) + rng.integers(0, DAY_NS, len(days) * of_day)
    symbols = pa.DictionaryArray.from_arrays(
        pa.array(rng.integers(0, 10, len(times)), pa.int32()), pa.array([f"SYM{number}" for number in range(10)])
    )
    return pa.table(
        {
            "time": pa.array(times, pa.timestamp("ns", "UTC")),
            "sym": symbols,
            "price": rng.normal(100, 1, len(times)),
            "size": rng.integers(1, 1000, len(times)),
        }
    )


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dates", type=int, default=3_000)
    parser.add_argument("--rows", type=int, default=200, help="rows of a date")
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        db = splay.open(Path(folder) / "db")
        days = FIRST_DAY + np.arange(options.dates)
        loading = milliseconds(lambda: db.write("trade", rows(days, options.rows, 1)))
        print(f"{options.dates} dates, {options.dates * options.rows} rows: written in {loading / 1e3:.1f} s")
        table = db.table("trade")
        times: dict[str, list[float]] = {}

        def measure(name: str, work: Callable[[], object]) -> None:
            times.setdefault(name, []).append(milliseconds(work))

        for run in range(options.runs):
            day = FIRST_DAY + (run * 997) % options.dates
            date = np.datetime64(int(day), "D")
            wrong = rows(np.array([day]), options.rows, run + 2)
            measure("delete a date", lambda date=date: db.sql(f"delete from trade where date = date '{date}'"))
            measure("undo it", lambda: table.undo(table.commits(1)[0].commit))
            measure("delete a symbol of a date", lambda date=date: db.sql(f"delete from trade where date = '{date}' and sym = 'SYM3'"))
            measure("undo it ", lambda: table.undo(table.commits(1)[0].commit))
            measure("replace a date", lambda wrong=wrong: db.write("trade", wrong, replace="date"))
            measure("undo it  ", lambda: table.undo(table.commits(1)[0].commit))
            measure("list the last 20 commits", lambda: table.commits(20))
            measure("read it as it was at first", lambda: db.sql("select count(*) from trade at commit 1").to_arrow())
        for name, found in times.items():
            print(f"{name:28} {statistics.median(found):8.1f} ms  ({min(found):.1f} to {max(found):.1f})")


if __name__ == "__main__":
    main()
