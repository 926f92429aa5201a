"""What users of pandas, Polars and DuckDB write first: it works where it means the same, else the error names what does."""

import re

import duckdb
import frame_day
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import splay
from splay import _elsewhere
from splay.frames.grouped import AGGREGATES, GroupBy, GroupedColumns
from splay.frames.namespaces import TextNamespace, TimeNamespace

TRADES = pl.from_arrow(frame_day.trades())


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    db = splay.open(tmp_path_factory.mktemp("elsewhere") / "market")
    db.write("trade", frame_day.trades())
    db.write("quote", frame_day.quotes())
    return db


@pytest.fixture
def trade(db):
    return db["trade"]


def rows(frame) -> list:
    return sorted(frame.fetchall())


# What works


def test_aggregates_by_their_names(trade):
    col = splay.col
    groups = trade.groupby("symbol")
    expected = rows(groups.agg(col("price").mean(), high=col("price").max()))
    assert rows(groups.agg({"price": "mean"}, high=("price", "max"))) == expected
    assert rows(trade.bucket("1d").agg({"size": "sum"})) == rows(trade.bucket("1d").agg(col("size").sum()))
    moving = trade.rolling("5m").agg(mean=("price", "mean")).sort("symbol", "time", "price", "size", "side")
    assert moving.fetchall() == trade.rolling("5m").agg(mean=col("price").mean()).sort("symbol", "time", "price", "size", "side").fetchall()
    frame = TRADES.to_pandas().groupby("symbol", observed=True)["price"]
    for name in ("sum", "mean", "min", "max", "count", "median", "std", "var"):
        found = groups.agg(v=("price", name)).sort("symbol").df()["v"]
        assert np.allclose(found, getattr(frame, name)())
    for name in AGGREGATES:
        assert callable(getattr(splay.Expr, name)), name


def test_columns_of_groups(trade):
    groups = trade.groupby("symbol")
    assert rows(groups.price.max()) == rows(groups["price"].max())
    expected = rows(groups.agg(min=("price", "min"), max=("price", "max")))
    assert rows(groups["price"].agg(["min", "max"])) == expected
    assert rows(groups[["price", "size"]].agg("max")) == rows(groups[["price", "size"]].max())
    assert rows(groups["price"].var()) == rows(groups.agg(splay.col("price").var()))
    assert rows(groups["price"].quantile(0.25)) == rows(groups.agg(splay.col("price").quantile(0.25)))
    assert rows(groups["side"].n_unique()) == [("A", 2), ("B", 2)]


def test_names_of_aggregates_that_there_are_not(trade):
    groups = trade.group_by("symbol")
    with pytest.raises(splay.FrameError, match="'nunique' is no name of an aggregate; use n_unique.*there are sum, mean"):
        groups.agg({"price": "nunique"})
    with pytest.raises(splay.FrameError, match="is no name of an aggregate"):
        groups.agg({"price": np.mean})
    with pytest.raises(splay.FrameError, match=re.escape("agg(price_min=('price', 'min'), price_max=('price', 'max'))")):
        groups.agg({"price": ["min", "max"]})
    with pytest.raises(splay.FrameError, match=re.escape("write splay.col('x').mean()")):
        groups.agg("mean")
    with pytest.raises(splay.FrameError, match="several aggregates are of one column"):
        groups[["price", "size"]].agg(["min", "max"])
    with pytest.raises(splay.NoSuchColumnError, match="did you mean price"):
        groups.agg({"prise": "mean"})
    with pytest.raises(TypeError, match="not iterable"):
        list(groups)


def test_filters_by_values(trade):
    expected = trade.filter(splay.col("symbol") == "A", splay.col("side") == "buy", splay.col("size") > 100)
    assert trade.filter(splay.col("size") > 100, symbol="A", Side="buy").fetchall() == expected.fetchall()
    with pytest.raises(splay.NoSuchColumnError):
        trade.filter(sym="A")
    with pytest.raises(splay.FrameError, match="is_null"):
        trade.filter(symbol=None)


def test_columns_are_dropped_and_renamed_by_keyword(trade):
    assert trade.drop(columns=["side", "date"]).columns == trade.drop("side", "date").columns == ["time", "symbol", "price", "size"]
    assert trade.drop("side", columns="date").columns == ["time", "symbol", "price", "size"]
    assert trade.rename(columns={"size": "volume"}).columns == trade.rename({"size": "volume"}).columns
    assert trade.rename(str.upper).columns == [name.upper() for name in trade.columns]
    with pytest.raises(TypeError, match="takes the names once"):
        trade.rename()


def test_rows_with_nulls_are_dropped(tmp_path):
    given = pl.DataFrame({"a": [1, None, 3, 4], "b": ["x", "y", None, "z"], "c": [1.0, 2.0, 3.0, float("nan")]})
    given.write_parquet(tmp_path / "n.parquet")
    frame = splay.scan(tmp_path / "n.parquet")
    for ours, theirs in [(frame.drop_nulls(), given.drop_nulls()), (frame.drop_nulls("a"), given.drop_nulls("a")),
                         (frame.drop_nulls(["a", "b"]), given.drop_nulls(["a", "b"]))]:  # fmt: skip
        assert ours.select("a", "b").pl().equals(theirs.select("a", "b"))


def test_tables_have_the_long_names_too(db):
    table = db.table("trade")
    assert table.to_pandas().equals(table.df())
    assert table.to_polars().equals(table.pl())


def test_round_is_that_of_python():
    assert round(splay.col("price"), 2).sql() == "round(price, 2)"


# What is told


def test_names_of_other_tools(db, trade):
    told = [
        (trade, "a frame", _elsewhere.FRAME),
        (trade.run(), "an answer", _elsewhere.ANSWER),
        (db, "a database", _elsewhere.DATABASE),
        (db.table("trade"), "a table", _elsewhere.TABLE),
        (splay.col("x"), "an expression", _elsewhere.EXPRESSION),
        (splay.col("x").str, "the namespace str of an expression", _elsewhere.TEXT),
        (splay.col("x").dt, "the namespace dt of an expression", _elsewhere.TIME),
        (trade.group_by("symbol"), "a group", _elsewhere.GROUPS),
        (splay, "module 'splay'", _elsewhere.MODULE),
    ]
    for owner, called, names in told:
        for name, here in names.items():
            if hasattr(owner, name):
                # A column of the frame, or a name that the class has: of groups some have another meaning for their columns.
                assert name in (*trade.columns, "count", "size", "len", "agg", "name"), (called, name)
                continue
            with pytest.raises(AttributeError, match=re.escape(f"{called} has no {name!r}: use {here}")):
                getattr(owner, name)


def test_what_is_named_is_there():
    """The method that an error names first is one of the class."""
    owners = {
        splay.Frame: _elsewhere.FRAME, splay.Answer: _elsewhere.ANSWER, splay.Database: _elsewhere.DATABASE, splay.Table: _elsewhere.TABLE,
        splay.Expr: _elsewhere.EXPRESSION, TextNamespace: _elsewhere.TEXT, TimeNamespace: _elsewhere.TIME,
    }  # fmt: skip
    for owner, names in owners.items():
        for name, here in names.items():
            for method in re.findall(r"(?:^|or |and )([a-z_]+)\(", here):
                assert hasattr(owner, method) or method in ("iter", "list", "print", "len", "unnest", "head", "describe"), (name, here)
            for method in re.findall(r"splay\.col\('\w+'\)\.([a-z_]+)\(", here):
                assert hasattr(splay.Expr, method), (name, here)
            for method in re.findall(r"(?<![.\w])splay\.([a-z_]+)", here):
                assert hasattr(splay, method) or method == "dbapi", (name, here)
            for method in re.findall(r"frame\.([a-z_]+)\(", here):
                assert hasattr(splay.Frame, method), (name, here)


def test_names_that_are_close(db, trade):
    told = {
        "a frame has no 'prise' (did you mean price or pipe?); columns are time, symbol": lambda: trade.prise,
        "a frame has no 'with_colums' (did you mean with_columns": lambda: trade.with_colums,
        "an expression has no 'rolling_meen' (did you mean rolling_mean": lambda: splay.col("x").rolling_meen,
        "a database has no 'trade' (did you mean table?); a table is db['trade']": lambda: db.trade,
        "a table has no 'filter': use db[table].filter, a lazy frame of its rows": lambda: db.table("trade").filter,
        "a group has no 'prise' (did you mean price": lambda: trade.group_by("symbol").prise,
        "module 'splay' has no 'scann' (did you mean scan": lambda: splay.scann,
    }
    for message, ask in told.items():
        with pytest.raises(AttributeError, match=re.escape(message)):
            ask()
    # Libraries ask what an object can do by such names.
    for owner in (db, db.table("trade"), trade, trade.price, trade.price.dt, trade.group_by("symbol"), trade.run()):
        assert not hasattr(owner, "__array_interface__")
        assert not hasattr(owner, "_repr_mimebundle_")


def test_values_that_are_none(trade):
    told = {
        "mean is a method, write .mean()": lambda: trade.select(trade.price.mean),
        "the engine runs no function of Python": lambda: trade.with_columns(p=lambda row: row),
        "expressions of Polars run in Polars": lambda: trade.filter(pl.col("price") > 1),
        "is_in takes a list": lambda: trade.filter(trade.price > [1, 2]),
        "pandas.Series; is_in takes a list": lambda: trade.filter(trade.price > pd.Series([1])),
        "columns are named by keywords": lambda: trade.with_columns({"p": 1}),
    }
    for message, make in told.items():
        with pytest.raises(TypeError, match=re.escape(message)):
            make()


def test_what_python_compared_by_itself_is_no_condition(trade):
    """Two texts are different at once: the filter would have no rows, and nothing would say so."""
    for make in (
        lambda: trade.filter("side" == "buy"),  # noqa: PLR0133
        lambda: trade.filter(np.bool_(True)),
        lambda: splay.when("side" == "buy"),  # noqa: PLR0133
        lambda: splay.col("size").sum().filter("side" == "buy"),  # noqa: PLR0133
    ):
        with pytest.raises(TypeError, match="a condition is an expression .*which Python compared by itself"):
            make()
    with pytest.raises(TypeError, match="not 'size > 1'"):
        trade.filter("size > 1")
    assert len(trade.filter(splay.lit(True))) == 400


def test_options_of_groups_elsewhere_are_no_keys(trade):
    for option in ({"as_index": False}, {"maintain_order": True}):
        with pytest.raises(splay.FrameError, match="a keyword is the name of a key, and groups come in any order"):
            trade.group_by("symbol", **option)


def test_home_is_that_of_shells(tmp_path, monkeypatch):
    """A folder called ``~`` would be made."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    db = splay.open("~/market")
    assert db.path == tmp_path / "market"
    db.write("trade", frame_day.trades())
    db["trade"].drop("date").to_parquet("~/a.parquet")
    assert len(splay.scan("~/a.parquet")) == len(splay.scan(["~/a.parquet"])) == 400
    assert db.load("loaded", "~/a.parquet").rows == 400
    assert db.load("again", ["~/a.parquet"]).rows == 400
    with splay.dbapi.connect("~/market") as connection, connection.cursor() as cursor:
        assert cursor.execute("select count(*) from trade").fetchall() == [(400,)]
    with pytest.raises(splay.NotADatabaseError, match="there is none in memory: splay.open") as caught:
        splay.open(":memory:")
    assert str(caught.value.path) == ":memory:"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.parquet", "market"]


def test_frames_are_no_paths():
    for given in (frame_day.trades(), TRADES, TRADES.to_pandas(), {"a": [1]}):
        with pytest.raises(TypeError, match="scan takes paths of files: a frame is written into a table"):
            splay.scan(given)


def test_joins_without_columns(db, trade):
    with pytest.raises(ValueError, match=re.escape("join(other, 'symbol')")):
        trade.join(db["quote"])
    with pytest.raises(ValueError, match="name them for another one"):
        trade.join(db["quote"], "symbol", how="cross")


def test_groups_and_columns_of_groups_are_classes_of_their_own(trade):
    assert isinstance(trade.groupby("symbol"), GroupBy)
    assert isinstance(trade.groupby("symbol").price, GroupedColumns)
    with pytest.raises(AttributeError, match=r"a column of groups has no 'transform': use with_columns"):
        _ = trade.groupby("symbol").price.transform
    with pytest.raises(AttributeError, match="a moving window has no 'mean'; what is computed of it is said by agg"):
        _ = trade.rolling("5m").mean


def test_tables_are_read_by_what_takes_arrow(db):
    """The schema of the table lacks the virtual column of its rows, which DuckDB refused."""
    given = db.table("trade")
    assert duckdb.sql("select count(date) from given").fetchall() == [(400,)]
    assert pa.table(given).column_names == pl.DataFrame(given).columns == db["trade"].columns


def test_an_attribute_is_no_column(trade):
    """pandas' df.price = ... changes the column; this one would hide it."""
    with pytest.raises(AttributeError, match=re.escape("frame['price'] = ...")):
        trade.price = trade.price * 2
    trade["price"] = trade.price * 2
    assert trade.price.sql() == "price"


def test_what_is_no_row_stops_no_writer(tmp_path):
    """The rows before it were lost with the writer."""
    db = splay.open(tmp_path / "market")
    frame = pd.DataFrame({"ts_event": pd.to_datetime([1], utc=True), "symbol": ["A"], "size": [1.0]})
    with db.tick("fill") as fills:
        fills.append(ts_event=1, symbol="A", size=1)
        for wrong in (frame, frame.to_dict(), {"ts_event": 1}):
            with pytest.raises(TypeError, match="append_frame takes frames"):
                fills.append_rows(wrong)
        with pytest.raises(TypeError, match="a row is a mapping such as"):
            fills.append_rows(["ts_event"])
        with pytest.raises(AttributeError, match="a writer has no 'write': use append_frame"):
            fills.write(frame)
        fills.append(ts_event=2, symbol="A", size=0.5)
        fills.append_frame(frame)
    assert db["fill"].sort("ts_event", "size").select("size").fetchall() == [(1.0,), (1.0,), (0.5,)]
    assert db["fill"].dtypes["size"] == "float64"


def test_what_is_no_frame_is_joined_with_none(db, trade):
    quote = db.table("quote")
    assert trade.join(quote, "symbol", how="semi").fetchall() == trade.join(db["quote"], "symbol", how="semi").fetchall()
    assert len(trade.asof_join(quote)) == len(splay.concat([trade, db.table("trade")])) // 2 == 400
    for wrong in ("quote", TRADES, None):
        for join in (lambda: trade.join(wrong, "symbol"), lambda: trade.asof_join(wrong), lambda: trade.window_join(wrong, "5s", n=splay.count()),
                     lambda: trade.horizon_join(wrong, ["1s"]), lambda: splay.concat([trade, wrong])):  # fmt: skip
            with pytest.raises(TypeError, match="this takes a frame, db"):
                join()
    with pytest.raises(TypeError, match="concat takes a list"):
        splay.concat(trade)
    with pytest.raises(TypeError, match="offsets are a list of spans"):
        trade.horizon_join(db["quote"], "10s")


def test_values_out_of_range_are_named_before_anything_runs():
    col = splay.col("price")
    for alpha in (0, 20, -1):
        with pytest.raises(ValueError, match=r"above 0 and at most 1, not .*ema\(span=20\)"):
            col.ema(alpha)
    for share in ("0.5", [0.1, 0.5], True):
        with pytest.raises(TypeError, match="a share is a number from 0 to 1"):
            col.quantile(share)


def test_times_of_day_may_have_hours_of_one_digit(trade):
    assert trade.between_time("9:30", "9:45:30", "America/New_York").sql() == trade.between_time("09:30", "09:45:30", "America/New_York").sql()
    for wrong in ("9:30am", "25:00", "noon"):
        with pytest.raises(ValueError, match="is no time of day such as"):
            trade.between_time(wrong, "16:00")


def test_parts_of_texts_are_counted_from_the_end(tmp_path):
    given = pl.DataFrame({"pair": ["BTC-USD-P", "X"]})
    given.write_parquet(tmp_path / "pairs.parquet")
    found = splay.scan(tmp_path / "pairs.parquet").select(splay.col("pair").str.split_part("-", -1), first=splay.col("pair").str.split_part("-", 0))
    assert sorted(found.fetchall()) == [("P", "BTC"), ("X", "X")]


def test_plots_prepared_statements_and_schemas_name_what_they_have(db, trade):
    told = {
        "frame.plot has no 'hist': use histogram('price')": lambda: trade.plot.hist("price"),
        "a prepared statement has no 'df': use run(params).df()": lambda: db.prepare("select 1").df(),
        "a schema has no 'items': use zip(schema.names, schema.types)": lambda: db.table("trade").schema.items(),
        "a schema has no 'price'; the type of a column is schema['price']": lambda: db.table("trade").schema.price,
    }
    for message, ask in told.items():
        with pytest.raises(AttributeError, match=re.escape(message)):
            ask()
    with pytest.raises(TypeError, match="a plot has a kind"):
        trade.plot(x="time", y="price")
    assert repr(trade.rolling("5m")) == "<splay.Rolling of 5m by symbol: say what is computed by .agg(...)>"


def test_cursors_name_what_they_have(db):
    with splay.dbapi.connect(db.path) as connection, connection.cursor() as cursor:
        with pytest.raises(AttributeError, match=re.escape("a cursor has no 'df': use fetch_df()")):
            cursor.df()
        with pytest.raises(AttributeError, match=re.escape("a connection has no 'sql': use execute(statement)")):
            connection.sql("select 1")


def test_an_index_without_a_name_is_no_column_of_a_writer():
    from splay.writer import as_table

    frame = pd.DataFrame({"time": pd.to_datetime([1, 2, 3], utc=True), "price": [1.0, 2.0, 3.0]}, index=[7, 2, 5])
    assert pa.table(frame).column_names == ["time", "price", "__index_level_0__"]
    assert as_table(frame).column_names == ["time", "price"]
    assert as_table(frame.rename_axis("row")).column_names == ["time", "price", "row"]
