"""Frames write SQL that means what they say: names and values in quotes, refusals by name."""

import datetime as dt
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import splay

from splay.frames.text import identifier, interval, nanoseconds_of

LIMITS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
NAMES = TEXT.filter(lambda name: name and "\1" not in name)


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    return splay.open(tmp_path_factory.mktemp("text") / "db", threads=1)


@pytest.fixture
def t(db):
    if "t" not in db:
        rows = pd.DataFrame({"time": pd.to_datetime(["2024-01-02"], utc=True), "sym": ["A"], "price": [1.5], "size": [2]})
        db.write("t", rows, symbol="sym")
    return db["t"]


def value_of(db, expression):
    return db.sql(f"select {splay.lit(expression).sql()} as x").fetchall()[0][0]


@given(text=TEXT)
@LIMITS
def test_any_text_comes_back(db, t, text):
    assert value_of(db, text) == text
    assert t.select(x=splay.lit(text)).fetchall() == [(text,)]
    assert t.filter(splay.col("sym") == text).fetchall() == ([] if text != "A" else t.fetchall())
    assert t.filter(splay.lit(text).is_in([text, "x"])).select("sym").fetchall() == [("A",)]


@given(name=NAMES)
@LIMITS
def test_any_name_will_do(t, name):
    if name.lower() in ("date", "time", "sym", "price", "size"):
        return
    frame = t.with_columns(splay.col("price").alias(name)).filter(splay.col(name) > 1)
    assert frame.columns[-1] == name
    # Of a name with a quotation mark the engine forgets which letters are capitals.
    spelled = name.lower() if '"' in name else name
    assert frame.select(name).fetchall() == [(1.5,)]
    assert frame.group_by(name).agg(splay.count().alias("longer than these")).sort(name).fetchall() == [(1.5, 1)]
    found = frame.pl().columns[-1]
    assert (found.lower() if '"' in name else found) == spelled


def test_every_keyword_is_a_name(t):
    words = ["order", "group", "select", "from", "where", "end", "case", "interval", "date2", "user", "offset", "limit", "window", "qualify",
             "join", "on", "left", "asof", "time", "open", "close", "first", "last", "values", "value", "null", "true", "not", "in", "is",
             "latest", "sample", "fill", "pivot", "unpivot", "exclude", "tolerance", "match_condition", "using", "union", "all", "any", "for",
             "array", "cast", "extract", "position", "substring", "trim", "current_date", "current_time", "timestamp", "distinct", "as"]
    for word in words:
        frame = t.select(splay.col("price").alias(word)) if word != "time" else t.select("time")
        assert frame.columns == [word]
        assert frame.filter(splay.col(word).is_not_null()).sort(word).group_by(word).agg(n=splay.count()).select(word, "n").pl().columns == [word, "n"]


@given(number=st.floats() | st.integers(-(2**63), 2**64 - 1) | st.booleans())
@LIMITS
def test_numbers_come_back(db, number):
    back = value_of(db, number)
    assert back == number or (number != number and back != back)
    assert isinstance(back, type(number))


@pytest.mark.parametrize(
    "value",
    [
        dt.date(2024, 2, 29),
        dt.time(9, 30, 0, 125),
        dt.datetime(2024, 3, 10, 2, 30, 0, 1, tzinfo=dt.timezone(dt.timedelta(hours=-5))),
        decimal.Decimal("-12.3400"),
        decimal.Decimal("1E+3"),
        None,
    ],
)
def test_other_values_come_back(db, value):
    assert value_of(db, value) == value


def test_times_keep_their_nanoseconds(db):
    at = pd.Timestamp("2024-01-02 09:30:00.000000001", tz="America/New_York")
    assert value_of(db, at) == at
    assert value_of(db, np.datetime64("2024-01-02T09:30:00.000000001")) == pd.Timestamp("2024-01-02 09:30:00.000000001", tz="UTC")
    assert value_of(db, dt.datetime(2024, 1, 2)) == pd.Timestamp("2024-01-02", tz="UTC")
    assert value_of(db, pd.NaT) is None
    assert value_of(db, np.float32(0.5)) == 0.5


def test_what_is_no_value_is_refused():
    for given_value in (object(), [1], {}, b"x", 1 + 2j):
        with pytest.raises(TypeError):
            splay.col("x") == given_value  # noqa: B015
    with pytest.raises(OverflowError):
        splay.lit(2**64)
    with pytest.raises(ValueError, match="can't be a name"):
        identifier("a\0b")


def test_spans():
    assert interval("90s") == "INTERVAL '90 seconds'"
    assert interval(dt.timedelta(milliseconds=1500)) == "INTERVAL '1500 milliseconds'"
    assert interval("2q") == "INTERVAL '6 months'"
    assert nanoseconds_of("1h30m") == 5400 * 10**9
    assert nanoseconds_of("-1s") == -(10**9)
    for wrong in ("5M", "5 parsecs", "", "m5", "5", "1.5h"):
        with pytest.raises(ValueError):
            interval(wrong)


def test_expressions_are_values():
    mid = (splay.col("bid") + splay.col("ask")) / 2
    assert repr(mid.alias("mid")) == "(bid + ask) / 2.0"
    assert repr(mid.mean().over("sym")) == "avg((bid + ask) / 2.0) OVER (PARTITION BY sym)"
    assert {mid: 1}[mid] == 1
    with pytest.raises(TypeError, match="join conditions by &"):
        bool(mid > 1)
    with pytest.raises(TypeError):
        list(mid)


def test_conditions_are_no_texts(t):
    for given_value in ("price > 1", None):
        with pytest.raises(TypeError, match="an expression"):
            t.filter(given_value)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda t: t.filter(splay.col("price") == None), "is_null"),  # noqa: E711
        (lambda t: t.select("price", splay.col("size").sum()), "over"),
        (lambda t: t.select(splay.col("price") - splay.col("price").mean()), "over"),
        (lambda t: t.with_columns(splay.col("size").sum()), "over"),
        (lambda t: t.filter(splay.col("size").sum() > 1), "over"),
        (lambda t: t.group_by("sym").agg("price"), "no aggregate"),
        (lambda t: t.group_by("sym").agg(splay.col("price").shift(1).sum()), "name that one first"),
        (lambda t: t.select("price", splay.col("size").alias("PRICE")), "two columns"),
        (lambda t: t.select(splay.col("price") // 2), "floor"),
        (lambda t: t.tail(), "sort"),
        (lambda t: t[-5:], "begin"),
        (lambda t: t.sort("price").select("sym").limit(1).filter(splay.col("sym") == "A"), "sorted by price"),
        (lambda t: t.select("price").bars("1m", [], price="price", size="price"), "time"),
        (lambda t: t.select("sym").with_columns(splay.col("sym").shift()), "order"),
        (lambda t: t.asof_join(t.select("time", "price")), "by="),
        (lambda t: t.rolling("5m").agg(splay.col("price").mean()), "name the aggregate"),
        (lambda t: t.write_to("x", database=object()), "database"),
    ],
)
def test_what_a_frame_cannot_express_is_refused_by_name(t, make, says):
    with pytest.raises(splay.FrameError, match=says):
        make(t)


def test_columns_of_other_frames_are_refused(db, t):
    other = t.select("price").limit(1)
    t.filter(other.price > 1)  # Of the same table: a name.
    db.write("u", t.drop("date").pl(), symbol="sym")
    with pytest.raises(splay.FrameError, match="another frame"):
        t.filter(db["u"].price > 1)


def test_names_that_are_not_there_name_what_is(t):
    with pytest.raises(splay.NoSuchColumnError, match="did you mean price"):
        t.select("prize")
    with pytest.raises(AttributeError, match="a frame has no 'nope'; columns are time"):
        t.nope  # noqa: B018
    with pytest.raises(splay.NoSuchColumnError):
        t.filter(splay.col("nope") > 1)
    assert t["PRICE"].name == "price"


def test_names_that_are_not_there_name_columns_as_they_are_written(tmp_path):
    rows = pl.DataFrame({"Time": [dt.datetime(2024, 1, 2)], "Trade_Price": [1.0], "Bid_Size": [1], "Offer_Size": [2]})
    rows.write_parquet(tmp_path / "rows.parquet")
    t = splay.scan(tmp_path / "rows.parquet")
    both = t.join(t, "Time")
    for ask in (lambda: t["Pric"], lambda: t.filter(splay.col("Pric") > 1), lambda: t.sort("pric"), lambda: both.filter(splay.col("pric") > 1)):
        with pytest.raises(splay.NoSuchColumnError, match="did you mean Trade_Price"):
            ask()
    with pytest.raises(AttributeError, match=r"has no 'Pric' \(did you mean Trade_Price\?\); columns are Time, Trade_Price"):
        t.Pric  # noqa: B018
    with pytest.raises(splay.NoSuchColumnError, match="did you mean Bid_Size or Offer_Size") as caught:
        t.filter(splay.col("size") > 1)
    assert caught.value.existing == ["Time", "Trade_Price", "Bid_Size", "Offer_Size"]
    with pytest.raises(splay.NoSuchColumnError, match="there are Time, Trade_Price, Bid_Size, Offer_Size"):
        t.filter(splay.col("zz") > 1)


def test_assignment_changes_this_frame_alone(t):
    mine = t[t.price > 0]
    mine["twice"] = mine.price * 2
    assert mine.twice.to_list() == [3.0]
    assert float(mine.twice.mean()) == 3.0
    assert "twice" not in t.columns
    del mine["twice"]
    assert mine.columns == t.columns
    with pytest.raises(splay.FrameError, match="a value for each row"):
        splay.concat([mine, mine]).price.item()


def test_constants_are_no_keys(t):
    # `GROUP BY 1` and `ORDER BY 1` mean the first column.
    for make in (lambda: t.group_by(splay.lit(1)).agg(splay.count()), lambda: t.sort(splay.lit(1))):
        with pytest.raises(splay.FrameError):
            make()


def test_names_of_results_hide_those_of_columns(db):
    rows = pd.DataFrame({"time": pd.to_datetime(["2024-01-02"] * 4, utc=True), "sym": list("AABC"), "size": [1, 9, 5, 7]})
    db.write("hides", rows, symbol="sym")
    frame = db["hides"]
    sums = frame.group_by("sym").agg(splay.col("size").sum())
    assert sums.sort("size").fetchall() == [("B", 5), ("C", 7), ("A", 10)]
    assert sums.filter(splay.col("size") > 6).sort(splay.col("size").desc()).fetchall() == [("A", 10), ("C", 7)]
    turned = frame.sort("size").select(size=-splay.col("size"), old="size")
    assert turned.fetchall() == [(-1, 1), (-5, 5), (-7, 7), (-9, 9)]
    assert turned.sort("size").limit(1).fetchall() == [(-9, 9)]
    assert frame.with_columns(size=splay.col("size") * 2).group_by("sym").agg(splay.col("size").max()).sort("sym").fetchall() == [
        ("A", 18), ("B", 10), ("C", 14)]
    assert frame.group_by(size=splay.col("size") % 2).agg(n=splay.count()).fetchall() == [(1, 4)]


def test_names_keep_their_capitals(db):
    rows = pd.DataFrame({"Time": pd.to_datetime(["2024-01-02 15:00"], utc=True), "Symbol": ["A"], "Double": [1.5], "INT": [2], "Size": [3]})
    db.write("capitals", rows, symbol="Symbol", time="Time")
    frame = db["capitals"].drop("date").between_time("09:30", "16:00", "America/New_York")
    frame = frame.with_columns(half=splay.col("int") / splay.col("size"), day=splay.col("Time").dt.date("Asia/Tokyo"))
    assert frame.pl().columns == frame.columns == ["Time", "Symbol", "Double", "INT", "Size", "half", "day"]
    bars = frame.bars("1m", price="double", size="size").returns()
    assert bars.pl().columns == bars.columns
    assert bars.columns[:2] == ["Symbol", "Time"]
