"""What statements cost on a materialized view of minute bars, beside the same statements on its ticks and on a table of bars in DuckDB, and what a
refresh costs by what has changed. Answers are compared before times count.

Run it by `make bench-views`.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from timing import milliseconds

import splay

START_NS = 1_709_251_200_000_000_000  # 2024-03-01T00:00:00Z
DAY_NS = 86_400_000_000_000

BARS = (
    "select symbol, time_bucket('1 minute', time) as bar, first(price) as open, max(price) as high, min(price) as low, last(price) as close, "
    "sum(size) as volume, count(*) as trades from trade group by symbol, bar"
)
DUCKDB_BARS = (
    "create table bars as select symbol, time_bucket(interval '1 minute', time) as bar, first(price order by number) as open, max(price) as high, "
    "min(price) as low, last(price order by number) as close, sum(size)::bigint as volume, count(*) as trades from trade group by 1, 2 order by 1, 2"
)

STATEMENTS = {
    "one symbol, a day": "select bar, open, high, low, close, volume from bars where symbol = 'S007' and bar >= '2024-03-12' and bar < '2024-03-13'",
    "one symbol, hours of the month": (
        "select time_bucket('1 hour', bar) as hour, max(high) as high, min(low) as low, sum(volume) as volume from bars where symbol = 'S007' group by 1"
    ),
    "volume by symbol": "select symbol, sum(volume) as volume from bars group by symbol",
    "days of all symbols": "select symbol, time_bucket('1 day', bar) as day, sum(volume) as volume, max(high) as high from bars group by 1, 2",
    "largest minutes": "select bar, symbol, volume from bars order by volume desc, bar, symbol limit 10",
}


def day(number: int, rows: int, symbols: int, rng: np.random.Generator) -> pa.Table:
    """Trades of a date, in order of time."""
    names = pa.array([f"S{n:03}" for n in range(symbols)])
    time_ns = START_NS + number * DAY_NS + np.sort(rng.integers(0, DAY_NS // 1000, rows)) * 1000
    code = rng.integers(0, symbols, rows).astype(np.int32)
    return pa.table(
        {
            "time": pa.array(time_ns, pa.timestamp("ns", "UTC")),
            "symbol": pa.DictionaryArray.from_arrays(pa.array(code), names),
            "price": pa.array(100 + code + rng.normal(0, 1, rows).round(2)),
            "size": pa.array(rng.integers(1, 1000, rows)),
            "number": pa.array(np.arange(rows) + number * rows),
        }
    )


def median(run: Callable[[], object], repeats: int) -> float:
    """Of the times of some runs, in milliseconds."""
    return statistics.median(milliseconds(run, repeats))


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    plain = [[str(v) if not isinstance(v, float) else round(v, 6) for v in column.cast(_shown(column.type)).to_pylist()] for column in table.columns]
    return sorted(zip(*plain), key=repr)


def _shown(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return pa.string()
    return pa.timestamp("us") if pa.types.is_timestamp(kind) else pa.int64() if pa.types.is_integer(kind) or pa.types.is_decimal(kind) else kind


def changes(db: splay.Database, repeats: int) -> None:
    """What a refresh costs, by what has changed."""
    print(f"\n{'changed since':44}{'refresh':>10}{'statement before':>18}{'after':>8}")
    statement = STATEMENTS["one symbol, a day"]

    def measure(what: str, change: Callable[[], object]) -> None:
        change()
        before = median(lambda: db.sql(statement).to_arrow(), repeats)
        start = time.perf_counter()
        db.sql("refresh materialized view bars")
        refresh = (time.perf_counter() - start) * 1000
        after = median(lambda: db.sql(statement).to_arrow(), repeats)
        print(f"{what:44}{refresh:10.1f}{before:18.2f}{after:8.2f}")

    late = "insert into trade values ('2024-03-12 10:00:00', 'S007', 100, 1, -1)"
    measure("nothing", lambda: None)
    measure("a late row of a date", lambda: db.sql(late))
    measure("rows of a symbol of a date, deleted", lambda: db.sql("delete from trade where date = '2024-03-15' and symbol = 'S003'"))
    measure("a late row in each of ten dates", lambda: [db.sql(late.replace("03-12", f"03-{n:02}")) for n in range(10, 20)])
    measure("all dates", lambda: [db.sql(late.replace("03-12", f"03-{n + 1:02}")) for n in range(30)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--rows", type=int, default=500_000, help="trades a day")
    parser.add_argument("--symbols", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=31)
    given = parser.parse_args()
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        db, duck = splay.open(Path(folder) / "db"), duckdb.connect(str(Path(folder) / "duck.db"))
        for number in range(given.days):
            trade = day(number, given.rows, given.symbols, rng)
            db.write("trade", trade, time="time", symbol="symbol", partition="day")
            # DuckDB has no time_bucket of nanoseconds.
            duck.register("day", trade.set_column(0, "time", trade["time"].cast(pa.timestamp("us"))))
            duck.execute("insert into trade select * from day" if number else "create table trade as select * from day")
        start = time.perf_counter()
        db.sql(f"create materialized view bars as {BARS}")
        created = time.perf_counter() - start
        start = time.perf_counter()
        duck.execute(DUCKDB_BARS)
        computed = time.perf_counter() - start
        ((count,),) = db.sql("select count(*) from bars").fetchall()
        print(f"{given.days * given.rows:,} trades, {count:,} bars; created in {created:.2f} s (DuckDB's table {computed:.2f} s)")
        db.sql(f"create view ticks as {BARS}")
        print(f"\n{'median ms':32}{'view':>8}{'ticks':>9}{'DuckDB bars':>13}")
        for name, statement in STATEMENTS.items():
            of_ticks = statement.replace("from bars", "from ticks")
            answers = [rows(db.sql(statement).to_arrow()), rows(db.sql(of_ticks).to_arrow()), rows(duck.sql(statement).to_arrow_table())]
            assert answers[0] == answers[1] == answers[2], f"answers differ: {name}"
            view = median(lambda text=statement: db.sql(text).to_arrow(), given.repeats)
            ticks = median(lambda text=of_ticks: db.sql(text).to_arrow(), 5)
            duckdb_bars = median(lambda text=statement: duck.sql(text).to_arrow_table(), given.repeats)
            print(f"{name:32}{view:8.2f}{ticks:9.2f}{duckdb_bars:13.2f}")
        changes(db, given.repeats)


if __name__ == "__main__":
    main()
