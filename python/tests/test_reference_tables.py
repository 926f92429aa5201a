"""Reference tables: what they keep is what DuckDB keeps, however rows come, and joins to them give what DuckDB's give."""

import datetime
import gzip
import json
import random
import subprocess
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_server import SPLAY, Server

import splay


def rows_of(db: splay.Database, statement: str) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in db.sql(statement).to_arrow().to_pylist()), key=repr)


def told(db: splay.Database, statement: str) -> int:
    (row,) = db.sql(statement).to_arrow().to_pylist()
    return row["rows"]


@pytest.fixture
def db(tmp_path: Path) -> splay.Database:
    return splay.open(tmp_path / "db")


CREATE = "create table instrument (symbol {symbol}, venue varchar, lot bigint, step double precision, primary key ({key}))"
CONFLICTS = [
    "",
    "on conflict do nothing",
    "on conflict ({key}) do nothing",
    "on conflict ({key}) do update set lot = excluded.lot",
    "on conflict ({key}) do update set lot = instrument.lot + excluded.lot, step = coalesce(excluded.step, instrument.step)",
    "on conflict ({key}) do update set lot = -excluded.lot where instrument.lot > excluded.lot",
    "on conflict ({key}) do update set step = null where excluded.step is null",
]


@pytest.mark.parametrize("key", ["symbol", "symbol, venue"])
def test_insertions_keep_what_duckdb_keeps(db: splay.Database, key: str) -> None:
    rng = random.Random(len(key))
    con = duckdb.connect()
    con.execute(CREATE.format(symbol="varchar", key=key))
    db.sql(CREATE.format(symbol="symbol", key=key)).to_arrow()

    def value(values: list[str]) -> str:
        return rng.choice(values)

    refused = 0
    for _ in range(250):
        keys = {(value(["'A'", "'B'", "'C'", "'D'"]), value(["'X'", "'Y'"])) for _ in range(rng.randrange(1, 4))}
        if key == "symbol":
            keys = set({symbol: (symbol, venue) for symbol, venue in keys}.values())
        rows = ", ".join(f"({s}, {v}, {rng.randrange(0, 9)}, {value(['null', '0.5', '2'])})" for s, v in sorted(keys))
        statement = f"insert into instrument values {rows} {rng.choice(CONFLICTS).format(key=key)}"
        if rng.random() < 0.1:
            statement = f"delete from instrument where lot < {rng.randrange(0, 9)}"
        try:
            theirs = con.execute(statement).fetchone()[0]
        except duckdb.ConstraintException:
            refused += 1
            with pytest.raises(splay.DuplicateKeyError):
                db.sql(statement).to_arrow()
        else:
            ours = told(db, statement)
            # Rows that a condition leaves as they are don't count, as in PostgreSQL.
            assert ours == theirs or "where" in statement, statement
        expected = sorted(con.execute("select * from instrument").fetchall(), key=repr)
        assert rows_of(db, "select * from instrument") == expected, statement
    assert refused > 5
    assert db.table("instrument").key == key.split(", ")


def test_messages_are_postgresqls(db: splay.Database) -> None:
    db.sql("create table venue (mic symbol primary key, name text)").to_arrow()
    db.sql("insert into venue values ('XNAS', 'Nasdaq')").to_arrow()
    with pytest.raises(splay.DuplicateKeyError, match="duplicate key value violates unique constraint") as caught:
        db.sql("insert into venue values ('XNAS', 'again')").to_arrow()
    assert (caught.value.table, caught.value.columns, caught.value.values) == ("venue", "mic", "XNAS")
    with pytest.raises(splay.Error, match='null value in column "mic" of relation "venue" violates not-null constraint'):
        db.sql("insert into venue (name) values ('nobody')").to_arrow()
    with pytest.raises(splay.Error, match="no unique or exclusion constraint matching the ON CONFLICT specification"):
        db.sql("insert into venue values ('XNAS', '') on conflict (name) do nothing").to_arrow()


INSTRUMENTS = "Symbol,Name,TickSize,Lot\nMSFT,Microsoft,0.01,100\nAAPL,Apple,0.01,100\nBRK A,Berkshire,1,1\n"


def test_files_of_each_format_make_the_same_table(db: splay.Database, tmp_path: Path) -> None:
    csv = tmp_path / "instruments.csv"
    csv.write_text(INSTRUMENTS)
    frame = pa.table(
        {
            "Symbol": ["MSFT", "AAPL", "BRK A"],
            "Name": ["Microsoft", "Apple", "Berkshire"],
            "TickSize": [0.01, 0.01, 1.0],
            "Lot": pa.array([100, 100, 1], pa.int64()),
        }
    )
    pq.write_table(frame, tmp_path / "instruments.parquet")
    with pa.OSFile(str(tmp_path / "instruments.arrow"), "wb") as sink, pa.ipc.new_file(sink, frame.schema) as writer:
        writer.write_table(frame)
    rows = frame.to_pylist()
    (tmp_path / "instruments.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "instruments.json.gz").write_bytes(gzip.compress(json.dumps(rows, indent=1).encode()))
    db.load("from_csv", csv, key="symbol", types={"Name": "text"})
    db.load("from_lines", tmp_path / "instruments.jsonl", key="symbol")
    db.load("from_array", tmp_path / "instruments.json.gz", key="SYMBOL")
    db.load("from_parquet", tmp_path / "instruments.parquet", key="Symbol")
    db.load("from_arrow", tmp_path / "instruments.arrow", key=["Symbol"])
    db.write("from_frame", frame, key=["Symbol"])
    for table in ["from_csv", "from_parquet", "from_arrow", "from_frame", "from_lines", "from_array"]:
        found = db.table(table)
        assert (found.time, found.key, found.symbol) == (None, ["Symbol"], "Symbol")
        assert [field.name for field in pa.schema(found.schema)] == frame.column_names
        assert rows_of(db, f"select * from {table}") == sorted(map(tuple, zip(*frame.to_pydict().values(), strict=True)), key=repr)


def test_objects_of_json_take_the_place_of_rows_and_lack_what_they_lack(db: splay.Database, tmp_path: Path) -> None:
    first, second = tmp_path / "monday.csv", tmp_path / "tuesday.json"
    first.write_text(INSTRUMENTS)
    db.load("instrument", first, key="Symbol")
    second.write_text('[{"Lot": 10, "Symbol": "AAPL"}, {"Symbol": "GOOG", "Name": null, "TickSize": "0.05"}]')
    with pytest.raises(splay.DuplicateKeyError, match="AAPL"):
        db.load("instrument", second)
    report = db.load("instrument", second, on_conflict="update")
    assert (report.rows, report.removed) == (2, 1)
    found = rows_of(db, "select Symbol, Name, TickSize, Lot from instrument where Symbol in ('AAPL', 'GOOG')")
    assert found == [("AAPL", None, None, 10), ("GOOG", None, 0.05, None)]
    second.write_text('{"Lot": 10}\n')
    with pytest.raises(splay.Error, match='null value in column "Symbol"'):
        db.load("instrument", second)
    second.write_text('{"Symbol": "IBM", "Lot": {"round": 100}}\n')
    with pytest.raises(splay.Error, match="column Lot: .* is not an? int64"):
        db.load("instrument", second)
    assert rows_of(db, "select count(*) from instrument") == [(4,)]


def test_a_later_file_is_refused_left_out_or_takes_the_place(db: splay.Database, tmp_path: Path) -> None:
    first, second = tmp_path / "monday.csv", tmp_path / "tuesday.csv"
    first.write_text(INSTRUMENTS)
    second.write_text("Symbol,Name,TickSize,Lot\nAAPL,Apple Inc.,0.02,10\nGOOG,Alphabet,0.01,100\n")
    db.load("instrument", first, key="Symbol")
    with pytest.raises(splay.DuplicateKeyError):
        db.load("instrument", second)
    assert db.load("instrument", second, on_conflict="nothing").rows == 1
    lots = "select Symbol, Lot from instrument where Symbol in ('AAPL', 'GOOG') order by 1"
    assert rows_of(db, lots) == [("AAPL", 100), ("GOOG", 100)]
    report = db.load("instrument", second, on_conflict="update", again=True)
    assert (report.rows, report.removed) == (2, 2)
    assert rows_of(db, lots) == [("AAPL", 10), ("GOOG", 100)]
    assert db.load("instrument", second, replace="table", again=True).rows == 2
    assert rows_of(db, "select count(*) from instrument") == [(2,)]
    db.table("instrument").undo(db.table("instrument").epoch)
    assert rows_of(db, "select count(*) from instrument") == [(4,)]


def test_the_command_loads_and_describes_them(tmp_path: Path) -> None:
    file = tmp_path / "instruments.csv"
    file.write_text(INSTRUMENTS)

    def splay_command(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([SPLAY, *words], capture_output=True, text=True, cwd=tmp_path, check=False)

    refused = splay_command("load", "db", "instrument", str(file))
    assert refused.returncode != 0
    assert "--key" in refused.stderr
    loaded = splay_command("load", "db", "instrument", str(file), "--key", "Symbol")
    assert loaded.returncode == 0, loaded.stderr
    again = splay_command("load", "db", "instrument", str(file), "--again")
    assert "duplicate key value" in again.stderr
    assert splay_command("load", "db", "instrument", str(file), "--again", "--on-conflict", "update").returncode == 0
    lines = tmp_path / "more.jsonl"
    lines.write_text('{"Symbol":"IBM","Lot":5}\n{"Symbol":"AAPL","Name":"Apple Inc."}\n')
    done = splay_command("load", "db", "instrument", str(lines), "--on-conflict", "update")
    assert done.returncode == 0 and "loaded 2 rows" in done.stdout, done.stderr
    # A key that no row has is a table of its own.
    assert splay_command("load", "db", "again", str(lines), "--key", "Symbol").returncode == 0
    described = splay_command("describe", "db", "instrument").stdout
    assert "reference table" in described
    assert "__time" not in described
    rows = splay_command("sql", "db", "select * from instrument", "--format", "csv")
    assert rows.stdout.splitlines()[0] == "Symbol,Name,TickSize,Lot", rows.stderr
    exported = splay_command("export", "db", "instrument", "--to", "out")
    assert exported.returncode == 0, exported.stderr
    (part,) = (tmp_path / "out").rglob("*.parquet")
    assert pq.read_schema(part).names == ["Symbol", "Name", "TickSize", "Lot"]


def market(db: splay.Database, rows: int = 20_000, symbols: int = 300) -> pa.Table:
    rng = random.Random(5)
    start = datetime.datetime(2024, 3, 4, 9, 30, tzinfo=datetime.UTC)
    trades = pa.table(
        {
            "time": pa.array([start + datetime.timedelta(seconds=rng.randrange(0, 20 * 86_400)) for _ in range(rows)], pa.timestamp("us", "UTC")),
            "symbol": [rng.choice([None, *(f"S{number:04}" for number in range(symbols))]) for _ in range(rows)],
            "size": pa.array([rng.randrange(1, 1000) for _ in range(rows)], pa.int64()),
        }
    )
    db.write("trade", trades, time="time", symbol="symbol")
    instruments = pa.table(
        {
            # Some symbols have no instrument, and some instruments no trades.
            "symbol": [f"S{number:04}" for number in range(20, symbols + 50)],
            "exchange": [rng.choice(["XNAS", "XNYS", None]) for _ in range(20, symbols + 50)],
            "lot": pa.array([rng.choice([1, 10, 100]) for _ in range(20, symbols + 50)], pa.int64()),
        }
    )
    db.write("instrument", instruments, key="symbol")
    steps = pa.table(
        {
            "symbol": [f"S{number:04}" for number in range(symbols) for _ in range(4)],
            "day": pa.array([datetime.date(2024, 3, 1 + 6 * step) for _ in range(symbols) for step in range(4)]),
            "ratio": [float(rng.choice([1, 2, 4])) for _ in range(symbols * 4)],
        }
    )
    db.write("split", steps, key=["symbol", "day"], effective="day")
    return trades


JOINS = [
    "select i.exchange, count(*), sum(t.size * i.lot) from trade t join instrument i on t.symbol = i.symbol group by i.exchange",
    "select i.exchange, count(*) from trade t left join instrument i on t.symbol = i.symbol group by i.exchange",
    "select i.lot, sum(t.size) from trade t join instrument i using (symbol) where i.exchange = 'XNAS' group by i.lot",
    "select t.symbol, t.size, i.exchange from trade t join instrument i on t.symbol = i.symbol where i.lot = 10 and t.size > 990",
    "select count(*) from trade t where exists (select 1 from instrument i where i.symbol = t.symbol and i.lot = 1)",
    "select count(*) from instrument i join trade t on i.symbol = t.symbol",
    "select i.symbol, count(t.size) from instrument i left join trade t on i.symbol = t.symbol group by i.symbol",
    "select t.symbol, t.size, s.ratio from trade t join split s on t.symbol = s.symbol and t.time::date = s.day where t.size > 500",
    "select t.symbol, sum(t.size * s.ratio) from trade t asof join split s on t.symbol = s.symbol and t.time >= s.day::timestamp group by t.symbol",
    "select t.symbol, sum(t.size * s.ratio) from trade t asof join split s on t.symbol = s.symbol and t.time::date >= s.day group by t.symbol",
]


@pytest.mark.parametrize("live", [False, True])
def test_joins_give_what_duckdbs_give(tmp_path: Path, live: bool) -> None:
    db = splay.open(tmp_path / "db")
    trades = market(db)
    con = duckdb.connect()
    con.execute("set timezone = 'UTC'")
    for table in ["instrument", "split"]:
        con.register(f"{table}_frame", db.sql(f"select * from {table}").to_arrow())
        con.execute(f"create table {table} as select * from {table}_frame")
    captured = trades.slice(0, 3_000) if live else trades.slice(0, 0)
    con.register("trades", pa.concat_tables([trades, captured]))
    con.execute("create table trade as select time::timestamp as time, symbol, size from trades")
    capture = db.capture() if live else None
    try:
        if capture is not None:
            capture.append("trade", captured)
        for statement in JOINS:
            theirs = sorted(con.execute(statement).fetchall(), key=repr)
            ours = rows_of(db, statement)
            assert len(ours) == len(theirs), statement
            assert ours == theirs, statement
    finally:
        if capture is not None:
            capture.close()


def test_a_lookup_is_a_tick_plan_and_sees_each_commit(db: splay.Database) -> None:
    market(db)
    statement = "select i.exchange, sum(t.size) from trade t join instrument i on t.symbol = i.symbol group by i.exchange"
    plan = "\n".join(str(row) for row in db.sql(f"explain {statement}").to_arrow().to_pylist())
    assert "tick_plan" in plan, plan
    before = rows_of(db, statement)
    db.sql("update instrument set exchange = 'ARCX' where exchange = 'XNYS'").to_arrow()
    renamed = sorted((("ARCX" if name == "XNYS" else name, total) for name, total in before), key=repr)
    assert rows_of(db, statement) == renamed
    db.sql("delete from instrument where exchange = 'ARCX'").to_arrow()
    assert rows_of(db, statement) == [row for row in renamed if row[0] != "ARCX"]
    assert rows_of(db, statement.replace("instrument i", "instrument at commit 1 i")) == before


def test_a_server_takes_statements_and_refuses_appends(tmp_path: Path) -> None:
    market(splay.open(tmp_path / "db"))
    with Server(tmp_path / "db") as server, splay.connect(server.http) as client:
        insert = "insert into instrument values ('NEW', 'XNAS', {lot})"
        server.query(insert.format(lot=7))
        status, body = server.send("/query", insert.format(lot=8).encode(), content_type="text/plain")
        assert status != 200
        assert b"duplicate key value" in body
        server.query(insert.format(lot=8) + " on conflict (symbol) do update set lot = excluded.lot")
        assert client.sql("select lot from instrument where symbol = 'NEW'").to_arrow().to_pylist() == [{"lot": 8}]
        assert client.table("instrument").time is None
        with pytest.raises(splay.Error, match="reference table"):
            client.write("instrument", pa.table({"symbol": ["X"], "exchange": ["XNAS"], "lot": [1]}))


def test_backups_have_them(db: splay.Database, tmp_path: Path) -> None:
    db.sql("create table venue (mic symbol primary key, name text)").to_arrow()
    db.sql("insert into venue values ('XNAS', 'Nasdaq'), ('ARCX', 'Arca')").to_arrow()
    for arguments in [("backup", db.path, tmp_path / "backup"), ("restore", tmp_path / "backup", tmp_path / "copy")]:
        done = subprocess.run([SPLAY, *map(str, arguments)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    copy = splay.open(tmp_path / "copy")
    assert rows_of(copy, "select * from venue") == [("ARCX", "Arca"), ("XNAS", "Nasdaq")]
    assert copy.table("venue").verify() == []
    with pytest.raises(splay.DuplicateKeyError):
        copy.sql("insert into venue values ('XNAS', '')").to_arrow()
