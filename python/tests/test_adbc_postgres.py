"""ADBC's driver for PostgreSQL, unmodified, and what it and others ask by the extended protocol: `COPY`, arrays, casts, the user's name."""

from __future__ import annotations

import asyncio
import datetime
import decimal
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from test_postgres import KINDS, UTC, VALUES, Postgres
from test_server import lines

adbc = pytest.importorskip("adbc_driver_postgresql.dbapi")
asyncpg = pytest.importorskip("asyncpg")
psycopg = pytest.importorskip("psycopg")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with Postgres(tmp_path_factory.mktemp("adbc") / "db") as running:
        assert running.send("/write", lines(0, 1000))[0] == 204
        for statement in (KINDS, VALUES):
            assert running.send("/query", statement.encode(), content_type="text/plain")[0] == 200
        yield running


@pytest.fixture
def cursor(server: Postgres) -> Iterator[Any]:
    with adbc.connect(f"postgresql://{server.url}", autocommit=True) as connection, connection.cursor() as made:
        yield made


def test_queries_are_read_into_arrow(cursor: Any) -> None:
    cursor.execute("select time, sym, price, size from trade order by size limit 3")
    table = cursor.fetch_arrow_table()
    assert table.schema.field("time").type == pa.timestamp("us", "UTC")
    assert table.column("size").to_pylist() == [0, 1, 2] and table.column("sym").to_pylist() == ["AIG", "IBM", "AIG"]
    cursor.execute("select * from trade")
    assert cursor.fetch_arrow_table().num_rows == 1000
    cursor.execute("select * from trade where price < 0")
    assert cursor.fetch_arrow_table().num_rows == 0
    cursor.execute("select sym, flag, tiny, large, ratio, price, day, clock, note, depth, amount from kinds")
    (row,) = cursor.fetch_arrow_table().to_pylist()
    assert row["day"] == datetime.date(2026, 1, 3) and row["clock"] == datetime.time(9, 30, 0, 500_000)
    assert (row["sym"], row["flag"], row["tiny"], row["large"], row["ratio"], row["price"]) == ("IBM", True, -1, -4, 0.5, 1.25)
    assert row["note"] == 'a "b" \\ é' and row["depth"] == [1.5, 2.5] and decimal.Decimal(row["amount"]) == decimal.Decimal("12.5")
    with pytest.raises(adbc.ProgrammingError, match="nowhere"):
        cursor.execute("select * from nowhere")
    cursor.execute("select 1")
    assert cursor.fetchone() == (1,)


def test_values_are_bound(cursor: Any) -> None:
    cursor.execute("select count(*) from trade where sym = $1 and size < $2", ("IBM", 5))
    assert cursor.fetchone() == (2,)
    cursor.execute("select $1::bigint + 1", (41,))
    assert cursor.fetchone() == (42,)


def test_rows_are_ingested_in_bulk(cursor: Any) -> None:
    times = [datetime.datetime(2026, 1, 2, 9, minute, tzinfo=UTC) for minute in range(3)]
    rows = pa.table({"time": pa.array(times, pa.timestamp("us", "UTC")), "x": [1.5, None, -2.0], "note": ["a", "b c", None]})
    assert cursor.adbc_ingest("made", rows, mode="create") == 3
    assert cursor.adbc_ingest("made", rows.slice(0, 1), mode="append") == 1
    cursor.execute("select time, x, note from made order by time, x")
    found = cursor.fetch_arrow_table()
    assert found.column("x").to_pylist() == [1.5, 1.5, None, -2.0] and found.column("note").to_pylist() == ["a", "a", "b c", None]
    assert found.column("time").to_pylist() == [times[0], times[0], times[1], times[2]]
    with pytest.raises(adbc.Error, match="already"):
        cursor.adbc_ingest("made", rows, mode="create")
    with pytest.raises(adbc.Error, match="schema public"):
        cursor.adbc_ingest("other", rows, mode="create", db_schema_name="elsewhere")


def test_tables_are_listed(server: Postgres) -> None:
    # The driver lists the schemas of the database that it has connected to by name.
    address = server.url.rpartition("/")[0] + "/splay"
    with adbc.connect(f"postgresql://{address}", autocommit=True) as connection:
        (catalog,) = [found for found in connection.adbc_get_objects(depth="tables").read_all().to_pylist() if found["catalog_db_schemas"]]
        schemas = {schema["db_schema_name"]: schema["db_schema_tables"] for schema in catalog["catalog_db_schemas"]}
        names = {table["table_name"] for table in schemas["public"] or []}
        assert {"trade", "kinds"} <= names
        some = connection.adbc_get_objects(depth="tables", table_name_filter="trade", table_types_filter=["table"]).read_all().to_pylist()
        assert "trade" in str(some) and "kinds" not in str(some)


def test_columns_of_all_tables_are_listed(server: Postgres) -> None:
    address = server.url.rpartition("/")[0] + "/splay"
    with adbc.connect(f"postgresql://{address}", autocommit=True) as connection:
        for depth in ("columns", "all"):
            (catalog,) = [found for found in connection.adbc_get_objects(depth=depth).read_all().to_pylist() if found["catalog_db_schemas"]]
            schemas = {schema["db_schema_name"]: schema["db_schema_tables"] for schema in catalog["catalog_db_schemas"]}
            tables = {table["table_name"]: table for table in schemas["public"]}
            columns = {column["column_name"]: column for column in tables["kinds"]["table_columns"]}
            assert [columns[name]["ordinal_position"] for name in ("time", "sym", "flag")] == [1, 2, 3]
            assert columns["time"]["xdbc_type_name"] == "timestamptz"
            assert columns["depth"]["xdbc_type_name"] == "_float8"
            assert not tables["kinds"]["table_constraints"]
        some = connection.adbc_get_objects(depth="all", table_name_filter="trade", column_name_filter="pri%").read_all().to_pylist()
        assert "price" in str(some) and "note" not in str(some)


def test_columns_of_a_table_are_told(server: Postgres) -> None:
    with adbc.connect(f"postgresql://{server.url}", autocommit=True) as connection:
        schema = connection.adbc_get_table_schema("trade")
        assert schema.field("price").type == pa.float64() and schema.field("size").type == pa.int64()


def test_copy_is_prepared_and_refused_where_it_has_to_be(server: Postgres) -> None:
    with psycopg.connect(server.address, autocommit=True) as connection:
        bare = connection.pgconn
        sent = bare.exec_params(b"copy (select size from trade order by size limit 2) to stdout", [])
        assert sent.status == psycopg.pq.ExecStatus.COPY_OUT
        got = []
        while (piece := bare.get_copy_data(0))[0] > 0:
            got.append(bytes(piece[1]))
        assert b"".join(got) == b"0\n1\n"
        assert bare.get_result().status == psycopg.pq.ExecStatus.COMMAND_OK
        assert bare.get_result() is None
        assert connection.execute("select 1").fetchone() == (1,)
        for statement, code in ((b"copy nowhere to stdout", b"42P01"), (b"copy trade from stdin (format x)", None), (b"copy (select $1) to stdout", b"42P02")):
            refused = bare.exec_params(statement, [b"1"] if b"$1" in statement else [])
            assert refused.status == psycopg.pq.ExecStatus.FATAL_ERROR, statement
            assert code is None or refused.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == code, statement
        # Rows that are broken off, and a row that doesn't fit: nothing is stored, and the connection goes on.
        for end, data in ((b"never mind", b"1\n"), (None, b"x\n")):
            assert bare.exec_params(b"copy trade (size) from stdin", []).status == psycopg.pq.ExecStatus.COPY_IN
            bare.put_copy_data(data)
            bare.put_copy_end(end)
            assert bare.get_result().status == psycopg.pq.ExecStatus.FATAL_ERROR
            assert bare.get_result() is None
            assert connection.execute("select count(*) from trade").fetchone() == (1000,)


@pytest.mark.parametrize("binary", [False, True])
def test_arrays_are_values(server: Postgres, binary: bool) -> None:
    mark = "%b" if binary else "%t"
    with psycopg.connect(server.address, autocommit=True) as connection:

        def ask(sql: str, *values: object) -> object:
            return connection.execute(sql.replace("%", mark), values, binary=binary).fetchone()[0]

        assert ask("select count(*) from trade where sym = any(%::text[])", ["IBM", "none"]) == 500
        assert ask("select count(*) from trade where sym = any(%::text[])", []) == 0
        assert ask("select count(*) from trade where size = any(%)", [3, 4, 99999]) == 2
        assert ask("select count(*) from trade where price <> all(%)", [0.5, 1.5]) == 998
        assert ask("select count(*) from trade where sym = any(%::text[])", ["IBM", None, 'a "b", {c}\\']) == 500
        assert ask("select %::text[]", ["a", None, ""]) == ["a", None, ""]
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            ask("select %::text[]", [["a"], ["b"]])
        with pytest.raises(psycopg.errors.ProgramLimitExceeded):
            ask("select cardinality(%::bigint[])", list(range(70_000)))
        assert ask("select 1") == 1


def test_casts_say_which_values_a_statement_takes(server: Postgres) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(f"postgresql://{server.url}")
        try:
            statement = await connection.prepare("select $1::bigint, $2::timestamptz, $3::date, $4::double precision, $5::boolean")
            assert [kind.name for kind in statement.get_parameters()] == ["int8", "timestamptz", "date", "float8", "bool"]
            at, day = datetime.datetime(2026, 1, 2, 3, tzinfo=UTC), datetime.date(2026, 1, 3)
            assert tuple(await statement.fetchrow(7, at, day, 1.5, True)) == (7, at, day, 1.5, True)
            row = await connection.fetchrow("select now() as a, current_timestamp as b, max(time) as c from trade")
            assert all(value.tzinfo is not None for value in row.values())
            assert abs(row["a"] - datetime.datetime.now(UTC)) < datetime.timedelta(hours=1)
            assert await connection.fetchval("select count(*) from trade where time < $1::timestamptz", row["a"]) == 1000
        finally:
            await connection.close()

    asyncio.run(run())
    with psycopg.connect(server.address, autocommit=True) as connection:
        assert connection.execute("select current_user").fetchone() == ("splay",)
