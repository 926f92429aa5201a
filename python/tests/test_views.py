"""Views: queries under names, in the command, in Python, on a server, for tools, in backups."""

import pathlib
import subprocess

import adbc_driver_flightsql.dbapi as adbc
import pytest
import sqlalchemy as sa
from test_changes import duckdb_with_trades, market, rows_of
from test_server import SPLAY, Server

import splay

__all__ = ["market"]

VIEWS = [
    "create view large as select * from trade where size >= 300",
    "create view dear (sym, price, note) as select sym, price, note from trade where price > 50",
    "create view by_symbol as select sym, count(*) as n, sum(size) as volume from large group by sym",
    "create view shares as select l.sym, l.size, b.volume from large l join by_symbol b on l.sym = b.sym",
]

STATEMENTS = [
    "select count(*), sum(size), max(price) from large",
    "select sym, price from dear where note = 'x'",
    "select * from by_symbol where n > 10",
    "select sym, sum(size * 1.0 / volume) from shares group by sym",
    "select sym, n, rank() over (order by n) from by_symbol",
    "select t.size from trade t where t.sym in (select sym from by_symbol where volume > 20000) and t.size > 900",
    "select l.size, d.price from large l, dear d where l.note = d.note and l.size > 990 and d.price > 99",
    "select sym from large union select sym from dear",
    "with x as (select * from shares) select max(volume) from x",
    "select (select max(volume) from by_symbol) - sum(size) from large",
    "select sym, size, lag(size) over (partition by sym order by time, size, price) from large where sym = 'B'",
]


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SPLAY, *map(str, arguments)], capture_output=True, text=True, check=False)


def test_views_answer_as_duckdbs_do(market: splay.Database, tmp_path: pathlib.Path) -> None:
    con = duckdb_with_trades()
    for view in VIEWS:
        assert market.sql(view).to_arrow().to_pylist() == [{"statement": "CREATE VIEW", "rows": 0, "commit": None}]
        con.execute(view)
    # Another one has them as well.
    others = [market, splay.open(tmp_path / "db", threads=1)]
    for statement in STATEMENTS:
        expected = sorted((tuple(row) for row in con.execute(statement).fetchall()), key=repr)
        for db in others:
            found = rows_of(db.sql(statement))
            assert len(found) == len(expected), statement
            for row, other in zip(found, expected):
                numbers = [isinstance(value, float) or hasattr(value, "as_tuple") for value in row]
                assert [v for v, is_float in zip(row, numbers) if not is_float] == [
                    v for v, is_float in zip(other, numbers) if not is_float
                ], statement
                assert [float(v) for v, is_float in zip(row, numbers) if is_float] == pytest.approx(
                    [float(v) for v, is_float in zip(other, numbers) if is_float]
                ), statement


def test_a_statement_has_the_plan_of_its_views_as_they_are(market: splay.Database, tmp_path: pathlib.Path) -> None:
    market.sql("create view part as select sym, size from trade where size >= 500")
    told = "\n".join(row[1] for row in market.sql("explain select sym, sum(size) from part group by sym").fetchall())
    assert "none, because" not in told and "tick_plan" in str(market.sql("explain select count(*) from part").fetchall())
    total = "select count(*) from part"
    for least in (500, 900, 0):
        splay.open(tmp_path / "db").sql(f"create or replace view part as select size from trade where size >= {least}")
        expected = market.sql(f"select count(*) from trade where size >= {least}").fetchall()
        assert market.sql(total).fetchall() == expected
    market.sql("insert into trade select * exclude (date) from trade where size = 999")
    assert market.sql(total).fetchall() == market.sql("select count(*) from trade where size >= 0").fetchall()


def test_a_server_has_views_for_those_who_may_write(tmp_path: pathlib.Path) -> None:
    with Server(tmp_path / "db") as server:
        server.line(b"trade,sym=A price=1.5,size=10i 1767225600000000000\ntrade,sym=B price=2.5,size=20i 1767225600000000001\n")
        for _ in range(200):
            status, _body = server.send("/query", b"select count(*) from trade")
            if status == 200 and server.query("select count(*) from trade") == [[2]]:
                break
        assert server.query("create view large as select sym, size from trade where size > 15") == [["CREATE VIEW", 0, None]]
        assert server.query("select * from large") == [["B", 20]]
        with adbc.connect(server.flight) as connection, connection.cursor() as cursor:
            (catalog,) = connection.adbc_get_objects(depth="all").read_all().to_pylist()
            kinds = {table["table_name"]: table["table_type"] for table in catalog["catalog_db_schemas"][0]["db_schema_tables"]}
            assert kinds == {"trade": "TABLE", "large": "VIEW"}
            assert connection.adbc_get_table_schema("large").names == ["sym", "size"]
            cursor.execute("select size from large where sym = ?", ["B"])
            assert cursor.fetchall() == [(20,)]
        status, body = server.send("/query?sql=drop%20view%20large")
        assert status in (400, 403, 405), body
        # Rows of a table that would have the name are refused before they are acknowledged.
        status, body = server.send("/write", b"large,sym=C price=7 1767225600000000002\n")
        assert status == 400 and b"a view has this name" in body
        assert server.query("select sym from large") == [["B"]]
        client = splay.connect(server.http)
        assert client.sql("select count(*) from trade").fetchall() == [(2,)]


def test_tools_see_views(market: splay.Database, tmp_path: pathlib.Path) -> None:
    for view in VIEWS:
        market.sql(view)
    engine = sa.create_engine(f"splay:///{tmp_path / 'db'}")
    told = sa.inspect(engine)
    assert told.get_table_names() == ["trade"]
    assert told.get_view_names() == ["by_symbol", "dear", "large", "shares"]
    assert told.get_view_definition("large") == "select * from trade where size >= 300"
    assert told.has_table("by_symbol") and told.get_pk_constraint("by_symbol")["constrained_columns"] == []
    types = {column["name"]: type(column["type"]) for column in told.get_columns("by_symbol")}
    assert types == {"sym": sa.String, "n": sa.BigInteger, "volume": sa.BigInteger}
    view = sa.Table("by_symbol", sa.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        assert len(connection.execute(sa.select(view.c.sym).where(view.c.n > 0)).fetchall()) >= 3
    shell = command("sql", tmp_path / "db", "show tables; describe by_symbol")
    assert shell.returncode == 0 and "VIEW" in shell.stdout and "volume" in shell.stdout, shell.stderr
    # What the database has, without the tables that describe it.
    assert "information_schema" not in shell.stdout


def test_frames_begin_at_views(market: splay.Database, tmp_path: pathlib.Path) -> None:
    for view in VIEWS:
        market.sql(view)
    large = market["large"]
    expected = rows_of(market.sql("select sym, sum(size) as s from large where price > 20 group by sym"))
    found = large.filter(splay.col("price") > 20).group_by("sym").agg(s=splay.col("size").sum())
    assert rows_of(found) == expected
    assert large.bars("1h", by="sym", price="price", size="size").df().shape[0] > 10
    joined = market["trade"].join(market["by_symbol"], on="sym").filter(splay.col("n") > 0)
    assert len(joined.df()) == len(market.sql("select 1 from trade t join by_symbol b on t.sym = b.sym where n > 0").fetchall())
    with pytest.raises(splay.errors.NoSuchTableError, match="by_symbol"):
        market["nothing"]
    with Server(tmp_path / "db") as server:
        client = splay.connect(server.http)
        assert rows_of(client["by_symbol"].select("sym", "n")) == rows_of(market.sql("select sym, n from by_symbol"))


def test_views_are_backed_up_and_checked(market: splay.Database, tmp_path: pathlib.Path) -> None:
    db, backups = tmp_path / "db", tmp_path / "backups"
    assert command("backup", db, backups).returncode == 0
    market.sql("create view large as select * from trade where size >= 300")
    expected = market.sql("select count(*) from large").fetchall()
    assert command("backup", db, backups).returncode == 0
    assert command("restore", backups, tmp_path / "again").returncode == 0
    assert splay.open(tmp_path / "again").sql("select count(*) from large").fetchall() == expected
    file = db / "views.json"
    file.write_text(file.read_text().replace("300", "301"))
    told = command("verify", db)
    assert told.returncode == 1 and "views.json" in told.stdout
    assert command("backup", db, backups).returncode == 1
    # What reads tables alone goes on.
    assert splay.open(db).sql("select count(*) from trade").fetchall() == [(400,)]
    with pytest.raises(splay.errors.CorruptError, match=r"views\.json"):
        splay.open(db).sql("select count(*) from large")
    with pytest.raises(splay.errors.CorruptError, match=r"views\.json"):
        splay.open(db).sql("create view other as select 1 as x")
