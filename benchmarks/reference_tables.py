"""Joins of trades to instruments by key, and changes of a reference table, beside DuckDB's. Answers are compared before times count.

Run it by `make bench-reference`.
"""

import argparse
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from timing import milliseconds

import splay

START_NS = 1_709_544_600_000_000_000
DAY_NS = 86_400_000_000_000

QUESTIONS = {
    "turnover by exchange": (
        "select i.exchange, count(*) as n, sum(t.size * i.lot) as turnover from trade t join instrument i on t.symbol = i.symbol group by i.exchange"
    ),
    "rows of one exchange": "select count(*) as n, sum(t.size) as size from trade t join instrument i on t.symbol = i.symbol where i.exchange = 'X07'",
    "trades without an instrument": "select count(*) as n from trade t left join instrument i on t.symbol = i.symbol where i.symbol is null",
    "size by lot, left": "select i.lot, sum(t.size) as size from trade t left join instrument i on t.symbol = i.symbol group by i.lot",
    "one symbol": "select t.size * i.lot as value from trade t join instrument i on t.symbol = i.symbol where t.symbol = 'S00042'",
}


def tables(rows: int, instruments: int) -> tuple[pa.Table, pa.Table]:
    """Trades over ten days of as many symbols as there are instruments, and one in fifty without an instrument."""
    rng = np.random.default_rng(1)
    number = (rng.zipf(1.3, rows) * 7919) % (instruments + instruments // 50)
    names = pa.array([f"S{n:05}" for n in range(instruments + instruments // 50)])
    trade = pa.table(
        {
            "time": pa.array(START_NS + rng.integers(0, 10 * DAY_NS, rows), pa.timestamp("ns", "UTC")),
            "symbol": pa.DictionaryArray.from_arrays(pa.array(number, pa.int32()), names),
            "size": pa.array(rng.integers(1, 1000, rows)),
        }
    )
    instrument = pa.table(
        {
            "symbol": names.slice(0, instruments),
            "exchange": pa.array([f"X{n % 12:02}" for n in range(instruments)]),
            "lot": pa.array(rng.choice([1, 10, 100], instruments)),
            "tick_size": pa.array(rng.choice([0.01, 0.05], instruments)),
        }
    )
    return trade, instrument


def best(run: Callable[[], object], repeats: int) -> float:
    """The shortest of some runs, in milliseconds."""
    return min(milliseconds(run, repeats))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--instruments", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    trade, instrument = tables(arguments.rows, arguments.instruments)
    with tempfile.TemporaryDirectory() as folder:
        db = splay.open(Path(folder) / "db", threads=arguments.threads)
        db.write("trade", trade, time="time", symbol="symbol")
        db.write("instrument", instrument, key="symbol")
        con = duckdb.connect(str(Path(folder) / "duck.db"))
        con.execute(f"set threads = {arguments.threads}")
        for name, frame in (("trade", trade), ("instrument", instrument)):
            con.register("frame", frame)
            con.execute(f"create table {name} as select * from frame" + (" order by symbol, time" if name == "trade" else ""))
        con.execute("alter table instrument add primary key (symbol)")
        ratios = []
        for name, statement in QUESTIONS.items():
            ours = sorted((tuple(row.values()) for row in db.sql(statement).to_arrow().to_pylist()), key=repr)
            theirs = sorted((tuple(row) for row in con.execute(statement).fetchall()), key=repr)
            assert ours == [tuple(int(cell) if isinstance(cell, int) else cell for cell in row) for row in theirs], name
            mine = best(lambda s=statement: db.sql(s).to_arrow(), arguments.repeats)
            other = best(lambda s=statement: con.sql(s).to_arrow_table(), arguments.repeats)
            ratios.append(other / mine)
            print(f"{name:30} splay {mine:8.3f} ms   duckdb {other:8.3f} ms   {other / mine:6.1f} times")
        print(f"geometric mean {statistics.geometric_mean(ratios):.1f} times")
        upsert = "insert into instrument values ('S00042', 'X07', 10, 0.01) on conflict (symbol) do update set lot = excluded.lot"
        print(f"one row by ON CONFLICT         splay {best(lambda: db.sql(upsert).to_arrow(), arguments.repeats):8.3f} ms")


if __name__ == "__main__":
    main()
