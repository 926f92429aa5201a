"""Frames go in and come back equal, whoever made them."""

import datetime as dt
import decimal

import duckdb
import pandas as pd
import polars as pl
import polars.testing
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import splay

UTC = dt.UTC
AT = [dt.datetime(2024, 1, 2, 14, 30, tzinfo=UTC), dt.datetime(2024, 1, 2, 14, 31, tzinfo=UTC)]


def stored(db: splay.Database, table: str = "t") -> pa.Table:
    """All columns of a table but the virtual date."""
    answer = db.sql(f"select * from {table}").to_arrow()
    return answer.select(db.table(table).schema.names)


def test_pandas_comes_back_in_table_order(db, trades):
    report = db.write("t", trades)
    assert (report.rows, report.partitions) == (4, 2)
    back = stored(db).to_pandas()
    expected = trades.iloc[[2, 0, 1, 3]].reset_index(drop=True)
    pd.testing.assert_frame_equal(back, expected, check_dtype=False, check_categorical=False)
    assert back["price"].isna().tolist() == [True, False, False, False]


def test_pandas_index_is_a_column_if_it_has_a_name(db, trades):
    db.write("named", trades.set_index("time"))
    assert set(db.table("named").schema) == {"time", "sym", "price", "size"}
    db.write("unnamed", trades[trades["size"] > 100])
    assert set(db.table("unnamed").schema) == {"time", "sym", "price", "size"}


def test_polars_round_trip(db):
    frame = pl.DataFrame(
        {
            "time": AT,
            "sym": ["A", "B"],
            "price": [1.5, None],
            "side": pl.Series(["buy", "sell"], dtype=pl.Categorical),
            "levels": pl.Series([[1.0, 2.0], [3.0, 4.0]], dtype=pl.Array(pl.Float64, 2)),
            "at": pl.Series([dt.time(1, 2, 3), None]),
            "day": pl.Series([dt.date(2024, 1, 2), None]),
            "note": ["x", None],
        }
    )
    expected = ["timestamp", "symbol", "float64", "symbol", "levels(2)", "time", "date", "text"]
    # Few values of the note differ, so that it is a symbol unless a type is asked for.
    for name, types, note in [("t", {}, "symbol"), ("u", {"note": "text"}, "text")]:
        db.write(name, frame, types=types)
        assert db.table(name).schema.types == [*expected[:-1], note]
        back = db.sql(f"select time, sym, price, side, levels, at, day, note from {name}").to_polars()
        polars.testing.assert_frame_equal(back, frame, check_dtypes=False, categorical_as_str=True)


def test_texts_of_a_frame_are_symbols_where_few_differ(db):
    rows = 400
    frame = pa.table(
        {
            "time": pa.array([1_704_186_000_000_000_000 + row for row in range(rows)], pa.timestamp("ns", "UTC")),
            "few": [f"V{row % 64}" for row in range(rows)],
            "many": [f"O{row}" for row in range(rows)],
            "long": ["x" * (33 if row == 0 else 3) for row in range(rows)],
            "empty": pa.array([None] * rows, pa.string()),
        }
    )
    db.write("t", frame)
    assert db.table("t").schema.types == ["timestamp", "symbol", "text", "text", "text"]
    assert db.sql("select few, many, long, empty from t").to_arrow().to_pylist() == frame.drop_columns("time").to_pylist()


@pytest.mark.parametrize("rows_of_batch", [20, 64, 12_800])
def test_texts_of_a_frame_are_judged_by_its_rows_and_not_by_its_first_batch(db, tmp_path, rows_of_batch):
    rows = 12_800
    frame = pa.table(
        {
            "time": pa.array(range(rows), pa.timestamp("us", "UTC")),
            "order": [f"o{row}" for row in range(rows)],
            "venue": [f"V{row % 64}" for row in range(rows)],
        }
    )
    batches = frame.to_batches(max_chunksize=rows_of_batch)
    db.write("framed", pa.RecordBatchReader.from_batches(frame.schema, [batches[0].slice(0, 0), *batches]), symbol="")
    pq.write_table(frame, tmp_path / "t.parquet", row_group_size=rows_of_batch)
    db.load("loaded", tmp_path / "t.parquet", symbol="")
    for table in ("framed", "loaded"):
        assert db.table(table).schema.types == ["timestamp", "text", "symbol"]
        assert db.table(table).rows == rows


def test_duckdb_relation_streams_in_and_answers_stream_out(db):
    relation = duckdb.sql(
        "select timestamp '2024-01-02' + to_seconds(i) as time, 'S' || (i % 3) as sym, i::double as price "
        "from range(10000) t(i)"
    )
    assert db.write("t", relation).rows == 10_000
    answer = db.sql("select sym, price from t where sym = 'S1'")  # noqa: F841, DuckDB finds it by its name
    found = duckdb.sql("select count(*), sum(price) from answer").fetchall()
    assert found == [(3333, sum(range(1, 10000, 3)))]


def test_every_type_of_column_comes_back(db):
    table = pa.table(
        {
            "time": pa.array(AT, pa.timestamp("ns", "UTC")),
            "b": pa.array([True, None]),
            "i8": pa.array([-128, None], pa.int8()),
            "i16": pa.array([-(2**15), None], pa.int16()),
            "i32": pa.array([-(2**31), None], pa.int32()),
            "i64": pa.array([-(2**63), None], pa.int64()),
            "u8": pa.array([255, None], pa.uint8()),
            "u16": pa.array([2**16 - 1, None], pa.uint16()),
            "u32": pa.array([2**32 - 1, None], pa.uint32()),
            "u64": pa.array([2**64 - 1, None], pa.uint64()),
            "f32": pa.array([0.5, None], pa.float32()),
            "f64": pa.array([float("inf"), None]),
            "d": pa.array([decimal.Decimal("-1.2345"), None], pa.decimal128(18, 4)),
            "day": pa.array([dt.date(1969, 12, 31), None]),
            "at": pa.array([dt.time(23, 59, 59), None], pa.time64("ns")),
            "ts": pa.array([AT[0], None], pa.timestamp("ns", "UTC")),
            "text": pa.array(["é", None]),
            "symbol": pa.array(["é", None]).dictionary_encode(),
            "book": pa.array([[1.0, 2.0], None], pa.list_(pa.float64(), 2)),
        }
    )
    db.write("t", table, symbol="")
    assert db.table("t").symbol is None
    assert stored(db).to_pylist() == table.to_pylist()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York", "+05:30"])
def test_times_of_any_unit_and_zone_become_utc(db, unit, zone):
    count = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}[unit] * 1_704_205_800
    db.write("t", pa.table({"time": pa.array([count], pa.int64()).cast(pa.timestamp(unit)).cast(pa.timestamp(unit, zone))}))
    assert stored(db)["time"].cast(pa.int64()).to_pylist() == [1_704_205_800_000_000_000]
    assert stored(db).schema.field("time").type == pa.timestamp("ns", "UTC")


def test_a_time_out_of_range_is_refused(db):
    far = pa.array([10**10], pa.timestamp("s"))
    with pytest.raises(splay.SchemaError, match="time"):
        db.write("t", pa.table({"time": far}))
    assert db.tables() == []


def test_a_date_as_time_is_midnight_in_the_tables_zone(db):
    db.write("t", pa.table({"day": pa.array([dt.date(2024, 7, 1)])}), time="day", time_zone="America/New_York")
    assert stored(db)["day"].to_pylist() == [pd.Timestamp("2024-07-01 04:00", tz="UTC")]
    assert [p.date for p in db.table("t").partitions] == [dt.date(2024, 7, 1)]


def test_an_empty_frame_makes_an_empty_table_and_one_row_fills_it(db, trades):
    typed = pa.Table.from_pandas(trades)
    assert db.write("t", typed.slice(0, 0)).rows == 0
    assert db.table("t").rows == 0
    assert db.sql("select * from t").to_pandas().empty
    assert db.sql("select * from t").to_polars().is_empty()
    assert db.write("t", typed.slice(0, 1)).rows == 1
    assert db.sql("select size from t").to_arrow()["size"].to_pylist() == [100]


def test_batches_are_taken_as_they_are_made(db):
    schema = pa.schema({"time": pa.timestamp("ns"), "n": pa.int64()})

    def make():
        for i in range(5):
            yield pa.record_batch([pa.array([i], pa.timestamp("ns")), pa.array([i])], schema=schema)

    db.write("t", pa.RecordBatchReader.from_batches(schema, make()))
    db.write("t", pa.record_batch([pa.array([9], pa.timestamp("ns")), pa.array([9])], schema=schema))
    assert stored(db)["n"].to_pylist() == [0, 1, 2, 3, 4, 9]


def test_dictionaries_with_nulls_and_other_keys_are_symbols(db):
    side = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.uint8()), pa.array(["x", None]))
    number = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int16()), pa.array([7, 8]))
    time = pa.array([1, 2, 3], pa.timestamp("ns"))
    db.write("t", pa.table({"time": time, "sym": ["A", "A", "A"], "side": side, "number": number}))
    assert db.table("t").schema.types == ["timestamp", "symbol", "symbol", "int64"]
    assert stored(db)["side"].to_pylist() == ["x", None, None]
    assert stored(db)["number"].to_pylist() == [7, 8, 7]


def test_types_can_be_wished_for(db):
    frame = pa.table({"time": pa.array([1], pa.timestamp("ns")), "venue": ["N"], "size": [3], "bids": [[1, 2]]})
    db.write("t", frame, types={"venue": "symbol", "size": "float64", "bids": "levels(2)"})
    assert db.table("t").schema.types == ["timestamp", "symbol", "float64", "levels(2)"]
    assert stored(db).to_pylist()[0]["bids"] == [1.0, 2.0]


def test_values_that_would_change_are_refused(db):
    time = pa.array([1], pa.timestamp("ns"))
    db.write("t", pa.table({"time": time, "n": pa.array([1], pa.int32())}))
    db.write("t", pa.table({"time": time, "n": [2.0]}))
    with pytest.raises(splay.SchemaError, match="would change"):
        db.write("t", pa.table({"time": time, "n": [2.5]}))
    with pytest.raises(splay.SchemaError, match="n"):
        db.write("t", pa.table({"time": time, "n": [2**40]}))
    with pytest.raises(splay.SchemaError, match="text"):
        db.write("t", pa.table({"time": time, "n": ["2"]}))
    assert stored(db)["n"].to_pylist() == [1, 2]


def test_columns_are_matched_without_regard_to_case_and_may_be_absent(db, trades):
    db.write("t", trades)
    db.write("t", trades.rename(columns=str.upper).drop(columns="PRICE"))
    assert db.table("t").rows == 8
    with pytest.raises(splay.SchemaError, match="venue.*add_column"):
        db.write("t", trades.assign(venue="N"))


def test_large_integers_in_levels_are_not_rounded(db):
    book = pa.array([[2**53 + 1, 1]], pa.list_(pa.int64(), 2))
    with pytest.raises(splay.SchemaError, match="would change"):
        db.write("t", pa.table({"time": pa.array([1], pa.timestamp("ns")), "book": book}))
