"""Trading calendars: as frames, and compared with an independent library."""

import datetime

import pytest

import splay

COMPARED = [
    # Ours, the library's, the first date of ours.
    ("NYSE", "NYSE", "2000-01-01"),
    ("CME", "CME Globex Equity", "2016-01-01"),
    ("LSE", "LSE", "2000-01-01"),
    ("EUREX", "XEUR", "2016-01-01"),
]
"""The library's calendar EUREX has half days on 24 and 31 December, on which Eurex is closed; its XEUR has not."""

DIFFERENT = {
    # CME Group, press releases of 2018-12-02 and 2024-12-30: equity products close at 8:30 in Chicago. The library has no such days.
    ("CME", "2018-12-05"): "2018-12-05 14:30",
    ("CME", "2025-01-09"): "2025-01-09 14:30",
    # Good Fridays without an employment report: closed. The library has Globex trade until 8:15 on each one since 2023.
    ("CME", "2024-03-29"): None,
    ("CME", "2025-04-18"): None,
    ("CME", "2027-03-26"): None,
    ("CME", "2028-04-14"): None,
    ("CME", "2029-03-30"): None,
    ("CME", "2030-04-19"): None,
}
"""Closes, in UTC, on dates where the library errs; None where there is no trading."""


@pytest.mark.parametrize(("ours", "theirs", "first"), COMPARED)
def test_days_opens_and_closes_are_those_of_another_library(ours: str, theirs: str, first: str) -> None:
    calendars = pytest.importorskip("pandas_market_calendars", reason="pandas_market_calendars isn't installed")
    pandas = pytest.importorskip("pandas")
    found = splay.calendar(ours, first, "2030-12-31").df()
    expected = calendars.get_calendar(theirs).schedule(first, "2030-12-31", tz="UTC")
    utc = lambda times: pandas.to_datetime(times, utc=True).astype("datetime64[ns, UTC]")  # noqa: E731
    found = {
        str(date): (opened, closed)
        for date, opened, closed in zip(found["date"], utc(found["open"]), utc(found["close"]), strict=True)
    }
    expected = {
        str(date.date()): (opened, closed)
        for date, opened, closed in zip(expected.index, utc(expected["market_open"]), utc(expected["market_close"]), strict=True)
    }
    for (name, date), close in DIFFERENT.items():
        if name != ours:
            continue
        assert found.get(date) != expected.pop(date), f"{date} is no difference any more"
        own = found.pop(date, None)
        assert (own and own[1]) == (close and pandas.Timestamp(close, tz="UTC")), date
    assert len(found) > 3800
    assert found == expected


def test_a_calendar_is_a_frame() -> None:
    frame = splay.calendar("NYSE", "2024-11-27", datetime.date(2024, 12, 2))
    assert frame.columns == ["date", "open", "close", "early_close", "late_open", "kind", "note"]
    rows = frame.filter(splay.col("early_close")).to_arrow().to_pylist()
    assert [(row["date"], row["note"]) for row in rows] == [(datetime.date(2024, 11, 29), "the day after Thanksgiving")]
    assert splay.calendar("CME", "2021-06-25", "2021-06-28", rows="sessions").to_arrow().num_rows == 3
    special = splay.calendar("XLON", "2022-09-01", "2022-09-30", rows="special").to_arrow().to_pylist()
    assert [row["name"] for row in special] == ["the funeral of Queen Elizabeth II"]
    assert splay.calendar("24x7").to_arrow().num_rows == 47_482


def test_what_no_calendar_has_is_refused() -> None:
    with pytest.raises(splay.StatementError, match=r'there is no calendar "TSE"; there are NYSE, CME, LSE, EUREX, 24x7'):
        splay.calendar("TSE")
    with pytest.raises(splay.StatementError, match="the calendar CME covers 2016-01-01 to 2030-12-31, not 2015-12-31"):
        splay.calendar("CME", "2015-12-31", "2016-12-31")
    with pytest.raises(ValueError, match="both, or neither"):
        splay.calendar("CME", "2016-12-31")
    with pytest.raises(ValueError, match="is a time"):
        splay.calendar("CME", datetime.datetime(2024, 1, 1), "2024-02-01")
    with pytest.raises(ValueError, match="'days', 'sessions' or 'special'"):
        splay.calendar("CME", rows="hours")  # type: ignore[arg-type]


def test_a_calendar_goes_with_the_tables_of_a_database(tmp_path) -> None:
    pandas = pytest.importorskip("pandas")
    db = splay.open(tmp_path / "db")
    times = pandas.to_datetime(["2024-03-10T21:59:59Z", "2024-03-10T22:00:00Z", "2024-03-11T20:59:59Z", "2024-03-11T21:00:00Z"])
    frame = pandas.DataFrame({"time": times, "sym": ["ES"] * 4, "price": [1.0, 2.0, 3.0, 4.0]})
    db.write("es", frame, time="time", symbol="sym", time_zone="America/Chicago", day_start="17:00")
    table = db.table("es")
    assert (table.time_zone, table.day_start) == ("America/Chicago", "17:00")
    by_date = db.sql("select date, count(*) as n, min(in_session(time, 'CME')) as inside from es group by date order by date")
    assert [tuple(row.values()) for row in by_date.to_arrow().to_pylist()] == [
        (datetime.date(2024, 3, 10), 1, False),
        (datetime.date(2024, 3, 11), 3, False),
    ]
    dates = db.sql("select distinct session_date(time, 'CME') as d from es where in_session(time, 'CME')").to_arrow()
    assert dates.to_pylist() == [{"d": datetime.date(2024, 3, 11)}]
    only = db.sql("select sum(price) as s from es where date = '2024-03-11'").to_arrow().to_pylist()
    assert only == [{"s": 9.0}]
    with pytest.raises(splay.SchemaError, match=r"its dates are in America/Chicago from 17:00 of the day before"):
        db.write("es", frame, day_start="16:00")
    with pytest.raises(ValueError, match="a day starts at 00:00, or at 12:00 to 23:59 of the day before"):
        db.write("other", frame, day_start="07:00")


def test_a_reference_table_is_a_calendar(tmp_path) -> None:
    """Own sessions, half days and holidays; statements that were asked before see the table's next commit."""
    pandas = pytest.importorskip("pandas")
    db = splay.open(tmp_path / "db")
    rows = pandas.DataFrame(
        {
            "date": [datetime.date(2024, 12, 27), datetime.date(2024, 12, 30), datetime.date(2024, 12, 31)],
            "open": pandas.to_datetime(["2024-12-27T00:00Z", "2024-12-30T00:00Z", None], utc=True),
            "close": pandas.to_datetime(["2024-12-27T06:00Z", "2024-12-30T02:30Z", None], utc=True),
            "kind": [None, "half day", "holiday"],
        }
    )
    db.write("tokyo", rows, key=["date"])
    times = pandas.to_datetime(["2024-12-27T01:00Z", "2024-12-27T07:00Z", "2024-12-30T02:00Z", "2024-12-30T03:00Z"])
    db.write("trade", pandas.DataFrame({"time": times, "sym": ["A", "A", "B", "B"], "size": [1, 2, 4, 8]}), time="time", symbol="sym")
    days = splay.calendar("tokyo", database=db)
    assert [(row["date"].day, row["early_close"]) for row in days.to_arrow().to_pylist()] == [(27, False), (30, True)]
    assert splay.calendar("tokyo", "2024-12-31", "2024-12-31", rows="special", database=db).to_arrow()["kind"].to_pylist() == ["closed"]
    written = "select sum(size) as s from trade where in_session(time, 'tokyo')"
    given = "select sum(size) as s from trade where in_session(time, $calendar)"

    def sums() -> list[int]:
        frame = db["trade"].filter(splay.call("in_session", splay.col("time"), "tokyo"))
        texts = [(written, None), (given, {"calendar": "Tokyo"})]
        asked = [db.sql(text, params).to_arrow()["s"].to_pylist()[0] for text, params in texts for _ in range(2)]
        return [*asked, sum(frame.to_arrow()["size"].to_pylist())]

    assert sums() == [5] * 5
    db.sql("update tokyo set close = '2024-12-30T06:00:00Z' where date = '2024-12-30'")
    assert sums() == [13] * 5
    # Parameters name shipped calendars as they did before.
    assert db.sql(given, {"calendar": "NYSE"}).to_arrow()["s"].to_pylist() == [None]
    with pytest.raises(splay.StatementError, match=r'there is no calendar "tokio"; did you mean "tokyo"\?'):
        db.sql(given, {"calendar": "tokio"}).to_arrow()
    db.sql("update tokyo set close = null where date = '2024-12-30'")
    with pytest.raises(splay.StatementError, match="the table tokyo is no calendar: the half day 2024-12-30 has no close"):
        db.sql(written).to_arrow()
