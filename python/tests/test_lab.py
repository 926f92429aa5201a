"""The laboratory through its public interface: what is measured, kept, chosen and drawn."""

import math

import matplotlib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

import splay
from splay import lab

matplotlib.use("agg")
from matplotlib import pyplot  # noqa: E402

SEED_COLUMNS = ["lbs", "alg", "lvl", "dataType", "dataCount", "writeTime", "readTime", "compFactor", "testTime"]
FEW = {"schemes": "q", "codecs": ["none", "snappy", "zstd"], "scheme": "", "times": 1}


@pytest.fixture(scope="module")
def zstd():
    """All levels and sizes of blocks of zstd but the slowest on a short list."""
    return lab.compression(lab.generate("longs:1000", count=1_500), schemes="q", codecs=["zstd"], times=1)


def test_results_have_the_columns_of_q(zstd):
    table = zstd.to_arrow()
    assert set(SEED_COLUMNS) <= set(table.column_names)
    assert len(zstd) == 270 and zstd.left == 0 and zstd.skipped == []
    assert table["dataType"].unique().to_pylist() == [7] and table["dataCount"].unique().to_pylist() == [1_500]
    assert sorted(table["lbs"].unique().to_pylist()) == list(range(12, 21))
    assert sorted(table["lvl"].unique().to_pylist()) == list(range(-7, 23))
    assert zstd.data == ["longs:1000 random"]


def test_choices_are_those_of_pandas(zstd):
    frame = zstd.df()
    chosen = zstd.choose(min_factor=3, max_write_ms=5, order_by="write").to_pandas()
    expected = frame[(frame.compFactor >= 3) & (frame.writeTime <= 5)].sort_values("writeTime")
    assert set(chosen.scheme) == set(expected.scheme)
    assert chosen.writeTime.is_monotonic_increasing
    summary = {row["metric"]: row for row in zstd.summary().to_pylist()}
    assert summary["compFactor"]["maximum"] == frame.compFactor.max()
    assert math.isclose(summary["readTime"]["average"], frame.readTime.mean())
    assert "queryTime" not in summary
    best = zstd.best("factor").to_pandas()
    assert set(best.scheme) == set(frame[frame.compFactor == frame.compFactor.max()].scheme)
    front = zstd.front("factor", "read").to_pandas()
    for row in front.itertuples():
        beaten = frame[(frame.compFactor >= row.compFactor) & (frame.readTime <= row.readTime)]
        assert ((beaten.compFactor == row.compFactor) & (beaten.readTime == row.readTime)).all()
    with pytest.raises(ValueError, match="none of factor, write, read"):
        zstd.choose(order_by="beauty")


def test_results_are_kept_and_gone_on_with(tmp_path):
    rows = lab.generate("prices", count=800)
    for name in ("r.parquet", "r.csv"):
        path = tmp_path / name
        first = lab.compression(rows, schemes="q", codecs=["snappy"], times=1, results=path)
        seen = []
        second = lab.compression(
            rows, schemes="q", codecs=["snappy", "lz"], times=1, results=path, progress=lambda *told: seen.append(told)
        )
        assert [told[0] for told in seen] == list(range(10, 19)) and seen[-1][1] == 18
        assert first.to_arrow().to_pylist() == second.of(codec="snappy").to_arrow().to_pylist()
        assert lab.load(path).to_arrow() == second.to_arrow()
        with pytest.raises(splay.LabError, match="other values"):
            lab.compression(lab.generate("prices", count=800, seed=5), results=path)
    assert pq.read_table(tmp_path / "r.parquet").num_rows == pcsv.read_csv(tmp_path / "r.csv").num_rows == 18


def test_an_exception_of_the_observer_stops_the_run_and_keeps_its_results(tmp_path):
    class Enough(Exception):
        pass

    def stop(done, total, left, data, scheme):
        if done == 3:
            raise Enough

    with pytest.raises(Enough):
        lab.compression(lab.generate("booleans", 500), schemes="q", times=1, results=tmp_path / "r.csv", progress=stop)
    assert len(lab.load(tmp_path / "r.csv")) == 3


def test_rows_of_anybody_are_measured(tmp_path):
    frame = pd.DataFrame({"price": np.round(np.linspace(1, 2, 300), 2), "sym": ["a", "b", None] * 100})
    path = tmp_path / "day.parquet"
    frame.to_parquet(path)
    db = splay.open(tmp_path / "db")
    times = pd.Timestamp("2024-01-02", tz="UTC") + pd.to_timedelta(range(300), unit="s")
    db.write("trade", pa.Table.from_pandas(frame.assign(time=times), preserve_index=False), time="time", symbol="sym")
    for data in (frame, pa.Table.from_pandas(frame), str(path), path, db["trade"]):
        found = lab.compression(data, columns=["price"], schemes="today", scheme="parquet decimal delta, zstd 3", times=1)
        assert found.data == ["price"] and len(found) == 3
    both = lab.compression(frame, schemes="today", scheme="delta", codecs=["none"], times=1)
    assert {(data, reason) for scheme, data, reason in both.skipped if scheme == "delta"} == {
        ("sym", "its values are no numbers of at most 64 bits")
    }
    assert both.totals().data == [] or both.totals().data == ["2 columns"]
    assert lab.compression(frame, columns=["price"], rows=10, **FEW | {"codecs": ["none"]}).to_arrow()["dataCount"][0].as_py() == 10


def test_a_column_is_measured_without_a_table():
    import polars

    values = np.arange(300.0)
    few = {"schemes": "q", "codecs": "snappy", "times": 1}
    for data, name in (
        (pa.array(values), "values"),
        (pa.chunked_array([values]), "values"),
        (values, "values"),
        (pd.Series(values, name="price"), "price"),
        (pd.Series(values), "values"),
        (polars.Series("price", values), "price"),
    ):
        assert lab.compression(data, **few).data == [name]


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        ({"codecs": "nosuch"}, "no scheme has these codecs"),
        ({"scheme": "nosuch"}, "no scheme has these codecs"),
        ({"times": 0}, "times is a whole number from 1 on"),
        ({"times": 1.5}, "times is a whole number"),
        ({"budget": "1s"}, "budget is a number of seconds"),
        ({"budget": -1}, "budget is a number of seconds from 0 on"),
    ],
)
def test_wrong_settings_are_refused(wrong, part):
    with pytest.raises(ValueError, match=part):
        lab.compression(lab.generate("longs", count=100), **wrong)


def test_lists_are_averaged():
    lists = lab.lists("symbols:3", 4, count=600)
    mean = lab.compression(lists, schemes="q", codecs=["snappy"], times=1).to_arrow().to_pylist()
    each = [lab.compression(one, schemes="q", codecs=["snappy"], times=1).to_arrow().to_pylist() for one in lists]
    for place, row in enumerate(mean):
        assert row["runs"] == 4
        assert math.isclose(row["compFactor"], sum(one[place]["compFactor"] for one in each) / 4)
    assert lab.generate("times", 50, "sorted", 3).equals(lab.generate("times", 50, "sorted", 3))
    with pytest.raises(ValueError, match="there are longs"):
        lab.generate("cats")
    with pytest.raises(ValueError, match="lists of one kind"):
        lab.compression([lab.generate("prices", 5), lab.generate("times", 5)])


def test_statements_are_sql_or_functions():
    rows = pa.table({"price": [1.5, 2.5, 2.5]})
    for statement in ("select sum(price) from {data}", lambda batch: 7.5, lambda batch: None):
        found = lab.compression(rows, statement=statement, **FEW | {"codecs": ["none"]})
        assert found.to_arrow()["queryTime"][0].as_py() > (7_500 if statement == 7.5 else 0)
    with pytest.raises(splay.StatementError):
        lab.compression(rows, statement="select nothing from {data}", **FEW)
    batches = []
    lab.compression(rows, statement=batches.append, **FEW | {"codecs": ["none"]})
    assert pa.table(batches[0]) == rows


def test_a_budget_samples():
    found = lab.compression(lab.generate("booleans", 2_000), schemes="q", budget=0)
    assert len(found) == 0 and found.left == 532


def test_plots_show_the_results(zstd, tmp_path):
    axes = zstd.plot.levels("zstd", lbs=17)
    drawn = axes.lines[0]
    frame = zstd.df()
    expected = frame[frame.lbs == 17].sort_values("lvl")
    assert list(drawn.get_xdata()) == expected.lvl.tolist() and list(drawn.get_ydata()) == expected.compFactor.tolist()
    axes.figure.savefig(tmp_path / "levels.png")
    axes = zstd.plot.blocks("zstd", level=18)
    assert list(axes.lines[0].get_xdata()) == list(range(12, 21))
    axes = zstd.plot.front("write")
    assert axes.get_xlabel() == "write, ms"
    pyplot.close("all")
    assert (tmp_path / "levels.png").stat().st_size > 5_000
    zstd.plot.html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 4 and "compFactor" in page and "<script" not in page and " src=" not in page
    with pytest.raises(ValueError, match="no results of this codec"):
        zstd.plot.levels("gzip")


def test_vortex_says_what_it_needs(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "vortex", None)
    with pytest.raises(ImportError, match="pip install vortex-data"):
        lab.vortex(pa.table({"price": [1.0]}))


