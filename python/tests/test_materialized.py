"""Materialized views in the command, in Python, on a server that captures, for tools and in backups."""

import pathlib
import subprocess
import time

import adbc_driver_flightsql.dbapi as adbc
import pytest
from test_changes import market, rows_of
from test_server import SPLAY, Server

import splay

__all__ = ["market"]

QUERY = "select time_bucket('1 hour', time) as hour, sym, sum(size) as volume, max(price) as high from trade group by hour, sym"


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SPLAY, *map(str, arguments)], capture_output=True, text=True, check=False)


def same(db: splay.Database) -> bool:
    return sorted(rows_of(db.sql("select * from hours")), key=repr) == sorted(rows_of(db.sql(QUERY)), key=repr)


def test_views_keep_up_with_what_other_processes_do(market: splay.Database, tmp_path: pathlib.Path) -> None:
    place = tmp_path / "db"
    market.sql(f"create materialized view hours as {QUERY}")
    assert same(market)
    other = splay.open(place)
    other.sql("delete from trade where sym = 'A' and size > 500")
    assert same(market) and same(other)
    told = command("maintain", place, "--dry-run")
    assert "would be refreshed" in told.stdout and "hours: 0 parts" not in told.stdout, told.stderr
    assert command("maintain", place).returncode == 0
    assert "hours: 0 parts of 0 rows would be refreshed" in command("maintain", place, "--dry-run").stdout
    assert same(market) and same(other)
    # Undone, and with rows by a frame.
    undone = next(line.split()[0] for line in command("loads", place, "trade").stdout.splitlines() if "delete" in line)
    assert command("undo", place, "trade", undone).returncode == 0
    assert same(market) and same(other)
    market.write("trade", market.sql("select * exclude (date) from trade limit 50").df(), time="time", symbol="sym")
    assert same(market) and same(other)
    other.sql("refresh materialized view hours")
    assert same(market)


def test_frames_and_tools_read_them_as_tables(market: splay.Database, tmp_path: pathlib.Path) -> None:
    market.sql(f"create materialized view hours as {QUERY}")
    frame = market["hours"].filter(splay.col("sym") == "B").group_by("sym").agg(v=splay.col("volume").sum())
    expected = rows_of(market.sql("select sym, sum(size) from trade where sym = 'B' group by sym"))
    assert rows_of(frame) == expected
    market.sql("delete from trade where sym = 'B' and size < 500")
    assert rows_of(frame) == rows_of(market.sql("select sym, sum(size) from trade where sym = 'B' group by sym")) != expected
    with Server(tmp_path / "db", "--read-only") as server:
        with adbc.connect(server.flight) as connection, connection.cursor() as cursor:
            (catalog,) = connection.adbc_get_objects(depth="all").read_all().to_pylist()
            kinds = {table["table_name"]: table["table_type"] for table in catalog["catalog_db_schemas"][0]["db_schema_tables"]}
            assert kinds == {"trade": "TABLE", "hours": "VIEW", "hours.rows": "TABLE"}
            cursor.execute("select sum(volume) from hours where sym = ?", ["B"])
            assert cursor.fetchall() == market.sql("select sum(size) from trade where sym = 'B'").fetchall()
        assert rows_of(splay.connect(server.http)["hours"]) == rows_of(market.sql("select * from hours"))


def test_a_server_refreshes_views_of_what_it_captures(tmp_path: pathlib.Path) -> None:
    config = "[views]\nrefresh_seconds = 1\n[capture]\nwrite_down_age_s = 1\n"
    start = 1767225600 * 10**9
    with Server(tmp_path / "db", config=config) as server:
        server.line(b"".join(b"trade,sym=A price=1.5,size=1i %d\n" % (start + n * 10**9) for n in range(100)))
        view = "create materialized view minutes as select time_bucket('1 minute', time) as m, sum(size) as n from trade group by m"
        for _ in range(600):
            if server.send("/query", b"select count(*) from trade")[0] == 200 and server.query("select count(*) from trade") == [[100]]:
                break
            time.sleep(0.05)
        assert server.query(view)[0][0] == "CREATE MATERIALIZED VIEW"
        assert server.query("select sum(n), count(*) from minutes") == [[100, 2]]
        server.line(b"".join(b"trade,sym=B price=1.5,size=1i %d\n" % (start + n * 10**9) for n in range(100, 180)))
        for _ in range(600):
            if server.query("select count(*) from trade") == [[180]]:
                break
            time.sleep(0.05)
        # Live rows are there at once, kept or not.
        assert server.query("select sum(n), count(*) from minutes") == [[180, 3]]
        for _ in range(1200):
            if server.query('select coalesce(sum(n), 0) from "minutes.rows"') == [[180]]:
                break
            time.sleep(0.05)
        else:
            pytest.fail(f"the view was never refreshed: {server.logged()}")
        assert server.query("select sum(n), count(*) from minutes") == [[180, 3]]
        status, body = server.send("/write", b"minutes.rows,sym=C n=7i 1767225600000000002\n")
        assert status == 400 and b"materialized view" in body, body
        server.process.kill()
        server.process.wait()
        again = splay.open(tmp_path / "db")
        assert again.sql("select sum(n), count(*) from minutes").fetchall() == [(180, 3)]
        # What the end of the block looks at.
        server.process = subprocess.Popen(["true"])
        server.process.wait()


def test_they_are_backed_up_with_their_rows(market: splay.Database, tmp_path: pathlib.Path) -> None:
    market.sql(f"create materialized view hours as {QUERY}")
    assert command("backup", tmp_path / "db", tmp_path / "backups").returncode == 0
    assert command("restore", tmp_path / "backups", tmp_path / "again").returncode == 0
    again = splay.open(tmp_path / "again")
    assert same(again)
    assert "hours: 0 parts" in command("maintain", tmp_path / "again", "--dry-run").stdout
    again.sql("drop materialized view hours")
    assert again.tables() == ["trade"]
