"""The dialect of SQLAlchemy, with SQLAlchemy and pandas themselves, over a folder and over a server."""

import datetime
import urllib.parse

import frame_day
import pandas as pd
import pyarrow as pa
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

import splay
import test_server


def book():
    sizes = pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float64(), 2))
    times = pa.array([frame_day.START, frame_day.START + 1], pa.timestamp("ns", "UTC"))
    return pa.table({"time": times, "symbol": pa.array(["A", "B"]).dictionary_encode(), "bid_size": sizes})


@pytest.fixture(scope="module")
def urls(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alchemy") / "my db"
    db = splay.open(folder)
    db.write("trade", frame_day.trades())
    db.write("Quote", frame_day.quotes())
    db.write("book", book())
    with test_server.Server(folder, "--read-only") as server:
        yield {"folder": f"splay:///{urllib.parse.quote(str(folder))}", "server": "splay+" + server.http}


@pytest.fixture(params=["folder", "server"])
def engine(urls, request):
    made = sa.create_engine(urls[request.param])
    yield made
    made.dispose()


def test_what_there_is_is_reflected(engine):
    told = sa.inspect(engine)
    assert told.get_table_names() == ["Quote", "book", "trade"]
    assert told.get_view_names() == [] and told.get_schema_names() == []
    assert told.has_table("trade") and not told.has_table("nope")
    types = {column["name"]: column["type"] for column in told.get_columns("trade")}
    assert list(types) == ["time", "symbol", "price", "size", "side", "date"]
    assert isinstance(types["time"], sa.DateTime) and types["time"].timezone
    assert isinstance(types["symbol"], sa.String) and isinstance(types["price"], sa.Float)
    assert isinstance(types["size"], sa.BigInteger) and isinstance(types["date"], sa.Date)
    assert [column["nullable"] for column in told.get_columns("trade")][:2] == [False, True]
    assert told.get_pk_constraint("trade")["constrained_columns"] == []
    assert told.get_indexes("trade") == [] and told.get_foreign_keys("trade") == []
    assert str(next(column["type"] for column in told.get_columns("book") if column["name"] == "bid_size").compile(engine.dialect)) == "levels(2)"
    with pytest.raises(sa.exc.NoSuchTableError):
        told.get_columns("nope")
    with pytest.raises(sa.exc.NoSuchTableError):
        told.get_columns("trade", schema="other")
    everything = sa.MetaData()
    everything.reflect(engine)
    assert set(everything.tables) == {"trade", "Quote", "book"}


def test_statements_of_the_expression_language_run(engine):
    trade = sa.Table("trade", sa.MetaData(), autoload_with=engine)
    quote = sa.Table("Quote", sa.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        by = sa.select(trade.c.symbol, sa.func.count().label("n"), sa.func.max(trade.c.price)).where(trade.c.size > 100)
        rows = connection.execute(by.group_by(trade.c.symbol).order_by(trade.c.symbol)).all()
        assert [row.symbol for row in rows] == ["A", "B"] and sum(row.n for row in rows) < 400
        day = datetime.date(2024, 1, 2)
        cut = sa.select(trade).where(trade.c.date == day, trade.c.symbol.in_(["A", "C"])).order_by(trade.c.time).limit(3).offset(1)
        assert [row.date for row in connection.execute(cut)] == [day] * 3
        at = datetime.datetime(2024, 1, 2, 16, tzinfo=datetime.UTC)
        assert connection.scalar(sa.select(sa.func.min(trade.c.time)).where(trade.c.time >= at)) >= at
        joined = sa.select(sa.func.count()).select_from(trade.join(quote, trade.c.symbol == quote.c.symbol)).where(trade.c.size % 2 == 0)
        assert connection.scalar(joined) > 0
        ratio = sa.select(sa.cast(trade.c.size, sa.Float) / 2, sa.cast(trade.c.price, sa.String), sa.func.vwap(trade.c.price, trade.c.size).over())
        assert len(connection.execute(ratio.limit(2)).all()) == 2
        assert connection.scalar(sa.text("select count(*) from trade where symbol = :which"), {"which": "A"}) > 0
        seen = sa.select(sa.func.count()).select_from(trade).where(sa.exists().where(quote.c.symbol == trade.c.symbol))
        assert connection.scalar(seen) == 400
        parts = sa.select(trade.c.symbol).where(trade.c.side == "buy").union_all(sa.select(quote.c.symbol)).subquery()
        assert connection.scalar(sa.select(sa.func.count()).select_from(parts)) > 900
        assert connection.get_isolation_level() == "AUTOCOMMIT"
    with Session(engine) as session:
        assert session.execute(sa.select(trade.c.price).where(trade.c.side.like("b%")).limit(1)).one()


def test_pandas_reads_tables_and_statements(engine):
    whole = pd.read_sql_table("trade", engine)
    assert whole.shape == (400, 6) and str(whole["time"].dt.tz) == "UTC"
    some = pd.read_sql(sa.text("select symbol, price from trade where size > :least"), engine, params={"least": 100})
    assert len(some) == (whole["size"] > 100).sum()
    columns = pd.read_sql_table("trade", engine, columns=["price"])
    assert columns["price"].sum() == pytest.approx(whole["price"].sum())
    assert sum(len(part) for part in pd.read_sql_query("select * from trade", engine, chunksize=128)) == 400


def test_errors_are_sqlalchemys(engine):
    with engine.connect() as connection:
        with pytest.raises(sa.exc.ProgrammingError):
            connection.execute(sa.text("select nope from trade"))
        # The connection lives on.
        assert connection.scalar(sa.text("select 1")) == 1


def test_urls_that_say_too_little_are_refused(urls, tmp_path):
    for url in ("splay://host/db", "splay://", "splay+http:///path", "splay+http://host/db", urls["folder"] + "?memory=1"):
        with pytest.raises(sa.exc.ArgumentError):
            sa.create_engine(url).connect()
    with pytest.raises(sa.exc.ProgrammingError):
        sa.create_engine(f"splay:///{tmp_path / 'absent'}").connect()
    options = sa.create_engine(urls["folder"] + "?memory_bytes=1000000000&threads=1&journal=false")
    with options.connect() as connection:
        assert connection.scalar(sa.text("select count(*) from trade")) == 400
    from splay.sqlalchemy_dialect import SplayHttpsDialect

    arguments = SplayHttpsDialect().create_connect_args(sa.engine.make_url("splay+https://:secret@ticks.example.com"))
    assert arguments == (["https://ticks.example.com"], {"token": "secret"})


def test_rows_and_tables_are_written(tmp_path):
    engine = sa.create_engine(f"splay:///{tmp_path / 'db'}?create=true")
    bars = sa.Table(
        "bars",
        sa.MetaData(),
        sa.Column("time", sa.DateTime(timezone=True)),
        sa.Column("symbol", sa.String),
        sa.Column("close", sa.Float),
        sa.Column("n", sa.BigInteger),
        sa.Column("fee", sa.Numeric(10, 2)),
        sa.Column("ok", sa.Boolean),
    )
    bars.create(engine)
    at = datetime.datetime(2024, 1, 2, 15, tzinfo=datetime.UTC)
    with engine.begin() as connection:
        row = {"time": at, "symbol": "A", "close": 1.5, "n": 2, "fee": 3, "ok": True}
        assert connection.execute(sa.insert(bars), row, execution_options={"preserve_rowcount": True}).rowcount == 1
        connection.execute(sa.insert(bars).values([row | {"n": 3}, row | {"n": 4}]))
        assert connection.execute(sa.update(bars).where(bars.c.n == 3).values(close=9.0)).rowcount == 1
        assert connection.execute(sa.delete(bars).where(bars.c.n == 4)).rowcount == 1
    with engine.connect() as connection:
        assert connection.execute(sa.select(bars.c.n, bars.c.close, bars.c.ok).order_by(bars.c.n)).all() == [(2, 1.5, True), (3, 9.0, True)]
    frame = pd.DataFrame({"time": [at, at], "symbol": ["B", "B"], "close": [2.5, 3.5]})
    frame.to_sql("bars", engine, if_exists="append", index=False)
    frame.to_sql("made", engine, index=False, method="multi")
    assert len(pd.read_sql_table("made", engine)) == 2
    reflected = sa.Table("made", sa.MetaData(), autoload_with=engine)
    with engine.begin() as connection:
        connection.execute(sa.insert(reflected), {"time": at, "symbol": "C", "close": 1.0})
    reflected.drop(engine)
    assert sa.inspect(engine).get_table_names() == ["bars"]


@pytest.mark.parametrize(
    "column",
    [
        sa.Column("x", sa.Integer, primary_key=True),
        sa.Column("x", sa.Integer, unique=True),
        sa.Column("x", sa.Integer, server_default="1"),
        sa.Column("x", sa.LargeBinary),
    ],
)
def test_what_is_not_there_is_refused_by_name(tmp_path, column):
    engine = sa.create_engine(f"splay:///{tmp_path / 'db'}?create=true")
    with pytest.raises(sa.exc.CompileError, match="SplayDB has no"):
        sa.Table("t", sa.MetaData(), sa.Column("time", sa.DateTime(timezone=True)), column).create(engine)
    assert sa.inspect(engine).get_table_names() == []


def test_a_rollback_behind_a_change_is_refused(tmp_path):
    splay.open(tmp_path / "db").write("trade", frame_day.trades())
    engine = sa.create_engine(f"splay:///{tmp_path / 'db'}")
    with pytest.raises(sa.exc.NotSupportedError, match="undo"), engine.connect() as connection:
        connection.execute(sa.text("delete from trade where symbol = 'A'"))
    with engine.connect() as connection:
        assert connection.scalar(sa.text("select count(*) from trade where symbol = 'A'")) == 0
        connection.execute(sa.text("delete from trade where size < 10"))
        connection.commit()
    with pytest.raises(ZeroDivisionError), engine.begin() as connection:
        connection.scalar(sa.text("select 1"))
        raise ZeroDivisionError


def test_rows_change_by_those_of_another_table(tmp_path):
    db = splay.open(tmp_path / "db")
    db.write("trade", frame_day.trades())
    db.sql("create table halted (symbol symbol, price double precision, primary key (symbol))")
    db.sql("insert into halted values ('A', 7.0)")
    engine = sa.create_engine(f"splay:///{tmp_path / 'db'}")
    tables = sa.MetaData()
    tables.reflect(engine)
    trade, halted = tables.tables["trade"], tables.tables["halted"]
    matches = trade.c.symbol == halted.c.symbol
    with engine.begin() as connection:
        count = connection.scalar(sa.select(sa.func.count()).where(trade.c.symbol == "A"))
        assert count > 0
        assert connection.execute(sa.update(trade).values(price=halted.c.price).where(matches)).rowcount == count
        assert connection.scalars(sa.select(trade.c.price).where(trade.c.symbol == "A").distinct()).all() == [7.0]
        assert connection.execute(sa.delete(trade).where(matches)).rowcount == count
