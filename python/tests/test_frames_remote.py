"""Frames of a server's tables are those of the database that it serves."""

import frame_day
import pytest

import splay
import test_server
from splay.frames.source import columns_of


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A client and the database that its server serves."""
    folder = tmp_path_factory.mktemp("served") / "db"
    db = splay.open(folder)
    db.write("trade", frame_day.trades())
    db.write("quote", frame_day.quotes())
    with test_server.Server(folder, "--read-only") as server, splay.connect(server.http) as client:
        yield client, db


FRAMES = {
    "filter": lambda db: db["trade"].filter(splay.col("price") > 100).sort("time", "symbol", "price"),
    "bars": lambda db: db["trade"].bars("5m", fill="previous").returns().sort("symbol", "time"),
    "as-of": lambda db: db["trade"].asof_join(db["quote"], tolerance="1m").sort("time", "symbol", "price"),
    "window": lambda db: db["trade"].window_join(db["quote"], "5s", n=splay.count()).sort("time", "symbol", "price"),
    "latest": lambda db: db["quote"].latest().sort("symbol"),
    "pivot": lambda db: db["trade"].pivot("side", splay.col("size").sum(), "symbol").sort("symbol"),
    "session": lambda db: db["trade"].between_time("10:00", "11:00", "America/New_York").sort("time", "symbol", "price"),
    "rolling": lambda db: db["trade"].rolling("5m").agg(n=splay.count()).sort("time", "symbol", "price"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_answers_are_the_same(both, name):
    client, db = both
    remote, local = FRAMES[name](client), FRAMES[name](db)
    assert remote.sql() == local.sql()
    assert remote.pl().equals(local.pl())
    assert remote.fetchall() == local.fetchall()
    assert len(remote) == len(local)


def test_a_client_says_what_there_is(both):
    client, db = both
    assert client.tables() == ["quote", "trade"]
    table = client.table("TRADE")
    assert (table.name, table.rows, table.time, table.symbol) == ("trade", 400, "time", "symbol")
    assert table.dates == ("2024-01-02", "2024-01-02")
    assert table.columns["price"] == "float64"
    assert "trade" in client and "nope" not in client
    for ask in (repr, lambda shown: shown._repr_html_()):
        assert ask(client["trade"]) == ask(db["trade"])
        assert ask(client["trade"].bars("1m")) == ask(db["trade"].bars("1m"))
        assert ask(table) == ask(db.table("trade")).replace("splay.Table", "splay.RemoteTable")
    assert repr(client).splitlines() == [f'<splay.Client "{client.url}">', *repr(db).splitlines()[1:]]
    assert list(client) == list(db) == ["quote", "trade"]
    for ask in (client.table, client.__getitem__):
        with pytest.raises(splay.NoSuchTableError):
            ask("nope")


def test_a_client_that_reaches_no_server_shows_why():
    client = splay.connect("http://127.0.0.1:9", timeout_seconds=2)
    assert repr(client).startswith('<splay.Client "http://127.0.0.1:9">\n  UnreachableError  ')
    assert "UnreachableError" in client._repr_html_()


def test_types_have_the_names_of_local_ones(both):
    client, db = both
    values = (
        "true", "1::tinyint", "1::smallint", "1::int", "1", "1::utinyint", "1::usmallint", "1::uinteger", "1::ubigint", "1::float", "1.5::double",
        "'a'", "DATE '2024-01-01'", "TIME '10:00'", "TIMESTAMP '2024-01-01'", "now()", "1.5::decimal(10,2)", "INTERVAL '1 day'", "now() - now()",
        "[1.0]", "['a']", "[[1]]", "[now()]", "{'a': 1}", "null", "arrow_cast('a', 'LargeUtf8')", "arrow_cast('a', 'Dictionary(Int32, Utf8)')",
        "arrow_cast('a', 'Dictionary(Int64, Utf8)')", "arrow_cast(now(), 'Timestamp(ms, \"America/New_York\")')", "arrow_cast('a', 'Binary')",
        "arrow_cast([1.0], 'FixedSizeList(2, Float64)')", "arrow_cast([1], 'FixedSizeList(1, Int64)')", "arrow_cast(TIME '10:00', 'Time64(µs)')",
    )  # fmt: skip
    for value in values:
        statement = (
            f"select {value} as x" if "FixedSizeList(2" not in value else "select arrow_cast([1.0, 2.0], 'FixedSizeList(2, Float64)') as x"
        )
        assert columns_of(client, statement) == columns_of(db, statement)
    assert client["trade"].dtypes == db["trade"].dtypes == {**client.table("trade").columns, "date": "date"}


def test_partitions_are_those_of_the_table(both):
    client, db = both
    found, expected = client.table("trade").partitions, db.table("trade").partitions
    assert [(p.date, p.rows, p.segments, p.bytes) for p in found] == [(p.date, p.rows, p.segments, p.bytes) for p in expected]


def test_prepared_statements_are_run_with_values(both):
    client, db = both
    text = "select count(*) from trade where symbol = $1 and size > $2"
    prepared, local = client.prepare(text), db.prepare(text)
    assert prepared.text == local.text
    for values in (["A", 100], ["B", 300]):
        assert prepared.run(values).fetchall() == local.run(values).fetchall()
    with pytest.raises(AttributeError, match=r"use run\(params\).df\(\)"):
        prepared.df()


def test_answers_have_the_methods_of_local_ones(both):
    client, _ = both
    assert client.sql("select 1 as x, 'a' as y").fetchall() == [(1, "a")]
    assert client.sql("select * from trade").head(3).num_rows == 3
    assert client.sql("select 1 as x").pl().rows() == client.sql("select 1 as x").df().to_records(index=False).tolist()
    with client.sql("select * from trade") as answer:
        assert "unread" in repr(answer) and "symbol" in answer._repr_html_()
    with pytest.raises(splay.ConsumedError):
        answer.to_arrow()
    assert len(client["trade"]) == 400


def test_files_and_servers_do_not_mix(both, tmp_path):
    client, db = both
    db["trade"].drop("date").to_parquet(tmp_path / "t.parquet")
    for other, place in ((db["quote"], "the database"), (splay.scan(tmp_path / "t.parquet"), "files here")):
        with pytest.raises(splay.FrameError) as caught:
            client["trade"].asof_join(other)
        assert str(caught.value).startswith(f"one statement can't read the server {client.url} and {place}") and "\n" not in str(
            caught.value
        )
    with pytest.raises(splay.FrameError, match="can't read"):
        client["trade"].join(splay.scan(tmp_path / "t.parquet"), "symbol")
