"""Partitions of months, years and all time: chosen, shown and changed by the command, in SQL and in Python; answers are those of DuckDB."""

import datetime
import pathlib
import random
import subprocess

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_server import SPLAY

import splay

PERIODS = ["day", "month", "year", "all"]
SYMBOLS = [f"S{number:03}" for number in range(50)]


def bars(first: datetime.date, dates: int, symbols: list[str] | None = None) -> pa.Table:
    """A bar of each symbol and date, at 21:00 UTC."""
    rng = random.Random(first.toordinal())
    days = [first + datetime.timedelta(days=number) for number in range(dates)]
    rows = [(day, symbol) for day in days for symbol in symbols or SYMBOLS]
    close = [None if rng.random() < 0.02 else rng.randrange(1000, 9000) / 100 for _ in rows]
    return pa.table(
        {
            "time": pa.array([datetime.datetime.combine(day, datetime.time(21), datetime.UTC) for day, _ in rows], pa.timestamp("ns", "UTC")),
            "symbol": [symbol for _, symbol in rows],
            "close": pa.array(close, pa.float64()),
            "volume": pa.array([rng.randrange(1, 10**6) for _ in rows], pa.int64()),
        }
    )


def run(*arguments: object, fails: bool = False) -> str:
    done = subprocess.run([SPLAY, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return bars(datetime.date(2022, 11, 20), 430)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory, rows: pa.Table) -> splay.Database:
    folder = tmp_path_factory.mktemp("partitions")
    pq.write_table(rows, folder / "bars.parquet")
    for period in PERIODS:
        run("load", folder / "db", f"bar_{period}", folder / "bars.parquet", "--partition", period)
    run("load", folder / "db", "bar", folder / "bars.parquet")
    return splay.open(folder / "db")


STATEMENTS = [
    "select symbol, count(*) as n, avg(close) as a, max(close) as h from bar group by symbol order by symbol",
    "select date, count(close) as n, sum(volume) as v from bar group by date order by date",
    "select symbol, sum(volume) as v from bar where date = '2023-03-01' group by symbol order by symbol",
    "select count(*) as n, sum(volume) as v from bar where date between '2022-12-30' and '2023-01-02' and symbol in ('S001', 'S044')",
    "select * from bar where symbol = 'S007' and date >= '2024-01-20' order by time",
    "select date_trunc('month', date) as m, symbol, max(close) - min(close) as r from bar group by m, symbol order by m, symbol",
    "select symbol, time, close - lag(close) over (partition by symbol order by time) as d from bar where date < '2022-12-05' order by symbol, time",
    "select max(date) as d, count(distinct date) as n from bar where close is not null",
    "select a.symbol, count(*) as n from bar a join bar b on a.symbol = b.symbol and a.date = b.date - 1 where a.date = '2022-12-31' group by a.symbol order by a.symbol",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_answers_are_those_of_duckdb(database: splay.Database, rows: pa.Table, statement: str) -> None:
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    connection.register("given", rows)
    connection.execute("create view bar as select *, time::date as date from given")
    expected = connection.execute(statement).fetchall()
    assert expected
    for period in PERIODS:
        found = database.sql(statement.replace(" bar", f" bar_{period}")).fetchall()
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            for left, right in zip(one, other, strict=True):
                if isinstance(right, float):
                    assert left == pytest.approx(right, rel=1e-12), period
                elif isinstance(right, datetime.datetime):
                    assert left.date() == right.date() if isinstance(left, datetime.datetime) else left == right.date(), period
                else:
                    assert left == right, period


def test_a_new_table_gets_what_suits_it_and_shows_it(database: splay.Database, rows: pa.Table, tmp_path: pathlib.Path) -> None:
    assert database.table("bar").partition == "year"
    assert "partitions 3 by year (2022-11-20 to 2024-01-23)" in run("describe", database.path, "bar")
    assert "partitions 430 (" in run("describe", database.path, "bar_day")
    written = splay.open(tmp_path / "db")
    written.write("bar", rows)
    assert written.table("bar").partition == "year"
    written.write("few", rows.slice(0, 50 * 20))
    assert written.table("few").partition == "day"
    written.write("chosen", rows, partition="month")
    assert written.table("chosen").partition == "month"
    with pytest.raises(splay.SchemaError, match='its partitions are those of "month"'):
        written.write("chosen", rows, partition="day")
    with pytest.raises(ValueError, match="no period of partitions"):
        written.write("other", rows, partition="week")


def test_partitions_are_changed_by_the_command_in_sql_and_in_python(rows: pa.Table, tmp_path: pathlib.Path) -> None:
    database = splay.open(tmp_path / "db")
    database.write("bar", rows)
    count = "select count(*) as n, sum(volume) as v, min(date) as a, max(date) as b from bar"
    expected = database.sql(count).fetchall()
    run("alter", database.path, "bar", "partition", "month")
    assert (database.table("bar").partition, database.sql(count).fetchall()) == ("month", expected)
    database.sql("alter table bar partition by day")
    assert (database.table("bar").partition, database.sql(count).fetchall()) == ("day", expected)
    database.table("bar").set_partition("all")
    assert (database.table("bar").partition, database.sql(count).fetchall()) == ("all", expected)
    assert "no period of partitions" in run("alter", database.path, "bar", "partition", "week", fails=True)
    database.sql("create table made (time timestamp, symbol symbol, x double) partition by month")
    database.sql("create table whole (time timestamp, x double) with (partition = 'none')")
    assert [database.table(name).partition for name in ("made", "whole")] == ["month", "all"]
    with pytest.raises(splay.Error, match="no period of partitions"):
        database.sql("create table other (time timestamp) partition by week")


@pytest.mark.parametrize("period", PERIODS)
def test_rows_of_dates_are_replaced_and_deleted(rows: pa.Table, tmp_path: pathlib.Path, period: str) -> None:
    database = splay.open(tmp_path / "db")
    database.write("bar", rows, partition=period)
    total = rows.num_rows
    corrected = bars(datetime.date(2023, 5, 30), 4, ["S001", "S002", "NEW"])
    database.write("bar", corrected, replace="symbol")
    assert database.sql("select count(*) from bar").fetchall() == [(total + 4,)]
    database.write("bar", corrected, replace="date")
    assert database.sql("select count(*) from bar where date between '2023-05-30' and '2023-06-02'").fetchall() == [(12,)]
    assert database.sql("select count(*) from bar").fetchall() == [(total - 4 * 50 + 12,)]
    database.sql("delete from bar where date = '2023-05-31' and symbol = 'NEW'")
    run("delete", database.path, "bar", "--date", "2023-06-01")
    assert database.sql("select count(*) from bar where date between '2023-05-30' and '2023-06-02'").fetchall() == [(8,)]
    database.sql("update bar set volume = -1 where date = '2023-06-02'")
    assert database.sql("select distinct date from bar where volume = -1").fetchall() == [(datetime.date(2023, 6, 2),)]
    assert database.sql("select count(*) from bar").fetchall() == [(total - 4 * 50 + 8,)]


def test_exports_name_their_folders_by_the_period(database: splay.Database, rows: pa.Table, tmp_path: pathlib.Path) -> None:
    for period, names in [("year", ["year=2022", "year=2023", "year=2024"]), ("all", ["all"])]:
        database.table(f"bar_{period}").export(tmp_path / period)
        assert sorted(path.name for path in (tmp_path / period).iterdir()) == names
        read = duckdb.execute(f"select count(*), sum(volume) from '{tmp_path / period}/*/*.parquet'").fetchall()
        assert read == [(rows.num_rows, sum(rows["volume"].to_pylist()))]


def test_frames_and_earlier_commits(database: splay.Database) -> None:
    by_period = [
        database[f"bar_{period}"].filter(splay.col("date") == datetime.date(2023, 7, 4)).group_by("symbol").agg(v=splay.col("volume").sum()).sort("symbol").to_arrow()
        for period in PERIODS
    ]
    assert all(one.equals(by_period[0]) for one in by_period)
    at_first = database.sql("select count(*) from bar_month at commit 1").fetchall()
    assert at_first == database.sql("select count(*) from bar_month").fetchall()
