"""DB-API 2.0 over a folder and over a server: PEP 249's words, errors as it names them, pandas on top."""

import contextlib
import datetime
import warnings

import frame_day
import pandas as pd
import pyarrow as pa
import pytest

import splay
import test_server
from splay import dbapi


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """The same database as a folder and as a server."""
    folder = tmp_path_factory.mktemp("dbapi") / "db"
    db = splay.open(folder)
    db.write("trade", frame_day.trades())
    with test_server.Server(folder, "--read-only") as server:
        yield {"folder": folder, "server": server.http}


@pytest.fixture(params=["folder", "server"])
def connection(places, request):
    with dbapi.connect(places[request.param]) as made:
        yield made


def test_the_module_says_what_it_is():
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "qmark")
    hierarchy = {
        dbapi.InterfaceError: dbapi.Error,
        dbapi.DatabaseError: dbapi.Error,
        dbapi.DataError: dbapi.DatabaseError,
        dbapi.OperationalError: dbapi.DatabaseError,
        dbapi.IntegrityError: dbapi.DatabaseError,
        dbapi.InternalError: dbapi.DatabaseError,
        dbapi.ProgrammingError: dbapi.DatabaseError,
        dbapi.NotSupportedError: dbapi.DatabaseError,
    }
    assert all(issubclass(kind, base) and getattr(dbapi.Connection, kind.__name__) is kind for kind, base in hierarchy.items())
    assert issubclass(dbapi.Error, splay.Error)
    assert dbapi.Date(2024, 1, 2) == datetime.date(2024, 1, 2)
    assert dbapi.TimestampFromTicks(0) == datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert dbapi.DateFromTicks(86_400 * 20) in (datetime.date(1970, 1, 20), datetime.date(1970, 1, 21), datetime.date(1970, 1, 22))


def test_rows_come_one_by_one_and_many_at_once(connection):
    with connection.cursor() as cursor:
        assert cursor.description is None and cursor.rowcount == -1
        assert cursor.execute("select price, size from trade order by time, price, size") is cursor
        first = cursor.fetchone()
        some = cursor.fetchmany(3)
        assert len(cursor.fetchmany()) == 1
        rest = cursor.fetchall()
        assert 1 + len(some) + 1 + len(rest) == 400
        assert isinstance(first[0], float) and isinstance(first[1], int)
        assert cursor.fetchone() is None and cursor.fetchmany(5) == [] and cursor.fetchall() == []
        cursor.execute("select 1 as x union all select 2 order by x")
        assert list(cursor) == [(1,), (2,)]
    with pytest.raises(dbapi.ProgrammingError, match="closed"):
        cursor.execute("select 1")


def test_descriptions_name_families_of_types(connection):
    cursor = connection.execute("select time, symbol, price, side, price > 1 as dear, date, [1, 2] as list from trade limit 0")
    told = {name: kind for name, kind, *_ in cursor.description}
    assert told == {
        "time": dbapi.DATETIME,
        "symbol": dbapi.STRING,
        "price": dbapi.NUMBER,
        "side": dbapi.STRING,
        "dear": dbapi.BOOLEAN,
        "date": dbapi.DATETIME,
        "list": dbapi.LIST,
    }
    assert all(len(column) == 7 for column in cursor.description)
    assert cursor.fetchall() == []


def test_placeholders_take_values(connection):
    expected = connection.execute("select count(*) from trade where symbol = 'A' and size > 100").fetchall()
    for statement, values in (
        ("select count(*) from trade where symbol = ? and size > ?", ["A", 100]),
        ("select count(*) from trade where symbol = ? and size > ?", ("A", 100)),
        ("select count(*) from trade where symbol = $1 and size > $2", ["A", 100]),
        ("select count(*) from trade where symbol = $symbol and size > $least", {"symbol": "A", "least": 100}),
    ):
        assert connection.execute(statement, values).fetchall() == expected
    at = datetime.datetime(2024, 1, 2, 16, tzinfo=datetime.UTC)
    later = connection.execute("select min(time) from trade where time >= ?", [at]).fetchone()[0]
    assert later >= at
    assert connection.execute("select 1", []).fetchall() == [(1,)]


def test_arrow_and_pandas_come_whole(connection):
    table = connection.execute("select * from trade").fetch_arrow_table()
    assert isinstance(table, pa.Table) and table.num_rows == 400
    assert connection.execute("select * from trade").fetch_df().shape == (400, 6)
    cursor = connection.execute("select * from trade")
    cursor.fetchone()
    with pytest.raises(dbapi.ProgrammingError):
        cursor.fetch_arrow_table()


def test_errors_are_those_of_the_standard(connection, tmp_path):
    with pytest.raises(dbapi.ProgrammingError) as caught:
        connection.execute("select nothing from trade")
    assert isinstance(caught.value.__cause__, splay.StatementError)
    with pytest.raises(dbapi.ProgrammingError):
        connection.execute("select * from nowhere")
    with pytest.raises(dbapi.ProgrammingError):
        connection.execute("select ?", [object()])
    with pytest.raises(dbapi.ProgrammingError):
        connection.execute("select ?")
    with pytest.raises(dbapi.ProgrammingError, match="no rows"):
        connection.cursor().fetchone()
    with pytest.raises(dbapi.Error):
        connection.execute("select price / 0, cast('x' as bigint) from trade").fetchall()
    with pytest.raises(dbapi.ProgrammingError):
        dbapi.connect(tmp_path / "absent")
    with pytest.raises(dbapi.OperationalError):
        dbapi.connect("http://127.0.0.1:1").execute("select 1")
    with pytest.raises(dbapi.InterfaceError, match="token"):
        dbapi.connect(tmp_path, token="secret")
    with pytest.raises(dbapi.NotSupportedError, match="transactions"):
        connection.autocommit = False


def test_a_closed_connection_is_refused(places):
    connection = dbapi.connect(places["folder"])
    cursor = connection.execute("select 1")
    assert repr(connection) == f"<splay.dbapi.Connection to {places['folder']}>"
    connection.close()
    connection.close()
    assert "closed" in repr(connection)
    for use in (connection.cursor, connection.commit, connection.rollback, cursor.fetchone):
        with pytest.raises(dbapi.ProgrammingError, match="closed"):
            use()


def test_changes_count_rows_and_are_not_rolled_back(tmp_path):
    splay.open(tmp_path / "db").write("trade", frame_day.trades())
    with dbapi.connect(tmp_path / "db") as connection, connection.cursor() as cursor:
        (expected,) = connection.execute("select count(*) from trade where size > 250").fetchone()
        cursor.execute("  -- big ones\n delete from trade where size > ?", [250])
        assert cursor.rowcount == expected and cursor.description is None and cursor.lastcommit is not None
        with pytest.raises(dbapi.ProgrammingError, match="no rows"):
            cursor.fetchall()
        with pytest.raises(dbapi.NotSupportedError, match="undo"):
            connection.rollback()
        connection.rollback()
        cursor.execute("delete from trade where size < 10")
        connection.commit()
        connection.rollback()
        at = datetime.datetime(2024, 1, 3, tzinfo=datetime.UTC)
        cursor.executemany("insert into trade (time, symbol, price, size, side) values (?, ?, ?, ?, ?)", [(at, "C", 1.5, n, "buy") for n in (1, 2)])
        assert cursor.rowcount == 2
        assert connection.execute("select sum(size) from trade where symbol = 'C'").fetchall() == [(3,)]
        with pytest.raises(dbapi.ProgrammingError, match="executemany"):
            cursor.executemany("select ?", [[1], [2]])
        connection.execute("create view sizes as select size from trade")
        cursor.execute("drop table trade cascade")
        assert cursor.description is None and cursor.lastcommit is not None
        # Columns of these names alone are no change.
        assert connection.execute("select 'x' as statement, 1 as rows, 2 as commit").fetchall() == [("x", 1, 2)]
        cursor.execute("create table new (time timestamptz, x double precision)")
        assert "new" in connection.database.tables()


@pytest.mark.parametrize("place", ["folder", "server"])
def test_changes_with_returning_count_their_rows(tmp_path, place):
    splay.open(tmp_path / "db").write("trade", frame_day.trades())
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(test_server.Server(tmp_path / "db")).http if place == "server" else tmp_path / "db"
        connection = stack.enter_context(dbapi.connect(place))
        cursor = stack.enter_context(connection.cursor())
        (expected,) = connection.execute("select count(*) from trade where size > 250").fetchone()
        cursor.execute("delete from trade where size > 1000000")
        assert (cursor.rowcount, cursor.description) == (0, None)
        cursor.execute("-- twice\n update trade set size = size * 2 where size > ? returning symbol, size", [250])
        assert cursor.rowcount == expected > 1 and cursor.lastcommit is None
        assert [(column[0], column[1]) for column in cursor.description] == [("symbol", dbapi.STRING), ("size", dbapi.NUMBER)]
        first, rest = cursor.fetchone(), cursor.fetchall()
        assert 1 + len(rest) == cursor.rowcount == expected and first[1] > 500 and cursor.fetchone() is None
        with pytest.raises(dbapi.ProgrammingError, match="read before"):
            cursor.fetch_arrow_table()
        with pytest.raises(dbapi.NotSupportedError, match="undo"):
            connection.rollback()
        cursor.execute("insert into trade (time, symbol, price, size, side) values (?, 'RET', 1.5, 1, 'buy') returning *", [datetime.datetime(2024, 1, 3, tzinfo=datetime.UTC)])
        assert cursor.rowcount == 1 and cursor.fetch_arrow_table().num_rows == 1
        cursor.execute("delete from trade where symbol = 'nobody' returning symbol, size")
        assert cursor.rowcount == 0 and len(cursor.description) == 2 and cursor.fetchall() == []
        cursor.execute("delete from trade where symbol = 'RET' returning size")
        assert cursor.rowcount == 1 and cursor.fetch_df()["size"].tolist() == [1]
        # A query says nothing of its rows before they are read.
        assert cursor.execute("select 1").rowcount == -1


def test_pandas_reads_by_it(connection):
    with warnings.catch_warnings():
        # pandas recommends SQLAlchemy, which test_sqlalchemy.py tries.
        warnings.simplefilter("ignore", UserWarning)
        frame = pd.read_sql("select time, symbol, price from trade where size > ? order by time", connection, params=[100])
        parts = list(pd.read_sql("select price from trade", connection, chunksize=150))
    assert frame["time"].dtype.kind == "M" and str(frame["time"].dt.tz) == "UTC"
    assert frame.shape[0] == connection.execute("select count(*) from trade where size > 100").fetchone()[0]
    assert [len(part) for part in parts] == [150, 150, 100]
