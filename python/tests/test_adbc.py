"""What tools ask through ADBC's Flight SQL driver: what there is, columns of statements, values, stopping."""

from __future__ import annotations

import pathlib
import threading
import time

import adbc_driver_flightsql.dbapi as adbc
import adbc_driver_manager
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.flight as flight
import pytest
from test_server import Server, eventually, lines

LONG = "select sum(a.price * b.price * c.price) from trade a, trade b, trade c"


@pytest.fixture
def server(tmp_path: pathlib.Path):
    with Server(tmp_path / "db", config="[limits]\nstatements_max = 1\nstatement_seconds_max = 600\n") as running:
        running.send("/write", lines(0, 20_000))
        running.send("/write", lines(0, 10, "quote"))
        yield running


@pytest.fixture
def connection(server: Server):
    with adbc.connect(server.flight, autocommit=True) as made:
        yield made


def running(server: Server) -> int:
    text = server.send("/metrics")[1].decode()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("splay_statements_running ")))


def test_everything_there_is_can_be_listed(connection) -> None:
    (catalog,) = connection.adbc_get_objects(depth="all").read_all().to_pylist()
    assert catalog["catalog_name"] == "splay"
    (schema,) = catalog["catalog_db_schemas"]
    assert schema["db_schema_name"] == "public"
    tables = {table["table_name"]: table for table in schema["db_schema_tables"]}
    assert set(tables) == {"quote", "trade"}
    assert {table["table_type"] for table in tables.values()} == {"TABLE"}
    columns = [(column["column_name"], column["ordinal_position"]) for column in tables["trade"]["table_columns"]]
    assert columns == [("time", 1), ("sym", 2), ("price", 3), ("size", 4)]
    some = connection.adbc_get_objects(depth="tables", table_name_filter="tr%").read_all().to_pylist()
    assert [table["table_name"] for table in some[0]["catalog_db_schemas"][0]["db_schema_tables"]] == ["trade"]
    none = connection.adbc_get_objects(depth="tables", table_types_filter=["VIEW"]).read_all().to_pylist()
    assert not none[0]["catalog_db_schemas"][0]["db_schema_tables"]
    assert connection.adbc_get_table_types() == ["TABLE", "VIEW"]
    schema = connection.adbc_get_table_schema("trade")
    assert schema.names == ["time", "sym", "price", "size"]
    assert schema.field("time").type == pa.timestamp("ns", "UTC")
    with pytest.raises(adbc_driver_manager.Error):
        connection.adbc_get_table_schema("nothing")
    info = connection.adbc_get_info()
    assert (info["vendor_name"], info["driver_arrow_version"] is not None) == ("SplayDB", True)


def test_the_columns_of_a_statement_come_before_it_runs(server: Server, connection) -> None:
    with connection.cursor() as cursor:
        schema = cursor.adbc_execute_schema(LONG + " where a.sym = $1")
        assert len(schema) == 1
        assert running(server) == 0
    client = flight.connect(server.flight)
    # GetSchema itself, of a statement and of a table.
    command = statement_query("select sym, count(*) as n from trade group by sym")
    schema = client.get_schema(flight.FlightDescriptor.for_command(command)).schema
    assert schema.names == ["sym", "n"]
    assert client.get_schema(flight.FlightDescriptor.for_path("trade")).schema.names == ["time", "sym", "price", "size"]
    with pytest.raises(pa.ArrowInvalid, match="selec"):
        client.get_schema(flight.FlightDescriptor.for_command(statement_query("selec 1")))
    with pytest.raises((flight.FlightError, KeyError, pa.ArrowException)):
        client.get_schema(flight.FlightDescriptor.for_path("nothing"))


def protobuf_bytes(number: int, value: bytes) -> bytes:
    """A field of bytes in protobuf."""
    length, size = len(value), b""
    while length > 127:
        size, length = size + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + value


def command(name: str, body: bytes = b"") -> bytes:
    """A command of Flight SQL."""
    kind = f"type.googleapis.com/arrow.flight.protocol.sql.{name}".encode()
    return protobuf_bytes(1, kind) + protobuf_bytes(2, body)


def statement_query(sql: str) -> bytes:
    return command("CommandStatementQuery", protobuf_bytes(1, sql.encode()))


def asked(client: flight.FlightClient, name: str, body: bytes = b"") -> pa.Table:
    """What a command of metadata gives, whose flight says the same columns."""
    info = client.get_flight_info(flight.FlightDescriptor.for_command(command(name, body)))
    table = client.do_get(info.endpoints[0].ticket).read_all()
    assert info.schema.names == table.schema.names
    schema = client.get_schema(flight.FlightDescriptor.for_command(command(name, body))).schema
    assert schema.names == table.schema.names
    return table


def test_tools_find_what_they_ask_for(server: Server) -> None:
    client = flight.connect(server.flight)
    types = asked(client, "CommandGetXdbcTypeInfo").to_pydict()
    numbers = dict(zip(types["type_name"], types["data_type"], strict=True))
    assert (numbers["float64"], numbers["timestamp"], numbers["symbol"]) == (8, 93, 12)
    varchar = asked(client, "CommandGetXdbcTypeInfo", b"\x08\x0c").to_pydict()
    assert varchar["type_name"] == ["symbol", "text"]
    info = dict(zip(*asked(client, "CommandGetSqlInfo").to_pydict().values(), strict=True))
    assert (info[0], info[3], info[9], info[504], info[515]) == ("SplayDB", False, True, '"', True)
    # Every number that JDBC's driver reads without asking whether it is there.
    assert set(range(500, 517)) | set(range(518, 526)) | set(range(527, 568)) <= set(info)
    table = protobuf_bytes(3, b"trade")
    for name in ("CommandGetPrimaryKeys", "CommandGetImportedKeys", "CommandGetExportedKeys"):
        assert asked(client, name, table).num_rows == 0
    both = protobuf_bytes(3, b"trade") + protobuf_bytes(6, b"quote")
    assert asked(client, "CommandGetCrossReference", both).num_rows == 0
    tables = asked(client, "CommandGetTables", b"\x28\x01").to_pydict()
    assert tables["table_name"] == ["quote", "trade"]
    assert pa.ipc.read_schema(pa.py_buffer(tables["table_schema"][1])).names == ["time", "sym", "price", "size"]
    kinds = {action.type for action in client.list_actions()}
    assert {"CancelFlightInfo", "CancelQuery", "CreatePreparedStatement"} <= kinds


def test_a_prepared_statement_takes_values_again_and_again(connection) -> None:
    with connection.cursor() as cursor:
        sql = "select count(*) from trade where sym = $1 and size < $2"
        for symbol, most, expected in (("IBM", 100, 50), ("AIG", 10, 5), ("none", 10, 0)):
            cursor.execute(sql, (symbol, most))
            assert cursor.fetchall() == [(expected,)]
        cursor.adbc_prepare(sql)
        cursor.execute(sql, ("IBM", 20))
        assert cursor.fetchall() == [(10,)]
        with pytest.raises(adbc_driver_manager.Error):
            cursor.execute(sql, ("IBM",))
        cursor.execute("select 1")
        assert cursor.fetchall() == [(1,)]


def test_statements_that_change_something(connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute("create table note (time timestamp, sym symbol, n bigint)")
        cursor.fetchall()
        cursor.execute("insert into note values ('2024-03-01 10:00', 'A', 1)")
        assert [row[:2] for row in cursor.fetchall()] == [("INSERT", 1)]
        # A row of values, many, and none.
        cursor.execute("insert into note values ($1, $2, $3)", ("2024-03-01 10:01", "B", 2))
        cursor.fetchall()
        cursor.executemany("insert into note values ($1, $2, $3)", [("2024-03-01 10:02", "A", 3), ("2024-03-01 10:03", "C", 4)])
        assert cursor.rowcount in (2, -1)
        # No rows of values change nothing, whatever was bound before.
        no_rows = pa.table({"1": pa.array([], pa.string()), "2": pa.array([], pa.string()), "3": pa.array([], pa.int64())})
        cursor.executemany("insert into note values ($1, $2, $3)", no_rows)
        wide = pa.table({str(number): ["x" * 1000] * 20 for number in range(1, 42)})
        items = ", ".join(f"'{number}' = ${number}" for number in range(1, 42))
        cursor.executemany(f"delete from note where {items.replace(', ', ' and ')}", wide)
        with pytest.raises(adbc_driver_manager.Error, match="more than 65,536 rows"):
            cursor.executemany("delete from note where n = $1", pa.table({"1": pa.nulls(70_000, pa.int64())}))
        cursor.execute("update note set n = n + 10 where sym = 'A' returning sym, n")
        assert sorted(cursor.fetchall()) == [("A", 11), ("A", 13)]
        cursor.execute("select sym, n from note order by time")
        assert cursor.fetchall() == [("A", 11), ("B", 2), ("A", 13), ("C", 4)]
        with pytest.raises(adbc_driver_manager.Error, match="nowhere"):
            cursor.execute("insert into nowhere values (1)")
            cursor.fetchall()
        cursor.execute("drop table note")
        cursor.fetchall()
        with pytest.raises(adbc_driver_manager.Error, match="note"):
            cursor.execute("select * from note")
            cursor.fetchall()


def test_rows_are_ingested_as_the_client_wants(connection) -> None:
    rows = pa.table(
        {
            "time": pa.array([1_700_000_000_000_000_000 + row for row in range(3)], pa.timestamp("ns", "UTC")),
            "sym": pa.array(["A", "B", "A"]).dictionary_encode(),
            "price": pa.array([1.5, None, 2.5]),
        }
    )
    with connection.cursor() as cursor:
        with pytest.raises(adbc_driver_manager.Error, match="no table|failure writing"):
            cursor.adbc_ingest("new", rows, mode="append")
        assert cursor.adbc_ingest("new", rows, mode="create") == 3
        # The driver tells of its own broken stream where the refusal comes while it still writes.
        cut = "failure writing"
        for mode, why in (("create", f"already|{cut}"), ("replace", f"aren't replaced|{cut}")):
            with pytest.raises(adbc_driver_manager.Error, match=why):
                cursor.adbc_ingest("New", rows, mode=mode)
        for elsewhere, why in (({"temporary": True}, f"temporary|{cut}"), ({"catalog_name": "other"}, f"catalogue|{cut}")):
            # The driver keeps such wishes for the cursor's later statements.
            with connection.cursor() as other, pytest.raises(adbc_driver_manager.Error, match=why):
                other.adbc_ingest("new", rows, mode="create_append", **elsewhere)
        assert cursor.adbc_ingest("new", rows, mode="append") == 3
        place = {"catalog_name": "splay", "db_schema_name": "public"}
        assert cursor.adbc_ingest("new", rows.to_batches()[0], mode="create_append", **place) == 3
        cursor.execute("select sym, count(*), sum(price) from new group by sym order by sym")
        assert cursor.fetchall() == [("A", 6, 12.0), ("B", 3, None)]


def test_cancelling_stops_the_statement(server: Server, connection) -> None:
    with connection.cursor() as cursor:
        raised: list[BaseException] = []

        def run() -> None:
            try:
                cursor.execute(LONG)
                cursor.fetchall()
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        eventually(lambda: running(server) == 1)
        cursor.adbc_cancel()
        thread.join(20)
        assert not thread.is_alive()
        assert isinstance(raised[0], adbc_driver_manager.Error)
        eventually(lambda: running(server) == 0)
    # Its place, the only one, is free again.
    assert server.query("select 1") == [[1]]


def test_a_flight_is_cancelled_by_who_holds_its_ticket(server: Server) -> None:
    client = flight.connect(server.flight)
    info = client.get_flight_info(flight.FlightDescriptor.for_command(statement_query(LONG)))
    other = client.get_flight_info(flight.FlightDescriptor.for_command(statement_query(LONG)))
    cancel = flight.Action("CancelFlightInfo", protobuf_bytes(1, info.serialize()))
    # Not yet.
    with pytest.raises((flight.FlightError, KeyError, pa.ArrowException)):
        list(client.do_action(cancel))
    raised: list[BaseException] = []

    def run() -> None:
        try:
            client.do_get(info.endpoints[0].ticket).read_all()
        except BaseException as error:
            raised.append(error)

    for action in (cancel, flight.Action("CancelQuery", command("ActionCancelQueryRequest", protobuf_bytes(1, info.serialize())))):
        raised.clear()
        thread = threading.Thread(target=run)
        thread.start()
        eventually(lambda: running(server) == 1)
        # The same statement of somebody else has another ticket.
        with pytest.raises((flight.FlightError, KeyError, pa.ArrowException)):
            list(client.do_action(flight.Action("CancelFlightInfo", protobuf_bytes(1, other.serialize()))))
        assert running(server) == 1
        results = [result.body.to_pybytes() for result in client.do_action(action)]
        assert results and b"\x08\x01" in results[0], "CANCELLED"
        thread.join(20)
        assert not thread.is_alive()
        assert isinstance(raised[0], flight.FlightCancelledError), raised
        eventually(lambda: running(server) == 0)


def test_who_leaves_in_the_middle_of_an_answer_stops_it(server: Server, connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute("select a.price from trade a, trade b")
        reader = cursor.fetch_record_batch()
        assert reader.read_next_batch().num_rows > 0
        assert running(server) == 1
        reader.close()
    start = time.monotonic()
    eventually(lambda: running(server) == 0)
    assert time.monotonic() - start < 10


def test_pandas_and_polars_read_columns_by_it(connection) -> None:
    found = pd.read_sql("select sym, count(*) as n from trade group by sym order by sym", connection)
    assert found["n"].sum() == 20_000 and list(found["sym"]) == sorted(found["sym"])
    with connection.cursor() as cursor:
        # pandas passes no values on to ADBC.
        cursor.execute("select price from trade where sym = $1 and size < $2", ("IBM", 100))
        assert len(cursor.fetch_df()) == 50
    assert pd.read_sql_table("quote", connection).shape[0] == 10
    assert pl.read_database("select * from quote", connection).height == 10
    rows = pd.DataFrame({"time": pd.to_datetime(["2024-01-02"], utc=True), "sym": ["A"], "price": [1.5]})
    assert rows.to_sql("made", connection, index=False) == 1
    assert pd.read_sql("select count(*) as n from made", connection)["n"].tolist() == [1]
