"""PostgreSQL's clients, unmodified, against `splay serve --postgres`: psycopg 3 and 2, asyncpg, pandas, SQLAlchemy, psql, JDBC."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import itertools
import math
import pathlib
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Iterator

import pandas as pd
import pytest
import sqlalchemy
from test_server import ROOT, Server, eventually, lines, make_certificate, new_token

asyncpg = pytest.importorskip("asyncpg")
psycopg = pytest.importorskip("psycopg")
psycopg2 = pytest.importorskip("psycopg2")

UTC = datetime.UTC
DAY = datetime.datetime(2026, 1, 1, tzinfo=UTC)
JDBC_VERSION = "42.7.8"
JDBC = f"https://repo1.maven.org/maven2/org/postgresql/postgresql/{JDBC_VERSION}/postgresql-{JDBC_VERSION}.jar"

KINDS = """create table kinds (time timestamp, sym symbol, flag bool, tiny int8, small int16, medium int32, large int64, byte uint8,
    huge uint64, ratio float32, price float64, amount decimal(18, 4), day date, clock time, note text, depth levels(2))"""
VALUES = """insert into kinds select timestamp '2026-01-02 14:30:00.123456789', 'IBM', true, -1, -2, -3, -4, 200,
    18446744073709551615, 0.5, 1.25, 12.5, date '2026-01-03', time '09:30:00.5', 'a "b" \\ é', make_array(1.5, 2.5)"""


class Postgres(Server):
    """A server that speaks PostgreSQL's wire protocol, too."""

    def __init__(self, database: pathlib.Path, *arguments: str, config: str = "") -> None:
        super().__init__(database, "--postgres", "127.0.0.1:0", *arguments, config=config)

    @property
    def port(self) -> int:
        return int(self.said["postgres"].rpartition(":")[2])

    @property
    def address(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=anybody dbname=market"

    @property
    def url(self) -> str:
        return f"anybody@127.0.0.1:{self.port}/market"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with Postgres(tmp_path_factory.mktemp("postgres") / "db") as running:
        assert running.send("/write", lines(0, 1000))[0] == 204
        for statement in (KINDS, VALUES, "insert into kinds (time, sym) select timestamp '2026-01-02 14:30:01', 'NULLS'"):
            status, body = running.send("/query", statement.encode(), content_type="text/plain")
            assert status == 200, body
        yield running


EXPECTED = {
    "sym": "IBM",
    "flag": True,
    "tiny": -1,
    "small": -2,
    "medium": -3,
    "large": -4,
    "byte": 200,
    "huge": decimal.Decimal(2**64 - 1),
    "ratio": 0.5,
    "price": 1.25,
    "amount": decimal.Decimal("12.5000"),
    "day": datetime.date(2026, 1, 3),
    "clock": datetime.time(9, 30, 0, 500_000),
    "note": 'a "b" \\ é',
    "depth": [1.5, 2.5],
}


def check_kinds(row: dict[str, object]) -> None:
    """Nanoseconds are cut to microseconds; all else is what was stored."""
    row = dict(row)
    assert row.pop("time") == datetime.datetime(2026, 1, 2, 14, 30, 0, 123_456, UTC)
    row.pop("date", None)
    assert row == EXPECTED


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_reads_every_type(server: Postgres, binary: bool) -> None:
    with psycopg.connect(server.address) as connection:
        cursor = connection.cursor(binary=binary, row_factory=psycopg.rows.dict_row)
        cursor.execute("select * from kinds where sym = 'IBM'")
        check_kinds(cursor.fetchone())
        cursor.execute("select price, note, depth, clock from kinds where sym = 'NULLS'")
        assert cursor.fetchone() == {"price": None, "note": None, "depth": None, "clock": None}
        cursor.execute("select 'nan'::double as a, -1.0/0.0::double as b, null as c, interval '1 day 2 hours' as d")
        row = cursor.fetchone()
        assert math.isnan(row["a"]) and row["b"] == -math.inf and row["c"] is None
        assert row["d"] == datetime.timedelta(days=1, hours=2)


def test_psycopg_binds_values(server: Postgres) -> None:
    with psycopg.connect(server.address, autocommit=True) as connection:
        ask = connection.execute
        rows = ask("select sym, size from trade where sym = %s and size < %s order by size", ("IBM", 5)).fetchall()
        assert rows == [("IBM", 1), ("IBM", 3)]
        rows = ask("select count(*) from trade where price < %s and price > %s", (10.0, decimal.Decimal("2.5"))).fetchall()
        assert rows == [(7,)]
        after = DAY - datetime.timedelta(seconds=1)
        assert ask("select count(*) from trade where time > %s", (after,)).fetchone() == (1000,)
        assert ask("select count(*) from trade where time > %s", ("2026-01-01 00:00:01",)).fetchone() == (0,)
        assert ask("select count(*) from kinds where day = %s", (datetime.date(2026, 1, 3),)).fetchone() == (1,)
        assert ask("select count(*) from kinds where flag = %s", (True,)).fetchone() == (1,)
        assert ask("select count(*) from kinds where note = %s", (None,)).fetchone() == (0,)
        assert ask("select size from trade order by size limit %s", (2,)).fetchall() == [(0,), (1,)]
        # Prepared on the server from the sixth time on.
        for size in range(12):
            assert ask("select price from trade where size = %s", (size,)).fetchall() == [(size + 0.5,)]
        with connection.cursor(binary=True) as cursor:
            cursor.execute("select price, time from trade where size = %b and price = %b", (7, 7.5))
            assert cursor.fetchall() == [(7.5, DAY)]


def test_failures_have_the_classes_that_programs_catch(server: Postgres) -> None:
    with psycopg.connect(server.address, autocommit=True) as connection:
        connection.execute("create table ranked (sym symbol primary key, rank int)")
        connection.execute("insert into ranked values ('A', 1)")
        connection.execute("create view ranks as select rank from ranked")
        for statement, error in [
            ("create table ranked (time timestamp)", psycopg.errors.DuplicateTable),
            ("insert into ranked values ('A', 2)", psycopg.errors.UniqueViolation),
            ("insert into ranked values (null, 2)", psycopg.errors.NotNullViolation),
            ("insert into ranks values (2)", psycopg.errors.WrongObjectType),
            ("alter table ranked drop column rank", psycopg.errors.DependentObjectsStillExist),
            ("drop table ranked", psycopg.errors.DependentObjectsStillExist),
            ("selec 1", psycopg.errors.SyntaxError),
            ("select * from nowhere", psycopg.errors.UndefinedTable),
            ("select nothing from trade", psycopg.errors.UndefinedColumn),
            ("select 1 / 0", psycopg.errors.DivisionByZero),
            ("select nothing(1)", psycopg.errors.UndefinedFunction),
            ("set work_mem = 1", psycopg.errors.UndefinedObject),
            ("declare a scroll cursor for select 1", psycopg.errors.FeatureNotSupported),
        ]:
            with pytest.raises(error):
                connection.execute(statement)
        with pytest.raises(psycopg.errors.SyntaxError) as raised:
            connection.execute("select (1 from trade")
        assert raised.value.diag.statement_position == "11"
        connection.execute("set statement_timeout = '100ms'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("select sum(a.price * b.price * c.price) from trade a, trade b, trade c, trade d")


def test_what_cascade_drops_is_told_by_a_notice(server: Postgres) -> None:
    with psycopg.connect(server.address, autocommit=True) as connection:
        connection.execute("create table dropped (time timestamp, x int)")
        connection.execute("create view of_dropped as select x from dropped")
        connection.execute("create view of_of_dropped as select x from of_dropped")
        with pytest.raises(psycopg.errors.DependentObjectsStillExist, match="of_of_dropped"):
            connection.execute("drop view of_dropped")
        told: list[tuple[str | None, str | None]] = []
        connection.add_notice_handler(lambda notice: told.append((notice.severity, notice.message_primary)))
        assert connection.execute("drop table dropped cascade").statusmessage == "DROP TABLE"
        assert told == [("NOTICE", "drop cascades to views: of_of_dropped, of_dropped")]
        connection.execute("drop table if exists dropped cascade")
        connection.execute("create table dropped (time timestamp, x int)")
        connection.execute("create view of_dropped as select x from dropped")
        connection.execute("set client_min_messages = warning")
        connection.execute("drop table dropped cascade")
        assert len(told) == 1


def test_a_statement_is_cancelled(server: Postgres) -> None:
    with psycopg.connect(server.address, autocommit=True) as connection:

        def cancel() -> None:
            eventually(lambda: b"splay_statements_running 1" in server.send("/metrics")[1])
            connection.cancel_safe()

        thread = threading.Thread(target=cancel)
        thread.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("select sum(a.price * b.price * c.price) from trade a, trade b, trade c, trade d")
        thread.join()
        assert connection.execute("select 1").fetchone() == (1,)


def test_rows_are_written_with_autocommit_alone(server: Postgres) -> None:
    with psycopg.connect(server.address) as connection:
        with pytest.raises(psycopg.errors.ActiveSqlTransaction):
            connection.execute("insert into fill (time, sym, price) values (now(), 'IBM', 1)")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("select 1")
        connection.rollback()
        assert connection.execute("select 1").fetchone() == (1,)
    with psycopg.connect(server.address, autocommit=True) as connection:
        connection.execute("create table fill (time timestamp, sym symbol, price float64, size int64)")
        made = connection.execute("insert into fill values (timestamp '2026-01-02 10:00:00', 'IBM', 1.5, 10), (now(), 'AIG', 2.5, 20)")
        assert (made.rowcount, made.statusmessage) == (2, "INSERT 0 2")
        connection.execute("insert into fill values (%s, %s, %s, %s)", (DAY, "KO", 3.5, 30))
        connection.execute("insert into fill values (%s, %s, %s, %s)", ("2026-01-01 12:00:00", "PEP", "4.5", None))
        assert connection.execute("select sym, price, size from fill where sym in ('KO', 'PEP') order by sym").fetchall() == [
            ("KO", 3.5, 30),
            ("PEP", 4.5, None),
        ]
        assert connection.execute("delete from fill where sym = %s", ("KO",)).statusmessage == "DELETE 1"


def test_changes_give_rows_by_returning(server: Postgres) -> None:
    with psycopg.connect(server.address, autocommit=True) as connection:
        connection.execute("create table given (time timestamp, sym symbol, price float64, size int64)")
        made = connection.execute("insert into given values (%s, 'IBM', 1.5, 10), (%s, 'KO', 2, null) returning sym, price * 2, size", (DAY, DAY))
        assert (made.fetchall(), made.rowcount, made.statusmessage) == ([("IBM", 3.0, 10), ("KO", 4.0, None)], 2, "INSERT 0 2")
        made = connection.execute("update given set size = size + 1 where sym = %s returning sym, size as more", ("IBM",))
        assert ([column.name for column in made.description], made.fetchall()) == (["sym", "more"], [("IBM", 11)])
        gone = connection.execute("delete from given returning sym", prepare=True)
        assert (gone.fetchall(), gone.statusmessage) == ([("IBM",), ("KO",)], "DELETE 2")
        connection.execute("create table ranking (sym symbol, n bigint, primary key (sym))")
        upsert = "insert into ranking values ('B', 1), ('A', 2) on conflict (sym) do update set n = ranking.n + excluded.n returning sym, n"
        assert connection.execute(upsert).fetchall() == [("B", 1), ("A", 2)]
        assert connection.execute(upsert).fetchall() == [("B", 2), ("A", 4)]
        with pytest.raises(psycopg.errors.UndefinedColumn):
            connection.execute("delete from ranking returning nope")


def test_a_captured_table_is_dropped_and_renamed(server: Postgres) -> None:
    with psycopg.connect(server.address, autocommit=True) as connection:
        made = "create table passing (time timestamp, sym symbol, price float64)"
        connection.execute(made)
        connection.execute("insert into passing values (%s, 'IBM', 1), (%s, 'KO', 2)", (DAY, DAY))
        connection.execute("alter table passing rename to passed")
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("insert into passing values (%s, 'IBM', 3)", (DAY,))
        connection.execute("insert into passed values (%s, 'IBM', 4)", (DAY,))
        assert connection.execute("select count(*), sum(price) from passed").fetchone() == (3, 7.0)
        assert connection.execute("drop table passed").statusmessage == "DROP TABLE"
        connection.execute(made)
        connection.execute("insert into passing values (%s, 'IBM', 5)", (DAY,))
        assert connection.execute("select price from passing").fetchall() == [(5.0,)]
        connection.execute("drop table passing")


def test_rows_go_by_conditions_with_queries(server: Postgres) -> None:
    with psycopg.connect(server.address, autocommit=True) as connection:
        connection.execute("create table bad (time timestamp, sym symbol, price float64)")
        connection.execute("create table wrong (sym symbol, price float64, primary key (sym))")
        connection.execute("insert into bad values (%s, 'IBM', 1), (%s, 'KO', 2), (%s, 'IBM', 3)", (DAY, DAY, DAY))
        connection.execute("insert into wrong values ('IBM', 2)")
        statement = "delete from bad where price < (select w.price from wrong w where w.sym = bad.sym) and time = %s"
        assert connection.execute(statement, (DAY,)).statusmessage == "DELETE 1"
        set_all = "update bad set price = price + (select max(price) from bad) where sym in (select sym from wrong)"
        assert connection.execute(set_all).statusmessage == "UPDATE 1"
        assert connection.execute("select sym, price from bad order by sym").fetchall() == [("IBM", 6.0), ("KO", 2.0)]


@pytest.mark.parametrize("kind", [psycopg.ClientCursor, psycopg.Cursor])
def test_statements_are_kept_under_names(server: Postgres, kind: type) -> None:
    with psycopg.connect(server.address, autocommit=True, cursor_factory=kind) as connection:
        assert connection.execute("prepare Dear (float8) as select count(*) from trade where price >= $1").statusmessage == "PREPARE"
        expected = connection.execute("select count(*) from trade where price >= 100").fetchone()
        assert connection.execute("execute dear(100)").fetchone() == expected
        assert connection.execute("execute dear('100')").fetchone() == expected
        with pytest.raises(psycopg.errors.DuplicatePreparedStatement):
            connection.execute("prepare dear as select 1")
        connection.execute("deallocate dear")
        for statement in ("execute dear(100)", "deallocate dear"):
            with pytest.raises(psycopg.errors.InvalidSqlStatementName):
                connection.execute(statement)


@pytest.mark.parametrize("kind", [psycopg.ClientCursor, psycopg.Cursor])
def test_prepare_tells_the_faults_of_its_statement(server: Postgres, kind: type) -> None:
    errors = psycopg.errors
    with psycopg.connect(server.address, autocommit=True, cursor_factory=kind) as connection:
        for statement, error in [
            ("select nope from trade", errors.UndefinedColumn),
            ("select * from nowhere", errors.UndefinedTable),
            ("select nope from trade where sym = $1", errors.UndefinedColumn),
            ("selec 1", errors.SyntaxError),
            ("select price from trade where", errors.SyntaxError),
            ("select price from trade where sym = $1 and", errors.SyntaxError),
            ("select nofunction(price) from trade", errors.UndefinedFunction),
            ("insert into nowhere values (1)", errors.UndefinedTable),
            ("insert into trade (time, nope) values ($1, $2)", errors.UndefinedColumn),
            ("insert into trade select nope from trade", errors.UndefinedColumn),
            ("update trade set nope = 1", errors.UndefinedColumn),
            ("delete from trade where nope = $1", errors.UndefinedColumn),
        ]:
            with pytest.raises(error):
                connection.execute(f"prepare faulty as {statement}")
        # None of them is kept, and what only values make sound is.
        for statement, values in [
            ("select count(*) from trade where sym = $1 limit $2", "'IBM', 1"),
            ("select count(*) from trade where time < now() - interval $1", "'5 minutes'"),
            ("select time_bucket($1, time) from trade limit 1", "'5 minutes'"),
        ]:
            connection.execute(f"prepare faulty as {statement}")
            assert len(connection.execute(f"execute faulty({values})").fetchall()) == 1
            connection.execute("deallocate faulty")


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_inspectors_ask_for_keys_indexes_and_options(server: Postgres, driver: str) -> None:
    engine = sqlalchemy.create_engine(f"postgresql+{driver}://{server.url}")
    told = sqlalchemy.inspect(engine)
    assert "public" in told.get_schema_names() and not any(name.startswith("pg_") for name in told.get_schema_names())
    assert told.get_pk_constraint("kinds")["constrained_columns"] == []
    for get in (told.get_indexes, told.get_foreign_keys, told.get_unique_constraints, told.get_check_constraints):
        assert get("kinds") == []
    assert told.get_table_options("kinds") == {}
    every = sqlalchemy.MetaData()
    every.reflect(engine)
    assert {"time", "sym", "depth"} <= set(every.tables["kinds"].columns.keys())
    assert len(pd.read_sql_table("trade", engine)) == 1000


def test_the_end_of_a_transaction_leads_settings_back(server: Postgres) -> None:
    with psycopg.connect(server.address) as connection:
        connection.execute("set local application_name = 'inner'")
        connection.execute("set statement_timeout = 5000")
        assert connection.execute("show application_name").fetchone() == ("inner",)
        connection.rollback()
        assert connection.execute("show application_name").fetchone() == ("",)
        assert connection.execute("show statement_timeout").fetchone() == ("0",)
        connection.execute("set statement_timeout = 5000")
        connection.commit()
        assert connection.execute("show statement_timeout").fetchone() == ("5000",)


TICKS = "create table {} (time timestamp, sym symbol, price float64, size int64, note text, day date)"
TICK_ROWS = [
    (DAY, "IBM", 1.5, 10, "a\tb\\c\n\"d\", e", datetime.date(2026, 1, 1)),
    (DAY + datetime.timedelta(microseconds=1), "KO", None, -(2**63), "", datetime.date(1969, 12, 31)),
    (DAY + datetime.timedelta(hours=1), None, float("inf"), None, None, None),
    (DAY + datetime.timedelta(hours=2), "é", -0.25, 2**63 - 1, "\\N", datetime.date(2100, 1, 1)),
]


@pytest.mark.parametrize("form", ["", "(format csv)", "(format csv, header, delimiter '|', null '-')", "(format binary)"])
def test_rows_are_copied_in_and_out(server: Postgres, form: str) -> None:
    table = "copied_" + "".join(letter for letter in form if letter.isalpha())
    with psycopg.connect(server.address, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(TICKS.format(table))
        cursor.execute(TICKS.format(f"{table}_twice"))
        if "csv" in form:
            for row in TICK_ROWS:
                cursor.execute(f"insert into {table} values (%s, %s, %s, %s, %s, %s)", row)
        else:
            with cursor.copy(f"copy {table} from stdin {form}") as copy:
                if "binary" in form:
                    copy.set_types(["timestamptz", "text", "float8", "int8", "text", "date"])
                for row in TICK_ROWS:
                    copy.write_row(row)
            assert cursor.statusmessage == "COPY 4"
        assert cursor.execute(f"select * exclude (date) from {table} order by time").fetchall() == TICK_ROWS
        with cursor.copy(f"copy (select * exclude (date) from {table} order by time) to stdout {form}") as copy:
            sent = b"".join(bytes(block) for block in copy)
        assert cursor.rowcount == 4
        with cursor.copy(f"copy {table}_twice from stdin {form}") as copy:
            for at in range(0, len(sent), 7):
                copy.write(sent[at : at + 7])
        assert cursor.execute(f"select * exclude (date) from {table}_twice order by time").fetchall() == TICK_ROWS
        with cursor.copy(f"copy {table} to stdout {form}") as copy:
            assert len(b"".join(bytes(block) for block in copy)) == len(sent)


def test_a_copy_that_fails_takes_no_row(server: Postgres) -> None:
    with psycopg.connect(server.address, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("create table broken (time timestamp, price float64)")
        for rows, told in [
            ("2026-01-01 10:00:00\t1\n2026-01-01 10:00:01\n", "line 2: missing data for column"),
            ("2026-01-01 10:00:00\t1\n2026-01-01 10:00:01\tx\n", "price"),
            ("\\N\t1\n", "each row needs a time"),
            ("yesterday\t1\n", "time"),
        ]:
            with pytest.raises(psycopg.DataError, match=told), cursor.copy("copy broken from stdin") as copy:
                copy.write(rows)
        with pytest.raises(ZeroDivisionError), cursor.copy("copy broken from stdin") as copy:
            copy.write("2026-01-01 10:00:00\t1\n")
            print(1 / 0)
        for statement, error in [
            ("copy nowhere from stdin", psycopg.errors.UndefinedTable),
            ("copy broken (nothing) from stdin", psycopg.errors.UndefinedColumn),
            ("copy broken from stdin (force_null (price))", psycopg.errors.SyntaxError),
            ("copy (select 1 / 0) to stdout", psycopg.errors.DivisionByZero),
        ]:
            with pytest.raises(error), cursor.copy(statement) as copy:
                copy.read()
        with cursor.copy("copy broken (price, time) from stdin (format csv)") as copy:
            copy.write("2.5,2026-01-01 10:00\n")
        assert cursor.execute("select price from broken").fetchall() == [(2.5,)]


def test_asyncpg_copies_records(server: Postgres) -> None:
    async def copied() -> list[tuple[object, ...]]:
        connection = await asyncpg.connect(host="127.0.0.1", port=server.port, user="anybody", database="market")
        try:
            await connection.execute(TICKS.format("records"))
            columns = ["time", "sym", "price", "size", "note", "day"]
            told = await connection.copy_records_to_table("records", records=TICK_ROWS, columns=columns)
            assert told == "COPY 4"
            return [tuple(row) for row in await connection.fetch("select * exclude (date) from records order by time")]
        finally:
            await connection.close()

    assert asyncio.run(copied()) == TICK_ROWS


def test_cursors_read_in_parts(server: Postgres) -> None:
    expected = [row[0] for row in rows_of(server, "select price from trade order by time, sym")]
    with psycopg.connect(server.address) as connection:
        for binary in (False, True):
            with connection.cursor("my cursor", binary=binary) as cursor:
                cursor.itersize = 300
                cursor.execute("select price from trade where price >= %s order by time, sym", (-1e9,))
                assert cursor.fetchone() == (expected[0],)
                assert [row[0] for row in cursor] == expected[1:]
        connection.execute("declare plain no scroll cursor for select price from trade order by time, sym")
        assert connection.execute("move 2 in plain").statusmessage == "MOVE 2"
        fetched = connection.execute("fetch forward 3 from plain")
        assert (fetched.statusmessage, [row[0] for row in fetched.fetchall()]) == ("FETCH 3", expected[2:5])
        assert len(connection.execute("fetch all from plain").fetchall()) == len(expected) - 5
        assert connection.execute("fetch plain").fetchall() == []
        connection.execute("close plain")
        with pytest.raises(psycopg.errors.InvalidCursorName):
            connection.execute("fetch plain")
        connection.rollback()
    with psycopg.connect(server.address, autocommit=True) as connection, pytest.raises(psycopg.errors.NoActiveSqlTransaction):
        connection.execute("declare alone cursor for select 1")
    engine = sqlalchemy.create_engine(f"postgresql+psycopg2://{server.url}")
    with engine.connect().execution_options(stream_results=True) as connection:
        parts = list(pd.read_sql(sqlalchemy.text("select price from trade order by time, sym"), connection, chunksize=400))
    assert len(parts) > 1 and [price for part in parts for price in part["price"]] == expected


def rows_of(server: Postgres, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(server.address, autocommit=True) as connection:
        return connection.execute(statement).fetchall()


def test_psycopg2_reads_and_binds(server: Postgres) -> None:
    connection = psycopg2.connect(server.address)
    with connection, connection.cursor() as cursor:
        cursor.execute("select * from kinds where sym = %s", ("IBM",))
        check_kinds({column.name: value for column, value in zip(cursor.description, cursor.fetchone(), strict=True)})
        cursor.execute("select count(*) from trade where time >= %s and sym = %s and size in %s", (DAY, "IBM", (1, 2, 3)))
        assert cursor.fetchall() == [(2,)]
    connection.close()


def test_asyncpg_reads_prepares_and_pages(server: Postgres) -> None:
    async def ask() -> None:
        connection = await asyncpg.connect(host="127.0.0.1", port=server.port, user="anybody", database="market")
        row = dict(await connection.fetchrow("select * exclude (depth) from kinds where sym = 'IBM'"))
        check_kinds(row | {"depth": EXPECTED["depth"]})
        rows = await connection.fetch("select size, price from trade where sym = $1 and price < $2 order by size", "IBM", 4.0)
        assert [tuple(row) for row in rows] == [(1, 1.5), (3, 3.5)]
        assert await connection.fetchval("select count(*) from trade where time > $1", DAY - datetime.timedelta(1)) == 1000
        statement = await connection.prepare("select price from trade where size = $1")
        assert [await statement.fetchval(size) for size in range(5)] == [size + 0.5 for size in range(5)]
        async with connection.transaction():
            sizes = [row["size"] async for row in connection.cursor("select size from trade order by size", prefetch=300)]
        assert sizes == list(range(1000))
        assert await connection.fetchval("select $1::bigint + 1", 41) == 42
        await connection.execute("create table async_fill (time timestamp, sym symbol, price float64, size int64)")
        values = [(DAY + datetime.timedelta(seconds=i), "IBM", i + 0.5, i) for i in range(3)]
        for row in values:
            assert await connection.execute("insert into async_fill values ($1, $2, $3, $4)", *row) == "INSERT 0 1"
        found = await connection.fetch("select * from async_fill where size >= $1 order by size", 0)
        assert [tuple(row)[:4] for row in found] == values
        returned = await connection.fetch("insert into async_fill values ($1, $2, $3, $4) returning sym, size + $5::bigint as n", *values[0], 5)
        assert [dict(row) for row in returned] == [{"sym": "IBM", "n": 5}]
        assert await connection.fetchval("delete from async_fill where size = $1 returning price", 2) == 2.5
        with pytest.raises(asyncpg.exceptions.UndefinedTableError):
            await connection.fetch("select * from nowhere")
        with pytest.raises(asyncpg.exceptions.QueryCanceledError):
            await connection.execute("set statement_timeout = 1000")
            await connection.fetch("select sum(a.price * b.price * c.price) from trade a, trade b, trade c, trade d")
        # What a pool sends when a connection is given back.
        await connection.reset()
        await connection.close()
        async with (
            asyncpg.create_pool(host="127.0.0.1", port=server.port, user="a", min_size=2, max_size=2) as pool,
            pool.acquire() as one,
        ):
            assert await one.fetchval("select 1") == 1

    asyncio.run(ask())


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "asyncpg"])
def test_pandas_and_sqlalchemy_read(server: Postgres, driver: str) -> None:
    statement = sqlalchemy.text("select time, sym, price, size from trade where sym = :sym and size < :most order by size")
    values = {"sym": "IBM", "most": 6}
    if driver == "asyncpg":
        pytest.importorskip("greenlet")
        from sqlalchemy.ext.asyncio import create_async_engine

        async def ask() -> list[tuple]:
            engine = create_async_engine(f"postgresql+asyncpg://{server.url}")
            async with engine.connect() as connection:
                rows = (await connection.execute(statement, values)).all()
            await engine.dispose()
            return [tuple(row) for row in rows]

        assert [(row[1], row[3]) for row in asyncio.run(ask())] == [("IBM", 1), ("IBM", 3), ("IBM", 5)]
        return
    engine = sqlalchemy.create_engine(f"postgresql+{driver}://{server.url}")
    frame = pd.read_sql(statement, engine, params=values)
    assert frame["size"].tolist() == [1, 3, 5]
    assert frame["sym"].tolist() == ["IBM"] * 3
    assert frame["time"].dt.tz is not None and frame["time"][0] == pd.Timestamp(DAY)
    inspector = sqlalchemy.inspect(engine)
    assert set(inspector.get_table_names()) >= {"trade", "kinds"}
    assert inspector.has_table("trade") and not inspector.has_table("nowhere")
    engine.dispose()


TIMES = [DAY, DAY + datetime.timedelta(microseconds=1)]
ARRAYS = [
    ("select count(*) from trade where sym = any($1)", ["IBM", "none"], 500),
    ("select count(*) from trade where sym = any($1)", [], 0),
    ("select count(*) from trade where sym <> all($1)", ["IBM"], 500),
    ("select count(*) from trade where not sym = any($1)", ["IBM", None], 0),
    ("select count(*) from trade where size = any($1)", [1, 2, None], 2),
    ("select count(*) from trade where price = any($1)", [1.5, 2.5, 0.25], 2),
    ("select count(*) from trade where price < any($1)", [1.0, 2.0], 2),
    ("select count(*) from kinds where day = any($1)", [datetime.date(2026, 1, 3)], 1),
    ("select count(*) from trade where time = any($1)", TIMES, 1),
    ("select count(*) from trade where time = any($1::timestamptz[])", TIMES, 1),
    ("select array_length($1::int8[])", [1, None], 2),
    ("select array(select x.n from unnest($1::int8[]) as x(n) order by n desc nulls last)", [1, None, 3], [3, 1, None]),
    *(
        (f"select $1::{kind}[]", values, values)
        for kind, values in {
            "text": ["a", None, 'b "\\,{}', ""],
            "int8": [1, None],
            "float8": [],
            "bool": [True, None, False],
            "date": [datetime.date(2026, 1, 3), None],
            "timestamptz": [*TIMES, None],
            "timestamp": [datetime.datetime(2026, 1, 1), None],
            "time": [datetime.time(9, 30), None],
            "numeric": [decimal.Decimal("1.5"), None, decimal.Decimal("-12.25")],
        }.items()
    ),
]
LISTS = [
    ("select array_agg(size order by size) from trade where size < 3", [0, 1, 2]),
    ("select list(sym order by size) from trade where size < 2", ["AIG", "IBM"]),
    ("select array_agg(time) from trade where size < 2", [DAY, DAY]),
    ("select array_agg(cast(null as text)) from trade where size < 2", [None, None]),
    ("select array(select size from trade where size < 3 order by size desc)", [2, 1, 0]),
    ("select array(select size from trade where false)", []),
    ("select depth from kinds where sym = 'IBM'", [1.5, 2.5]),
    ("select array[cast(1.5 as decimal(4, 2)), null]", [decimal.Decimal("1.50"), None]),
    ("select array[interval '1 day 2 hours', null]", [datetime.timedelta(days=1, hours=2), None]),
    ("select array[array[1, 2], array[3]]", "[[1, 2], [3]]"),
]


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_gives_and_takes_arrays(server: Postgres, binary: bool) -> None:
    with psycopg.connect(server.address, autocommit=True) as connection:
        cursor = connection.cursor(binary=binary)
        for statement, values, expected in ARRAYS:
            cursor.execute(statement.replace("$1", "%b" if binary else "%s"), (values,))
            assert cursor.fetchone() == (expected,), statement
        for statement, expected in LISTS:
            assert cursor.execute(statement).fetchone() == (expected,), statement
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="several dimensions"):
            cursor.execute("select %s::int8[]", ([[1], [2]],))


def test_asyncpg_gives_and_takes_arrays(server: Postgres) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(host="127.0.0.1", port=server.port, user="anybody", database="market")
        for statement, values, expected in ARRAYS:
            assert await connection.fetchval(statement, values) == expected, statement
        for statement, expected in LISTS:
            assert await connection.fetchval(statement) == expected, statement
        with pytest.raises(asyncpg.exceptions.FeatureNotSupportedError, match="several dimensions"):
            await connection.fetchval("select $1::int8[]", [[1], [2]])
        await connection.close()

    asyncio.run(run())


class Growing:
    """A table of two rows that grows while it is read, and a view over it."""

    numbers = itertools.count()

    def __init__(self, server: Postgres) -> None:
        self.server, self.table = server, f"growing_{next(self.numbers)}"
        self._send(f"create table {self.table} (time timestamp, sym symbol, x int)")
        self._send(f"create view of_{self.table} as select x from {self.table}")
        self.grow(2)
        self.counts = f"select (select count(*) from {self.table}), (select count(*) from of_{self.table})"

    def _send(self, statement: str) -> None:
        status, body = self.server.send("/query", statement.encode(), content_type="text/plain")
        assert status == 200, body

    def grow(self, rows: int) -> None:
        values = ", ".join(f"(timestamp '2026-01-02 10:00:00', 'IBM', {number})" for number in range(rows))
        self._send(f"insert into {self.table} values {values}")


def test_a_repeatable_read_sees_what_its_first_statement_saw(server: Postgres) -> None:
    growing = Growing(server)
    with psycopg.connect(server.address) as connection, psycopg.connect(server.address) as other:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        # All tables are held when the first statement begins, whichever it reads.
        assert connection.execute("select 1").fetchone() == (1,)
        growing.grow(3)
        assert other.execute(growing.counts).fetchone() == (5, 5)
        assert connection.execute(growing.counts).fetchone() == (2, 2)
        assert connection.execute("show transaction isolation level").fetchone() == ("repeatable read",)
        with connection.transaction():
            assert connection.execute(f"select count(*) from {growing.table} where sym = %s", ("IBM",)).fetchone() == (2,)
            with pytest.raises(psycopg.errors.UndefinedTable), connection.transaction():
                connection.execute("select * from nowhere")
        with connection.cursor(name="rows") as cursor:
            assert len(cursor.execute(f"select x from {growing.table}").fetchall()) == 2
        with pytest.raises(psycopg.errors.ActiveSqlTransaction):
            connection.execute("set transaction isolation level read committed")
        connection.rollback()
        assert connection.execute(growing.counts).fetchone() == (5, 5)
        connection.rollback()
        connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="SERIALIZABLE"):
            connection.execute("select 1")


def test_isolation_levels_are_set_as_clients_set_them(server: Postgres) -> None:
    growing = Growing(server)

    async def of_asyncpg() -> None:
        connection = await asyncpg.connect(host="127.0.0.1", port=server.port, user="anybody", database="market")
        async with connection.transaction(isolation="repeatable_read", readonly=True, deferrable=True):
            assert tuple(await connection.fetchrow(growing.counts)) == (2, 2)
            growing.grow(1)
            try:
                async with connection.transaction():
                    await connection.fetch(f"select nothing from {growing.table}")
            except asyncpg.exceptions.UndefinedColumnError:
                pass
            assert tuple(await connection.fetchrow(growing.counts)) == (2, 2)
        assert tuple(await connection.fetchrow(growing.counts)) == (3, 3)
        await connection.close()

    asyncio.run(of_asyncpg())
    for driver in ("psycopg", "psycopg2"):
        engine = sqlalchemy.create_engine(f"postgresql+{driver}://{server.url}", isolation_level="REPEATABLE READ")
        with engine.connect() as connection:
            assert connection.get_isolation_level() == "REPEATABLE READ"
            before = connection.execute(sqlalchemy.text(growing.counts)).one()
            growing.grow(1)
            assert connection.execute(sqlalchemy.text(growing.counts)).one() == before
            connection.rollback()
            assert connection.execute(sqlalchemy.text(growing.counts)).one() == (before[0] + 1, before[1] + 1)
        engine.dispose()
    with psycopg.connect(server.address, autocommit=True) as connection:
        connection.execute("set session characteristics as transaction isolation level repeatable read, read only")
        assert connection.execute("show transaction_isolation").fetchone() == ("repeatable read",)
        connection.execute("begin")
        assert connection.execute(growing.counts).fetchone() == (5, 5)
        growing.grow(1)
        assert connection.execute(growing.counts).fetchone() == (5, 5)
        connection.execute("commit")
        # Each statement outside of a transaction is one by itself.
        assert connection.execute(growing.counts).fetchone() == (6, 6)


def psql(server: Postgres, *arguments: str, statement: str | None = None) -> subprocess.CompletedProcess[str]:
    if shutil.which("psql") is None:
        pytest.skip("there is no psql")
    command = ["psql", "-X", "-h", "127.0.0.1", "-p", str(server.port), "-U", "anybody", "-v", "ON_ERROR_STOP=1", *arguments]
    return subprocess.run(command, input=statement, capture_output=True, text=True, timeout=60, check=False)


def test_psql_runs_statements_and_describes(server: Postgres) -> None:
    def told(*arguments: str) -> str:
        ran = psql(server, "-At", *arguments)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    assert told("-c", "select sym, count(*) from trade group by sym order by sym") == "AIG|500\nIBM|500\n"
    assert told("-c", "begin", "-c", "select 1", "-c", "commit") == "BEGIN\n1\nCOMMIT\n"
    assert told("-c", "select version()").startswith("PostgreSQL 16.0 (SplayDB ")
    assert "public|trade|table|splay" in told("-c", "\\dt").splitlines()
    assert "public|trade|table|splay" in told("-c", "\\d").splitlines()
    described = told("-c", "\\d trade").splitlines()
    assert described[:2] == ["time|timestamp with time zone||not null|", "sym|text|||"], described
    assert "amount|numeric(18,4)|||" in told("-c", "\\d kinds").splitlines()
    assert "splay|splay|UTF8|" in told("-c", "\\l")
    assert "public|splay" in told("-c", "\\dn")
    # Rows in parts.
    for count in (0, 2):
        assert told("-v", f"FETCH_COUNT={count}", "-c", "select size from trade order by size limit 3") == "0\n1\n2\n"
    refused = psql(server, "-c", "select (1 from trade")
    assert refused.returncode == 1 and "LINE 1: select (1 from trade" in refused.stderr


@pytest.mark.parametrize("plus", ["", "+"])
def test_psql_lists_what_there_is_and_what_there_is_none_of(server: Postgres, plus: str) -> None:
    server.send("/query", b"create view cheap as select sym, price from trade where price < 10", content_type="text/plain")
    names = "d dt di dv dm ds dE dn l df dx dT du dg dD da db dA dAc dAf dAo dAp dc dC dd des deu dew det dF dFd dFp dFt dl dL dO do"
    commands = [f"\\{name}{plus}" for name in f"{names} dRp dRs dX dy dconfig".split()]
    commands += [f"\\d{plus} trade", f"\\d{plus} cheap", f"\\dt{plus} tr*", f"\\dS{plus} pg_class", "\\dp", "\\dp trade", "\\drds", "\\conninfo"]
    for command in commands:
        ran = psql(server, "-At", "-c", command)
        assert ran.returncode == 0 or "Did not find any" in ran.stderr, (command, ran.stderr)
    described = psql(server, "-At", "-c", "\\d+ trade").stdout.splitlines()
    assert described[1] == "sym|text||||extended|||", described
    assert "select sym, price from trade where price < 10" in psql(server, "-At", "-c", "\\sv cheap").stdout
    assert psql(server, "-At", "-c", "\\du").stdout == "splay||{}\n"
    server.send("/query", b"drop view cheap", content_type="text/plain")


def test_catalogue_queries_are_answered(server: Postgres) -> None:
    with psycopg.connect(server.address, autocommit=True) as connection:

        def ask(statement: str) -> list[tuple]:
            return connection.execute(statement).fetchall()

        assert ask("select current_schema(), current_database(), current_user") == [("public", "splay", "splay")]
        columns = ask(
            "select attname, atttypid::regtype::text from pg_attribute where attrelid = 'trade'::regclass and attnum > 0 order by attnum"
        )
        assert columns == [
            ("time", "timestamp with time zone"),
            ("sym", "text"),
            ("price", "double precision"),
            ("size", "bigint"),
        ]
        assert psycopg.types.TypeInfo.fetch(connection, "float8").oid == 701
        assert psycopg.types.TypeInfo.fetch(connection, "hstore") is None
        assert ask("select table_name from information_schema.tables where table_name = 'trade'") == [("trade",)]
        expanded = "select (i.keys).n from (select information_schema._pg_expandarray(i.indkey) as keys from pg_catalog.pg_index i) i"
        assert ask(expanded) == []
        # Columns of queries without rows have their types.
        assert ask("select x.a from (select i.indexrelid as a from pg_index i) x union all select 1") == [(1,)]
        assert [column.type_code for column in connection.execute(expanded).description] == [20]
        assert ask("select relname from pg_class where relname = any('{trade,\"a b\",null}'::text[])") == [("trade",)]
        assert ask("select has_table_privilege('public.trade', 'select'), has_table_privilege('pg_class', 'select')") == [(True, True)]
        with pytest.raises(psycopg.errors.UndefinedTable, match='relation "nope" does not exist'):
            ask("select has_table_privilege('nope', 'select')")
        # Regression: the catalogue's tables were among them.
        assert {schema for _, schema, *_ in ask("show tables")} == {"public"}
    # Other ways in don't have them.
    assert server.send("/query", b"select * from pg_class", content_type="text/plain")[0] == 404


def test_the_password_is_a_token_and_tls_is_asked_for(tmp_path: pathlib.Path) -> None:
    assert shutil.which("openssl"), "the test needs openssl"
    certificate, key = make_certificate(tmp_path)
    token, digest = new_token("test")
    config = f'{digest}\n[tls]\ncertificate = "{certificate}"\nkey = "{key}"\n'
    with Postgres(tmp_path / "db", config=config) as server:

        def connect(**options: str) -> object:
            return psycopg.connect(host="localhost", hostaddr="127.0.0.1", port=server.port, user="anybody", **options)

        trusted = {"sslmode": "verify-full", "sslrootcert": str(certificate)}
        with connect(password=token, **trusted) as connection:
            assert connection.execute("select 1").fetchone() == (1,)
            assert connection.pgconn.ssl_in_use
        for wrong in ({"password": "wrong", **trusted}, {"password": token, "sslmode": "disable"}, trusted):
            with pytest.raises(psycopg.OperationalError):
                connect(**wrong)
        assert token not in server.logged()


def test_patterns_of_times_may_be_postgresqls(server: Postgres) -> None:
    time = "timestamp '2026-01-05 09:30:15.25'"
    with psycopg.connect(server.address, autocommit=True) as connection:
        # Each twice, by a statement that was planned before and by another pattern of the same statement.
        for pattern, text in [
            ("YYYY-MM-DD", "2026-01-05"),
            ("%Y-%m-%d", "2026-01-05"),
            ("HH24:MI:SS.MS", "09:30:15.250"),
            ("YYYY-MM-DD", "2026-01-05"),
        ]:
            assert connection.execute(f"select to_char({time}, '{pattern}')").fetchone() == (text,)
            many = connection.execute(f"select to_char(time, '{pattern}') from trade limit 1").fetchone()
            assert many is not None and many[0][:2] in ("20", "00"), (pattern, many)
        with pytest.raises(psycopg.Error, match="to_char doesn't know \"Day\" in the pattern 'Day DD'"):
            connection.execute(f"select to_char({time}, 'Day DD')")


@pytest.fixture(scope="session")
def jdbc() -> pathlib.Path:
    """The driver's jar, fetched once."""
    if shutil.which("java") is None:
        pytest.skip("there is no Java")
    jar = ROOT / "target" / "downloads" / f"postgresql-{JDBC_VERSION}.jar"
    if not jar.exists():
        jar.parent.mkdir(parents=True, exist_ok=True)
        part = jar.with_suffix(".part")
        try:
            with urllib.request.urlopen(JDBC, timeout=60) as answer, part.open("wb") as file:
                shutil.copyfileobj(answer, file)
        except OSError as error:
            pytest.skip(f"the driver can't be fetched: {error}")
        part.rename(jar)
    return jar


def test_jdbc_reads_binds_and_pages(server: Postgres, jdbc: pathlib.Path) -> None:
    program = pathlib.Path(__file__).parent / "jdbc" / "AskPostgres.java"
    command = ["java", "-Duser.timezone=UTC", "-cp", str(jdbc), str(program), f"127.0.0.1:{server.port}"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    said = ran.stdout.splitlines()

    def told(what: str) -> list[list[str]]:
        return [line.split("|")[1:] for line in said if line.startswith(f"{what}|")]

    assert told("row") == [["2026-01-01 00:00:00+00", "AIG", "0.5", "0"], ["2026-01-01 00:00:00+00", "IBM", "1.5", "1"]]
    assert told("counted") == [["IBM", "500"], ["AIG", "500"]] * 6
    assert told("paged") == [["1000", "499500"]]
    assert told("since") == [["1000"]]
    assert ["public", "trade", "TABLE"] in told("table")
    assert [name for name, _ in told("column")] == ["time", "sym", "price", "size"]
    assert [line for line in said if line.startswith("refused ")] == ["refused 42703", "refused 42601"]
    # Regression: these failed.
    assert [told(what) for what in ("key", "best", "index")] == [[], [], []]
    keywords = told("keywords")[0][0].split(",")
    assert "limit" in keywords and "select" not in keywords, keywords
