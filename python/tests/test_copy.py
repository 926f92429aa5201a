"""COPY: rows of files into tables, and of tables and queries into files."""

import json
import pathlib
import subprocess

import polars
import pyarrow as pa
import pytest
from test_changes import everything, frame, market
from test_server import SPLAY, Server

import splay


__all__ = ["market"]

SOME = "select time, sym, price, size, note from trade where size > 500 order by time, sym, size, price"


def command(place: pathlib.Path | str, *statements: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SPLAY, "sql", str(place), "; ".join(statements)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("end", ["parquet", "arrow", "csv", "ndjson"])
def test_a_table_is_the_same_after_a_file(market: splay.Database, tmp_path: pathlib.Path, end: str) -> None:
    file = tmp_path / f"it's a {end} file.{end}"
    named = str(file).replace("'", "''")
    before = everything(market)
    done = command(tmp_path / "db", f"copy trade to '{named}'", f"COPY ({SOME}) TO '{tmp_path / 'some.parquet'}'")
    assert done.returncode == 0, done.stderr
    assert "400 rows" in done.stderr
    db = splay.open(tmp_path / "db")
    assert polars.read_parquet(tmp_path / "some.parquet").equals(db.sql(SOME).pl())
    kinds = "time timestamp, sym symbol, price double, size bigint, note text"
    db.sql(f"create table again ({kinds})")
    row = db.sql(f"copy again from '{named}'").to_arrow().to_pylist()[0]
    assert (row["statement"], row["rows"]) == ("COPY", 400)
    after = everything(db, "again")
    assert after == before


TYPES = "ts timestamp, s text, y symbol, d decimal(18,6), q decimal(38,10), x double, r real, b boolean, dt date, tm time, i bigint, u uint64"
VALUES = [
    "'2024-03-01 10:00', '007', '1e5', 12345678901.123456, 1234567890123456789.0123456789, 0.1, 0.1, true, '2024-01-01', '10:00:00.5', 9007199254740993, 18446744073709551615",
    "'2024-03-01 10:01', 'true', '2024-01-01', 0.1, 0.1, null, 0.25, false, null, null, null, null",
    "'2024-03-01 10:02', '', ' a,\"b', null, null, 1e300, null, null, '1969-12-31', '23:59:59.999999999', -1, 0",
    "'1677-09-21T00:12:43.145224193Z', null, null, null, null, null, null, null, '0001-01-01', '00:00', -9223372036854775808, null",
    "'2262-04-11T23:47:16.854775807Z', null, null, null, null, null, null, null, '9999-12-31', null, 9223372036854775807, null",
    "'2024-03-01 10:03', null, 'x', null, null, null, null, null, null, null, null, null",
]


@pytest.mark.parametrize("end", ["csv", "ndjson", "json", "arrow", "parquet"])
def test_values_are_read_by_the_tables_types(tmp_path: pathlib.Path, end: str) -> None:
    db = splay.open(tmp_path / "db")
    for name in ("one", "two"):
        db.sql(f"create table {name} ({TYPES})")
    db.sql("insert into one values " + ", ".join(f"({row})" for row in VALUES))
    file = tmp_path / f"one.{end}"
    done = command(tmp_path / "db", f"copy one to '{file}'")
    assert done.returncode == 0, done.stderr
    assert db.sql(f"copy two from '{file}'").to_arrow()["rows"][0].as_py() == len(VALUES)
    rows = "select * from {} order by ts"
    assert db.sql(rows.format("two")).to_arrow().equals(db.sql(rows.format("one")).to_arrow())
    # A list of columns leaves others of the file and of the table out.
    db.sql(f"create table three ({TYPES})")
    db.sql(f"copy three (ts, s, d) from '{file}'")
    expected = [(*row, None) for row in db.sql("select s, d from one order by ts").fetchall()]
    assert db.sql("select s, d, x from three order by ts").fetchall() == expected


def test_a_csv_file_without_names_has_the_tables_columns_in_order(tmp_path: pathlib.Path) -> None:
    db = splay.open(tmp_path / "db")
    db.sql("create table t (ts timestamp, code text, price decimal(10,2))")
    (tmp_path / "rows.csv").write_text("2024-03-01T10:00:00Z,007,1.5\n2024-03-01T10:01:00Z,008,2.25\n")
    db.sql(f"copy t from '{tmp_path / 'rows.csv'}'")
    assert [(code, str(price)) for code, price in db.sql("select code, price from t order by ts").fetchall()] == [("007", "1.50"), ("008", "2.25")]
    # Those of a list, in its order.
    (tmp_path / "listed.csv").write_text("009,2024-03-01T10:02:00Z\n010,2024-03-01T10:03:00Z\n")
    db.sql(f"copy t (code, ts) from '{tmp_path / 'listed.csv'}'")
    assert db.sql("select code, price from t where ts >= '2024-03-01 10:02' order by ts").fetchall() == [("009", None), ("010", None)]
    for columns in ("", "(ts)", "(ts, code, price)"):
        with pytest.raises(splay.Error, match="rows have 2 values and no names, and go into [13] column"):
            db.sql(f"copy t {columns} from '{tmp_path / 'listed.csv'}'")
    db.sql("delete from t where ts >= '2024-03-01 10:02'")
    (tmp_path / "bad.csv").write_text("ts,code,price\n2024-03-01T10:00:00Z,a,1.5\n2024-03-01T10:01:00Z,b,2.255\n")
    with pytest.raises(splay.Error, match="price"):
        db.sql(f"copy t from '{tmp_path / 'bad.csv'}'")
    assert db.sql("select count(*) from t").fetchall() == [(2,)]


def test_an_empty_text_is_no_null_in_csv(market: splay.Database, tmp_path: pathlib.Path) -> None:
    query = "select 1 as n, '' as empty, null::text as missing, 'a,b' as cut union all select 2, 'x', '', null order by n"
    done = command(tmp_path / "db", f"copy ({query}) to '{tmp_path / 'out.csv'}'")
    assert done.returncode == 0, done.stderr
    text = 'n,empty,missing,cut\n1,"",,"a,b"\n2,x,"",\n'
    assert (tmp_path / "out.csv").read_text() == text
    shown = subprocess.run([SPLAY, "sql", str(tmp_path / "db"), query, "--format", "csv"], capture_output=True, text=True, check=True)
    assert shown.stdout == text
    assert market.sql(f"select empty, missing, cut from '{tmp_path / 'out.csv'}' order by n").fetchall() == [("", None, "a,b"), ("x", "", None)]


def test_a_file_without_rows_has_none(market: splay.Database, tmp_path: pathlib.Path) -> None:
    for name, text in (("empty.csv", ""), ("blank.csv", "\n\n"), ("empty.ndjson", ""), ("header.csv", "time,size\n")):
        (tmp_path / name).write_text(text)
        for columns in ("", "(time, size)"):
            assert market.sql(f"copy trade {columns} from '{tmp_path / name}'").to_arrow()["rows"][0].as_py() == 0


def test_columns_go_by_name(market: splay.Database, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "turned.parquet"
    polars.DataFrame({"size": [7, 8], "time": ["2024-03-04T10:00:00Z", "2024-03-04T10:00:01Z"], "sym": ["X", "Y"]}).write_parquet(file)
    assert market.sql(f"copy trade from '{file}'").to_arrow()["rows"][0].as_py() == 2
    market.sql(f"copy trade (time, size) from '{file}' with (format parquet)")
    found = market.sql("select sym, size, price from trade where time >= '2024-03-04T10:00:00Z' and note is null and size < 9")
    found = sorted(map(tuple, found.fetchall()), key=repr)
    expected = [(None, 7, None), (None, 8, None), ("X", 7, None), ("Y", 8, None)]
    assert [row for row in expected if row not in found] == []


def test_what_is_wrong_is_named_and_changes_nothing(market: splay.Database, tmp_path: pathlib.Path) -> None:
    before = everything(market)
    (tmp_path / "other.csv").write_text("time,nonsense\n2024-03-04T10:00:00Z,1\n")
    (tmp_path / "bad.csv").write_text("time,size\n2024-03-04T10:00:00Z,1\n2024-03-04T10:00:01Z,much\n")
    (tmp_path / "late.csv").write_text("time,size\n2024-03-04T10:00:00Z,1\n,2\n")
    (tmp_path / "named.csv").write_text("time,size,noted\n2024-03-04T10:00:00Z,1,x\n")
    (tmp_path / "each_1.csv").write_text("time,size,price\n2024-03-04T10:00:00Z,1,1.5\n")
    (tmp_path / "each_2.csv").write_text("time,size\n2024-03-04T10:00:00Z,1\n")
    polars.DataFrame({"time": ["2024-03-04T10:00:00Z"], "note": [1.50]}).write_parquet(tmp_path / "typed.parquet")
    for statement, part in [
        (f"copy trade from '{tmp_path / 'none.csv'}'", "none.csv"),
        (f"copy trade from '{tmp_path / 'typed.parquet'}'", "note: the column is symbol"),
        (f"copy trade from '{tmp_path / 'other.csv'}'", "nonsense"),
        (f"copy trade from '{tmp_path / 'bad.csv'}'", "size"),
        (f"copy trade from '{tmp_path / 'late.csv'}'", "time"),
        (f"copy trade (time, size, price) from '{tmp_path / 'each*.csv'}'", "each_2.csv.*its header lacks price"),
        (f"copy trade (time, size, note) from '{tmp_path / 'named.csv'}'", "(?s)No field named note.*Did you mean.*noted"),
        (f"copy nowhere from '{tmp_path / 'bad.csv'}'", "nowhere"),
        (f"copy trade to '{tmp_path / 'out.csv'}'", "to_parquet"),
        ("copy trade from stdin", "STDIN"),
        (f"copy trade from '{tmp_path / 'bad.csv'}' (delimiter ';')", "delimiter"),
    ]:
        with pytest.raises(splay.Error, match=part):
            market.sql(statement)
    assert everything(market) == before
    for statement, part in [
        (f"copy trade to '{tmp_path / 'out'}'", "FORMAT parquet"),
        (f"copy trade to '{tmp_path / 'out.csv'}' (format parrot)", "parrot"),
        (f"copy nowhere to '{tmp_path / 'out.csv'}'", "nowhere"),
        (f"copy trade to '{tmp_path / 'out.txt'}'", "file formats"),
        (f"copy trade to '{tmp_path / 'out.csv.gz'}' (format csv)", "compresses no files"),
        (f"copy (delete from trade) to '{tmp_path / 'out.csv'}'", "changes something"),
        (f"copy (select 1 / (size - size) from trade) to '{tmp_path / 'out.csv'}'", "zero"),
    ]:
        done = command(tmp_path / "db", statement)
        assert done.returncode != 0 and part in done.stderr, done.stderr
    assert not list(tmp_path.glob("out*"))
    db = splay.open(tmp_path / "db")
    assert everything(db) == before
    done = command(tmp_path / "db", f"/* why */ copy trade to '{tmp_path / 'out.csv'}'")
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "out.csv").read_text().splitlines()) == len(before) + 1


def test_a_server_reads_no_files_and_its_answers_become_some(market: splay.Database, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "out.arrow"
    with Server(tmp_path / "db") as server:
        done = command(server.http, f"copy trade to '{file}'")
        assert done.returncode == 0, done.stderr
        assert pa.ipc.open_file(file).read_all().num_rows == frame(1).num_rows
        done = command(server.http, f"copy trade from '{file}'")
        assert done.returncode != 0, "files are never read over the wire"


NESTED = "select 'x' as a, make_array(1.0, null, 2.5) as bids, named_struct('venue', 'X \"Y\"', 'size', 3) as best"
NESTED_CSV = 'a,bids,best\nx,"[1.0, null, 2.5]","{""venue"": ""X \\""Y\\"""", ""size"": 3}"\n'


def test_lists_are_text_in_csv_and_levels_are_columns(market: splay.Database, tmp_path: pathlib.Path) -> None:
    levels = pa.FixedSizeListArray.from_arrays(pa.array([1.5, None, 2.5, 3.5]), 2)
    times = pa.array([1, 2], pa.timestamp("ns"))
    market.write("book", pa.table({"time": times, "sym": ["A", "A"], "bid": levels}))
    file = tmp_path / "nested.csv"
    for statement, *more in ([NESTED, "-o", str(file)], [f"copy ({NESTED}) to '{file}'"]):
        done = subprocess.run([SPLAY, "sql", str(tmp_path / "db"), statement, *more], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert file.read_text() == NESTED_CSV
    out = tmp_path / "out"
    done = subprocess.run([SPLAY, "export", str(tmp_path / "db"), "book", "--to", str(out), "--format", "csv"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (exported,) = out.rglob("*.csv")
    assert [line.split(",", 2)[2] for line in exported.read_text().splitlines()] == ["bid_0,bid_1", "1.5,", "2.5,3.5"]
    # Levels come back from the columns that they went into.
    load = [SPLAY, "load", str(tmp_path / "db"), "again", str(exported), "--type", "bid=levels(2)"]
    done = subprocess.run(load, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert market.sql("select bid from again").fetchall() == market.sql("select bid from book").fetchall()
    for name in ("csv", "ndjson"):
        copied = tmp_path / f"book.{name}"
        assert command(tmp_path / "db", f"copy book to '{copied}'").returncode == 0
        market.sql(f"create table by_{name} (time timestamp, sym symbol, bid levels(2))")
        market.sql(f"copy by_{name} from '{copied}'")
        assert market.sql(f"select bid from by_{name}").fetchall() == market.sql("select bid from book").fetchall()
    with Server(tmp_path / "db") as server:
        status, body = server.send("/query", json.dumps({"sql": NESTED, "format": "csv"}).encode(), content_type="application/json")
        assert (status, body.decode()) == (200, NESTED_CSV)
