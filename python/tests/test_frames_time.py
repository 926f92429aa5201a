"""Verbs of time series give what SQL, Polars and pandas give of the same rows."""

import datetime as dt
import zoneinfo
import itertools
import math

import frame_day
import frame_pairs as pairs
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import splay

LIMITS = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
NEW_YORK = "America/New_York"


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    db = splay.open(tmp_path_factory.mktemp("time") / "db")
    db.write("trade", frame_day.trades())
    db.write("quote", frame_day.quotes())
    return db


@pytest.fixture(scope="module")
def trade(db):
    return db["trade"].drop("date")


@pytest.fixture(scope="module")
def quote(db):
    return db["quote"].drop("date")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """Writes rows as a new table and gives its frame."""
    db = splay.open(tmp_path_factory.mktemp("scratch") / "db")
    numbers = itertools.count()

    def write(rows: pl.DataFrame) -> "splay.Frame":
        name = f"t{next(numbers)}"
        db.write(name, rows, symbol="sym")
        return db[name].drop("date")

    return write


def eager(frame: "splay.Frame") -> pl.DataFrame:
    return frame.pl().with_columns(pl.col(pl.Categorical).cast(pl.String))


def same(found: "splay.Frame", expected: pl.DataFrame) -> None:
    pairs.assert_same(eager(found).select(expected.columns), expected, is_ordered=False)


def equal_to_sql(db, frame: "splay.Frame", statement: str) -> None:
    pairs.assert_same(frame.pl(), db.sql(statement).to_polars(), is_ordered=False)


@pytest.mark.parametrize("every", ["1m", "7m", "1h"])
def test_bars_are_those_of_polars(trade, every):
    made = (
        eager(trade)
        .group_by("symbol", pl.col("time").dt.truncate(every), maintain_order=True)
        .agg(
            open=pl.col("price").first(),
            high=pl.col("price").max(),
            low=pl.col("price").min(),
            close=pl.col("price").last(),
            volume=pl.col("size").sum(),
            vwap=(pl.col("price") * pl.col("size")).sum() / pl.col("size").sum(),
            count=pl.len(),
        )
    )
    same(trade.bars(every), made)
    # What comes from elsewhere than a table has no order of its own: bars follow the time.
    shuffled = splay.concat([trade[trade.size > 200], trade[trade.size <= 200]])
    columns = ["symbol", "time", "high", "low", "volume", "vwap", "count"]
    same(shuffled.bars(every).select(columns), made.select(columns))


@pytest.mark.parametrize("fill", [None, "null", "previous"])
def test_a_volume_of_no_known_size_is_null_whatever_the_fill(scratch, fill):
    at = [dt.datetime(2024, 1, 2, 15, minute, tzinfo=dt.UTC) for minute in (0, 2, 2)]
    rows = pl.DataFrame({"time": at, "sym": ["A"] * 3, "price": [1.0, 2.0, 3.0], "size": [None, None, 3]})
    bars = scratch(rows).bars("1m", fill=fill).sort("time").select("volume", "count").fetchall()
    assert [bars[0], bars[-1]] == [(None, 1), (3, 2)]
    assert bars[1:-1] == {None: [], "null": [(None, None)], "previous": [(0, 0)]}[fill]


def half_day(step: dt.timedelta) -> pl.DataFrame:
    """Trades around the clock from the day before Thanksgiving of 2024 to the Monday behind it."""
    start, stop = dt.datetime(2024, 11, 27, tzinfo=dt.UTC), dt.datetime(2024, 12, 3, tzinfo=dt.UTC)
    times = pl.datetime_range(start, stop, step, closed="left", eager=True)
    return pl.DataFrame({"time": times, "sym": "A", "price": 1.0, "size": 1})


def test_bars_of_sessions_leave_out_nights_holidays_and_early_closes(scratch):
    trade = scratch(half_day(dt.timedelta(minutes=10)))
    bars = trade.bars("30m", zone=NEW_YORK, sessions="XNYS")
    clock = splay.col("time").dt
    found = bars.group_by(day=clock.date(NEW_YORK)).agg(n=splay.count(), first=clock.time(NEW_YORK).min(), last=clock.time(NEW_YORK).max())
    opening = dt.time(9, 30)
    assert found.sort("day").fetchall() == [
        (dt.date(2024, 11, 27), 13, opening, dt.time(15, 30)),
        (dt.date(2024, 11, 29), 7, opening, dt.time(12, 30)),
        (dt.date(2024, 12, 2), 13, opening, dt.time(15, 30)),
    ]
    assert bars.volume.sum().item() == 3 * 33
    assert len(trade.resample("30m", sessions="NYSE").agg(splay.count())) == len(trade.bucket("30m", sessions="nyse").agg(splay.count())) == 33


def test_gaps_are_filled_in_sessions_alone(scratch, tmp_path):
    rows = half_day(dt.timedelta(minutes=50))
    rows.with_columns(pl.col("time").dt.replace_time_zone(None)).write_parquet(tmp_path / "naive.parquet")
    for frame in (scratch(rows), splay.scan(tmp_path / "naive.parquet")):
        bars = frame.bars("10m", sessions="NYSE", fill="previous")
        traded = splay.col("count") > 0
        assert bars.filter(traded).select("time", "volume").sort("time").fetchall() == (
            frame.bars("10m", sessions="NYSE").select("time", "volume").sort("time").fetchall()
        )
        ends = frame.bars("10m", sessions="NYSE").select(splay.col("time").min().alias("first"), splay.col("time").max().alias("last")).fetchall()[0]
        # Of three sessions of 39, 21 and 39 buckets those between the first trade and the last one.
        sessions = splay.calendar("NYSE", "2024-11-27", "2024-12-02").df()
        starts = [at for day in sessions.itertuples() for at in pd.date_range(day.open, day.close, freq="10min", inclusive="left")]
        expected = [at for at in starts if ends[0] <= at <= ends[1]]
        assert [row[0] for row in bars.select("time").sort("time").fetchall()] == expected


def test_sessions_are_those_of_a_table_that_is_a_calendar(db):
    db.sql("CREATE TABLE lunch (date DATE, session INT, open TIMESTAMP, close TIMESTAMP, PRIMARY KEY (date, session))").fetchall()
    db.sql("INSERT INTO lunch VALUES ('2024-01-02', 1, '2024-01-02 15:00', '2024-01-02 16:00'), ('2024-01-02', 2, '2024-01-02 17:00', '2024-01-02 18:00')").fetchall()
    bars = db["trade"].bars("30m", by=[], sessions="lunch", fill="previous")
    assert [(at.hour, at.minute) for (at,) in bars.select("time").sort("time").fetchall()] == [(15, 0), (15, 30), (17, 0), (17, 30)]
    with pytest.raises(splay.StatementError, match='no calendar "XNYZ"'):
        db["trade"].bars("30m", sessions="XNYZ").fetchall()


def test_options_that_bars_and_resample_do_not_have_are_refused_by_their_names(trade):
    with pytest.raises(TypeError, match=r"bars\(\) got an unexpected keyword argument 'calendar'"):
        trade.bars("1m", calendar="NYSE")
    with pytest.raises(TypeError, match=r"resample\(\) got an unexpected keyword argument 'calendar'"):
        trade.resample("1m", calendar="NYSE")
    with pytest.raises(TypeError, match="sessions are the name of a trading calendar, such as 'NYSE', not True"):
        trade.bars("1m", sessions=True)


def test_bars_of_all_symbols_follow_the_time(trade):
    found = trade.bars("1h", by=[]).sort("time").df()
    rows = trade.df().sort_values("time", kind="stable")
    expected = rows.groupby(rows["time"].dt.floor("h"))
    assert found["volume"].tolist() == expected["size"].sum().tolist()
    times = trade.group_by(hour=splay.col("time").dt.bucket("1h")).agg(first=splay.col("time").min()).sort("hour").df()
    prices = [set(rows[rows["time"] == at]["price"]) for at in times["first"]]
    assert all(price in those for price, those in zip(found["open"], prices))


def test_first_and_last_of_buckets_follow_the_time(trade):
    found = trade.bucket("1h", []).agg(at=splay.col("time").last(), early=splay.col("time").first(), n=splay.count())
    expected = eager(trade).group_by(pl.col("time").dt.truncate("1h").alias("hour")).agg(
        at=pl.col("time").max(), early=pl.col("time").min(), n=pl.len()
    )
    same(found, expected.rename({"hour": "time"}))
    # A sort of the frame goes before.
    dearest = trade.sort("price").bucket("1h", []).agg(top=splay.col("price").last(), high=splay.col("price").max())
    assert dearest.filter(dearest.top != dearest.high).fetchall() == [] and len(dearest) > 0


def test_first_and_last_follow_the_time_whatever_the_groups(trade):
    last = splay.col("price").last()
    expected = eager(trade).sort("time").group_by("side").agg(p=pl.col("price").last(), at=pl.col("time").last())
    same(trade.group_by("side").agg(p=last, at=splay.col("time").last()), expected)
    assert trade.select(at=splay.col("time").last(), early=splay.col("time").first()).fetchall() == [
        (max(trade.df()["time"]), min(trade.df()["time"]))
    ]
    # Within a symbol rows come in the order of the time, and a sort of the frame goes before.
    assert "ORDER BY" not in trade.group_by("symbol", "side").agg(p=last).sql()
    dearest = trade.sort("price").group_by("side").agg(top=last, high=splay.col("price").max())
    assert dearest.filter(dearest.top != dearest.high).fetchall() == [] and len(dearest) > 0


def test_filled_bars_repeat_the_close(trade):
    bars = trade.bars("1m").df().set_index(["symbol", "time"])
    filled = trade.bars("1m", fill="previous").sort("symbol", "time").df()
    for symbol, rows in filled.groupby("symbol", observed=True):
        gaps = rows["time"].diff().dropna()
        assert (gaps == pd.Timedelta("1min")).all()
        close = None
        for row in rows.itertuples():
            if (symbol, row.time) in bars.index:
                bar = bars.loc[(symbol, row.time)]
                assert (row.open, row.high, row.low, row.close, row.volume, row.count) == (bar.open, bar.high, bar.low, bar.close,
                                                                                          bar.volume, bar["count"])
                close = bar.close
            else:
                assert (row.open, row.high, row.low, row.close) == (close,) * 4
                assert row.volume == 0 and row.count == 0 and math.isnan(row.vwap)


def test_filled_bars_of_a_range(db, trade):
    found = trade.bucket("1h", fill="null", start="2024-01-02 12:00", stop="2024-01-02 16:00").agg(close=splay.col("price").last())
    equal_to_sql(
        db,
        found,
        "select symbol, time_bucket_gapfill('1 hour', time, timestamp '2024-01-02 12:00', timestamp '2024-01-02 16:00') as time,"
        " last(price) as close from trade group by 1, 2",
    )
    assert found.time_column == "time"
    line = trade.bucket("1m", fill="linear").agg(p=splay.col("price").mean())
    equal_to_sql(
        db, line, "select symbol, time_bucket_gapfill('1 minute', time) as time, interpolate(avg(price)) as p from trade group by 1, 2"
    )


def test_buckets_on_the_clock_of_a_zone(db, trade):
    found = trade.bucket("4h", zone=NEW_YORK, origin=dt.datetime(2024, 1, 2, 9, 30, tzinfo=dt.timezone(dt.timedelta(hours=-5)))).agg(
        splay.count()
    )
    equal_to_sql(
        db,
        found,
        f"select symbol, time_bucket('4 hours', time, '{NEW_YORK}', timestamptz '2024-01-02T14:30:00Z') as time, count(*) as count"
        " from trade group by 1, 2",
    )
    starts = {start.astimezone(zoneinfo.ZoneInfo(NEW_YORK)).time() for start in found.time.to_list()}
    assert starts <= {dt.time(1, 30), dt.time(5, 30), dt.time(9, 30), dt.time(13, 30), dt.time(17, 30), dt.time(21, 30)}
    # A time without a zone is one of the clock.
    local = trade.bucket("4h", zone=NEW_YORK, origin=dt.datetime(2024, 1, 2, 9, 30)).agg(splay.count())
    assert sorted(local.fetchall()) == sorted(found.fetchall())


def test_times_compare_as_instants_whatever_zone_they_show(trade):
    """A literal without a zone was local time of the zone that the column shows."""
    at = dt.datetime(2024, 1, 2, 11, 0, tzinfo=zoneinfo.ZoneInfo(NEW_YORK))
    shown = splay.col("time").dt.to_zone(NEW_YORK)
    later = trade.filter(splay.col("time") >= at)
    assert 0 < len(later) < len(trade)
    utc = at.astimezone(dt.UTC)
    for same in (at, utc, utc.replace(tzinfo=None), np.datetime64(utc.replace(tzinfo=None))):
        assert len(trade.filter(shown >= same)) == len(later)
        assert len(trade.with_columns(shown=shown).filter(splay.col("shown") >= same)) == len(later)
        assert len(trade.filter(shown.is_between(same, utc + dt.timedelta(days=1)))) == len(later)


@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
@pytest.mark.parametrize("tolerance", [None, "20s"])
def test_asof_joins_are_those_of_polars(trade, quote, direction, tolerance):
    if direction == "nearest":
        # No two quotes are at equal distance, of which each takes its own.
        quote = quote.with_columns(time=splay.col("time").dt.offset_by("100ms"))
    left, right = eager(trade).sort("time"), eager(quote).sort("time")
    expected = left.join_asof(right, on="time", by="symbol", strategy=direction, tolerance=tolerance)
    found = trade.asof_join(quote, "symbol", direction=direction, tolerance=tolerance, right_time="time")
    same(found, expected)
    inner = expected.filter(pl.col("bid").is_not_null())
    found = trade.asof_join(quote, "symbol", direction=direction, tolerance=tolerance, right_time="time", how="inner")
    same(found, inner)


@given(left=pairs.rows(15), right=pairs.rows(15), direction=st.sampled_from(["backward", "forward"]), exact=st.booleans(),
       seconds=st.none() | st.integers(1, 9), derived=st.booleans())
@LIMITS
def test_asof_joins_of_any_rows(scratch, left, right, direction, exact, seconds, derived):
    one = scratch(pairs.frame_of(left).select("time", "sym", "size"))
    two = scratch(pairs.frame_of(right).select("time", "sym", "price"))
    if derived:
        one, two = one.with_columns(twice=splay.col("size") * 2).filter(splay.col("size") > -5), two.filter(splay.col("price") > -2)
    tolerance = None if seconds is None else f"{seconds}s"
    found = one.asof_join(two, direction=direction, tolerance=tolerance, exact=exact)
    # Rows of one time stay in the order of the table.
    expected = eager(one).sort("time", maintain_order=True).join_asof(
        eager(two).sort("time", maintain_order=True), on="time", by="sym", strategy=direction, tolerance=tolerance, allow_exact_matches=exact
    )
    same(found, expected)
    inner = found.filter(splay.col("price").is_not_null())
    assert len(inner) == expected["price"].count()


@given(left=pairs.rows(12), right=pairs.rows(12), before=st.integers(0, 9), after=st.integers(0, 9), seconds=st.integers(-5, 5))
@LIMITS
def test_window_and_horizon_joins_of_any_rows(scratch, left, right, before, after, seconds):
    one = scratch(pairs.frame_of(left).select("time", "sym", "size"))
    two = scratch(pairs.frame_of(right).select("time", "sym", n=pl.col("size")))
    rows, others = eager(one).with_row_index("row"), eager(two)
    near = rows.join(others, on="sym", suffix="_r").filter(
        (pl.col("time_r") - pl.col("time")).is_between(dt.timedelta(seconds=-before), dt.timedelta(seconds=after))
    )
    sums = near.group_by("row").agg(rows=pl.len().cast(pl.Int64), high=pl.col("n").max())
    expected = rows.join(sums, on="row", how="left").with_columns(pl.col("rows").fill_null(0)).drop("row")
    same(one.window_join(two, f"{before}s", f"{after}s", rows=splay.count(), high=splay.col("n").max()), expected)
    ahead = rows.with_columns(then=(pl.col("time") + dt.timedelta(seconds=seconds)).dt.cast_time_unit("ns")).sort("then", maintain_order=True)
    expected = ahead.join_asof(others.sort("time", maintain_order=True), left_on="then", right_on="time", by="sym", suffix="_r")
    same(one.horizon_join(two, [f"{seconds}s"]).select("time", "sym", "size", "n"), expected.select("time", "sym", "size", "n"))


def test_ties_of_files_are_in_their_order_and_others_an_error(tmp_path):
    at = dt.datetime(2024, 1, 2, 15, tzinfo=dt.UTC)
    ties = pl.DataFrame({"time": [at, at, at], "symbol": ["A"] * 3, "bid": [1.0, 3.0, 2.0], "sequence": [1, 2, 3]})
    ties.write_parquet(tmp_path / "quote.parquet")
    pl.DataFrame({"time": [at], "symbol": ["A"], "price": [5.0]}).write_parquet(tmp_path / "trade.parquet")
    trade, quote = splay.scan(tmp_path / "trade.parquet"), splay.scan(tmp_path / "quote.parquet")
    for other in (quote, quote.sort("time"), quote.filter(splay.col("bid") > 1)):
        assert trade.asof_join(other).select("bid").fetchall() == [(2.0,)]
        assert trade.horizon_join(other, ["0s", "1s"]).select("bid").fetchall() == [(2.0,), (2.0,)]
        assert trade.window_join(other, "5s", bid=splay.col("bid").last()).select("bid").fetchall() == [(2.0,)]
    assert trade.asof_join(quote, direction="forward").select("bid").fetchall() == [(1.0,)]
    other = splay.concat([quote, quote])
    for joined in (trade.asof_join(other), trade.horizon_join(other, ["0s", "1s"])):
        runs = (joined.fetchall, joined.to_arrow, joined.df, joined.__len__, joined.describe, lambda: list(joined.iter_batches()), joined.pl(lazy=True).collect)
        for run in runs:
            with pytest.raises(splay.ExecutionError, match=r"^several rows of the right frame .* sort it by columns that do, quote\.sort"):
                run()
    ordered = quote.sort("time", "sequence")
    assert trade.asof_join(ordered).select("bid").fetchall() == [(2.0,)]
    assert trade.asof_join(ordered, direction="forward").select("bid").fetchall() == [(1.0,)]
    assert trade.horizon_join(ordered, ["0s", "1s"]).select("bid").fetchall() == [(2.0,), (2.0,)]
    assert trade.window_join(ordered, "5s", bid=splay.col("bid").last()).select("bid").fetchall() == [(2.0,)]
    assert trade.window_join(quote.sort("time", "bid"), "5s", bid=splay.col("bid").last()).select("bid").fetchall() == [(3.0,)]
    db = splay.open(tmp_path / "db")
    db.load("quote", tmp_path / "quote.parquet", time="time", symbol="symbol")
    assert trade.asof_join(db["quote"]).select("bid").fetchall() == [(2.0,)]


def test_asof_joins_keep_times_and_leave_out_equal_ones(db, trade, quote):
    found = trade.asof_join(quote, by="symbol", exact=False, keep_time=True)
    equal_to_sql(
        db,
        found.select("time", "symbol", "price", "time_right", "bid"),
        "select t.time, t.symbol, t.price, q.time as time_right, q.bid from trade t asof left join quote q"
        " match_condition (t.time > q.time) on t.symbol = q.symbol",
    )
    assert found[found.time_right >= found.time].fetchall() == []


def test_window_joins_are_sums_over_pairs(trade, quote):
    found = trade.window_join(quote, "30s", "10s", n=splay.count(), bid=splay.col("bid").max(), over=splay.call(
        "sum", splay.col("bid"), kind="aggregate"))
    left, right = eager(trade).with_row_index("row"), eager(quote)
    pairs_ = left.join(right, on="symbol", suffix="_q").filter(
        pl.col("time_q").is_between(pl.col("time") - dt.timedelta(seconds=30), pl.col("time") + dt.timedelta(seconds=10))
    )
    sums = pairs_.group_by("row").agg(n=pl.len(), bid=pl.col("bid").max(), over=pl.col("bid").sum())
    expected = left.join(sums, on="row", how="left").with_columns(pl.col("n").fill_null(0)).drop("row")
    same(found, expected)


def test_window_joins_tell_both_sides_apart(db, trade, quote):
    other = quote.with_columns(price=splay.col("bid"))
    found = trade.window_join(other, "30s", gap=(splay.col("price") - splay.left("price")).max(), prevailing=True)
    equal_to_sql(
        db,
        found.select("time", "symbol", "price", "gap"),
        "select t.time, t.symbol, t.price, max(q.bid - t.price) as gap from trade t window join quote q on t.symbol = q.symbol and"
        " q.time between t.time - interval '30 seconds' and t.time include prevailing",
    )


def test_horizon_joins_are_as_of_joins_at_offsets(db, trade, quote):
    found = trade.horizon_join(quote, ["-1s", "0s", "1m"])
    assert found.columns == ["time", "symbol", "price", "size", "side", "offset", "bid", "ask"]
    text = "select t.time, t.symbol, t.price, arrow_cast(h.offset, 'Duration(ns)') as offset, q.bid from trade t horizon join quote q on t.symbol = q.symbol and t.time >= q.time"
    equal_to_sql(db, found.select("time", "symbol", "price", "offset", "bid"), f"{text} list (-1s, 0s, 1m) as h")
    ranged = trade.horizon_join(quote, start="-2s", stop="2s", step="1s", tolerance="1m")
    equal_to_sql(
        db, ranged.select("time", "symbol", "price", "offset", "bid"), f"{text} tolerance 1m range from -2s to 2s step 1s as h"
    )


def test_latest_rows(trade, quote):
    same(quote.latest(), eager(quote).sort("time").group_by("symbol").last().select(quote.columns))
    early = splay.col("time") < dt.datetime(2024, 1, 2, 16, tzinfo=dt.UTC)
    limit = dt.datetime(2024, 1, 2, 16, tzinfo=dt.UTC)
    expected = eager(quote).filter(pl.col("time") < limit).sort("time").group_by("symbol").last()
    same(quote.filter(early).latest(), expected.select(quote.columns))
    same(quote.latest([]), eager(quote).sort("time").tail(1))
    # What is asked of it afterwards is asked of the latest rows.
    assert len(quote.latest().filter(splay.col("symbol") == "A")) == 1
    assert quote.with_columns(mid=(splay.col("bid") + splay.col("ask")) / 2).latest().select("mid").shape == (2, 1)


@pytest.mark.parametrize("closed", ["left", "right", "both", "none"])
def test_between_times_of_day(trade, closed):
    inclusive = {"none": "neither"}.get(closed, closed)
    local = trade.df().set_index("time").tz_convert(NEW_YORK)
    expected = local.between_time("10:00", "11:30", inclusive=inclusive)
    assert len(trade.between_time("10:00", "11:30", NEW_YORK, closed=closed)) == len(expected)
    around = local.between_time("11:30", "10:00", inclusive=inclusive)
    assert len(trade.between_time("11:30", "10:00", NEW_YORK, closed=closed)) == len(around)


def test_returns_and_volatility(trade):
    bars = trade.bars("5m")
    table = bars.sort("symbol", "time").df()
    close = table.groupby("symbol", observed=True)["close"]
    found = bars.returns().returns(kind="simple", name="simple").sort("symbol", "time").df()
    expected = (close.transform("last") * 0 + close.pct_change()).tolist()
    assert found["simple"].fillna(9).tolist() == pytest.approx(pd.Series(expected).fillna(9).tolist())
    assert found["return"].fillna(9).tolist() == pytest.approx(
        [9 if math.isnan(change) else math.log1p(change) for change in expected]
    )
    moves = found.dropna().groupby("symbol", observed=True)["return"]
    volatility = trade.volatility("5m").sort("symbol").df()
    assert volatility["volatility"].tolist() == pytest.approx(moves.apply(lambda r: math.sqrt((r * r).sum())).tolist())
    assert volatility["returns"].tolist() == moves.count().tolist()
    year = trade.volatility("5m", periods=252).sort("symbol").df()
    assert year["volatility"].tolist() == pytest.approx((volatility["volatility"] * math.sqrt(252)).tolist())


def test_pivots_are_those_of_polars(trade):
    expected = eager(trade).pivot("side", index="symbol", values="size", aggregate_function="sum").select("symbol", "buy", "sell")
    same(trade.pivot("side", splay.col("size").sum(), "symbol"), expected)
    some = trade.pivot("side", splay.col("size").sum(), "symbol", columns=["sell", "it's", None])
    assert some.columns == ["symbol", "sell", "it's", "null"]
    assert [row[2:] for row in some.fetchall()] == [(None, None), (None, None)]


def test_resampling_by_the_names_of_pandas(trade):
    found = trade.resample("30min")["price"].ohlc().sort("symbol", "time").df()
    rows = trade.df().set_index("time").groupby("symbol", observed=True)["price"].resample("30min").ohlc().dropna().reset_index()
    assert found["open"].tolist() == rows["open"].tolist()
    assert found["close"].tolist() == rows["close"].tolist()
    assert found["time"].tolist() == rows["time"].tolist()
    assert trade.resample("30min").count().sort("symbol", "time").df()["count"].sum() == len(trade)


def test_weighted_averages(trade):
    found = trade.wavg("price", "size")
    expected = eager(trade).group_by("symbol").agg(price=(pl.col("price") * pl.col("size")).sum() / pl.col("size").sum())
    same(found, expected)
    assert trade.price.wavg(trade.size).item() == pytest.approx(
        (eager(trade)["price"] * eager(trade)["size"]).sum() / eager(trade)["size"].sum()
    )


def test_weighted_averages_are_of_numbers(trade):
    for column, weight in (("symbol", "size"), ("price", "side"), ("time", "size")):
        with pytest.raises(splay.FrameError, match=r"a weighted mean is of numbers, and '(symbol|side|time)' has the type (symbol|timestamp)"):
            trade.wavg(column, weight)


def test_a_tolerance_is_not_negative(trade, quote):
    for width in ("-5s", dt.timedelta(seconds=-5)):
        for join in (lambda: trade.asof_join(quote, tolerance=width), lambda: trade.horizon_join(quote, ["0s"], tolerance=width)):
            with pytest.raises(ValueError, match="a tolerance is zero or more, not .*direction= says which way"):
                join()
    assert len(trade.asof_join(quote, tolerance="0s", how="inner")) < len(trade)


@given(rows=pairs.rows(), seconds=st.integers(1, 20))
@LIMITS
def test_moving_windows_are_those_of_sql(scratch, rows, seconds):
    frame = scratch(pairs.frame_of(rows).select("time", "sym", "size"))
    back = f"interval '{seconds * 10**9 - 1} nanoseconds'"
    text = f"sum(size) over (partition by sym order by time range between {back} preceding and current row)"
    statement = f"select time, sym, size, {text} as total from {frame._query.relation.table}"
    moving = frame.rolling(f"{seconds}s").agg(total=splay.col("size").sum())
    pairs.assert_same(moving.pl(), frame._source.sql(statement).to_polars(), is_ordered=False)


def test_times_without_a_zone_are_taken_as_utc(tmp_path, trade):
    path = tmp_path / "naive.parquet"
    naive = trade.pl().with_columns(pl.col("time").dt.replace_time_zone(None), pl.col("symbol").cast(pl.String))
    naive.write_parquet(path)
    frame = splay.scan(path)
    assert (frame.time_column, frame.symbol_column) == ("time", "symbol")
    hours = splay.col("time").dt.hour(NEW_YORK)
    assert sorted(frame.select(h=hours).fetchall()) == sorted(trade.select(h=hours).fetchall())
    assert frame.filter(frame.time >= dt.datetime(2024, 1, 2, 16)).shape == trade.filter(trade.time >= dt.datetime(2024, 1, 2, 16)).shape
    assert frame.time.max().item() == trade.time.max().item()
    assert len(frame.between_time("10:00", "11:30", NEW_YORK)) == len(trade.between_time("10:00", "11:30", NEW_YORK))
    same(frame.bars("1h").select("symbol", "high", "low", "volume"), eager(trade.bars("1h").select("symbol", "high", "low", "volume")))


def test_zoned_days_over_a_change_of_clocks(tmp_path):
    hours = pl.datetime_range(dt.datetime(2024, 3, 9), dt.datetime(2024, 3, 12), "1h", time_zone="UTC", eager=True).dt.cast_time_unit("ns")
    frame = pl.DataFrame({"time": hours, "size": range(len(hours))})
    frame.write_parquet(tmp_path / "clock.parquet")
    lazy = splay.scan(tmp_path / "clock.parquet")
    found = lazy.bucket("1d", zone=NEW_YORK).agg(n=splay.count()).sort("time").fetchall()
    expected = frame.group_by(pl.col("time").dt.convert_time_zone(NEW_YORK).dt.truncate("1d")).agg(n=pl.len()).sort("time")
    assert [(row[0].timestamp(), row[1]) for row in found] == [(row[0].timestamp(), row[1]) for row in expected.rows()]
    assert 23 in [row[1] for row in found]
    day = lazy.select(day=splay.col("time").dt.date(NEW_YORK), hour=splay.col("time").dt.hour(NEW_YORK),
                      weekday=splay.col("time").dt.weekday(NEW_YORK)).fetchall()
    local = frame["time"].dt.convert_time_zone(NEW_YORK)
    assert sorted(day) == sorted(zip(local.dt.date().to_list(), local.dt.hour().to_list(), local.dt.weekday().to_list()))


def test_series_are_never_mixed_silently(trade):
    for mixed in (trade.drop("symbol"), trade.with_columns(symbol=splay.lit("X")), trade.group_by("side", "time").agg(
            price=splay.col("price").last(), size=splay.col("size").sum())):
        for verb in (lambda t: t.bars("1m"), lambda t: t.latest(), lambda t: t.returns(), lambda t: t.rolling(3), lambda t: t.wavg("price", "size")):
            with pytest.raises(splay.FrameError, match="tell series apart"):
                verb(mixed)
    assert len(trade.drop("symbol").bars("1h", by=[])) > 0
    assert len(trade.bars("1h", by=[]).returns()) > 0
    assert len(trade.rename({"symbol": "ticker"}).bars("1h")) == len(trade.bars("1h"))


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv", "several"])
def test_asof_joins_over_files_take_the_last_of_tied_rows(tmp_path, kind):
    rows = 20_000
    start = dt.datetime(2024, 1, 2, 15, tzinfo=dt.UTC)
    times = [start + dt.timedelta(milliseconds=row // 7) for row in range(rows)]
    quotes = pl.DataFrame({"time": times, "symbol": ["AB"[row % 2] for row in range(rows)], "bid": [float(row) for row in range(rows)]})
    trades = quotes.gather_every(97).rename({"bid": "price"})
    if kind == "several":
        for number in range(4):
            quotes.slice(number * 5_000, 5_000).write_parquet(tmp_path / f"quote-{number}.parquet", row_group_size=700)
    elif kind == "parquet":
        quotes.write_parquet(tmp_path / "quote-0.parquet", row_group_size=700)
    elif kind == "arrow":
        quotes.write_ipc(tmp_path / "quote-0.arrow")
    else:
        quotes.write_csv(tmp_path / "quote-0.csv")
    trades.write_parquet(tmp_path / "trade.parquet")
    frame = splay.scan(tmp_path / "trade.parquet")
    found = frame.asof_join(splay.scan(str(tmp_path / "quote-*"))).select("time", "symbol", "price", "bid").pl()
    expected = trades.join_asof(quotes, on="time", by="symbol").select("time", "symbol", "price", "bid")
    assert sorted(found["bid"].to_list()) == sorted(expected["bid"].to_list())
    # Neighbours in moving windows follow the files, too, beside a function that DataFusion computes.
    both = splay.scan(str(tmp_path / "quote-*")).with_columns(before=splay.col("bid").shift(1).over("symbol"), m=splay.col("bid").median().rolling(2).over("symbol"))
    assert both.filter(splay.col("bid") >= 2, splay.col("before") != splay.col("bid") - 2).fetchall() == []
