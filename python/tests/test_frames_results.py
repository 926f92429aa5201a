"""Frames, databases and answers give their rows to whoever asks, show themselves without reading columns, and clean up."""

import datetime
import subprocess
import sys

import duckdb
import frame_day
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import splay
from splay.frames.opening import table_frame
from splay.frames.source import FILES


@pytest.fixture
def market(tmp_path):
    db = splay.open(tmp_path / "market")
    db.write("trade", frame_day.trades())
    db.write("quote", frame_day.quotes())
    return db


def test_every_library_gets_the_rows(market):
    frame = market["trade"].select("time", "symbol", "price").sort("time", "symbol", "price")
    table = frame.to_arrow()
    assert frame.collect().equals(table)
    assert pa.table(frame).equals(table)
    assert frame.df().equals(table.to_pandas())
    assert frame.pl().rows() == pl.DataFrame(frame).rows()
    assert duckdb.sql("select count(*) from frame").fetchall() == [(400,)]
    assert frame.fetchall()[0] == tuple(column[0].as_py() for column in table.columns)
    assert pa.Table.from_batches(frame.iter_batches()).equals(table)
    assert (len(frame), frame.shape) == (400, (400, 3))
    assert frame.dtypes == {"time": "timestamp", "symbol": "symbol", "price": "float64"}
    assert frame.price.to_list() == table.column("price").to_pylist()
    assert frame.price.to_numpy().tolist() == table.column("price").to_pylist()
    summary = frame.describe()
    assert summary.column_names == ["statistic", "time", "symbol", "price"] and summary["price"].type == pa.float64()
    of = {name: dict(zip(summary["statistic"].to_pylist(), summary[name].to_pylist())) for name in frame.columns}
    prices = frame.price.to_numpy()
    assert [of["price"][name] for name in ("count", "null_percentage", "min", "max")] == [400, 0, prices.min(), prices.max()]
    assert of["price"]["mean"] == pytest.approx(prices.mean()) and of["price"]["std"] == pytest.approx(prices.std(ddof=1))
    assert list(of["price"]) == ["count", "null_percentage", "approx_unique", "mean", "std", "min", "q25", "q50", "q75", "max"]
    assert (of["symbol"]["min"], of["symbol"]["max"], of["symbol"]["approx_unique"], of["symbol"]["mean"]) == ("A", "B", "2", None)
    assert of["time"]["min"].startswith("2024-01-02T14:3") and of["time"]["count"] == "400"
    odd = market.sql("select x::decimal(9,2) as x, x > 1 as y, 'NaN'::double as z from (values (1.25), (2.5), (null)) t(x)")
    market.write("odd", odd.to_arrow().append_column("at", pa.array([1, 2, 3], pa.timestamp("ns", "UTC"))), time="at")
    of_odd = market["odd"].select("x", "y", "z").describe().to_pydict()
    assert (of_odd["x"][5], of_odd["x"][9], round(of_odd["x"][1], 1), of_odd["y"][5]) == (1.25, 2.5, 33.3, "true") and np.isnan(
        of_odd["z"][5]
    )


def test_a_frame_runs_anew_each_time(market):
    frame = market["trade"]
    assert len(frame) == 400
    market.write("trade", frame_day.trades(10, seed=9))
    assert len(frame) == 410


def test_plans_are_those_of_sql(market):
    frame = market["trade"][splay.col("price") > 100].group_by("symbol").agg(splay.col("size").sum())
    assert frame.explain() == "\n".join(f"{kind}\n{text}" for kind, text in market.sql(f"explain {frame.sql()}").fetchall())
    assert "tick_plan" in frame.explain()
    assert "rows" in frame.explain(analyze=True)
    with frame.run() as answer:
        answer.to_arrow()
    assert answer.stats.run_by == "tick_plan"


def test_files_written_are_whole_or_absent(market, tmp_path):
    frame = market["trade"].select("time", "price")
    assert frame.to_parquet(tmp_path / "out.parquet", row_group_rows=100) == 400
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 400
    assert frame.limit(0).to_parquet(tmp_path / "none.parquet") == 0
    assert pq.read_table(tmp_path / "none.parquet").column_names == ["time", "price"]
    with pytest.raises(splay.Error):
        market["trade"].select(x=splay.col("symbol").cast("int64")).to_parquet(tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 400
    assert sorted(path.name for path in tmp_path.glob("*out*")) == ["out.parquet"]


def test_tables_are_written_without_collecting(market):
    report = market["trade"].bars("1h").write_to("bars")
    assert report.rows == len(market["bars"])
    copied = market["trade"].write_to("copy")
    assert copied.rows == 400
    assert market.table("copy").schema.names == market.table("trade").schema.names
    assert market["copy"].sort("time", "price").drop("date").pl().rows() == market["trade"].sort("time", "price").drop("date").pl().rows()
    market["trade"].filter(splay.col("price") < 0).write_to("none", time="time", symbol="symbol")
    assert len(market["none"]) == 0


def test_files_need_no_database(market, tmp_path):
    market["trade"].drop("date").to_parquet(tmp_path / "a.parquet")
    table = market["trade"].drop("date").to_arrow()
    with pa.ipc.new_file(tmp_path / "b.arrow", table.schema) as writer:
        writer.write_table(table)
    market["trade"].select("symbol", "price", "size").df().to_csv(tmp_path / "c.csv", index=False)
    for name in ("a.parquet", "b.arrow", "c.csv"):
        frame = splay.scan(tmp_path / name)
        assert len(frame) == 400, name
        assert frame.size.sum().item() == market["trade"].size.sum().item()
    both = splay.scan([tmp_path / "a.parquet", tmp_path / "b.arrow"])
    assert len(both) == 800
    joined = splay.scan(tmp_path / "c.csv").join(market["quote"].group_by("symbol").agg(n=splay.count()), "symbol")
    assert len(joined) == 400
    with pytest.raises(splay.StatementError):
        splay.scan(tmp_path / "none-*.parquet")


def test_paths_with_quotes_and_bare_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pa.table({"x": [1, 2]})
    for name in ("it's here.parquet", "bare", 'a"b.parquet'):
        pq.write_table(table, name)
        assert splay.scan(name).x.to_list() == [1, 2], name


def test_two_databases_do_not_mix(market, tmp_path):
    other = splay.open(tmp_path / "other")
    other.write("trade", frame_day.trades())
    with pytest.raises(splay.FrameError, match="can't read"):
        market["trade"].join(other["trade"], "symbol")


def test_memory_limits_hold(tmp_path):
    table = pa.table({"k": range(300_000), "v": [float(n) for n in range(300_000)]})
    pq.write_table(table, tmp_path / "big.parquet")
    splay.set_memory_limit("2 MiB")
    try:
        frame = splay.scan(tmp_path / "big.parquet")
        assert frame.v.sum().item() == sum(range(300_000))
        with pytest.raises(splay.MemoryLimitError):
            frame.select(all=splay.col("v").implode(order_by="k")).to_arrow()
    finally:
        splay.set_memory_limit(None)


def test_sizes_are_numbers_or_texts(tmp_path):
    try:
        for size, count in (("1GB", 1 << 30), ("512m", 512 << 20), (" 3 kib ", 3 << 10), ("4096", 4096), ("2T", 2 << 40), (np.int64(7), 7)):
            splay.set_memory_limit(size)
            assert FILES.memory_bytes == count
        for wrong in ("lots", "1.5G", "-1G", "0", 0, ""):
            with pytest.raises(ValueError, match="a memory limit is"):
                splay.set_memory_limit(wrong)
        for wrong in (1.5, True, [1]):
            with pytest.raises(TypeError, match="a memory limit is a whole number of bytes or a size such as '2G'"):
                splay.set_memory_limit(wrong)
    finally:
        splay.set_memory_limit(None)
    small = splay.open(tmp_path / "db", memory_bytes="2M", file_cache_bytes="1M", result_cache_bytes="64K", journal_memory_bytes="8M")
    with pytest.raises(splay.MemoryLimitError):
        small.sql("select array_agg(x order by x) from generate_series(1, 1000000) t(x)").fetchall()
    with pytest.raises(ValueError, match="memory_bytes is a whole number of bytes"):
        splay.open(tmp_path / "db", memory_bytes="much")


def test_arrays_are_the_values(market):
    trade = market["trade"]
    prices = trade.price.to_numpy()
    assert np.asarray(trade.price).tolist() == prices.tolist() and np.asarray(trade.price).dtype == np.float64
    assert np.asarray(trade["size"] * 2, dtype="float32").tolist() == [2.0 * size for size in trade["size"].to_list()]
    assert np.asarray(trade.time).dtype == np.dtype("datetime64[ns]") and np.asarray(trade.symbol)[0] == "A"
    # NumPy took a column for one value, so that its median was an expression.
    for function in (np.mean, np.sum, np.median, np.std, np.max, lambda values: np.percentile(values, 90)):
        assert function(trade.price) == function(prices)
    assert np.mean(trade.price.mean()) == pytest.approx(prices.mean())
    assert np.where(trade.price > 100, 1, 0).tolist() == (prices > 100).astype(int).tolist()
    assert np.concatenate([trade.price, [1.0]]).shape == (401,)
    with pytest.raises(splay.FrameError, match="x belongs to no frame"):
        np.mean(splay.col("x"))
    with pytest.raises(splay.FrameError, match="x belongs to no frame"):
        np.asarray(splay.col("x"))


def test_functions_of_numpy_of_single_values_make_expressions(market):
    trade = market["trade"]
    prices, sizes = trade.price.to_numpy(), trade["size"].to_numpy()
    with np.errstate(all="ignore"):
        for function in (
            np.log,
            np.log10,
            np.log2,
            np.sqrt,
            np.abs,
            np.floor,
            np.ceil,
            np.sign,
            np.sin,
            np.arctan,
            np.tanh,
            np.cbrt,
            np.negative,
            np.degrees,
            np.isnan,
        ):
            made = function(trade.price / 200)
            assert isinstance(made, splay.Expr)
            np.testing.assert_allclose(made.to_list(), function(prices / 200), rtol=1e-12)
    for made, expected in (
        (np.float64(2) * trade.price, 2 * prices),
        (np.int64(2) - trade["size"], 2 - sizes),
        (np.add(trade.price, trade["size"]), prices + sizes),
        (np.power(trade.price, 2), prices**2),
        (np.logical_and(trade.price > 100, trade["size"] > 100), (prices > 100) & (sizes > 100)),
        (np.float64(100) < trade.price, prices > 100),
    ):
        np.testing.assert_allclose(made.to_list(), expected, rtol=1e-12)
    for refused in (lambda: np.spacing(trade.price), lambda: np.maximum(trade.price, 1), lambda: np.add.reduce(trade.price)):
        with pytest.raises(TypeError, match=r"take the values, frame\['price'\].to_numpy\(\)"):
            refused()
    for beside in (lambda: np.ones(400) * trade.price, lambda: trade.price * np.ones(400)):
        with pytest.raises(TypeError, match="values of several rows"):
            beside()


def test_frames_show_themselves_without_running(market):
    trade = market["trade"]
    text = repr(trade)
    assert text.startswith("<splay.Frame of 6 columns, 400 rows in 1 partition, 2024-01-02, ordered by symbol, time>")
    assert "float64" in text
    shown = text.splitlines()
    assert len(shown) == 3 + 5 + 1 + 5
    rows = trade.fetchall()
    assert all(str(rows[place][3]) in shown[3 + place] and str(rows[-5 + place][3]) in shown[9 + place] for place in range(5))
    filtered = repr(trade[trade.price > 0])
    assert "not run yet" in filtered and "WHERE price > 0" in filtered and "float64" in filtered
    some = repr(trade[["time", "price"]])
    assert (
        some.startswith("<splay.Frame of 2 columns, 400 rows in 1 partition, 2024-01-02, ordered by symbol, time>")
        and str(rows[-1][2]) in some
    )
    assert "sorted by price" in repr(trade.sort("price"))
    wide = trade.with_columns(*(splay.lit(n).alias(f"c{n}") for n in range(20)))
    assert "…" in repr(wide)
    odd = trade.select(splay.lit("<b>").alias("<i>")).limit(1)
    assert "&lt;b&gt;" in odd._repr_html_() and "&lt;i&gt;" in odd._repr_html_() and "<i>" not in odd._repr_html_()
    assert "not run yet" in trade.latest()._repr_html_()
    assert "price" in dir(trade) and "price" in trade._ipython_key_completions_()


def test_databases_and_answers_show_themselves(market):
    assert "trade  400 rows  2024-01-02" in repr(market).splitlines()[2] and list(market) == ["quote", "trade"]
    assert "quote" in market._repr_html_()
    assert "trade" in market and "TRADE" in market and "nope" not in market
    with pytest.raises(splay.NoSuchTableError):
        market["nope"]
    table, rows = market.table("trade"), market["trade"].fetchall()
    title = "400 rows in 1 partition, 2024-01-02, ordered by symbol, time"
    assert (
        repr(table).startswith(f'<splay.Table "trade": {title}>\ntime ') and f"trade: {title}, {table.bytes:,} bytes" in table._repr_html_()
    )
    for shown in (repr(table), table._repr_html_()):
        assert "float64" in shown and str(rows[0][2]) in shown and str(rows[-1][2]) in shown
    answer = market.sql("select time, price from trade")
    assert "price" in answer._repr_html_() and "unread" in answer._repr_html_()
    assert repr(answer).startswith("<splay.Answer of 2 columns; its rows are unread: .df()")
    assert [line.split() for line in repr(answer).splitlines()[1:]] == [["time", "price"], ["timestamp", "float64"]]
    assert answer.head(3).num_rows == 3
    with pytest.raises(splay.ConsumedError):
        answer.fetchall()
    assert repr(answer).startswith("<splay.Answer of 2 columns; its rows were read>")
    assert repr(market.sql("select 1 as x")).startswith("<splay.Answer of 1 column;")


def test_reference_tables_and_small_ones_show_themselves(market):
    market.sql("CREATE TABLE venue (mic SYMBOL, city TEXT, PRIMARY KEY (mic))").fetchall()
    market.sql("INSERT INTO venue VALUES ('XNYS', 'New York')").fetchall()
    assert repr(market.table("venue")).splitlines() == [
        '<splay.Table "venue": 1 row, reference table, key (mic)>',
        "mic     city",
        "symbol  text",
        "XNYS    New York",
    ]
    assert "1 row, reference table, key (mic)" in repr(market["venue"]) and "venue  1 row " in repr(market)
    rows = frame_day.trades(3).append_column("at", pa.array(range(3)))
    market.write("three", rows.append_column("later", rows["time"].cast(pa.int64())))
    assert len(repr(market.table("three")).splitlines()) == 3 + 3


def test_a_frame_that_cannot_be_read_says_why(tmp_path):
    frame_day_file = tmp_path / "gone.parquet"
    pq.write_table(frame_day.trades(), frame_day_file)
    frame = splay.scan(frame_day_file)
    frame_day_file.unlink()
    for shown in (repr(frame), repr(frame.bars("1m")), frame._repr_html_()):
        assert "NoMatchError: " in shown or "StatementError: " in shown
        assert "gone.parquet" in shown


def test_a_damaged_table_does_not_hide_the_others(market):
    head = next(path for path in market.path.rglob("HEAD") if "quote" in str(path))
    head.write_bytes(b"x" * 40)
    same = splay.open(market.path)
    assert "CorruptError" in repr(same) and "trade  400 rows" in repr(same)


def test_with_blocks(market):
    with splay.open(market.path) as same, same.sql("select * from trade") as answer:
        pass
    with pytest.raises(splay.ConsumedError):
        answer.to_arrow()
    assert market.sql("select price from trade where size > $1", [100]).df().shape[1] == 1
    assert market.sql("select 1 as x, null as y").fetchall() == [(1, None)]
    assert market.sql("select 1 as x where false").fetchall() == []


def test_arrow_needs_no_pandas(market):
    code = f"""
import sys, splay
class NoPandas:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            raise refusal("pandas is imported")
sys.meta_path.insert(0, NoPandas())
refusal = AssertionError
frame = splay.open({str(market.path)!r})["trade"].bars("1h")
assert frame.to_arrow().num_rows > 0
assert sum(batch.num_rows for batch in frame.iter_batches()) > 0
refusal = ImportError  # What asks for tuples asks pyarrow, which makes times of pandas where that is installed.
assert isinstance(repr(splay.open({str(market.path)!r})["trade"]), str)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_the_package_reads_no_frames_library():
    code = "import sys, splay; assert not {'pyarrow', 'pandas', 'polars', 'matplotlib'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_empty_frames(tmp_path):
    db = splay.open(tmp_path / "empty")
    db.write("t", frame_day.trades(0))
    frame = db["t"]
    assert frame.fetchall() == [] and len(frame) == 0
    assert frame.pl().shape == (0, 6)
    assert isinstance(frame.df(), pd.DataFrame)
    assert frame.bars("1m").fetchall() == []
    assert frame.select(splay.col("size").sum(), n=splay.count()).fetchall() == [(None, 0)]
    assert frame.asof_join(frame).fetchall() == []
    assert repr(frame) and frame._repr_html_()


def test_frames_of_joins_group_and_sort(market):
    trade, quote = market["trade"].drop("date"), market["quote"].drop("date")
    seen = trade.asof_join(quote)
    grouped = seen.group_by("symbol").agg(n=splay.count(), last=splay.col("bid").last()).sort("symbol").fetchall()
    expected = seen.sort("time").group_by("symbol").agg(n=splay.count(), last=splay.col("bid").last()).sort("symbol").fetchall()
    assert [row[:2] for row in grouped] == [row[:2] for row in expected]
    moved = seen.with_columns(mid=(splay.col("bid") + splay.col("ask")) / 2).rolling("5m").agg(m=splay.col("mid").mean())
    assert moved.shape == (400, 9)


def test_a_frame_begins_without_a_statement(tmp_path):
    """The first statement over many dates looks at all of them."""
    db = splay.open(tmp_path / "db")
    db.write("trade", frame_day.trades())
    db.write("dated", frame_day.trades().append_column("Date", pa.array([datetime.date(2024, 1, 2)] * 400)))
    asked = []

    class Spy:
        def sql(self, statement, params=None):
            asked.append(statement)
            return db.sql(statement, params)

        def table(self, name):
            return db.table(name)

    for name in ("trade", "dated"):
        frame = table_frame(Spy(), name)
        assert asked == []
        assert frame.columns == db.sql(f"select * from {name} limit 0").columns
    with pytest.raises(splay.NoSuchTableError):
        db["nothing"]
