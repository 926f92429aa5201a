"""Rows of every column type for statements that another engine answers, too: extremes, NaN, infinities, both zeros, nulls and ties."""

import datetime
import decimal
import pathlib
import random
from collections.abc import Iterator

import duckdb
import pyarrow as pa

import splay

ROWS = 240
INTEGERS = {"i8": pa.int8(), "i16": pa.int16(), "i32": pa.int32(), "i64": pa.int64()} | {
    "u8": pa.uint8(), "u16": pa.uint16(), "u32": pa.uint32(), "u64": pa.uint64()
}  # fmt: skip
FLOATS = [0.0, -0.0, 0.5, -0.5, 2.25, 100.0, -3.75, float("nan"), float("inf"), float("-inf")]
EXTREMES = [1.7976931348623157e308, -1.7976931348623157e308, 5e-324, 1e300, 9007199254740993.0]
DAY_US = 86_400_000_000


def bounds(name: str) -> tuple[int, int]:
    """Least and greatest number of an integer column."""
    bits = int(name[1:])
    return (0, 2**bits - 1) if name[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def instants(rng: random.Random) -> Iterator[int]:
    """Microseconds from before 1970 on, several rows at each."""
    at = -3 * DAY_US
    while True:
        at += rng.choice([0, 0, 1, 999_999, 60_000_000, 3_600_000_000, DAY_US // 2])
        yield at


def frame(seed: int, rows: int = ROWS) -> pa.Table:
    """A table of each type. The number ``n`` is another for each row, so that every order can be settled."""
    rng = random.Random(seed)

    def some(values: list[object]) -> list[object]:
        return [rng.choice(values) if rng.random() > 0.15 else None for _ in range(rows)]

    times = instants(rng)
    columns: dict[str, pa.Array] = {
        "ts": pa.array([next(times) * 1000 for _ in range(rows)], pa.timestamp("ns", "UTC")),
        "n": pa.array(rng.sample(range(rows), rows), pa.int64()),
        "sym": pa.array(some(["AAPL", "IBM", "MSFT", "Z"])).dictionary_encode(),
        "venue": pa.array(some(["N", "Q", "", "n"])),
        "note": pa.array([f"{rng.choice('abcé')}{rng.randint(0, 90)}%_" if rng.random() > 0.1 else None for _ in range(rows)]),
        "px": pa.array(some([rng.randint(-400, 400) / 4 for _ in range(40)] + FLOATS[:4]), pa.float64()),
        "odd": pa.array(some(FLOATS), pa.float64()),
        "wild": pa.array(some(FLOATS + EXTREMES), pa.float64()),
        "f32": pa.array(some(FLOATS), pa.float32()),
        "dec": pa.array(some([decimal.Decimal(rng.randint(-99_999, 99_999)).scaleb(-3) for _ in range(20)]), pa.decimal128(12, 3)),
        "d": pa.array(some([datetime.date(1969, 12, 31) + datetime.timedelta(days=rng.randint(-3, 40)) for _ in range(9)]), pa.date32()),
        "seen": pa.array(some([(-DAY_US + rng.randint(0, 20) * 3_600_000_000) * 1000 for _ in range(12)]), pa.timestamp("ns", "UTC")),
        "flag": pa.array(some([True, False]), pa.bool_()),
    }
    for name, kind in INTEGERS.items():
        low, high = bounds(name)
        values = [low, high, 0, 1, 2, 7, 100, max(low, -5), max(low, -100)] + [rng.randint(0, 20) for _ in range(12)]
        columns[name] = pa.array(some(values), kind)
    return pa.table(columns)


def oracle(table: pa.Table) -> duckdb.DuckDBPyConnection:
    """DuckDB with the same rows as table ``t``. It computes times in microseconds, without a zone."""
    rival = duckdb.connect()
    rival.execute("set timezone = 'UTC'")
    rival.register("frame", table)
    rival.execute(
        "create table t as select * replace (sym::varchar as sym, ts::timestamptz::timestamp as ts, seen::timestamptz::timestamp as seen) from frame"
    )
    return rival


def database(folder: pathlib.Path, table: pa.Table, source: str, cache: int = 0) -> "tuple[splay.Database, object]":
    """The rows in a database: in Arrow or Parquet segments, captured, or some of each; and what keeps captured rows open."""
    held = splay.open(folder, result_cache_bytes=cache, threads=2)
    quarter = table.num_rows // 4
    parts = {
        "mixed": [
            ("mapped", table.slice(0, quarter)),
            ("fast", table.slice(quarter, quarter)),
            ("small", table.slice(2 * quarter, quarter)),
            ("captured", table.slice(3 * quarter)),
        ]
    }.get(source, [(source, table)])
    capture = None
    for kind, rows in parts:
        if kind == "captured":
            capture = capture or held.capture()
            capture.append("t", rows, ack="process", time="ts", symbol="sym")
        else:
            held.write("t", rows, time="ts", symbol="sym", tier=kind)
    return held, capture
