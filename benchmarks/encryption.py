"""What encryption at rest costs: the same rows in an encrypted database and in one that isn't, statements and loads of both in turns.

Run it by `make bench-encryption`. The rows are random walks of prices in cents, sizes, venues and order numbers of 200 symbols in one day.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from timing import milliseconds

import splay

START_NS = 1_767_225_600_000_000_000
DAY_NS = 6 * 3_600_000_000_000
KEY = "k1 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
TIERS = ("fast", "small", "dense")

STATEMENTS = (
    "select sym, avg(price), sum(size) from t group by sym",
    "select sum(price * size) from t",
    "select venue, min(price), max(price), count(*) from t group by venue",
    "select sym, count(distinct order_id) from t group by sym",
    "select * from t where sym = 'S007' and size < 20",
    "select count(*) from t where price > 120",
)


def table(rows: int) -> pa.Table:
    """Rows of 200 symbols in the order of time."""
    rng = np.random.default_rng(3)
    symbols = pa.array([f"S{number:03}" for number in range(200)]).take(pa.array(rng.integers(0, 200, rows)))
    venues = pa.array(list("ABCDEFGH")).take(pa.array(rng.integers(0, 8, rows)))
    return pa.table(
        {
            "ts": pa.array(START_NS + np.sort(rng.integers(0, DAY_NS, rows)), pa.timestamp("ns", "UTC")),
            "sym": symbols,
            "venue": venues,
            "price": np.round(100 + np.cumsum(rng.integers(-2, 3, rows)) / 100, 2),
            "size": rng.integers(1, 1_000, rows),
            "order_id": rng.integers(0, 1 << 40, rows),
        }
    )


def database(folder: Path, keys: Path | None) -> splay.Database:
    """A new database, encrypted if there are keys."""
    folder.mkdir()
    if keys:
        (folder / "splay.toml").write_text(f'[encryption]\nkey_file = "{keys}"\n')
    return splay.open(folder, threads=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    rows = table(options.rows)
    print(f"{options.rows:,} rows; milliseconds plain and encrypted, and their ratio")
    with tempfile.TemporaryDirectory() as work:
        keys = Path(work) / "keys"
        keys.write_text(KEY)
        keys.chmod(0o600)
        # The first load of a process is slower than the others.
        database(Path(work) / "first", None).write("t", rows, time="ts", symbol="sym", tier="fast")
        for tier in TIERS:
            databases, loads, sizes = [], [], []
            for number, key_file in enumerate((None, keys)):
                folder = Path(work) / f"{tier}{number}"
                databases.append(database(folder, key_file))
                start = time.perf_counter()
                databases[-1].write("t", rows, time="ts", symbol="sym", tier=tier)
                loads.append((time.perf_counter() - start) * 1000)
                sizes.append(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()))
            print(f"{tier}: {sizes[0]:,} and {sizes[1]:,} bytes, {sizes[1] / sizes[0]:.4f}; loads {loads[0]:.0f} {loads[1]:.0f}")
            ratios = []
            for statement in STATEMENTS:
                times: list[list[float]] = [[], []]
                for _ in range(options.rounds):
                    for own, each in zip(times, databases, strict=True):
                        own += milliseconds(lambda each=each, statement=statement: each.sql(statement).to_arrow(), 1)
                plain, encrypted = (statistics.median(own) for own in times)
                ratios.append(encrypted / plain)
                print(f"  {plain:8.2f} {encrypted:8.2f} {ratios[-1]:5.2f}  {statement}")
            print(f"  geometric mean {statistics.geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
