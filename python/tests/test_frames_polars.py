"""Lazy frames give what Polars gives of the same rows, and what SQL gives, where those mean the same."""

import datetime as dt
import random

import frame_pairs as pairs
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import splay

LIMITS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
COUNT = 0


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Writes rows as a new table and gives its frame, and its rows as Polars has them."""
    db = splay.open(tmp_path_factory.mktemp("frames") / "db", threads=1)

    def write(rows: list[tuple]) -> tuple["splay.Frame", pl.DataFrame]:
        global COUNT
        COUNT += 1
        frame = pairs.frame_of(rows)
        db.write(f"t{COUNT}", frame, symbol="sym", time="time")
        lazy = db[f"t{COUNT}"].drop("date")
        # Polars works on the same rows in the order of the table.
        return lazy, lazy.pl().with_columns(pl.col(pl.Categorical).cast(pl.String))

    return write


@given(rows=pairs.rows(), condition=pairs.conditions())
@LIMITS
def test_filters(stored, rows, condition):
    lazy, eager = stored(rows)
    pairs.assert_same(lazy.filter(condition.splay).pl(), eager.filter(condition.polars), is_ordered=True)
    pairs.assert_same(lazy[condition.splay].pl(), eager.filter(condition.polars), is_ordered=True)


@given(rows=pairs.rows(), number=pairs.numbers(), condition=pairs.conditions())
@LIMITS
def test_new_columns_then_filters(stored, rows, number, condition):
    lazy, eager = stored(rows)
    found = lazy.with_columns(number.splay.alias("new"), order=condition.splay).filter(splay.col("new") > 0)
    expected = eager.with_columns(number.polars.alias("new"), order=condition.polars).filter(pl.col("new") > 0)
    pairs.assert_same(found.pl(), expected, is_ordered=True)


@given(rows=pairs.rows(), aggregates=st.lists(pairs.aggregates(), min_size=1, max_size=3),
       keys=st.lists(st.sampled_from(["sym", "odd name", "order"]), min_size=1, max_size=2, unique=True))
@LIMITS
def test_groups(stored, rows, aggregates, keys):
    lazy, eager = stored(rows)
    found = lazy.group_by(keys).agg(*(one.splay.alias(f"v{place}") for place, one in enumerate(aggregates)))
    # First and last follow the time, not the table's order, which is by symbol first.
    expected = eager.sort("time", maintain_order=True).group_by(keys).agg(*(one.polars.alias(f"v{place}") for place, one in enumerate(aggregates)))
    pairs.assert_same(found.pl(), expected, is_ordered=False)


@given(rows=pairs.rows(), aggregates=st.lists(pairs.aggregates(), min_size=1, max_size=3))
@LIMITS
def test_one_row_of_all(stored, rows, aggregates):
    lazy, eager = stored(rows)
    found = lazy.select(*(one.splay.alias(f"v{place}") for place, one in enumerate(aggregates)))
    expected = eager.sort("time", maintain_order=True).select(
        *(one.polars.alias(f"v{place}") for place, one in enumerate(aggregates))
    )
    pairs.assert_same(found.pl(), expected, is_ordered=False)


@given(rows=pairs.rows(), descending=st.booleans(), nulls_last=st.booleans(), limit=st.integers(0, 9), offset=st.integers(0, 4))
@LIMITS
def test_sorts_and_slices(stored, rows, descending, nulls_last, limit, offset):
    lazy, eager = stored(rows)
    by = ["size", "price", "odd name", "sym", "time", "order"]
    found = lazy.sort(by, descending=descending, nulls_last=nulls_last)
    expected = eager.sort(by, descending=descending, nulls_last=nulls_last)
    pairs.assert_same(found.pl(), expected, is_ordered=True)
    pairs.assert_same(found[offset : offset + limit].pl(), expected[offset : offset + limit], is_ordered=True)
    pairs.assert_same(found.tail(limit).pl(), expected.tail(limit), is_ordered=True)
    pairs.assert_same(found.limit(limit).filter(splay.col("size") > 0).pl(), expected.head(limit).filter(pl.col("size") > 0),
                      is_ordered=True)
    renamed = found.select(size=-splay.col("size"), sym="sym").limit(limit)
    cut = found.limit(limit).select(size=-splay.col("size"), sym="sym")
    pairs.assert_same(cut.pl(), expected.head(limit).select(size=-pl.col("size"), sym="sym"), is_ordered=True)
    pairs.assert_same(renamed.pl(), expected.select(size=-pl.col("size"), sym="sym").head(limit), is_ordered=True)


@given(rows=pairs.rows(), subset=st.sampled_from([None, ["sym"], ["odd name", "order"]]))
@LIMITS
def test_unique(stored, rows, subset):
    lazy, eager = stored(rows)
    if subset is None:
        pairs.assert_same(lazy.select("sym", "order").unique().pl(), eager.select("sym", "order").unique(), is_ordered=False)
        return
    found, expected = lazy.unique(subset).pl(), eager.unique(subset)
    pairs.assert_same(found.select(subset), expected.select(subset), is_ordered=False)
    order = ["time", "price", "size", "odd name", "order", "sym"]
    for keep in ("first", "last"):
        found = lazy.unique(subset, keep=keep, order_by=order).pl()
        expected = eager.sort(order, nulls_last=True).unique(subset, keep=keep, maintain_order=True)
        pairs.assert_same(found, expected, is_ordered=False)


@given(left=pairs.rows(12), right=pairs.rows(12), how=st.sampled_from(["inner", "left", "right", "full", "semi", "anti"]),
       keys=st.sampled_from([["sym"], ["sym", "size"], ["odd name", "order"]]), nulls_equal=st.booleans())
@LIMITS
def test_joins(stored, left, right, how, keys, nulls_equal):
    (one, one_eager), (two, two_eager) = stored(left), stored(right)
    found = one.join(two, keys, how, nulls_equal=nulls_equal).pl()
    expected = one_eager.join(two_eager, on=keys, how=how, nulls_equal=nulls_equal,
                              **({"coalesce": True} if how in ("left", "right", "full") else {}))
    pairs.assert_same(found, expected.select(found.columns), is_ordered=False)


@given(rows=pairs.rows(), shift=st.integers(-3, 3), window=st.integers(1, 4), samples=st.integers(1, 3))
@LIMITS
def test_windows(stored, rows, shift, window, samples):
    # Equal times would leave the order open.
    rows = list({row[0]: row for row in rows}.values())
    lazy, eager = stored(rows)
    price, size = splay.col("price").fill_nan(None), splay.col("size")
    found = lazy.with_columns(
        shifted=size.shift(shift).over("sym"),
        change=size.diff().over("sym"),
        total=size.sum().over("sym"),
        share=(size / size.sum()).over("sym", "order"),
        moving=price.rolling_mean(window, min_samples=min(window, samples)).over("sym"),
        high=size.rolling_max(window).over("sym"),
        low=size.cum_min().over("sym"),
        place=size.rank("dense").over("sym"),
        filled=size.forward_fill().over("sym"),
        opening=size.first().over("sym"),
        centred=(size - size.mean()).over("sym"),
    )
    price, size = pl.col("price").fill_nan(None), pl.col("size")
    sums = pl.when(size.count() > 0).then(size.sum())
    expected = eager.with_columns(
        shifted=size.shift(shift).over("sym"),
        change=size.diff().over("sym"),
        total=sums.over("sym"),
        share=(size / sums).over("sym", "order"),
        moving=price.rolling_mean(window, min_samples=min(window, samples)).over("sym"),
        high=size.rolling_max(window).over("sym"),
        low=size.cum_min().forward_fill().over("sym"),
        place=size.rank("dense").over("sym"),
        filled=size.forward_fill().over("sym"),
        opening=size.first().over("sym"),
        centred=(size - size.mean()).over("sym"),
    )
    # The place of a null is behind all others; Polars gives it none.
    found = found.pl().with_columns(place=pl.when(pl.col("size").is_not_null()).then(pl.col("place")))
    pairs.assert_same(found, expected, is_ordered=False)


@given(rows=pairs.rows(), seconds=st.integers(1, 20))
@LIMITS
def test_windows_of_time(stored, rows, seconds):
    lazy, eager = stored(rows)
    found = lazy.rolling(f"{seconds}s").agg(total=splay.col("size").sum(), n=splay.col("size").count()).pl()
    moving = eager.sort("time").rolling("time", period=f"{seconds}s", group_by="sym").agg(
        total=pl.when(pl.col("size").count() > 0).then(pl.col("size").sum()), n=pl.col("size").count()
    )
    pairs.assert_same(found.select("sym", "time", "total", "n"), moving.select("sym", "time", "total", "n"), is_ordered=False)


@given(rows=pairs.rows(), divisor=st.sampled_from([-3, -1, 2, 7]))
@LIMITS
def test_remainders_and_quotients_are_those_of_python(stored, rows, divisor):
    lazy, eager = stored(rows)
    size = splay.col("size")
    found = lazy.select(remainder=size % divisor, ratio=size / divisor, share=size / (size * size + 1), power=size**2).pl()
    expected = [
        (None,) * 4 if n is None else (n % divisor, n / divisor, n / (n * n + 1), float(n**2)) for n in eager["size"].to_list()
    ]
    for one, other in zip(found.rows(), expected):
        assert all(map(pairs.same, one, other))


@given(rows=pairs.rows(), condition=pairs.conditions(), number=pairs.numbers(), form=st.sampled_from(["parquet", "arrow"]))
@LIMITS
def test_files_give_the_same(tmp_path, rows, condition, number, form):
    eager = pairs.frame_of(rows)
    path = tmp_path / f"rows.{form}"
    if form == "parquet":
        eager.write_parquet(path, row_group_size=5)
    else:
        eager.write_ipc(path, compat_level=pl.CompatLevel.oldest())
    lazy = splay.scan(path)
    found = lazy.filter(condition.splay).with_columns(number.splay.alias("new"))
    expected = eager.filter(condition.polars).with_columns(number.polars.alias("new"))
    pairs.assert_same(found.pl(), expected, is_ordered=False)
    sums = found.group_by("sym", "order").agg(n=splay.count(), high=splay.col("size").max(), kinds=splay.col("odd name").n_unique())
    expected = expected.group_by("sym", "order").agg(n=pl.len(), high=pl.col("size").max(), kinds=pl.col("odd name").n_unique())
    pairs.assert_same(sums.pl(), expected, is_ordered=False)


def numbered(number: int, first: int) -> pl.DataFrame:
    """Rows of few times and three dates, with numbers in the order of their arrival."""
    dice = random.Random(number)
    at = [pairs.START + dt.timedelta(seconds=dice.randrange(12), days=dice.randrange(3)) for _ in range(number)]
    return pl.DataFrame(
        {"time": at, "sym": [dice.choice("ABC") for _ in at], "size": [dice.randrange(9) for _ in at], "id": range(first, first + number)},
        schema_overrides={"time": pl.Datetime("ns", "UTC")},
    )


@pytest.mark.parametrize("condition", [None, splay.col("id") % 3 != 0])
def test_rows_of_one_time_go_by_arrival_whatever_the_threads(tmp_path, condition):
    db = splay.open(tmp_path / "db", threads=4)
    for number, first in ((3000, 0), (40, 3000), (900, 3040)):
        db.write("t", numbered(number, first), symbol="sym")
    lazy = db["t"].drop("date")
    rows = splay.open(db.path, threads=1)["t"].drop("date").sort("sym", "time", "id").pl()
    if condition is not None:
        lazy, rows = lazy.filter(condition), rows.filter(pl.col("id") % 3 != 0)
    rows = rows.with_columns(pl.col("sym").cast(pl.String))
    windows = lazy.with_columns(
        before=splay.col("id").shift().over("sym"), mean=splay.col("size").rolling_mean(3).over("sym"), n=splay.row_number().over("sym")
    )
    expected = rows.with_columns(
        before=pl.col("id").shift().over("sym"), mean=pl.col("size").rolling_mean(3).over("sym"), n=pl.int_range(1, pl.len() + 1).over("sym")
    )
    pairs.assert_same(windows.pl(), expected, is_ordered=False)
    bars = lazy.bars("5s", price="id").select("sym", "time", "open", "close")
    expected = rows.group_by("sym", pl.col("time").dt.truncate("5s"), maintain_order=True).agg(
        open=pl.col("id").first(), close=pl.col("id").last()
    )
    pairs.assert_same(bars.pl(), expected, is_ordered=False)
