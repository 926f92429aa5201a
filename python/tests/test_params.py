"""Values for placeholders, of every type."""

import datetime as dt
import decimal
import zoneinfo

import numpy as np
import pandas as pd
import pytest

import splay

UTC = dt.UTC


def one(db, statement, params):
    return db.sql(statement, params).to_arrow().column(0).to_pylist()[0]


@pytest.mark.parametrize(
    "value",
    [True, False, 7, -(2**63), 2**64 - 1, 1.5, float("-inf"), "AAPL", "it's", "", dt.date(2024, 2, 29), dt.time(9, 30, 0, 5)],
)
def test_values_are_themselves(db, value):
    assert one(db, "select $1", [value]) == value
    assert one(db, "select $value", {"value": value}) == value


def test_question_marks_are_values_in_order(db, trades):
    db.write("trade", trades, time="time", symbol="sym")
    statement = "select '?' as mark, sum(size) from trade where sym = ? and size > ? -- ?"
    assert db.sql(statement, ["IBM", 100]).to_arrow().to_pylist()[0]["mark"] == "?"
    assert db.sql(statement, ["IBM", 100]).to_arrow().column(1).to_pylist() == [600]
    assert db.sql(statement, ["AIG", 0]).to_arrow().column(1).to_pylist() == [300]
    assert db.prepare("select count(*) from trade where sym = ?").run(["IBM"]).to_arrow().column(0).to_pylist() == [3]
    with pytest.raises(splay.StatementError, match="either all"):
        db.sql("select ? + $1", [1]).to_arrow()


@pytest.mark.parametrize("several", [[1], (1, 2), np.array([1, 2]), pd.Series([1])])
def test_several_values_have_a_placeholder_each(db, several):
    with pytest.raises(TypeError, match=r"\$1: a value of type .*x IN \(\$1, \$2\)"):
        db.sql("select 1 in $1", [several])


def test_none_is_null(db):
    assert one(db, "select $1 is null", [None]) is True
    assert one(db, "select $1 is null", [pd.NaT]) is True
    assert one(db, "select $1 is null", [pd.NA]) is True
    assert one(db, "select $1 is null", [np.datetime64("NaT")]) is True


@pytest.mark.parametrize(
    "value",
    [
        dt.datetime(2024, 7, 1, 12, 0, 0, 123456),
        dt.datetime(2024, 7, 1, 12, 0, 0, 123456, UTC),
        dt.datetime(2024, 7, 1, 8, 0, 0, 123456, zoneinfo.ZoneInfo("America/New_York")),
        dt.datetime(2024, 7, 1, 17, 30, 0, 123456, dt.timezone(dt.timedelta(hours=5, minutes=30))),
        pd.Timestamp("2024-07-01T12:00:00.123456"),
        pd.Timestamp("2024-07-01T12:00:00.123456Z"),
        np.datetime64("2024-07-01T12:00:00.123456", "us"),
    ],
)
def test_times_are_utc_to_the_nanosecond(db, value):
    assert one(db, "select $1", [value]) == pd.Timestamp("2024-07-01T12:00:00.123456Z")


def test_nanoseconds_of_pandas_and_numpy_are_kept(db):
    expected = pd.Timestamp("2024-07-01T12:00:00.123456789Z")
    assert one(db, "select $1", [expected]) == expected
    assert one(db, "select $1", [expected.tz_convert("Asia/Tokyo")]) == expected
    assert one(db, "select $1", [np.datetime64("2024-07-01T12:00:00.123456789")]) == expected
    assert one(db, "select $1", [pd.Timestamp("1969-12-31T23:59:59.999999999Z")]).value == -1


@pytest.mark.parametrize("text", ["1.2345", "-0.001", "1E+3", "0", "123456789012345678901234567890.12345678", "-7"])
def test_decimals_are_exact(db, text):
    value = decimal.Decimal(text)
    assert one(db, "select $1", [value]) == value


def test_numpy_numbers_are_numbers(db):
    assert one(db, "select $1", [np.int32(-5)]) == -5
    assert one(db, "select $1", [np.uint64(2**64 - 1)]) == 2**64 - 1
    assert one(db, "select $1", [np.float32(0.5)]) == 0.5
    assert one(db, "select $1", [np.float64(0.1)]) == 0.1
    assert one(db, "select $1", [np.bool_(True)]) is True


def test_an_interval_moves_a_time(db):
    moved = one(db, "select $1 + $2", [dt.datetime(2024, 1, 1), dt.timedelta(days=1, seconds=1, microseconds=1)])
    assert moved == pd.Timestamp("2024-01-02T00:00:01.000001Z")


def test_params_select_rows(db, trades):
    db.write("trade", trades)
    found = db.sql(
        "select size from trade where sym = $sym and time >= $start and date = $day",
        {"sym": "IBM", "start": dt.datetime(2024, 1, 2, 15), "$day": dt.date(2024, 1, 2)},
    )
    assert found.to_arrow()["size"].to_pylist() == [100, 200]


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (2**64, OverflowError, r"\$1: the int is beyond 64 bits"),
        (dt.datetime(3000, 1, 1), OverflowError, r"\$1: the time is outside"),
        (np.datetime64("3000-01-01"), OverflowError, r"\$1: the time is outside"),
        (decimal.Decimal("NaN"), ValueError, r"\$1: NaN"),
        (decimal.Decimal(10) ** 40, OverflowError, r"\$1: .* 38 digits"),
        (object(), TypeError, r"\$1: a value of type builtins.object"),
        ([1], TypeError, r"\$1: a value of type builtins.list"),
        (b"x", TypeError, r"\$1: a value of type builtins.bytes"),
        (dt.time(1, tzinfo=UTC), ValueError, r"\$1: a time of day"),
    ],
)
def test_values_without_a_type_are_refused_by_place(db, value, error, message):
    with pytest.raises(error, match=message):
        db.sql("select $1", [value])


def test_params_are_no_single_text(db):
    with pytest.raises(TypeError, match="not one str"):
        db.sql("select $1", "AAPL")
