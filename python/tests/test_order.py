"""Frames written in several parts are one frame, stably sorted by date, symbol and time."""

import datetime as dt
import pathlib
import tempfile

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

import splay

DAY_NS = 86_400_000_000_000
ROW = st.tuples(
    st.integers(-1, 2), st.integers(0, 3), st.sampled_from(["A", "AA", "B", "é", "", None]), st.none() | st.floats(allow_nan=False)
)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(ROW, max_size=60), cuts=st.lists(st.integers(0, 60), max_size=4))
def test_parts_are_merged_as_a_stable_sort(rows, cuts):
    frame = pd.DataFrame(
        {
            "time": pd.to_datetime(pd.Series([day * DAY_NS + ns for day, ns, _, _ in rows], dtype="int64"), unit="ns", utc=True),
            "sym": pd.Series([sym for _, _, sym, _ in rows], dtype="str"),
            "price": pd.Series([price for _, _, _, price in rows], dtype="float64"),
            "n": range(len(rows)),
        }
    )
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    with tempfile.TemporaryDirectory() as folder:
        db = splay.open(pathlib.Path(folder), threads=1)
        for start, end in zip(edges, edges[1:]):
            db.write("t", frame.iloc[start:end])
        back = db.sql("select time, sym, price, n from t").to_arrow()
        dates = [partition.date for partition in db.table("t").partitions]
    date = frame["time"].dt.date
    expected = frame.assign(date=date).sort_values(["date", "sym", "time"], kind="stable", na_position="first")
    assert back["n"].to_pylist() == expected["n"].tolist()
    assert back["time"].cast("int64").to_pylist() == expected["time"].astype("int64").tolist()
    assert back["sym"].to_pylist() == [None if pd.isna(sym) else sym for sym in expected["sym"]]
    assert back["price"].to_pylist() == [None if pd.isna(price) else price for price in expected["price"]]
    assert dates == sorted(set(date))
    assert all(isinstance(day, dt.date) for day in dates)
