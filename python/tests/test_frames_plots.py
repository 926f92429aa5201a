"""Each plot draws what the rows say. With SPLAY_PLOTS=folder the images stay there, to be looked at."""

import math
import os
import pathlib
import re

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
    db.write("book", frame_day.books())
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


QUOTES = {
    "Bid_Price": ("Offer_Price", ["Time", "Symbol", "Bid_Price", "Bid_Size", "Offer_Price", "Offer_Size"]),
    "bid_px": ("ask_px", ["time", "symbol", "bid_px", "ask_px", "bid_sz", "ask_sz"]),
    "bid": ("ask", ["time", "symbol", "bid", "ask", "bid_price_avg"]),
    "best_bid_price": ("best_offer_price", ["time", "symbol", "best_bid_price", "best_offer_price"]),
    "bid_px_00": ("ask_px_00", ["time", "symbol", "bid_px_01", "bid_px_00", "ask_px_00", "ask_px_01"]),
    "b1p": ("a1p", ["time", "symbol", "b1p", "b2p", "a1p", "a2p"]),
}


@pytest.mark.parametrize("bid", QUOTES)
def test_spreads_find_the_columns_of_quotes_and_books(tmp_path, bid):
    ask, names = QUOTES[bid]
    at = [frame_day.START // 1000 + 60_000_000 * n for n in range(3)]
    rows = {name: [0.0, 0.0, 0.0] for name in names} | {names[0]: pa.array(at, pa.timestamp("us")), names[1]: ["A"] * 3}
    pq.write_table(pa.table(rows | {bid: [1.0, 2.0, 3.0], ask: [1.5, 2.25, 3.0]}), tmp_path / "quotes.parquet")
    quotes = splay.scan(tmp_path / "quotes.parquet")
    drawn = quotes.plot.spread().lines[0]
    assert list(drawn.get_ydata()) == [0.5, 0.25, 0.0]
    assert list(quotes.plot.spread(ask, bid).lines[0].get_ydata()) == [-0.5, -0.25, 0.0]
    pyplot.close("all")


def test_spreads_of_books_are_those_of_the_best_level(db):
    drawn = db["book"].plot.spread(points=10_000).lines[0]
    assert all(round(value, 6) == 0.02 for value in drawn.get_ydata())
    pyplot.close("all")
    with pytest.raises(splay.FrameError, match=r"which column is the ask\? ask='...'; there are time, symbol, price"):
        db["trade"].plot.spread()
    with pytest.raises(splay.FrameError, match=r"which column is the bid\?.*bid_px, ask, date, bid_price"):
        db["quote"].rename({"bid": "bid_px"}).with_columns(bid_price=splay.col("ask")).plot.spread()


def test_candles_of_a_frame_of_bars_are_joined_to_wider_ones(db, saved):
    one = db["trade"].filter(splay.col("symbol") == "A")
    expected = one.bars("1h").sort("time").to_arrow()
    for bars in (one.bars("10m"), one.bars("10m", fill="null"), one.bars("10m").rename({"open": "Open", "close": "Close"})):
        figure = bars.plot.interactive.candles("1h")
        assert [list(figure.data[0][part]) for part in ("open", "high", "low", "close")] == [
            expected[part].to_pylist() for part in ("open", "high", "low", "close")
        ]
    as_they_are = one.bars("10m").plot.candles()
    assert len(as_they_are.patches) == len(one.bars("10m"))
    assert saved(as_they_are, "candles-of-bars") > 3_000
    many = one.bars("1m").plot.candles()
    assert len(one.bars("1m")) > 150 >= len(many.patches)
    pyplot.close("all")
    with pytest.raises(splay.FrameError, match="candles are of one symbol"):
        db["trade"].bars("10m").plot.candles("1h")


def test_candles_can_be_seen_however_few_there_are(tmp_path, saved):
    # Two trades of one price a second apart, and one an hour later: candles of a second in a chart of an hour.
    at = [frame_day.START // 1000 + 1_000_000 * second for second in (0, 1, 3_600)]
    rows = {"time": pa.array(at, pa.timestamp("us")), "symbol": ["A"] * 3, "price": [1.0, 2.0, 1.0], "size": [1, 1, 1]}
    pq.write_table(pa.table(rows), tmp_path / "few.parquet")
    axes = splay.scan(tmp_path / "few.parquet").plot.candles("1s")
    assert min(patch.get_linewidth() for patch in axes.patches) > 4.5
    # None lies on the frame of the axes.
    assert axes.get_ylim()[0] < 1.0 and axes.get_ylim()[1] > 2.0
    assert saved(axes, "candles-few") > 1_000


def test_dense_candles_are_not_widened(db):
    axes = db["trade"].filter(splay.col("symbol") == "A").plot.candles("10s")
    assert {patch.get_linewidth() for patch in axes.patches} == {0.6}
    pyplot.close(axes.figure)


def test_depths_are_of_one_exchange(db):
    book = db["book"]
    twice = splay.concat([book.with_columns(exchange=splay.lit(name)) for name in ("FTX", "BITSTAMP")])
    with pytest.raises(splay.FrameError, match=re.escape("a depth is of one exchange: filter the frame first, frame[frame['exchange'] == 'BITSTAMP']")):
        twice.plot.depth()
    assert twice.filter(exchange="FTX").plot.depth("2024-01-02 18:00").get_title(loc="left").startswith("A FTX 2024-01-02 1")
    pyplot.close("all")


def test_columns_without_a_place_on_an_axis_are_refused(db):
    trade = db["trade"]
    draws = {
        "a histogram is of": lambda: trade.plot.histogram("side"),
        "a heat map is of": lambda: trade.plot.heatmap("time", "side"),
        "a line is of": lambda: trade.plot.line("side"),
    }
    for what, draw in draws.items():
        with pytest.raises(splay.FrameError, match=rf"{what} numbers or times, and 'side' has the type symbol"):
            draw()
    with pytest.raises(splay.FrameError, match="'symbol' has the type symbol"):
        trade.plot.interactive.histogram("symbol")


def test_one_value_has_a_cell_that_can_be_seen(db, saved):
    one = db["trade"].limit(1)
    axes = one.plot.heatmap("time", "price")
    cells = axes.collections[0]
    assert cells.get_array().shape == (1, 1) and cells.get_array().sum() == 1
    (left, bottom), (right, top) = cells.get_coordinates()[0, 0], cells.get_coordinates()[1, 1]
    price = one.price.item()
    assert bottom < price < top and right - left == pytest.approx(1 / 86_400, rel=0.01)
    assert saved(axes, "heatmap-of-one") > 1_000
    bar = one.plot.histogram("price").patches
    assert [(patch.get_x(), patch.get_width(), patch.get_height()) for patch in bar] == [(price - 0.5, 1.0, 1)]
    pyplot.close("all")


def test_depths(db, saved):
    axes = db["book"].plot.depth("2024-01-02 18:00", zone=NEW_YORK)
    assert [line.get_label() for line in axes.lines] == ["bids", "asks"]
    bids, asks = axes.lines
    assert max(bids.get_xdata()) < min(asks.get_xdata())
    assert list(np.diff(bids.get_ydata()) > 0) == [True] * 4
    assert NEW_YORK in axes.get_title(loc="left")
    assert saved(axes, "depth") > 3_000


def test_axes_of_time_are_on_the_clock_of_their_zone(db):
    one = db["trade"].filter(splay.col("symbol") == "A")
    for axes in (one.plot.candles("30m", zone=NEW_YORK), one.plot.heatmap("time", "price", zone=NEW_YORK)):
        axes.figure.canvas.draw()
        labels = [label.get_text() for label in axes.get_xticklabels()]
        # The day begins at 14:30 in UTC.
        assert "10:00" in labels and "20:00" not in labels, labels
        pyplot.close(axes.figure)
    upright = one.plot.heatmap("price", "time", zone=NEW_YORK)
    assert upright.get_ylabel() == f"time ({NEW_YORK})"
    pyplot.close(upright.figure)


INTERACTIVE = {
    "line": lambda db: db["trade"].plot.interactive.line("price", by="symbol", zone=NEW_YORK),
    "candles": lambda db: db["trade"].filter(splay.col("symbol") == "A").plot.interactive.candles("15m", zone=NEW_YORK),
    "histogram": lambda db: db["trade"].plot.interactive.histogram("price", bins=60),
    "heatmap": lambda db: db["trade"].plot.interactive.heatmap("time", "price", bins=(80, 40), zone=NEW_YORK),
    "intraday-volume": lambda db: db["trade"].plot.interactive.intraday_volume("30m", zone=NEW_YORK),
    "spread": lambda db: db["quote"].plot.interactive.spread(by="symbol", zone=NEW_YORK),
    "depth": lambda db: db["book"].plot.interactive.depth(zone=NEW_YORK),
}


@pytest.mark.parametrize("kind", INTERACTIVE)
def test_interactive_plots_show_the_same_numbers(db, tmp_path, kind):
    figure = INTERACTIVE[kind](db)
    folder = pathlib.Path(os.environ.get("SPLAY_PLOTS", tmp_path))
    figure.write_html(folder / f"interactive-{kind}.html")
    traces = figure.data
    if kind == "line":
        means = [trace for trace in traces if trace.showlegend]
        assert [trace.name for trace in means] == ["A", "B"]
        drawn = db["trade"].plot.line("price", by="symbol").lines[0]
        assert list(means[0].y) == list(drawn.get_ydata())
        assert str(means[0].x[0]).startswith("2024-01-02T09:3")
    elif kind == "candles":
        bars = db["trade"].filter(splay.col("symbol") == "A").bars("15m", by=[]).sort("time").to_arrow()
        assert list(traces[0].close) == bars["close"].to_pylist()
    elif kind == "histogram":
        assert sum(traces[0].y) == 20_000
    elif kind == "heatmap":
        assert np.nansum(traces[0].customdata) == 20_000
        assert len(traces[0].x) == 81 and len(traces[0].y) == 41
    elif kind == "intraday-volume":
        assert sum(traces[0].y) == db["trade"]["size"].sum().item()
    assert figure.layout.xaxis.title.text and figure.layout.yaxis.title.text
    if kind not in ("histogram", "depth"):
        assert NEW_YORK in figure.layout.xaxis.title.text


def test_an_hour_that_a_clock_shows_twice_is_there_twice(tmp_path):
    at = [1_730_611_800_000_000_000 + 1_800_000_000_000 * n for n in range(6)]  # 2024-11-03, 05:30 UTC on.
    table = pa.table({"time": pa.array(at, pa.timestamp("ns", "UTC")), "x": [1.0, 2, 3, 4, 5, 6]})
    pq.write_table(table, tmp_path / "autumn.parquet")
    figure = splay.scan(tmp_path / "autumn.parquet").plot.interactive.line("x", zone=NEW_YORK, points=5)
    hours = [str(time)[11:16] for time in figure.data[-1].x]
    assert hours == ["01:30", "01:00", "01:30", "02:00", "02:30", "03:00"]


def test_interactive_plots_have_no_axes(db):
    figure, axes = pyplot.subplots()
    with pytest.raises(TypeError, match="Matplotlib"):
        db["trade"].plot.interactive.histogram("size", ax=axes)
    pyplot.close(figure)


def test_frames_without_rows_are_drawn_empty(db, saved):
    none = db["trade"].filter(splay.col("price") < 0)
    for place, axes in enumerate(
        [none.plot.line("price"), none.plot.candles(), none.plot.histogram("price"), none.plot.heatmap("time", "price"),
         none.plot.intraday_volume()]
    ):
        assert [text.get_text() for text in axes.texts] == ["no rows"]
        assert saved(axes, f"empty-{place}") > 1_000
    early = db["book"].plot.depth("2023-01-01")
    assert [text.get_text() for text in early.texts] == ["no rows"]
    pyplot.close(early.figure)
    full = db["trade"].plot.histogram("price")
    assert not full.texts
    pyplot.close(full.figure)
    shown = none.plot.interactive
    for draw in (lambda: shown.line("price"), shown.candles, lambda: shown.histogram("price"), lambda: shown.heatmap("time", "price"), shown.intraday_volume):
        assert [note.text for note in draw().layout.annotations] == ["no rows"]


def test_plots_draw_into_given_axes(db):
    figure, axes = pyplot.subplots()
    assert db["trade"].plot.histogram("size", ax=axes) is axes
    pyplot.close(figure)
    with pytest.raises(splay.FrameError, match="which columns"):
        db["trade"].plot.line()
    with pytest.raises(ValueError, match="bins"):
        db["trade"].plot.histogram("size", bins=0)
