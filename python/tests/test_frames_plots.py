"""Each plot draws what the rows say. With SPLAY_PLOTS=folder the images stay there, to be looked at."""

import math
import os
import pathlib

import frame_day
import matplotlib
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import splay

matplotlib.use("agg")
from matplotlib import pyplot  # noqa: E402

NEW_YORK = "America/New_York"


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    db = splay.open(tmp_path_factory.mktemp("plots") / "db")
    db.write("trade", frame_day.trades(20_000))
    db.write("quote", frame_day.quotes(20_000))
    return db


@pytest.fixture
def saved(tmp_path):
    """Saves axes as an image and gives its size in bytes."""
    folder = pathlib.Path(os.environ.get("SPLAY_PLOTS", tmp_path))
    folder.mkdir(exist_ok=True)

    def save(axes, name: str) -> int:
        axes.figure.savefig(folder / f"{name}.png", dpi=80)
        pyplot.close(axes.figure)
        return (folder / f"{name}.png").stat().st_size

    return save


def test_lines(db, saved):
    axes = db["trade"].plot.line("price", by="symbol", zone=NEW_YORK)
    assert [line.get_label() for line in axes.lines] == ["A", "B"]
    assert axes.get_xlabel() == f"time ({NEW_YORK})" and axes.get_ylabel() == "price"
    assert all(len(line.get_xdata()) <= 1_100 for line in axes.lines)
    assert saved(axes, "line") > 5_000
    bars = db["trade"].bars("1h", by=[]).sort("time").df()
    drawn = db["trade"].bars("1h", by=[]).plot.line("close").lines[0]
    assert np.asarray(drawn.get_ydata()).tolist() == bars["close"].tolist()


def test_candles(db, saved):
    one = db["trade"].filter(splay.col("symbol") == "A")
    axes = one.plot.candles("5m", zone=NEW_YORK)
    bars = one.bars("5m", by=[])
    assert len(axes.patches) == len(bars)
    assert saved(axes, "candles") > 5_000
    assert saved(one.plot.candles(), "candles-by-themselves") > 5_000
    with pytest.raises(splay.FrameError, match="one symbol"):
        db["trade"].plot.candles()


def test_histograms_count_every_row(db, saved):
    axes = db["trade"].plot.histogram("price", bins=60)
    assert sum(patch.get_height() for patch in axes.patches) == 20_000
    prices = db["trade"].price.to_numpy()
    heights = {round(patch.get_x(), 6): patch.get_height() for patch in axes.patches}
    expected, edges = np.histogram(prices, bins=60)
    # Prices lie on the edges of bins here and there.
    assert [heights.get(round(edge, 6), 0) for edge in edges[:-1]] == pytest.approx(expected.tolist(), abs=40)
    assert saved(axes, "histogram") > 3_000


def test_heat_maps_count_every_row(db, saved):
    axes = db["trade"].plot.heatmap("time", "price", bins=(80, 40), zone=NEW_YORK)
    assert axes.collections[0].get_array().sum() == 20_000
    assert saved(axes, "heatmap") > 5_000
    plain = db["trade"].plot.heatmap("size", "price", bins=(30, 20), logarithmic=False)
    assert saved(plain, "heatmap-of-numbers") > 5_000


def test_values_without_a_place_are_left_out(tmp_path):
    at = [frame_day.START // 1000 + n for n in range(6)]
    odd = pa.table({"time": pa.array(at, pa.timestamp("us")), "x": [1.0, 2.0, None, math.nan, math.inf, -math.inf], "y": [1, 2, 3, 4, 5, 6]})
    pq.write_table(odd, tmp_path / "odd.parquet")
    frame = splay.scan(tmp_path / "odd.parquet")
    axes = frame.plot.histogram("x", bins=4)
    assert [(patch.get_x(), patch.get_height()) for patch in axes.patches] == [(1.0, 1), (1.75, 1)]
    assert frame.plot.heatmap("time", "y", bins=(3, 3)).collections[0].get_array().sum() == 6
    assert frame.plot.heatmap("x", "y", bins=(2, 2), logarithmic=False).collections[0].get_array().sum() == 2
    assert len(frame.plot.line("y", points=3).lines[0].get_xdata()) <= 6
    pyplot.close("all")


def test_volume_by_time_of_day(db, saved):
    axes = db["trade"].plot.intraday_volume("30m", zone=NEW_YORK)
    assert sum(patch.get_height() for patch in axes.patches) == db["trade"].size.sum().item()
    assert axes.patches[0].get_x() == 9.5
    assert saved(axes, "intraday-volume") > 3_000


def test_spreads(db, saved):
    axes = db["quote"].plot.spread(by="symbol", zone=NEW_YORK)
    assert len(axes.lines) == 2
    assert all(0 < value <= 0.051 for line in axes.lines for value in line.get_ydata())
    assert saved(axes, "spread") > 5_000


def test_frames_without_rows_are_drawn_empty(db, saved):
    none = db["trade"].filter(splay.col("price") < 0)
    for place, axes in enumerate(
        [none.plot.line("price"), none.plot.candles(), none.plot.histogram("price"), none.plot.heatmap("time", "price"),
         none.plot.intraday_volume()]
    ):
        assert saved(axes, f"empty-{place}") > 1_000


def test_plots_draw_into_given_axes(db):
    figure, axes = pyplot.subplots()
    assert db["trade"].plot.histogram("size", ax=axes) is axes
    pyplot.close(figure)
    with pytest.raises(splay.FrameError, match="which columns"):
        db["trade"].plot.line()
    with pytest.raises(ValueError, match="bins"):
        db["trade"].plot.histogram("size", bins=0)
