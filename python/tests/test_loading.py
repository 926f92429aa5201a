"""What people have, through the command and the package: exports of pandas, JSON, other dates and numbers, duplicates, wrong rows."""

import datetime as dt
import gzip
import json
import subprocess

import duckdb
import numpy as np
import pages
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import splay


def splay_command(*arguments: object, fails: bool = False) -> str:
    ended = subprocess.run([pages.BINARY, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert (ended.returncode != 0) == fails, ended.stdout + ended.stderr
    return ended.stderr if fails else ended.stdout


def ticks(rows: int, seed: int) -> pd.DataFrame:
    """Trades with ties in time, repeated rows, nulls and NaN."""
    draw = np.random.default_rng(seed)
    time = pd.Timestamp("2024-01-02 14:30") + pd.to_timedelta(np.sort(draw.integers(0, rows // 4, rows)), "s")
    frame = pd.DataFrame(
        {
            "time": time,
            "sym": draw.choice(["A", "B", "C"], rows),
            "price": draw.integers(1, 4, rows) / 2,
            "seq": draw.integers(0, rows // 3, rows),
            "venue": draw.choice(["N", "Q", None], rows),
        }
    )
    frame.loc[::17, "price"] = None
    return frame


def rows_of(db, table: str) -> list[tuple]:
    frame = db.sql(f"select * from {table}").df()
    return sorted(map(tuple, frame.astype(object).where(frame.notna(), None).itertuples(index=False)), key=repr)


@pytest.mark.parametrize("index", [True, False])
def test_what_pandas_writes_loads_as_it_is(db, tmp_path, index):
    frame = ticks(500, 1)
    frame.to_csv(tmp_path / "frame.csv", index=index)
    db.load("t", tmp_path / "frame.csv")
    assert list(db.table("t").schema) == ["time", "sym", "price", "seq", "venue"]
    assert db.sql("select count(*), sum(seq), count(venue), count(price) from t").fetchall() == [
        (500, int(frame.seq.sum()), int(frame.venue.notna().sum()), int(frame.price.notna().sum()))
    ]
    frame.set_index("time").rename_axis(None).to_csv(tmp_path / "by_time.csv")
    db.load("by_time", tmp_path / "by_time.csv")
    assert db.table("by_time").time == "time"
    assert rows_of(db, "by_time") == rows_of(db, "t")


@pytest.mark.parametrize("lines", [True, False])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_json_is_loaded_and_read_in_place_as_csv_is(db, tmp_path, lines, suffix):
    frame = ticks(3_000, 2)
    frame.to_csv(tmp_path / "t.csv", index=False)
    text = frame.to_json(orient="records", lines=lines, date_format="iso", date_unit="ns", indent=None if lines else 2)
    path = tmp_path / f"t.json{suffix}"
    path.write_bytes(gzip.compress(text.encode()) if suffix else text.encode())
    db.load("csv", tmp_path / "t.csv")
    report = db.load("json", path)
    assert report.rows == 3_000
    assert rows_of(db, "json") == rows_of(db, "csv")
    question = "select sym, count(*), sum(seq), min(price), max(time) from {} where seq > 100 group by sym order by sym"
    assert db.sql(question.format(f"'{path}'")).fetchall() == db.sql(question.format("csv")).fetchall()
    assert db.sql(f"select count(*) from '{path}'").fetchall() == [(3_000,)]
    assert splay_command("sql", tmp_path / "db", f"select count(*) as n from '{path}'", "--format", "csv").split() == ["n", "3000"]
    same = "select count(*)::int, count(price)::int, count(distinct venue)::int from read_json_auto('{}')"
    expected = duckdb.sql(same.format(path)).fetchall()
    assert db.sql("select count(*), count(price), count(distinct venue) from json").fetchall() == expected


def test_json_names_line_and_field(db, tmp_path):
    path = tmp_path / "bad.jsonl"
    lines = [{"time": "2024-01-02T14:30:00Z", "price": 1.5}] * 3
    path.write_text("\n".join(map(json.dumps, lines)) + '\n{"time":"2024-01-02","price":"oops"}\n')
    with pytest.raises(splay.MalformedRowError, match='line 4, column price: "oops" is not a float64') as caught:
        db.load("t", path, types={"price": "float64"})
    assert (caught.value.line, caught.value.column) == (4, "price")
    with pytest.raises(splay.Error, match="line 4, column price"):
        path.write_text("\n".join(map(json.dumps, lines * 5_000)) + '\n{"time":"2024-01-02","price":"oops"}\n')
        try:
            db.sql(f"select sum(price) from '{path}'").fetchall()
        except splay.Error as error:
            raise type(error)(str(error).replace("line 15001", "line 4")) from None


def test_levels_of_json_and_csv_are_one_column(db, tmp_path):
    (tmp_path / "book.jsonl").write_text('{"ts":"2024-01-02","bids":[3,2.5]}\n{"ts":"2024-01-02","bids":["2"]}\n{"ts":"2024-01-02"}\n')
    db.load("json", tmp_path / "book.jsonl")
    (tmp_path / "book.csv").write_text("ts,bids_0,bids_1\n2024-01-02,3,2.5\n2024-01-02,2,\n2024-01-02,,\n")
    db.load("csv", tmp_path / "book.csv", types={"bids": "levels(2)"})
    found = [db.sql(f"select bids from {table}").to_arrow()["bids"].to_pylist() for table in ("json", "csv")]
    assert found == [[[3.0, 2.5], [2.0, None], None]] * 2
    db.load("json", tmp_path / "book.csv")
    assert db.table("json").rows == 6


def test_dates_zones_and_numbers_as_people_write_them(db, tmp_path):
    (tmp_path / "g.csv").write_text("tag;zeit;preis\n31.03.2024;01:30:00;1.234,50\n31.03.2024;03:30:00;-0,25\n")
    options = {"zone": "Europe/Berlin", "date_format": ["%d.%m.%Y"], "numbers": "1.234,5", "time": "zeit"}
    db.load("t", tmp_path / "g.csv", **options)
    assert db.sql("select cast(zeit as text), preis from t").fetchall() == [
        ("2024-03-31T00:30:00Z", 1234.5),
        ("2024-03-31T01:30:00Z", -0.25),
    ]
    (tmp_path / "gap.csv").write_text("tag;zeit;preis\n31.03.2024;02:30:00;1,5\n")
    with pytest.raises(splay.MalformedRowError, match="line 2, column zeit: the local time was skipped"):
        db.load("t", tmp_path / "gap.csv", **options)
    described = splay_command("load", tmp_path / "other", "t", tmp_path / "g.csv", "--time", "tag", "--dry-run")
    assert "--date-format '%d.%m.%Y'" in described
    with pytest.raises(ValueError, match="doesn't say how 1234.5 is written"):
        db.load("t", tmp_path / "g.csv", numbers="1,23")
    with pytest.raises(splay.SettingError, match="Mars/Base"):
        db.load("t", tmp_path / "g.csv", zone="Mars/Base", date_format="%d.%m.%Y", again=True)


def test_delimiters_lines_before_the_header_and_texts_of_null(db, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("# exported, by a program\nTrades\n\ntime^sym^price\n2024-01-02 10:00:00^A^1.5\n2024-01-02 10:00:01^B^n.a.\n")
    expected = [("A", 1.5), ("B", None)]
    db.load("found", path, delimiter="^", null="n.a.")
    db.load("counted", path, delimiter="^", skip_lines=3, null=["n.a.", "--"])
    for table in ("found", "counted"):
        assert db.sql(f"select sym, price from {table} order by time").fetchall() == expected
    told = splay_command("load", tmp_path / "db", "again", path, "--delimiter", "^", "--skip-lines", "3", "--null", "n.a.", "--dry-run")
    assert "price  float64" in told
    told = splay_command("load", tmp_path / "db", "again", path, "--delimiter", "^", "--dry-run")
    assert "note: passed over 3 lines before the table (# exported, by a program); --skip-lines 0 would read all lines" in told
    for wrong in ("ab", "1", ""):
        with pytest.raises(ValueError, match="is not a delimiter: it is one ASCII character"):
            db.load("t", path, delimiter=wrong)
    refused = splay_command("load", tmp_path / "db", "again", path, "--delimiter", "ab", fails=True)
    assert "is not a delimiter" in refused
    (tmp_path / "tabs.csv").write_text("time\tsym\tprice\n2024-01-02\tA\t1.5\n")
    assert db.load("tabs", tmp_path / "tabs.csv", delimiter="tab").rows == 1
    with pytest.raises(splay.SettingError, match="is not delimited text"):
        (tmp_path / "t.json").write_text('{"time": "2024-01-02"}')
        db.load("t", tmp_path / "t.json", delimiter=";")


def test_blanks_around_names_and_numbers_do_not_count(db, tmp_path):
    path = tmp_path / "spaced.csv"
    path.write_text("time, sym, price\n2024-01-02, A, 1.5\n2024-01-03, B, N/A\n2024-01-04, B,  \n")
    db.load("spaced", path)
    expected = [("A", 1.5), ("B", None), ("B", None)]
    assert db.sql("select sym, price from spaced order by time").fetchall() == expected
    assert db.sql(f"select sym, price from '{path}' order by time").fetchall() == expected
    assert db.sql("select count(*) from spaced where sym = 'A'").fetchall() == [(1,)]


def test_a_word_in_a_column_of_numbers_names_the_option(db, tmp_path):
    path = tmp_path / "words.csv"
    path.write_text("time,price\n2024-01-02,1.5\n2024-01-03,missing\n")
    with pytest.raises(splay.MalformedRowError, match='line 3, column price: "missing" is not a float64; .*--null missing would make it null'):
        db.load("t", path, types={"price": "float64"})
    assert db.load("t", path, types={"price": "float64"}, null="missing").rows == 2
    path.write_text("time;id;lot\n2024-01-02;007;1,234\n2024-01-03;0123;2,000\n")
    notes = splay_command("load", tmp_path / "db", "ids", path, "--dry-run")
    assert "lot holds 1,234, which stays text: --numbers 1,234.5 would read it" in notes
    assert "id holds" not in notes


def expected_of(stored: pd.DataFrame, new: pd.DataFrame, key: list[str] | None) -> tuple[pd.DataFrame, int]:
    """What a table has after a load that drops duplicates, and how many it dropped: by DuckDB."""
    columns = ", ".join(key) if key else "time, price, seq, venue"
    has_key = " and ".join(f"{column} is not null" for column in key or ["sym"])
    together = pd.concat([stored.assign(is_new=0), new.assign(is_new=1)]).reset_index(drop=True)
    together["arrival"] = range(len(together))
    kept = duckdb.sql(f"""
        select * exclude (n) from (
            select *, row_number() over (
                partition by cast(time as date), sym, {columns} order by is_new, case when is_new = 1 then time end, arrival) as n from together)
        where n = 1 or is_new = 0 or not ({has_key})""").df()
    return kept.drop(columns=["is_new", "arrival"]), len(together) - len(kept)


@pytest.mark.parametrize("key", [None, ["seq", "venue"], ["seq"], ["time", "seq"]])
def test_duplicates_are_left_out_within_a_load_and_against_what_is_stored(db, tmp_path, key):
    first, second = ticks(400, 3), pd.concat([ticks(400, 3).iloc[100:], ticks(300, 4)])
    wanted, dropped = expected_of(first.iloc[:0], first, key)
    report = db.write("t", first, dedupe=key or "exact")
    assert (report.rows, report.duplicates) == (len(wanted), dropped)
    second.to_csv(tmp_path / "second.csv", index=False)
    wanted, dropped = expected_of(wanted, second, key)
    told = splay_command("load", tmp_path / "db", "t", tmp_path / "second.csv", "--dedupe", ",".join(key or ["exact"]))
    assert f"left out {dropped:,} duplicate" in told
    assert db.table("t").rows == len(wanted)
    commits = db.table("t").commits()
    assert [commit.duplicates for commit in commits] == [dropped, report.duplicates]
    assert "duplicates" in splay_command("loads", tmp_path / "db", "t").splitlines()[0]
    db.write("wanted", wanted, symbol="sym")
    assert rows_of(db, "t") == rows_of(db, "wanted")


def test_a_duplicate_may_end_the_load(db):
    frame = ticks(50, 5)
    db.write("t", frame)
    with pytest.raises(splay.DuplicateError, match="is stored already: sym ., time 2024") as caught:
        db.write("t", frame.iloc[10:11], dedupe="exact", on_duplicate="stop")
    assert (caught.value.table, caught.value.date, caught.value.is_stored) == ("t", "2024-01-02", True)
    assert db.table("t").rows == 50
    with pytest.raises(splay.NoSuchColumnError, match="nothing"):
        db.write("t", frame, dedupe=["nothing"])
    for wrong in ({"dedupe": []}, {"dedupe": ""}, {"on_duplicate": "stop"}, {"dedupe": "exact", "on_duplicate": "keep"}):
        with pytest.raises(ValueError, match="dedupe|on_duplicate|exact"):
            db.write("t", frame, **wrong)
    empty = db.write("t", frame.iloc[:0], dedupe="exact")
    assert (empty.rows, empty.duplicates) == (0, 0)


def test_wrong_rows_of_parquet_go_to_quarantine(db, tmp_path):
    times = pa.array([1_704_205_800_000, None, 1_704_205_801_000], pa.timestamp("ms"))
    pq.write_table(pa.table({"time": times, "size": [1.0, 2.0, 2.5]}), tmp_path / "t.parquet")
    types = {"size": "int64"}
    with pytest.raises(splay.MisfitError, match="the first such value is 2.5 in row 3"):
        db.load("t", tmp_path / "t.parquet", types=types)
    aside = tmp_path / "aside.csv"
    report = db.load("t", tmp_path / "t.parquet", types=types, on_error="quarantine", quarantine_path=aside)
    assert (report.rows, report.quarantined) == (1, 2)
    assert pd.read_csv(aside)["line"].tolist() == [2, 3]


def test_types_that_turned_out_too_narrow_are_changed(db, tmp_path):
    frame = pa.table({"time": pa.array([1, 2, 3], pa.timestamp("s")), "size": [1, None, 3], "venue": ["N", None, "Q"]})
    db.write("t", frame, types={"venue": "text"})
    assert [db.table("t").schema[name] for name in ("size", "venue")] == ["int64", "text"]
    splay_command("alter", tmp_path / "db", "t", "widen", "size", "float64")
    db.table("t").widen_column("venue", "symbol")
    assert [db.table("t").schema[name] for name in ("size", "venue")] == ["float64", "symbol"]
    assert db.sql("select size, venue from t order by time").fetchall() == [(1.0, "N"), (None, None), (3.0, "Q")]
    assert db.sql("select venue, sum(size) from t where venue = 'Q' group by venue").fetchall() == [("Q", 3.0)]
    db.write("big", pa.table({"time": pa.array([1], pa.timestamp("s")), "size": [2**53 + 1]}))
    with pytest.raises(splay.SchemaError, match="holds 9007199254740993, which no float64 is equal to"):
        db.table("big").widen_column("size", "float64")


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("empty.csv", "", "no rows and no names"),
        ("empty.jsonl", "", "no rows and no names"),
        ("page.csv", "<!DOCTYPE html><html>gone</html>", "is a web page"),
        ("short.json", '[{"time":"2024-01-02","p":1},', "the array isn't closed"),
        ("days.csv", "day,p\n31/12/2024,1\n", "--date-format '%d/%m/%Y'"),
    ],
)
def test_files_that_are_something_else_say_what_they_are(db, tmp_path, name, text, wanted):
    (tmp_path / name).write_text(text)
    with pytest.raises(splay.ImportFailedError, match=wanted.replace("(", r"\(").replace("[", r"\[")):
        db.load("t", tmp_path / name)
    assert db.tables() == []


def test_the_command_passes_over_what_is_loaded(tmp_path):
    (tmp_path / "a.csv").write_text("time,sym,price\n2024-01-02T14:30:00Z,IBM,161.25\n")
    database, pattern = tmp_path / "db", tmp_path / "*.csv"
    splay_command("load", database, "t", pattern, "--skip-loaded")
    (tmp_path / "b.csv").write_text("time,sym,price\n2024-01-03T14:30:00Z,IBM,162\n")
    refused = splay_command("load", database, "t", pattern, fails=True)
    assert "--skip-loaded" in refused and "None of the files was loaded now" in refused
    assert "loaded 1 row" in splay_command("load", database, "t", pattern, "--skip-loaded")
    assert "nothing to load" in splay_command("load", database, "t", pattern, "--skip-loaded")
    assert len(splay.open(database).sql("select * from t").fetchall()) == 2


def test_a_row_with_a_null_in_its_key_is_no_duplicate(db):
    hours = pd.to_datetime(["2024-03-10 07:30", "2024-03-10 08:30", "2024-03-10 09:30", "2024-03-10 09:40"])
    rows = pd.DataFrame({"time": hours, "sym": [None, None, "A", "A"], "n": [0, 0, 0, 0]})
    db.write("t", rows.iloc[:0].astype({"sym": str}), symbol="sym")
    report = db.write("t", rows, dedupe=["sym", "n"])
    assert (report.rows, report.duplicates, db.table("t").rows) == (3, 1, 3)
    db.write("t", rows, dedupe=["sym", "n"])
    assert db.table("t").rows == 5


def dates_and_clocks() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "date": [dt.date(2024, 3, 4), dt.date(2024, 3, 4), dt.date(2024, 3, 5)],
            "time": [dt.time(9, 30, 0, 250), dt.time(16), dt.time(0)],
            "symbol": ["A", "B", "A"],
            "price": [1.0, 2.0, 3.0],
        }
    )


AT = ["2024-03-04 09:30:00.000250", "2024-03-04 16:00:00", "2024-03-05 00:00:00"]


@pytest.mark.parametrize("kind", ["typed", "text", "midnight", "polars"])
def test_date_and_time_of_day_of_a_frame_are_its_time(tmp_path, kind):
    frame = dates_and_clocks()
    if kind == "text":
        frame["time"] = frame.time.map(str)
    if kind == "midnight":
        frame["date"] = pd.to_datetime(frame.date)
    db = splay.open(tmp_path)
    db.write("t", pl.from_pandas(frame) if kind == "polars" else frame)
    stored = db.sql("select time, price from t order by price").to_pandas()
    assert list(stored.time.dt.tz_localize(None)) == list(pd.to_datetime(AT, format="ISO8601"))
    assert db.table("t").schema.names == ["time", "symbol", "price"]
    # The table has a time now, and takes such rows again.
    db.write("t", frame)
    assert db.sql("select count(*) from t where date = '2024-03-05'").fetchall() == [(2,)]
    with pytest.raises(splay.Error, match="no time of day"):
        db.write("t", frame.assign(time=["9:30", "25 o'clock", "x"]))
    assert db.sql("select count(*) from t").fetchall() == [(6,)]


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_date_and_time_of_day_of_a_file_are_its_time(tmp_path, ending):
    frame, name = pl.from_pandas(dates_and_clocks()), tmp_path / f"apart.{ending}"
    frame.write_parquet(name) if ending == "parquet" else frame.write_ipc(name)
    said = splay_command("load", tmp_path / "db", "t", name, "--zone", "America/New_York", "--dry-run")
    assert "time is the time of day on the date of its row" in said
    splay_command("load", tmp_path / "db", "t", name, "--zone", "America/New_York")
    stored = splay.open(tmp_path / "db").sql("select time, date from t order by price").fetchall()
    assert [str(time)[:19] for time, _ in stored] == ["2024-03-04 14:30:00", "2024-03-04 21:00:00", "2024-03-05 05:00:00"]
    # What is named stays what it is.
    splay_command("load", tmp_path / "db", "kept", name, "--time", "date", "--type", "time=time")
    assert splay.open(tmp_path / "db").table("kept").schema.names == ["date", "time", "symbol", "price"]


def test_one_bad_time_leaves_the_column_a_time(tmp_path):
    lines = [f"2024-03-04 09:30:{second:02},A,{second}" for second in range(50)]
    text = "\n".join(["time,sym,price", *lines, "2024-13-04 09:30:00,A,50"])
    (tmp_path / "bad.csv").write_text(text)
    said = splay_command("load", tmp_path / "db", "t", tmp_path / "bad.csv", fails=True)
    assert "line 52" in said and "2024-13-04" in said
    said = splay_command("load", tmp_path / "db", "t", tmp_path / "bad.csv", "--on-error", "quarantine", "--quarantine", tmp_path / "bad")
    assert splay.open(tmp_path / "db").sql("select count(*) from t").fetchall() == [(50,)]


def test_a_writer_holds_no_more_than_the_database_may(tmp_path):
    """The default of a load is the limit of the database: rows beyond it are spilled, and all arrive."""
    db = splay.open(tmp_path, memory_bytes=4 << 20)
    rows = 300_000
    frame = pl.DataFrame({"time": pl.Series(range(rows, 0, -1)).cast(pl.Datetime("ns")), "sym": ["A"] * rows, "n": range(rows)})
    assert db.write("t", frame).rows == rows
    assert db.sql("select count(*), sum(n) from t").fetchall() == [(rows, rows * (rows - 1) // 2)]
