"""Tables tell what they are and let themselves be kept up."""

import datetime as dt

import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pytest

import splay


@pytest.fixture
def table(db, trades):
    db.write("Trade", trades)
    return db.table("trade")


def test_a_table_says_what_it_is(db, table):
    assert db.tables() == ["Trade"]
    assert (table.name, table.rows, table.time, table.symbol, table.time_zone) == ("Trade", 4, "time", "sym", "UTC")
    assert table.bytes > 0
    assert table.schema.names == ["time", "sym", "price", "size"]
    assert table.schema.types == ["timestamp", "symbol", "float64", "int64"]
    assert len(table.schema) == 4
    assert "price" in table.schema
    partitions = table.partitions
    assert [(p.date, p.rows, p.segments) for p in partitions] == [
        (dt.date(2024, 1, 2), 3, 1),
        (dt.date(2024, 1, 3), 1, 1),
    ]
    assert sum(p.bytes for p in partitions) == table.bytes
    shown = repr(table).splitlines()
    assert shown[0] == '<splay.Table "Trade": 4 rows in 2 partitions, 2024-01-02 to 2024-01-03, ordered by sym, time>'
    assert shown[2].split() == ["timestamp", "symbol", "float64", "int64", "date"] and len(shown) == 3 + 4


def test_columns_are_added_and_widened(db, table, trades):
    table.add_column("venue", "symbol")
    assert db.sql("select venue from trade").to_arrow()["venue"].null_count == 4
    table.widen_column("venue", "text")
    assert table.schema["venue"] == "text"
    table.add_column("lots", "int16")
    db.write("trade", trades.assign(lots=1))
    table.widen_column("lots", "int64")
    assert db.sql("select sum(lots) as n from trade").to_arrow()["n"].to_pylist() == [4]
    with pytest.raises(splay.SchemaError, match="already"):
        table.add_column("VENUE", "text")
    with pytest.raises(splay.SchemaError, match="without loss"):
        table.widen_column("size", "int8")
    with pytest.raises(splay.NoSuchColumnError, match="sym") as caught:
        table.widen_column("nothing", "float64")
    assert caught.value.existing == ["time", "sym", "price", "size", "venue", "lots"]
    with pytest.raises(ValueError, match="not a column type"):
        table.add_column("x", "varchar")


def test_segments_are_joined(db, table, trades):
    later = trades.assign(time=trades["time"] + pd.Timedelta(hours=1))
    db.write("trade", later)
    before = sum(p.segments for p in table.partitions)
    report = table.compact(tier="small", before=dt.date(2024, 1, 3))
    assert report.partitions == 1
    assert report.segments_after <= report.segments_before <= before
    assert table.rows == 8
    assert "CompactReport" in repr(report)
    assert table.verify() == []


def test_export_is_read_by_others(table, tmp_path):
    rows, size = table.export(tmp_path / "out")
    assert rows == 4
    assert size > 0
    copy = pyarrow.dataset.dataset(tmp_path / "out", partitioning="hive").to_table()
    assert copy.num_rows == 4
    assert sorted(copy["size"].to_pylist()) == [100, 200, 300, 400]
    with pytest.raises(ValueError, match="arrow"):
        table.export(tmp_path / "csv", format="csv")


@pytest.mark.parametrize("kind", ["arrow", "pandas"])
def test_a_column_without_a_value_fits_any_column(db, kind):
    first = pa.table({"time": pa.array([1, 2], pa.timestamp("ns")), "sym": ["A", "B"], "size": [1, 2], "venue": ["X", "Y"], "price": [1.0, 2.0]})
    db.write("trade", first)
    rows = {"time": first["time"].cast(pa.timestamp("ns")), "sym": ["A", "A"], "size": [None, None], "venue": [None, None], "price": [None, None]}
    nothing = pa.table(rows)
    assert nothing.schema.field("size").type == pa.null()
    db.write("trade", nothing if kind == "arrow" else nothing.to_pandas())
    assert db.sql("select count(*), count(size), count(venue), count(price) from trade").fetchall() == [(4, 2, 2, 2)]
    with pytest.raises(splay.SchemaError, match="'?\"?size\"?'? has the Arrow type .*name one in types"):
        db.write("other", nothing)
    db.write("other", nothing, types={"size": "int64", "venue": "symbol", "price": "float64"})
    assert db.sql("select count(*), count(size) from other").fetchall() == [(2, 0)]


def test_a_column_of_nulls_that_polars_made_fits_any_column(db):
    polars = pytest.importorskip("polars")
    db.write("trade", polars.DataFrame({"time": [dt.datetime(2024, 1, 2)], "sym": ["A"], "size": [1]}))
    nothing = polars.DataFrame({"time": [dt.datetime(2024, 1, 3)] * 2, "sym": ["A", "B"], "size": [None, None]})
    assert nothing.schema["size"] == polars.Null
    assert db.write("trade", nothing).rows == 2
    assert db.sql("select count(*), count(size) from trade").fetchall() == [(3, 1)]
    with pytest.raises(splay.SchemaError, match="size.* has the Arrow type Null.*name one in types"):
        db.write("other", nothing)
