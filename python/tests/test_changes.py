"""Statements and calls that change rows: what they leave is what DuckDB leaves, and what they did can be undone."""

import datetime
import random
import subprocess
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from test_server import SPLAY, Server, eventually

import splay


START = datetime.datetime(2024, 3, 4, 9, 30, tzinfo=datetime.UTC)
COLUMNS = "time, sym, price, size, note"


def frame(seed: int, rows: int = 400) -> pa.Table:
    rng = random.Random(seed)
    times = [START + datetime.timedelta(seconds=rng.randrange(0, 4 * 86_400)) for _ in range(rows)]
    return pa.table(
        {
            "time": pa.array(times, pa.timestamp("ns", "UTC")),
            "sym": pa.array([rng.choice(["A", "B", "C", None]) for _ in times]).dictionary_encode(),
            "price": pa.array([rng.choice([None, rng.uniform(1, 100)]) for _ in times], pa.float64()),
            "size": pa.array([rng.choice([None, rng.randrange(0, 1000)]) for _ in times], pa.int64()),
            "note": pa.array([rng.choice([None, "", "x", "it's"]) for _ in times]),
        }
    )


def duckdb_with_trades() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute("set timezone = 'UTC'")
    trades = frame(1)
    con.register("source", trades.set_column(0, "time", trades["time"].cast(pa.timestamp("us"))))
    con.execute("create table trade as select time, sym::varchar as sym, price, size, note from source")
    return con


def rows_of(answer: splay.Answer) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in answer.to_arrow().to_pylist()), key=repr)


@pytest.fixture
def market(tmp_path: Path) -> splay.Database:
    db = splay.open(tmp_path / "db")
    db.write("trade", frame(1), time="time", symbol="sym")
    return db


def everything(db: splay.Database, table: str = "trade") -> list[tuple[object, ...]]:
    return rows_of(db.sql(f"select {COLUMNS} from {table}"))


CONDITIONS = [
    "size < 500",
    "size < 500 or price is null",
    "not (size < 500)",
    "sym = 'A'",
    "sym is null",
    "sym in ('A', 'B') and price > 50.5",
    "note = 'it''s' or note = ''",
    "time >= '2024-03-05 12:00' and time < '2024-03-06 12:00:00'",
    "time::date = date '2024-03-05'",
    "coalesce(size, 0) % 2 = 0",
    "case when price > 50 then size > 100 else sym = 'C' end",
    "size between 100 and 900 and note like '%x%'",
    "true",
    "false",
    "null",
    "size = 1e9",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_deletion_leaves_what_duckdb_leaves(market: splay.Database, condition: str) -> None:
    con = duckdb_with_trades()
    deleted = con.execute(f"delete from trade where {condition}").fetchone()[0]
    before = everything(market)
    answer = market.sql(f"delete from trade where {condition}").to_arrow().to_pylist()
    assert answer[0]["statement"] == "DELETE"
    assert answer[0]["rows"] == deleted
    left = con.execute("select count(*), sum(size), sum(price), count(note) from trade").fetchone()
    found = market.sql("select count(*), sum(size), sum(price), count(note) from trade").to_arrow().to_pylist()[0]
    for ours, theirs in zip(found.values(), left, strict=True):
        assert ours == (pytest.approx(theirs) if theirs is not None else None)
    if answer[0]["commit"] is not None:
        market.table("trade").undo(answer[0]["commit"])
    assert everything(market) == before


@pytest.mark.parametrize("condition", CONDITIONS[:12])
@pytest.mark.parametrize(
    "assignments", ["size = size * 2, note = 'new'", "price = null", "sym = 'Z', time = time + interval '1 day'"]
)
def test_an_update_leaves_what_duckdb_leaves(market: splay.Database, condition: str, assignments: str) -> None:
    con = duckdb_with_trades()
    con.execute(f"update trade set {assignments} where {condition}")
    market.sql(f"update trade set {assignments} where {condition}")
    theirs = con.execute("select epoch_ns(time), sym, price, size, note from trade").fetchall()
    ours = market.sql("select cast(time as bigint), sym, price, size, note from trade").to_arrow().to_pylist()
    assert sorted((tuple(row.values()) for row in ours), key=repr) == sorted(theirs, key=repr)


def test_changes_give_rows_by_returning(market: splay.Database) -> None:
    inserted = market.sql("insert into trade (time, sym, size) values ('2024-03-04 10:00', 'RET', 1), ('2024-03-04 11:00', 'RET', 2) returning sym, size * 10 as n")
    assert inserted.to_arrow().to_pylist() == [{"sym": "RET", "n": 10}, {"sym": "RET", "n": 20}]
    updated = market.sql("update trade set size = size + $1 where sym = 'RET' and size = 2 returning size", [5])
    assert updated.fetchall() == [(7,)]
    with pytest.raises(splay.StatementError, match="an aggregate"):
        market.sql("delete from trade returning count(*)")
    assert market.sql("delete from trade where sym = 'RET' returning size").fetchall() == [(1,), (7,)]
    assert market.sql("delete from trade where sym = 'RET' returning *").fetchall() == []


def test_rows_are_inserted_by_values_and_by_queries(market: splay.Database) -> None:
    done = market.sql(
        "insert into trade (sym, time, size) values ('N', '2024-03-04 10:00', 1), ('N', '2024-03-04 09:00:00', null)"
    )
    assert done.to_arrow().to_pylist()[0]["rows"] == 2
    found = market.sql("select time, size, price, note from trade where sym = 'N' order by time").to_arrow().to_pylist()
    assert [row["time"].hour for row in found] == [9, 10]
    assert [row["size"] for row in found] == [None, 1]
    market.sql("insert into trade select time, 'M' as sym, price, size, note from trade where sym = 'A'")
    counts = market.sql("select count(*) filter (where sym = 'A') as a, count(*) filter (where sym = 'M') as m from trade")
    row = counts.to_arrow().to_pylist()[0]
    assert row["a"] == row["m"] > 0
    market.sql("update trade set size = ?, note = ? where sym = ? and size = ?", [7, "changed", "N", 1])
    found = market.sql("select size, note from trade where sym = 'N' and note is not null").to_arrow().to_pylist()
    assert found == [{"size": 7, "note": "changed"}]
    assert market.sql("delete from trade where sym = ? and size = ?", ["N", 7]).to_arrow().to_pylist()[0]["rows"] == 1
    with_value = market.sql("insert into trade (time, sym) values ($1, $2)", [START, "P"]).to_arrow().to_pylist()
    assert with_value[0]["rows"] == 1


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("insert into trade (time, size) values ('2024-03-04', 1.5)", "1.5 is no Int64"),
        ("insert into trade (sym) values ('A')", "needs a time"),
        ("insert into trade (time, sym) values (null, 'A')", "needs a time"),
        ("insert into trade (time, time) values ('2024-03-04', '2024-03-04')", "named twice"),
        ("insert into trade (time, other) values ('2024-03-04', 1)", "no column"),
        ("insert into trade values (1)", "gives 1 columns"),
        ("insert into trade (time, size) values ('no time', 1)", "no time"),
        ("insert into nothing values (1)", "no table"),
        ("update trade set size = 'many'", "many"),
        ("update trade set size = (select max(size) from trade group by sym)", "more than one row"),
        ("update trade set time = null where size > 5", "needs a time"),
        ("delete from trade where sym in (select sym from trade) limit 3", "query within the condition"),
        ("delete from trade where sym in (select nothing from trade)", "nothing"),
        ("delete from trade where random() > 0.5", "changes from call to call"),
        ("delete from trade where size > 5 limit 3", "can't stand"),
        ("delete from trade where size > 5 order by size limit 3", "can't stand"),
        ("delete from trade where true group by sym", "."),
        ("delete from trade where size > 5 union select * from trade", "can't stand"),
        ("delete from trade where nothing = 1", "nothing"),
        ("create table trade (time timestamp)", "already"),
        ("create table t (time timestamp) with (tier = 'x')", "is not a tier"),
        ("create table t (time timestamp) with (colour = 'x')", "no option"),
        ("create table t as select null as a, now() as time", "has no type"),
        ("create index i on trade (sym)", "not supported"),
        ("insert into trade (time) values ('2024-03-04') on conflict do nothing", "ON CONFLICT"),
        ("drop table nothing", "no table"),
        ("alter table trade drop column time", "orders the rows"),
        ('alter table trade rename to "a b"', "only A-Z"),
        ("alter table trade rename to trade", "a table has this name"),
        ("alter table nothing rename to other", "no table"),
        ("alter view trade rename to other", "no view"),
        ("alter table trade alter column price type int8", "doesn't widen"),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(market: splay.Database, statement: str, part: str) -> None:
    before = everything(market)
    with pytest.raises(splay.Error, match=part):
        market.sql(statement)
    assert everything(market) == before
    assert market.tables() == ["trade"]


def test_tables_are_made_altered_and_dropped(market: splay.Database) -> None:
    market.sql("create table if not exists note (at timestamp not null, sym symbol, text varchar) with (time = 'at')")
    market.sql("create table if not exists note (at timestamp)")
    table = market.table("note")
    assert (table.time, table.symbol) == ("at", "sym")
    market.sql("alter table note add column score double precision")
    market.sql("insert into note values ('2024-03-04', 'A', 'hello', 0.5)")
    market.sql("alter table note rename column text to remark")
    market.sql("alter table note drop column score")
    assert market.sql("select remark from note").to_arrow().column(0).to_pylist() == ["hello"]
    with pytest.raises(splay.SchemaError, match="older files still have that column"):
        market.sql("alter table note add column text varchar")
    market.sql("create table big as select time, sym as ticker, price from trade where size > 500")
    assert market.table("big").symbol == "ticker"
    assert market.sql("truncate table big").to_arrow().to_pylist()[0]["rows"] > 0
    market.sql("drop table big")
    market.sql("drop table if exists big")
    assert market.tables() == ["note", "trade"]
    with pytest.raises(splay.NoSuchTableError):
        market.sql("select * from big")


def test_tables_get_other_names(tmp_path: Path, market: splay.Database) -> None:
    before, reader = everything(market), splay.open(tmp_path / "db")
    assert everything(reader) == before
    answer = market.sql("alter table TRADE rename to tape").to_arrow().to_pylist()
    assert answer == [{"statement": "ALTER TABLE", "rows": 0, "commit": 2}]
    for db in (market, reader):
        assert db.tables() == ["tape"]
        assert everything(db, "tape") == before
        with pytest.raises(splay.NoSuchTableError):
            everything(db)
    # A table of the old name is another one, whose rows are its own.
    market.write("trade", frame(2, rows=10), time="time", symbol="sym")
    assert (market_count(reader), reader.table("tape").rows) == (10, 400)
    assert everything(market, "tape at commit 1") == before
    table = market.table("tape")
    renamed = table.rename("Tape")
    assert (renamed.name, renamed.rows, market.tables()) == ("Tape", 400, ["Tape", "trade"])
    with pytest.raises(splay.InvalidNameError, match="a table has this name"):
        renamed.rename("trade")
    market.sql("create view recent as select * from tape where time > '2024-03-05'")
    with pytest.raises(splay.ExecutionError, match="is read by the view recent"):
        renamed.rename("other")
    market.sql("drop view recent")
    # What was loaded before is undone under the name of now.
    assert renamed.rename("other").undo(1).removed == 400
    assert market.table("other").verify() == []


def test_the_command_lists_and_describes_views(tmp_path: Path, market: splay.Database) -> None:
    place = tmp_path / "db"
    assert run("tables", place).split("\n")[0].split() == ["table", "rows", "partitions", "dates", "size"]
    market.sql("create table venue (code symbol primary key, name text)")
    market.sql("create view dear as select time, sym, price from trade where price > 50")
    market.sql(
        "create materialized view bars as select time_bucket('1 minute', time) as bar, sym, max(price) as high from trade group by 1, 2"
    )
    market.sql("create view bare as select * from venue")
    listed = [line.split("  ") for line in run("tables", place).splitlines()]
    kinds = {line[0]: next(part for part in line[1:] if part).strip() for line in listed[1:]}
    assert [part.strip() for part in listed[0] if part][:3] == ["table", "kind", "rows"]
    assert kinds == {
        "trade": "table",
        "venue": "reference table",
        "bars.rows": "rows of bars",
        "bars": "materialized view",
        "bare": "view",
        "dear": "view",
    }
    dear = run("describe", place, "DEAR")
    assert "kind       view\n" in dear and dear.endswith("CREATE VIEW dear AS\nselect time, sym, price from trade where price > 50\n")
    assert [line.split() for line in dear.splitlines() if line.startswith(("time", "sym", "price"))] == [
        ["time", "timestamp"],
        ["sym", "symbol"],
        ["price", "float64"],
    ]
    bars = run("describe", place, "bars")
    assert "materialized view of trade" in bars and "rows in    bars.rows" in bars and "CREATE MATERIALIZED VIEW bars PARTITION BY" in bars
    assert "rows       " in run("describe", place, "bars.rows")
    refused = subprocess.run([SPLAY, "describe", str(place), "bars", "--storage"], capture_output=True, text=True, check=False)
    assert refused.returncode == 1 and "are in the table bars.rows" in refused.stderr
    # The statement makes the same view elsewhere.
    statement = bars[bars.index("CREATE MATERIALIZED") :]
    other = splay.open(tmp_path / "other")
    other.write("trade", frame(1), time="time", symbol="sym")
    other.sql(statement)
    assert statement in run("describe", tmp_path / "other", "bars")


def test_the_command_gives_tables_other_names(tmp_path: Path, market: splay.Database) -> None:
    place, backups = tmp_path / "db", tmp_path / "backups"
    before = everything(market)
    with market.capture() as capture:
        capture.append("trade", frame(3, rows=50), time="time", symbol="sym")
        command = [SPLAY, "alter", str(place), "trade", "rename", "tape"]
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
        assert refused.returncode != 0
        assert "only that server can change them: send the statement to the server" in " ".join(refused.stderr.split())
    run("backup", place, backups)
    run("alter", place, "trade", "rename", "tape")
    run("alter", place, "TAPE", "rename", "Tape")
    assert "sound" in run("verify", place)
    assert "load" in run("loads", place, "tape")
    assert len(everything(market, "tape")) == len(before) + 50
    run("backup", place, backups)
    run("restore", backups, tmp_path / "restored")
    restored = splay.open(tmp_path / "restored")
    assert restored.tables() == ["Tape"]
    assert everything(restored, "tape") == everything(market, "tape")
    # What the journal has under the old name is no other table's.
    with market.capture() as capture:
        assert market.tables() == ["Tape"]
        capture.append("trade", frame(4, rows=7), time="time", symbol="sym")
        capture.append("tape", frame(5, rows=5), time="time", symbol="sym")
    again = splay.open(place)
    assert (market_count(again), again.table("tape").rows) == (7, len(before) + 55)


def test_a_server_renames_and_drops_tables_that_it_captures(tmp_path: Path) -> None:
    with Server(tmp_path / "db") as server:
        server.line(b"trade,sym=A price=1.5 1710028800000000000\n")
        eventually(lambda: server.send("/query", b"select count(*) from trade")[0] == 200)
        assert server.query("alter table trade rename to tape")[0][0] == "ALTER TABLE"
        assert server.query("select count(*) from tape") == [[1]]
        server.send("/write", b"trade,sym=B price=2.5 1710028800000000001\n")
        eventually(lambda: server.query("select sym from trade") == [["B"]])
        status, body = server.send("/query", b"alter table tape rename column price to px")
        assert status == 200, body
        # Rows are in the table's column whether they came before or afterwards, and none under the old name.
        assert server.query("alter table trade rename column price to px")[0][0] == "ALTER TABLE"
        assert server.query("select sym, px from trade") == [["B", 2.5]]
        status, body = server.send("/write", b"trade,sym=C price=3.5 1710028800000000002\n")
        assert status == 400 and b'is called \\"px\\" now' in body, body
        server.send("/write", b"trade,sym=D px=4.5 1710028800000000003\n")
        eventually(lambda: server.query("select sym, px from trade order by time") == [["B", 2.5], ["D", 4.5]])
        assert server.query("drop table trade")[0][0] == "DROP TABLE"
        assert server.send("/query", b"select count(*) from trade")[0] == 404
        assert server.query("select count(*) from tape") == [[1]]


def test_a_table_is_read_as_it_was(market: splay.Database) -> None:
    before = everything(market)
    first = market.table("trade").epoch
    instant = market.table("trade").commits()[0].at
    market.sql("delete from trade where size > 100")
    after = everything(market)
    assert everything(market, f"trade at commit {first}") == before
    assert everything(market, f"trade AT COMMIT {first} AS t") == before
    time = datetime.datetime.fromtimestamp(instant / 1e9 + 0.000_01, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    assert everything(market, f"trade at time '{time}'") == before
    gone = market.sql(
        f"select count(*) as n from trade at commit {first} as old left join trade as new"
        " on old.time = new.time and old.sym = new.sym where new.time is null and old.sym is not null"
    )
    assert gone.to_arrow().to_pylist()[0]["n"] > 0
    assert everything(market) == after
    for wrong in ("trade at commit 99", "trade at time '1999-01-01'"):
        with pytest.raises(splay.NoSuchCommitError):
            everything(market, wrong)
    assert market.sql("select time at time zone 'UTC' as t from trade limit 1").to_arrow().num_rows == 1


def test_a_corrected_file_takes_the_place_of_the_wrong_one(tmp_path: Path) -> None:
    db = splay.open(tmp_path / "db")
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    first.write_text("time,sym,price\n2024-03-04 10:00:00,A,1\n2024-03-04 11:00:00,B,2\n2024-03-05 10:00:00,A,3\n")
    second.write_text("time,sym,price\n2024-03-04 10:00:00,A,10\n")
    db.load("trade", first, types={"sym": "symbol"})
    report = db.load("trade", second, replace="symbol")
    assert (report.rows, report.removed) == (1, 1)
    prices = "select price from trade order by time, sym"
    assert db.sql(prices).to_arrow().column(0).to_pylist() == [10, 2, 3]
    table = db.table("trade")
    table.undo(report.epoch)
    assert db.sql(prices).to_arrow().column(0).to_pylist() == [1, 2, 3]
    report = db.write("trade", db.sql("select time, sym, price * 2 as price from trade where sym = 'A'"), replace="date")
    assert (report.rows, report.removed) == (2, 3)
    assert [commit.operation for commit in table.commits()] == ["replace", "undo", "replace", "load"]
    with pytest.raises(ValueError, match="symbol"):
        db.write("trade", frame(2), replace="all")
    # A file whose rows were taken back may be loaded again.
    with pytest.raises(splay.AlreadyLoadedError):
        db.load("trade", first)
    with pytest.raises(splay.CannotUndoError, match="has undone it"):
        table.undo(2)


def test_dates_beyond_the_retention_go(market: splay.Database) -> None:
    table = market.table("trade")
    dates = [partition.date for partition in table.partitions]
    table.retain(days=2)
    assert table.expire(dry_run=True) == dates[:-2]
    assert [partition.date for partition in table.partitions] == dates
    assert table.expire() == dates[:-2]
    assert [partition.date for partition in table.partitions] == dates[-2:]
    assert table.forget(all=True) > 0
    with pytest.raises(splay.CannotUndoError, match="are gone"):
        table.undo(table.commits()[1].commit)
    with pytest.raises(splay.SchemaError, match="0 days"):
        table.retain(days=0)


def test_captured_rows_can_be_deleted_while_more_come(tmp_path: Path) -> None:
    db = splay.open(tmp_path / "db")
    with db.capture() as capture:
        for seed in range(3):
            capture.append("trade", frame(seed), time="time", symbol="sym")
        assert market_count(db) == 1200
        db.sql("delete from trade where size is null")
        left = market_count(db)
        assert left < 1200
        assert db.sql("select count(*) as n from trade where size is null").to_arrow().to_pylist()[0]["n"] == 0
        capture.append("trade", frame(7), time="time", symbol="sym")
        assert market_count(db) == left + 400
        commit = db.sql("drop table trade").to_arrow().to_pylist()[0]["commit"]
        assert db.tables() == []
    again = splay.open(tmp_path / "db")
    assert again.tables() == []
    run("undo", tmp_path / "db", "trade", commit)
    assert market_count(again) == left + 400
    with again.capture():
        assert market_count(again) == left + 400


def market_count(db: splay.Database) -> int:
    return db.sql("select count(*) as n from trade").to_arrow().to_pylist()[0]["n"]


def run(*arguments: object) -> str:
    done = subprocess.run([SPLAY, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_deletes_lists_and_undoes(tmp_path: Path, market: splay.Database) -> None:
    place = tmp_path / "db"
    assert "rows would be deleted" in run("delete", place, "trade", "--symbols", "A,B", "--dry-run")
    out = run("delete", place, "trade", "--date", "2024-03-05..2024-03-06", "--symbols", "A", "--where", "size > 10")
    commit = out.split("by commit ")[1].split(";")[0]
    assert "delete" in run("loads", place, "trade")
    assert f"commit {commit} undone" in run("undo", place, "trade", commit)
    assert market_count(market) == 400
    refused = subprocess.run([SPLAY, "delete", place, "trade"], capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "which rows?" in refused.stderr
    run("alter", place, "trade", "retain", "--days", "1")
    assert "would go" in run("maintain", place, "--dry-run")
    run("maintain", place, "--forget")
    assert market.sql("select count(distinct time::date) as n from trade").to_arrow().to_pylist()[0]["n"] == 1
    assert "CREATE TABLE" in run("sql", place, "create table t (time timestamp); insert into t values ('2024-03-04')")


def test_a_server_changes_rows_for_those_who_may(tmp_path: Path) -> None:
    with Server(tmp_path / "db") as server:
        server.query("create table trade (time timestamp, sym symbol, size bigint)")
        for number in range(20):
            server.query(f"insert into trade values ('2024-03-04 10:00:{number:02}', 'A', {number})")
        server.query("delete from trade where size < 5")
        client = splay.connect(server.http)
        assert client.sql("select count(*) as n from trade").to_arrow().to_pylist()[0]["n"] == 15
        status, body = server.send("/query?query=delete%20from%20trade")
        assert (status, b"sent by POST" in body) == (400, True), body
        # Another process can't change what only the server has.
        refused = subprocess.run(
            [SPLAY, "delete", tmp_path / "db", "trade", "--all"], capture_output=True, text=True, check=False
        )
        assert client.sql("select count(*) as n from trade").to_arrow().to_pylist()[0]["n"] in (0, 15)
        assert refused.returncode == 0 or "send the statement to the server" in refused.stderr


def changed(table: "splay.Table | splay.remote.RemoteTable") -> None:
    """What the methods of a table do to three rows of it, whose names need quotes."""
    db = table.database
    count = f'select count(*) from "{table.name}"'
    assert table.delete("sym = $sym -- and no others", {"sym": "B"}) == 1
    assert db.sql(count).fetchall() == [(2,)]
    for wrong in ("", "nothing = 1", "x", "sym = (select"):
        with pytest.raises(splay.StatementError):
            table.delete(wrong)
    table.rename_column("x", "select")
    # A server tells the kind of an error more coarsely.
    with pytest.raises((splay.NoSuchColumnError, splay.StatementError)):
        table.rename_column("x", "y")
    with pytest.raises((splay.SchemaError, splay.RejectedError)):
        table.drop_column("time")
    table.drop_column("group")
    assert [field.lower() for field in db.sql(f'select * from "{table.name}"').columns] == ["time", "sym", "select", "date"]
    assert table.delete("true") == 2

    def shown() -> str:
        return db.sql(f'show create table "{table.name}"').fetchall()[0][1]

    table.set_options(retain_days=30, retain_bytes="2G", tier="small after 90")
    table.set_options(tier=None)
    table.set_options()
    assert shown().endswith("WITH (retain_days = 30, retain_bytes = 2147483648)")
    table.retain(bytes="512 MiB")
    assert shown().endswith("WITH (retain_bytes = 536870912)")
    table.set_partition("month")
    table.retain()
    assert shown().endswith(") PARTITION BY month")
    for wrong in ({"ttl": 3}, {"retain_bytes": "a lot"}, {"tier": "huge"}):
        with pytest.raises(splay.StatementError, match=next(iter(wrong))):
            table.set_options(**wrong)
    db.sql(f'create view of_it as select sym from "{table.name}"')
    db.sql("create view of_of_it as select sym from of_it")
    with pytest.raises(splay.Error, match="read by the view of_it: drop it first"):
        table.drop()
    assert table.drop(cascade=True) == ["of_of_it", "of_it"]
    assert table.name not in db.tables()
    with pytest.raises(splay.NoSuchTableError):
        table.drop()


ORDERS = pa.table(
    {
        "time": pa.array([START, START, START], pa.timestamp("ns", "UTC")),
        "sym": ["A", "B", "A"],
        "group": [1.0, 2.0, 3.0],
        "x": [1, 2, 3],
    }
)


def test_tables_are_changed_by_methods(tmp_path: Path) -> None:
    db = splay.open(tmp_path / "db")
    db.write("order", ORDERS)
    changed(db.table("order"))


def test_tables_of_servers_are_changed_by_methods(tmp_path: Path) -> None:
    splay.open(tmp_path / "db").write("order", ORDERS)
    with Server(tmp_path / "db") as server, splay.connect(server.http) as client:
        renamed = client.table("order").rename("group")
        assert (renamed.name, client.tables()) == ("group", ["group"])
        changed(renamed)


def test_a_dropped_column_comes_back(tmp_path: Path) -> None:
    db = splay.open(tmp_path / "db")
    db.write("order", ORDERS)
    before = db.sql('select * from "order"').fetchall()
    table = db.table("order")
    table.drop_column("group")
    commit = table.commits(1)[0].commit
    assert "schema" in run("loads", tmp_path / "db", "order")
    assert "column group is back" in run("undo", tmp_path / "db", "order", commit)
    assert db.sql('select * from "order"').fetchall() == before
    with pytest.raises(splay.CannotUndoError, match="drop them again"):
        table.undo(commit + 1)
    table.drop_column("group")
    db.sql("update \"order\" set x = 7 where sym = 'A'")
    with pytest.raises(splay.CannotUndoError, match="were written anew since"):
        table.undo(commit + 2)


@pytest.mark.parametrize("replace", ["date", "symbol"])
def test_a_replacement_takes_captured_rows_along(tmp_path: Path, replace: str) -> None:
    place, file = tmp_path / "db", tmp_path / "day.csv"
    file.write_text("time,sym,id\n2024-03-01 10:00:00,A,1\n2024-03-01 10:00:01,A,2\n")
    command = [SPLAY, "load", str(place), "trade", str(file)]
    subprocess.run(command, check=True, capture_output=True)
    database = splay.open(place)
    captured = pa.table({"time": pa.array([1709287200000000000], pa.timestamp("ns", "UTC")), "sym": ["A"], "id": [9]})
    again = [*command, "--replace", replace, "--again"]
    with database.capture() as capture:
        capture.append("trade", captured)
        refused = subprocess.run(again, capture_output=True, text=True, check=False)
        assert refused.returncode != 0
        assert "only that server can change them" in " ".join(refused.stderr.split())
    # Now the journal alone has the row.
    subprocess.run(again, check=True, capture_output=True)
    assert [row["id"] for row in splay.open(place).sql("select id from trade order by id").to_arrow().to_pylist()] == [1, 2]
    with splay.open(place).capture() as capture:
        capture.append("trade", captured)
    table = splay.open(place)
    table.write("trade", captured, replace=replace)
    assert [row["id"] for row in table.sql("select id from trade").to_arrow().to_pylist()] == [9]


def test_a_file_is_on_record_as_long_as_its_rows_are_there(tmp_path: Path) -> None:
    place, file = tmp_path / "db", tmp_path / "day.csv"
    file.write_text("time,sym,id\n2024-03-01 10:00:00,A,1\n")

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([SPLAY, *map(str, arguments)], capture_output=True, text=True, check=False)

    assert run("load", place, "t", file).returncode == 0
    for commit in (1, 2):
        assert run("undo", place, "t", commit).returncode == 0
    assert "was loaded" in run("load", place, "t", file).stderr
    assert "day.csv" in run("loads", place, "t").stdout
    assert run("undo", place, "t", 3).returncode == 0
    assert run("load", place, "t", file).returncode == 0
    refused = run("undo", place, "t", 4)
    assert refused.returncode != 0
    assert "commit 5 has loaded" in refused.stderr
    assert "day.csv again since" in refused.stderr
