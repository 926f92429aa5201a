"""A date that follows from the time comes with rows and isn't kept twice."""

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import splay

CSV = "time,sym,price\n2024-01-02T23:30:00Z,IBM,161.25\n2024-01-03T00:30:00Z,AIG,50\n"


@pytest.fixture
def trade(db, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(CSV)
    db.load("trade", path)
    return db.sql("select * from trade").to_arrow()


def names(db, table):
    return list(db.table(table).schema)


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars"])
def test_an_answer_goes_back(db, trade, kind):
    frame = trade if kind == "arrow" else db.sql("select * from trade").df() if kind == "pandas" else db.sql("select * from trade").pl()
    db.write("again", frame, types={} if kind == "arrow" else None)
    expected = ["time", "sym", "price"] if kind != "pandas" else names(db, "again")
    assert names(db, "again") == expected
    db.write("trade", trade)
    assert db.sql("select count(*), count(distinct date) from trade").fetchall() == [(4, 2)]
    assert db.sql("select * from again order by time").to_arrow().num_rows == 2


def test_other_dates_are_refused_or_kept(db, trade):
    other = trade.set_column(3, "date", pa.array([0, 1], pa.date32()))
    with pytest.raises(splay.Error, match="row 0 of the batch has the date 1970-01-01, and its time 2024-01-0"):
        db.write("trade", other)
    db.write("trading", other)
    assert names(db, "trading") == ["time", "sym", "price", "date"]
    db.write("kept", trade, types={"date": "date"})
    assert names(db, "kept") == ["time", "sym", "price", "date"]


def test_a_file_of_an_answer_is_loaded(db, trade, tmp_path):
    pyarrow.csv.write_csv(trade, tmp_path / "a.csv")
    pyarrow.parquet.write_table(trade, tmp_path / "a.parquet")
    for path in (tmp_path / "a.csv", tmp_path / "a.parquet"):
        db.load(path.suffix[1:], path)
        assert names(db, path.suffix[1:]) == ["time", "sym", "price"]
        db.load("trade", path)
    assert db.sql("select count(*) from trade").fetchall() == [(6,)]
