"""As-of joins in DuckDB's spelling give what DuckDB gives on the same rows."""

import random

import duckdb
import pyarrow as pa
import pytest

import splay

START = 1_570_455_000_000_000
STATEMENTS = 120


def rows(rng, count, symbols, step_max):
    """Times in whole microseconds, unique within a symbol: DuckDB doesn't say which of equal times it takes."""
    times, names, venues = [], [], []
    clock = {}
    for _ in range(count):
        symbol = rng.choice(symbols)
        clock[symbol] = clock.get(symbol, START + rng.randint(0, 5_000_000)) + rng.randint(1, step_max)
        times.append(clock[symbol] * 1_000)
        names.append(symbol)
        venues.append(rng.choice(["N", "Q", None]))
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("ns", "UTC")),
            "sym": pa.array(names).dictionary_encode(),
            "venue": pa.array(venues),
            "id": pa.array(range(count), pa.int64()),
        }
    )


SHAPES = {
    "dense": (3_000, 12_000, ["AAPL", "IBM", "MSFT", None], 2_000_000, 500_000),
    "sparse": (4_000, 200, ["AAPL", "IBM", "MSFT", None], 1_000_000, 60_000_000),
    "many symbols": (5_000, 5_000, [f"S{n}" for n in range(1_500)], 3_600_000_000, 3_600_000_000),
    "several dates": (2_000, 2_000, ["AAPL"], 600_000_000, 600_000_000),
}


@pytest.fixture(scope="module", params=list(SHAPES))
def engines(request, tmp_path_factory):
    left_rows, right_rows, symbols, left_step, right_step = SHAPES[request.param]
    rng = random.Random(request.param)
    tables = {"l": rows(rng, left_rows, symbols, left_step), "r": rows(rng, right_rows, symbols, right_step)}
    database = splay.open(tmp_path_factory.mktemp("asof") / "db")
    rival = duckdb.connect()
    rival.execute("set timezone = 'UTC'")
    for name, table in tables.items():
        database.write(name, table, time="ts", symbol="sym")
        rival.register("frame", table)
        rival.execute(f"create table {name} as select * replace (sym::varchar as sym, ts::timestamptz as ts) from frame")
        rival.unregister("frame")
    return database, rival


def statement(rng):
    kept = rng.choice(["", "left", "inner"])
    op = rng.choice([">=", ">", "<=", "<"])
    left = rng.choice(["l", "l", "(select * from l where id % 3 = 0)"])
    right = rng.choice(["r", "r", "(select * from r where id % 2 = 0)", "(select ts, sym, venue, id from r)"])
    condition = rng.choice(
        [
            f"on l.sym = r.sym and l.ts {op} r.ts",
            f"on l.ts {op} r.ts and r.sym = l.sym",
            "using (sym, ts)",
        ]
    )
    where = rng.choice(["", " where l.sym = 'IBM'", " where l.id % 5 = 1", " where r.id > 20"])
    columns = rng.choice(["l.id, r.id", "l.id, r.id, l.ts, r.ts", "count(*), sum(r.id), max(r.venue)"])
    return f"select {columns} from {left} l asof {kept} join {right} r {condition}{where}"


def values(table):
    columns = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
        columns.append([None if value is None else str(int(value)) if not isinstance(value, str) else value
                        for value in column.to_pylist()])
    return sorted(zip(*columns), key=lambda row: [(value is None, value or "") for value in row])


def test_asof_joins_agree_with_duckdb(engines):
    database, rival = engines
    rng = random.Random(7)
    for number in range(STATEMENTS):
        text = statement(rng)
        ours = values(database.sql(text).to_arrow())
        theirs = values(rival.execute(text).to_arrow_table())
        assert ours == theirs, f"statement {number}: {text}"
