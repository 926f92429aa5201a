"""Books in rows: their columns are found, and depths are what NumPy adds up."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import splay

LEVELS, ROWS = 4, 50
START = 1_704_205_800_000_000_000


def numbers() -> dict[tuple[str, str], np.ndarray]:
    """Prices and sizes by row and level, best first; some levels of some rows are missing."""
    dice = np.random.default_rng(5)
    steps = 0.5 * (1 + np.arange(LEVELS))
    middles = 100 + dice.integers(-5, 5, ROWS)[:, None]
    sizes = {side: dice.integers(1, 100, (ROWS, LEVELS)).astype(float) for side in ("bid", "ask")}
    sizes["bid"][::7, 2:] = np.nan
    return {
        ("bid", "price"): middles - steps,
        ("bid", "size"): sizes["bid"],
        ("ask", "price"): middles + steps,
        ("ask", "size"): sizes["ask"],
    }


def column(values: np.ndarray) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))


def base() -> dict[str, pa.Array]:
    times = pa.array([START + 60_000_000_000 * row for row in range(ROWS)], pa.timestamp("ns", "UTC"))
    return {"time": times, "symbol": pa.array(["A"] * ROWS).dictionary_encode()}


def wide(name) -> pa.Table:
    """A column for each level, called as `name` says."""
    found = {name(side, value, level): column(levels[:, level]) for (side, value), levels in numbers().items() for level in range(LEVELS)}
    return pa.table(base() | found)


def lists() -> pa.Table:
    found = {f"{side}_{value}": pa.FixedSizeListArray.from_arrays(column(levels.ravel()), LEVELS) for (side, value), levels in numbers().items()}
    return pa.table(base() | found)


LAYOUTS = {
    "levels": lists,
    "b1p": lambda: wide(lambda side, value, level: f"{side[0]}{level + 1}{value[0]}"),
    "bid_px_00": lambda: wide(lambda side, value, level: f"{side}_{'px' if value == 'price' else 'sz'}_{level:02d}"),
    "bids[0].price": lambda: wide(lambda side, value, level: f"{side}s[{level}].{'price' if value == 'price' else 'amount'}"),
    "bid_0_price": lambda: wide(lambda side, value, level: f"{side}_{level}_{value}"),
}


@pytest.fixture(params=LAYOUTS)
def book(request, tmp_path):
    db = splay.open(tmp_path / "db")
    db.write("book", LAYOUTS[request.param]())
    return db["book"]


@pytest.mark.parametrize("levels", [1, 2, LEVELS])
def test_depths_are_sums_of_sizes(book, levels):
    rows = book.book_depth(levels).select("bid_depth", "ask_depth").to_arrow()
    for side in ("bid", "ask"):
        expected = np.nansum(numbers()[side, "size"][:, :levels], axis=1)
        assert rows[f"{side}_depth"].to_pylist() == expected.tolist()


def test_depths_over_time_are_means_of_buckets(book):
    means = book.book_depth(2).bucket("10m").agg(splay.col("ask_depth").mean(), n=splay.count()).sort("time").fetchall()
    expected = np.nansum(numbers()["ask", "size"][:, :2], axis=1)
    starts = np.arange(ROWS) // 10
    assert [row[2] for row in means] == pytest.approx([expected[starts == start].mean() for start in range(5)])


def test_the_book_of_a_time_is_drawn(book):
    axes = book.plot.depth()
    bids, asks = axes.lines
    last = {key: values[-1] for key, values in numbers().items()}
    assert list(bids.get_xdata()) == last["bid", "price"][np.isfinite(last["bid", "size"])].tolist()
    assert list(asks.get_ydata()) == np.cumsum(last["ask", "size"]).tolist()
    at = book.plot.depth("2024-01-02 14:37:59", levels=2, zone="America/New_York")
    assert list(at.lines[1].get_ydata()) == np.cumsum(numbers()["ask", "size"][7][:2]).tolist()
    assert at.get_title(loc="left") == "A 2024-01-02 09:37:00-05:00 (America/New_York)"
    before = book.plot.depth("2024-01-01")
    assert len(before.lines[0].get_xdata()) == 0 and "no book" in before.get_title(loc="left")
    figure = book.plot.interactive.depth()
    assert list(figure.data[1].y) == np.cumsum(last["ask", "size"]).tolist()


def test_files_have_books_too(tmp_path):
    for name, table in (("lists", lists()), ("wide", LAYOUTS["b1p"]())):
        pq.write_table(table, tmp_path / f"{name}.parquet")
        frame = splay.scan(tmp_path / f"{name}.parquet")
        if name == "wide":
            assert frame.book_depth(1).columns[-2:] == ["bid_depth", "ask_depth"]
            assert frame.book_depth(1).ask_depth.sum().item() == numbers()["ask", "size"][:, 0].sum()


def test_what_is_no_book_is_refused(book, tmp_path):
    with pytest.raises(splay.FrameError, match="4 levels"):
        book.book_depth(5)
    with pytest.raises(ValueError, match="levels"):
        book.book_depth(0)
    with pytest.raises(splay.FrameError, match="no book"):
        book.select("time", "symbol").book_depth()
    db = splay.open(tmp_path / "two")
    table = lists()
    db.write("book", table)
    db.write("book", table.set_column(1, "symbol", pa.array(["B"] * ROWS)))
    with pytest.raises(splay.FrameError, match="one symbol"):
        db["book"].plot.depth()
