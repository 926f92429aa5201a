"""Frames go into what is written with narwhals: functions of users, Altair, Plotly; and into Polars as lazy frames."""

import altair
import frame_day
import narwhals as nw
import narwhals.stable.v1 as nw_v1
import plotly.express
import polars as pl
import pyarrow as pa
import pytest

import splay
import test_server


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("narwhals") / "db"
    db = splay.open(folder)
    db.write("trade", frame_day.trades())
    return folder


@pytest.fixture(scope="module", params=["folder", "server"])
def trade(folder, request):
    if request.param == "folder":
        yield splay.open(folder)["trade"]
        return
    with test_server.Server(folder, "--read-only") as server, splay.connect(server.http) as client:
        yield client["trade"]


@nw.narwhalify
def turnover(frame, by: str):
    """A function of a user who knows narwhals and nothing of SplayDB."""
    valued = frame.with_columns(nw.col(by).cast(nw.String), turnover=nw.col("price") * nw.col("size"))
    return valued.group_by(by).agg(nw.col("turnover").sum(), nw.len().alias("rows")).sort(by)


def expected(trade) -> list[tuple]:
    value = (splay.col("price") * splay.col("size")).sum()
    return trade.group_by("symbol").agg(value.alias("turnover"), rows=splay.count()).sort("symbol").fetchall()


def test_functions_of_narwhals_take_frames(trade):
    for frame in (nw.from_native(trade), nw.from_native(trade, eager_only=True), nw_v1.from_native(trade, eager_or_interchange_only=True)):
        assert frame.columns == trade.columns and frame.shape == (400, 6)
        assert frame["size"].sum() == trade["size"].sum().item()
    given = turnover(trade, "symbol")
    assert isinstance(given, pa.Table)
    assert [row[1:] for row in zip(*given.to_pydict().values())] == [pytest.approx(row[1:]) for row in expected(trade)]
    assert given["symbol"].to_pylist() == [row[0] for row in expected(trade)]
    assert nw.from_native(trade.head(3)).to_native().equals(trade.head(3).to_arrow())


def test_lazy_frames_of_narwhals_are_those_of_polars(trade):
    lazy = nw.from_native(trade.pl(lazy=True))
    assert isinstance(lazy, nw.LazyFrame)
    given = turnover(lazy, "symbol").collect()
    assert [row[0] for row in given.rows()] == [row[0] for row in expected(trade)]
    assert [row[1:] for row in given.rows()] == [pytest.approx(row[1:]) for row in expected(trade)]


def test_what_is_no_frame_stays_with_narwhals(trade):
    assert nw.from_native([1, 2], pass_through=True) == [1, 2]
    with pytest.raises(TypeError):
        nw.from_native(trade._source)
    assert isinstance(nw.from_native(pl.DataFrame({"x": [1]})), nw.DataFrame)


def test_polars_asks_for_what_it_needs(folder):
    db = splay.open(folder)
    asked: list[str] = []

    class Spy:
        """A database that notes its statements."""

        def sql(self, statement, params=None):
            asked.append(statement)
            return db.sql(statement, params)

        def table(self, name):
            return db.table(name)

    trade = splay.Frame(Spy(), db["trade"]._query)
    lazy = trade.pl(lazy=True)
    price = lazy.select(pl.col("price").max()).collect()
    assert price.item() == db["trade"].price.max().item()
    assert asked[-1] == "SELECT price\nFROM trade"
    some = lazy.filter(pl.col("size") > 250).select("price", "time").collect()
    assert some.sort("time", "price").rows() == db["trade"].filter(splay.col("size") > 250).select("price", "time").sort("time", "price").pl().rows()
    assert "side" not in asked[-1]
    assert lazy.head(3).collect().rows() == db["trade"].head(3).pl().rows()
    assert "LIMIT 3" in asked[-1]
    assert lazy.filter(pl.col("size") > 10**9).collect().shape == (0, 6)
    assert lazy.select(pl.len()).collect().item() == 400
    assert lazy.collect_schema() == db["trade"].pl().schema


def test_altair_takes_frames(trade):
    bars = trade.bars("30m").sort("symbol", "time")
    chart = altair.Chart(bars).mark_line().encode(x="time", y="close", color="symbol").to_dict()
    (rows,) = chart["datasets"].values()
    assert [row["close"] for row in rows] == [row[0] for row in bars.select("close").fetchall()]
    assert chart["encoding"]["x"]["type"] == "temporal" and chart["encoding"]["color"]["type"] in ("nominal", "ordinal")


def test_plotly_takes_frames(trade):
    bars = trade.bars("30m").sort("symbol", "time")
    figure = plotly.express.line(bars, x="time", y="close", color="symbol")
    assert [line.name for line in figure.data] == ["A", "B"]
    assert sum(len(line.y) for line in figure.data) == len(bars)
