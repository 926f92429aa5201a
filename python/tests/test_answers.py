"""Answers are read once, as they are made, and tell what they cost."""

import gc
import sys

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import splay

ROWS = 100_000


@pytest.fixture
def many(db):
    time = pa.array(range(ROWS), pa.timestamp("ns"))
    db.write("t", pa.table({"time": time, "sym": ["A"] * ROWS, "n": pa.array(range(ROWS))}))
    return db


def test_batches_come_one_by_one(many):
    answer = many.sql("select n from t")
    batches = iter(answer)
    first = next(batches)
    assert isinstance(first, pa.RecordBatch)
    assert 0 < first.num_rows < ROWS
    assert answer.stats.rows_returned == first.num_rows
    assert first.num_rows + sum(batch.num_rows for batch in batches) == ROWS
    assert answer.stats.rows_returned == ROWS


def test_leaving_early_stops_the_statement_and_keeps_its_stats(many):
    answer = many.sql("select a.n from t a cross join t b")
    for batch in answer:
        break
    gc.collect()
    seen = answer.stats
    assert seen.rows_returned == batch.num_rows
    assert answer.stats.execution_seconds == seen.execution_seconds


@pytest.mark.parametrize("first", ["to_arrow", "to_pandas", "to_polars", "__iter__"])
def test_a_second_reading_is_refused(many, first):
    answer = many.sql("select n from t")
    assert "unread" in repr(answer)
    kept = getattr(answer, first)()
    assert "were read" in repr(answer)
    for again in (answer.to_arrow, answer.to_pandas, answer.to_polars, answer.__arrow_c_stream__, lambda: iter(answer)):
        with pytest.raises(splay.ConsumedError, match="read before; run the statement again"):
            again()
    del kept


def test_other_libraries_read_the_stream(many):
    statement = "select n from t where n < 1000"
    expected = list(range(1000))
    assert pa.table(many.sql(statement))["n"].to_pylist() == expected
    assert pa.RecordBatchReader.from_stream(many.sql(statement)).read_all()["n"].to_pylist() == expected
    assert pl.DataFrame(many.sql(statement))["n"].to_list() == expected
    assert pl.from_arrow(many.sql(statement)).struct.field("n").to_list() == expected
    assert pd.DataFrame.from_arrow(many.sql(statement))["n"].tolist() == expected


def test_two_streams_of_one_answer_do_not_share_its_rows(many):
    answer = many.sql("select n from t")
    first, second = pa.RecordBatchReader.from_stream(answer), pa.RecordBatchReader.from_stream(answer)
    first.read_next_batch()
    with pytest.raises(pa.ArrowException, match="read before"):
        second.read_next_batch()


def test_schema_and_columns_are_known_before_the_rows(many):
    answer = many.sql("select n as Number, sym, time, n / 2.0 as half from t")
    assert answer.columns == ["Number", "sym", "time", "half"]
    assert answer.schema.types == ["int64", "symbol", "timestamp", "float64"]
    assert answer.schema["half"] == "float64"
    assert answer.schema.to_arrow().field("time").type == pa.timestamp("ns", "UTC")
    assert pa.schema(answer).names == answer.columns
    with pytest.raises(KeyError):
        answer.schema["nothing"]


def test_stats_say_what_was_passed_over(many):
    answer = many.sql("select count(*) as n from t where time < timestamp '1970-01-01 00:00:00.000001'")
    assert answer.to_arrow()["n"].to_pylist() == [1000]
    stats = answer.stats
    assert stats.planning_seconds > 0
    assert stats.rows_returned == 1
    assert 0 < stats.blocks.kept < stats.blocks.total
    assert stats.rows_scanned < ROWS
    assert (stats.partitions.kept, stats.partitions.total) == (1, 1)
    assert "rows_scanned" in repr(stats)


def test_answers_outlive_their_database(tmp_path):
    answer = splay.open(tmp_path).sql("select 1 as one")
    gc.collect()
    assert answer.to_arrow()["one"].to_pylist() == [1]


def test_a_missing_package_is_named(many, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    answer = many.sql("select 1 as one")
    with pytest.raises(ImportError, match="pip install polars"):
        answer.to_polars()
    assert answer.to_arrow().num_rows == 1


def test_categories_are_distinct_where_batches_were_joined(tmp_path):
    db = splay.open(tmp_path, threads=4)
    for part in range(4):
        time = pa.array(range(part * 10**14, part * 10**14 + 100), pa.timestamp("ns"))
        db.write("t", pa.table({"time": time, "sym": ["A", "B"] * 50, "n": [part] * 100}))
    found = db.sql("select sym, date, sum(n) as n from t group by sym, date order by date, sym").to_pandas()
    assert found["sym"].tolist() == ["A", "B"] * found["date"].nunique()
    assert sorted(found["sym"].cat.categories) == ["A", "B"]
