"""Random statements give what DuckDB gives on the same rows."""

import math
import random

import duckdb
import pyarrow as pa
import pytest

import splay

ROWS = 20_000
STATEMENTS = 300


def market(seed):
    """Ticks with ties, nulls and several dates, in whole microseconds, which is what DuckDB computes with."""
    rng = random.Random(seed)
    start = 1_570_455_000_000_000_000
    times, symbols, venues, prices, sizes, flags = [], [], [], [], [], []
    for _row in range(ROWS):
        start += rng.choice([0, 0, 1_000, 50_000_000, 20_000_000_000])
        times.append(start)
        symbols.append(rng.choice(["AAPL", "IBM", "MSFT", "BRK A", "Z", None]))
        venues.append(rng.choice("NQPZ"))
        prices.append(rng.choice([None, 0.0, -1.5, rng.randint(1, 400_000) / 100, rng.randint(1, 100) / 4]))
        sizes.append(rng.choice([None, 0, 100, rng.randint(1, 5_000)]))
        flags.append(rng.choice([True, False, None]))
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("ns", "UTC")),
            "sym": pa.array(symbols).dictionary_encode(),
            "venue": pa.array(venues),
            "price": pa.array(prices, pa.float64()),
            "size": pa.array(sizes, pa.int64()),
            "flag": pa.array(flags),
        }
    )


def literal_time(rng):
    nanos = 1_570_455_000 + rng.randint(-1_000, 60_000)
    return f"to_timestamp({nanos})"


def predicate(rng, depth=0):
    compare = rng.choice(["=", "<", "<=", ">", ">=", "<>"])
    leaves = [
        lambda: f"sym = '{rng.choice(['AAPL', 'IBM', 'NONE', 'BRK A'])}'",
        lambda: f"sym in ('AAPL', '{rng.choice(['IBM', 'Z', 'Q'])}')",
        lambda: f"sym like '{rng.choice(['A%', '%M', '%K%', '_'])}'",
        lambda: "sym is null",
        lambda: f"venue {compare} '{rng.choice('NQPZ')}'",
        lambda: f"price {compare} {rng.choice([0, 12.25, 1999.99, -1.5])}",
        lambda: f"size {compare} {rng.choice([0, 100, 2500])}",
        lambda: f"size between {rng.randint(0, 100)} and {rng.randint(100, 4000)}",
        lambda: f"ts {compare} {literal_time(rng)}",
        lambda: "flag",
        lambda: "price is not null",
        lambda: f"price * size {compare} {rng.randint(0, 100_000)}",
    ]
    if depth < 2 and rng.random() < 0.5:
        left, right = predicate(rng, depth + 1), predicate(rng, depth + 1)
        return rng.choice([f"({left} and {right})", f"({left} or {right})", f"not ({left})"])
    return rng.choice(leaves)()


def statement(rng):
    """A statement whose answer has one order, or none that matters."""
    where = f" where {predicate(rng)}" if rng.random() < 0.8 else ""
    if rng.random() < 0.35:
        columns = rng.sample(["ts", "sym", "venue", "price", "size", "flag", "price * size v", "price + 1 w"], 3)
        return f"select {', '.join(columns)} from tick{where}", False
    keys = rng.sample(["sym", "venue", "flag", "date_trunc('hour', ts)"], rng.randint(0, 2))
    aggregates = rng.sample(
        [
            "count(*)",
            "count(price)",
            "sum(size)",
            "sum(price)",
            "avg(price)",
            "min(price)",
            "max(size)",
            "min(ts)",
            "max(sym)",
            "stddev(price)",
            "median(size)",
            "count(distinct venue)",
            "sum(price * size) / sum(size)",
        ],
        rng.randint(1, 4),
    )
    text = f"select {', '.join(keys + aggregates)} from tick{where}"
    if not keys:
        return text, False
    text += f" group by {', '.join(keys)}"
    if rng.random() < 0.3:
        text += " having count(*) > 3"
    order = ", ".join(f"{key} {rng.choice(['asc', 'desc'])} nulls {rng.choice(['first', 'last'])}" for key in keys)
    text += f" order by {order}"
    if rng.random() < 0.4:
        text += f" limit {rng.randint(0, 7)}"
    return text, True


def plain(value):
    if hasattr(value, "value") and hasattr(value, "isoformat"):
        return value.value
    return value


def rows_of(table):
    columns = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        columns.append(column.to_pylist())
    return list(zip(*columns))


def is_close(left, right):
    if left is None or right is None:
        return left is None and right is None
    if isinstance(left, float) or isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
    return left == right


def sort_key(row):
    return [(value is None, str(type(value)), value if value is not None else 0) for value in row]


@pytest.fixture(scope="module", params=[1, 2])
def engines(request, tmp_path_factory):
    table = market(request.param)
    database = splay.open(tmp_path_factory.mktemp("differential") / "db")
    half = ROWS // 2
    # The later half first, so that the second write merges.
    database.write("tick", table.slice(half), time="ts", symbol="sym")
    database.write("tick", table.slice(0, half), time="ts", symbol="sym")
    rival = duckdb.connect()
    rival.execute("set timezone = 'UTC'")
    rival.register("frame", table)
    rival.execute("create table tick as select * replace (sym::varchar as sym, ts::timestamptz as ts) from frame")
    return request.param, database, rival


def test_random_statements_agree_with_duckdb(engines):
    seed, database, rival = engines
    rng = random.Random(1000 + seed)
    for number in range(STATEMENTS):
        text, ordered = statement(rng)
        ours = rows_of(database.sql(text).to_arrow())
        theirs = rows_of(rival.execute(text).to_arrow_table())
        if not ordered:
            ours, theirs = sorted(ours, key=sort_key), sorted(theirs, key=sort_key)
        assert len(ours) == len(theirs), f"seed {seed}, statement {number}: {text}"
        for left, right in zip(ours, theirs):
            assert len(left) == len(right) and all(map(is_close, left, right)), (
                f"seed {seed}, statement {number}: {text}\n{left}\n{right}"
            )
