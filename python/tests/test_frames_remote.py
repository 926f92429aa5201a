"""Frames of a server's tables are those of the database that it serves."""

import frame_day
import pytest

import splay
import test_server


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
    client, _ = both
    assert client.tables() == ["quote", "trade"]
    table = client.table("TRADE")
    assert (table.name, table.rows, table.time, table.symbol) == ("trade", 400, "time", "symbol")
    assert table.dates == ("2024-01-02", "2024-01-02")
    assert table.columns["price"] == "float64"
    assert "trade" in client and "nope" not in client
    assert repr(client["trade"]).count("\n") >= 5
    for ask in (client.table, client.__getitem__):
        with pytest.raises(splay.NoSuchTableError):
            ask("nope")


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
    with pytest.raises(splay.FrameError, match="can't read"):
        client["trade"].join(splay.scan(tmp_path / "t.parquet"), "symbol")
