"""Prepared statements, and which statements run as tick plans."""

import datetime

import pyarrow as pa
import pytest

import splay


@pytest.fixture
def db(tmp_path):
    opened = splay.open(tmp_path / "db")
    start = datetime.datetime(2024, 1, 2, 10, tzinfo=datetime.UTC)
    rows = 1000
    frame = pa.table(
        {
            "ts": pa.array([start + datetime.timedelta(seconds=n) for n in range(rows)], pa.timestamp("ns", "UTC")),
            "sym": pa.array([["A", "B", "C"][n % 3] for n in range(rows)]).dictionary_encode(),
            "price": pa.array([100.0 + n % 7 for n in range(rows)]),
        }
    )
    opened.write("trade", frame, time="ts", symbol="sym")
    return opened


def test_a_prepared_statement_runs_with_other_values(db):
    prepared = db.prepare("select count(*) as n, max(price) as top from trade where sym = $1 and price < $2")
    assert prepared.text.startswith("select count")
    for symbol, below in [("A", 103.5), ("B", 200.0), ("none", 1.0)]:
        expected = db.sql(f"select count(*) as n, max(price) as top from trade where sym = '{symbol}' and price < {below}")
        assert prepared.run([symbol, below]).to_arrow() == expected.to_arrow()


def test_a_prepared_statement_with_names(db):
    prepared = db.prepare("select count(*) as n from trade where sym = $symbol")
    assert prepared.run({"symbol": "C"}).to_arrow().to_pylist() == [{"n": 333}]
    with pytest.raises(splay.StatementError):
        prepared.run().to_arrow()


def test_a_prepared_statement_sees_commits(db):
    prepared = db.prepare("select count(*) as n from trade")
    before = prepared.run().to_arrow().to_pylist()[0]["n"]
    later = pa.table(
        {
            "ts": pa.array([datetime.datetime(2024, 1, 3, tzinfo=datetime.UTC)], pa.timestamp("ns", "UTC")),
            "sym": pa.array(["A"]).dictionary_encode(),
            "price": [1.0],
        }
    )
    db.write("trade", later, time="ts", symbol="sym")
    assert prepared.run().to_arrow().to_pylist()[0]["n"] == before + 1


def test_explain_says_which_way_a_statement_runs(db):
    def tick_plan(text):
        rows = db.sql(f"explain {text}").to_arrow().to_pylist()
        return next(row["plan"] for row in rows if row["plan_type"] == "tick_plan")

    plan = tick_plan("select sym, time_bucket(interval '1 minute', ts) m, last(price) from trade where sym = 'A' group by 1, 2")
    assert "AggregateTable: by [symbol, time bucket], [Last], bounds=[symbol], filter=none" in plan
    assert tick_plan("select nth_value(price, 2 order by price) from trade").startswith("none, because of the aggregate")
    assert tick_plan("select now()").startswith("none, because of now")
    assert tick_plan("select 1").startswith("Project: 1 columns")
