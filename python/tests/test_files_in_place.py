"""Files as tables of a statement: what DuckDB gives for the same files, and errors that name the file."""

import datetime as dt
import gzip
import time

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import splay

ROWS = 20_000


def ticks(seed: int, rows: int = ROWS) -> pa.Table:
    draw = np.random.default_rng(seed)
    price = draw.normal(100, 5, rows)
    price[::97] = np.nan
    start = np.datetime64("2024-01-02T09:30:00", "us").astype("int64")
    return pa.table(
        {
            "Time": pa.array(start + np.sort(draw.integers(0, 10**10, rows)), pa.timestamp("us")),
            "Symbol": pa.array(draw.choice(["AAPL", "IBM", "MSFT"], rows)).dictionary_encode(),
            "price": pa.array(price),
            "size": pa.array(draw.integers(1, 1_000, rows), pa.int32(), mask=draw.random(rows) < 0.01),
            "note": pa.array([f"n{n % 7}" if n % 3 else None for n in range(rows)]),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for day in (1, 2):
        rows = ticks(day)
        pq.write_table(rows, folder / f"day{day}.parquet", row_group_size=1_500)
        plain = rows.set_column(1, "Symbol", rows["Symbol"].cast(pa.string()))
        pyarrow.feather.write_feather(plain, folder / f"day{day}.arrow", compression="lz4")
        duckdb.sql(f"copy (select * from plain) to '{folder}/day{day}.csv' (header)")
        with gzip.open(folder / f"zipped{day}.csv.gz", "wb") as zipped:
            zipped.write((folder / f"day{day}.csv").read_bytes())
    return folder


@pytest.fixture
def db(tmp_path):
    return splay.open(tmp_path / "db")


STATEMENTS = [
    "select count(*) n from {f}",
    "select Symbol, count(*) n, sum(size) s, min(size) low, max(Time) last from {f} group by Symbol order by Symbol",
    "select * from {f} where size between 500 and 502 order by Time, size, Symbol",
    "select Time, size from {f} where Time >= timestamp '2024-01-02 11:00:00' and Time < timestamp '2024-01-02 11:10:00' order by 1, 2",
    "select count(*) n from {f} where price > 110",
    "select count(*) n from {f} where price < 90 and Symbol = 'IBM'",
    "select note, count(*) n from {f} where note is not null group by note order by note",
    "select count(*) n from {f} where note is null",
    "select count(*) n from {f} where size > 100000",
    "select a.Symbol, count(*) n from {f} a join {f} b on a.Time = b.Time and a.Symbol = b.Symbol group by 1 order by 1",
    "with t as (select * from {f}) select max(size) m from t where Symbol in (select Symbol from t where size = 999)",
]


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("files", ["day1.parquet", "day*.parquet", "day1.arrow", "day*.csv", "zipped1.csv.gz"])
def test_answers_are_those_of_duckdb(db, folder, files, statement):
    # DuckDB reads Arrow files by an extension.
    theirs = files.replace(".arrow", ".parquet")
    expected = duckdb.sql(statement.format(f=f"'{folder / theirs}'")).fetchall()
    found = db.sql(statement.format(f=f"'{folder / files}'")).to_arrow()

    def plain(value):
        # Times of text files are nanoseconds in UTC.
        return value.to_pydatetime().replace(tzinfo=None) if hasattr(value, "to_pydatetime") else value

    normal = [tuple(map(plain, row.values())) for row in found.to_pylist()]
    assert repr(sorted(normal, key=repr)) == repr(sorted(expected, key=repr))


def test_columns_have_the_files_spelling_and_types(db, folder):
    found = db.sql(f"select * from '{folder}/day1.parquet' limit 3").to_arrow()
    assert found.column_names == ["Time", "Symbol", "price", "size", "note"]
    assert found.schema.field("size").type == pa.int32()
    assert found["Time"].to_pylist() == ticks(1)["Time"].to_pylist()[:3], "the first rows of the file"


def test_nans_of_files_are_one(db, tmp_path):
    values = pa.table({"g": np.copysign([np.nan, np.nan, 1.0, np.nan], [1, -1, 1, -1]), "n": [1, 2, 3, 4]})
    pq.write_table(values, tmp_path / "nans.parquet")
    pyarrow.feather.write_feather(values, tmp_path / "nans.arrow", compression="uncompressed")
    for name in ("nans.parquet", "nans.arrow"):
        file = f"'{tmp_path / name}'"
        assert [row["n"] for row in db.sql(f"select g, count(*) n from {file} group by g order by n").to_arrow().to_pylist()] == [1, 3]
        assert db.sql(f"select count(*) n from {file} a join {file} b on a.g = b.g").to_arrow()["n"][0].as_py() == 10
        assert db.sql(f"select count(*) n from (select distinct g from {file}) d").to_arrow()["n"][0].as_py() == 2


def test_files_and_tables_join(db, folder):
    db.write("trade", ticks(1), time="Time", symbol="Symbol")
    found = db.sql(
        f"select count(*) n, sum(t.size) s from trade t join '{folder}/day1.parquet' f on t.Time = f.Time and t.Symbol = f.Symbol"
    ).to_arrow()
    assert found["n"][0].as_py() >= ROWS
    asof = db.sql(f"select count(b.size) n from trade a asof join '{folder}/day2.parquet' b on a.Symbol = b.Symbol and a.Time >= b.Time")
    assert asof.to_arrow()["n"][0].as_py() > 0


def test_a_table_comes_before_a_file_of_its_name(db, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    count = "select count(*) n from 'day1.csv'"
    assert db.sql(count).to_arrow()["n"][0].as_py() == ROWS
    db.sql('create table "day1.csv" (ts timestamp)').to_arrow()
    assert db.sql(count).to_arrow()["n"][0].as_py() == 0
    db.sql('drop table "day1.csv"').to_arrow()
    assert db.sql(count).to_arrow()["n"][0].as_py() == ROWS
    db.sql('create view "day1.csv" as select 1 as one').to_arrow()
    with pytest.raises(splay.StatementError, match="the view day1.csv"):
        db.sql(count).to_arrow()


def test_cached_columns_are_those_of_the_file_as_it_is(tmp_path):
    """Also of one of several files, and where types of text depend on another file of the pattern."""

    def write(name, values):
        pq.write_table(pa.table({"x": pa.array(values)}), tmp_path / f"{name}.parquet", row_group_size=100)
        (tmp_path / f"{name}.csv").write_text("x\n" + "".join(f"{value}\n" for value in values))

    def answers(db):
        def of(extension):
            return db.sql(f"select count(*) n, sum(x) s from '{tmp_path}/*.{extension}'").to_arrow().to_pylist()[0]

        return of("parquet"), of("csv")

    write("a", range(1_000))
    write("b", range(1_000, 1_500))
    for options in ({}, {"file_cache_bytes": 0}, {"file_cache_bytes": 5_000}):
        db = splay.open(tmp_path / "db", **options)
        expected = {"n": 1_500, "s": sum(range(1_500))}
        time.sleep(2.1)
        for _ in range(3):
            assert answers(db) == (expected, expected)
        write("c", range(7))
        assert answers(db) == ({"n": 1_507, "s": expected["s"] + 21},) * 2
        write("b", range(2_000, 2_500))
        assert answers(db)[0] == {"n": 1_507, "s": sum(range(1_000)) + sum(range(2_000, 2_500)) + 21}
        time.sleep(2.1)
        assert answers(db) == answers(db)
        # Numbers of one file become texts by another one.
        (tmp_path / "b.csv").write_text("x\n1.5\n")
        assert answers(db)[1] == {"n": 1_008, "s": sum(range(1_000)) + 1.5 + 21}
        (tmp_path / "c.parquet").unlink()
        (tmp_path / "c.csv").unlink()
        write("b", range(1_000, 1_500))


def test_faults_name_the_file(db, folder, tmp_path):
    with pytest.raises(splay.Error, match="nothing.parquet"):
        db.sql("select * from 'nothing.parquet'").to_arrow()
    other = tmp_path / "other"
    other.mkdir()
    pq.write_table(pa.table({"a": [1, 2]}), other / "1.parquet")
    pq.write_table(pa.table({"a": ["x"]}), other / "2.parquet")
    with pytest.raises(splay.Error, match=r"2\.parquet.*column \"a\""):
        db.sql(f"select * from '{other}/*.parquet'").to_arrow()
    damaged = tmp_path / "damaged.parquet"
    content = bytearray((folder / "day1.parquet").read_bytes())
    content[4:20_000] = bytes(len(content[4:20_000]))
    damaged.write_bytes(content)
    with pytest.raises(splay.Error, match="damaged.parquet"):
        db.sql(f"select * from '{damaged}'").to_arrow()
    (tmp_path / "cut.parquet").write_bytes(content[:1000])
    with pytest.raises(splay.Error, match="cut.parquet"):
        db.sql(f"select * from '{tmp_path}/cut.parquet'").to_arrow()
    (tmp_path / "bad.csv").write_text("a,b\n" + "1,2\n" * 20_000 + "x,2\n")
    with pytest.raises(splay.Error, match=r"bad\.csv.*20002"):
        db.sql(f"select sum(a) from '{tmp_path}/bad.csv'").to_arrow()


def test_empty_files_have_no_rows(db, tmp_path):
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "empty.parquet")
    assert db.sql(f"select count(*) n, sum(a) s from '{tmp_path}/empty.parquet'").to_arrow().to_pylist() == [{"n": 0, "s": None}]
    (tmp_path / "header.csv").write_text("a,b\n")
    assert db.sql(f"select count(*) n from '{tmp_path}/header.csv'").to_arrow()["n"][0].as_py() == 0


def test_leaving_early_ends_the_reading(db, folder):
    answer = db.sql(f"select a.size from '{folder}/day*.csv' a cross join '{folder}/day1.parquet' b")
    next(iter(answer))


def test_row_groups_are_passed_over_only_by_casts_that_keep_an_order(tmp_path):
    # Two days in one row group, whose least time of day is that of the last row.
    times = [dt.datetime(2024, 3, 8, 14, 40), dt.datetime(2024, 3, 9, 9, 0)]
    pq.write_table(pa.table({"t": pa.array(times, pa.timestamp("us")), "n": [-4, 7]}), tmp_path / "t.parquet")
    db = splay.open(tmp_path / "db")

    def count(condition: str) -> int:
        return db.sql(f"select count(*) as n from '{tmp_path}/t.parquet' where {condition}").fetchall()[0][0]

    assert count("t::time >= time '14:35'") == 1
    assert count("t::time between time '14:35' and time '15:00'") == 1
    assert count("t::time < time '10:00'") == 1
    assert count("t::date = date '2024-03-08'") == 1
    assert count("t::date > date '2024-03-09'") == 0
    assert count("n::bigint > 7") == 0
    assert count("n::double = -4.0") == 1


def test_rounded_decimals_are_compared_by_their_values(tmp_path):
    values = pa.array(["1.2500", "1.2345"]).cast(pa.decimal128(12, 4))
    pq.write_table(pa.table({"d": values}), tmp_path / "d.parquet")
    db = splay.open(tmp_path / "db")
    file = f"'{tmp_path}/d.parquet'"
    assert db.sql(f"select count(*) as n from {file} where d = round(d, 2)").fetchall() == [(1,)]
    assert db.sql(f"select count(*) as n from {file} a join {file} b on a.d = round(b.d, 2)").fetchall() == [(1,)]
    assert db.sql(f"select count(*) as n from {file} where d::int = 1").fetchall() == [(2,)]


@pytest.mark.parametrize("clock", [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")])
@pytest.mark.parametrize("write", [pq.write_table, pyarrow.feather.write_feather])
def test_times_of_day_of_any_unit_are_those_of_tables(db, tmp_path, clock, write):
    clocks = pa.array([dt.time(10), dt.time(9, 30), None, dt.time(16)]).cast(clock)
    file = tmp_path / "clocks"
    write(pa.table({"id": [1, 2, 3, 4], "clock": clocks}), file)
    file = file.rename(tmp_path / ("clocks.parquet" if write is pq.write_table else "clocks.arrow"))

    def ids(condition):
        return [row[0] for row in db.sql(f"select id from '{file}' where {condition} order by id").fetchall()]

    assert ids("clock >= time '10:00'") == [1, 4]
    assert ids("clock in (time '09:30', time '16:00')") == [2, 4]
    assert ids("clock between time '09:00' and '10:00'") == [1, 2]
    assert ids(f"clock = (select max(clock) from '{file}')") == [4]
    db.write("t", pa.table({"time": pa.array([1], pa.timestamp("s")), "clock": pa.array([dt.time(9, 30)])}))
    assert db.sql(f"select id from '{file}' f join t on f.clock = t.clock").fetchall() == [(2,)]


def test_a_condition_on_a_cast_says_nothing_of_the_order(db, tmp_path):
    hours = [dt.datetime(2024, 3, 9, hour) for hour in (12, 10, 11)]
    rows = pa.table({"time": pa.array(hours, pa.timestamp("us")), "id": [1, 2, 3], "price": [1.9, 1.1, 1.5]})
    pq.write_table(rows, tmp_path / "day.parquet")
    for condition in ("time::date = date '2024-03-09'", "time::date = '2024-03-09'", "price::int = 1", "price::bigint = 1"):
        of = f"from '{tmp_path}/day.parquet' where {condition}"
        assert db.sql(f"select id {of} order by time").fetchall() == [(2,), (3,), (1,)]
        assert db.sql(f"select id {of} order by price desc limit 1").fetchall() == [(1,)]
        numbers = db.sql(f"select id, row_number() over (order by time), lag(id) over (order by price) {of} order by id")
        assert numbers.fetchall() == [(1, 3, 3), (2, 1, None), (3, 2, 2)]


def test_instants_of_other_zones_are_those_of_tables(db, tmp_path):
    instants = pa.array([dt.datetime(2024, 3, 9, 10), dt.datetime(2024, 3, 9, 15)], pa.timestamp("us", "America/New_York"))
    pq.write_table(pa.table({"time": instants, "id": [1, 2]}), tmp_path / "zoned.parquet")
    db.load("t", tmp_path / "zoned.parquet")
    for condition in ("time >= timestamp '2024-03-09 12:00'", "time = '2024-03-09 15:00'", "time::date = '2024-03-09'"):
        stored = db.sql(f"select id, time from t where {condition} order by id").fetchall()
        assert db.sql(f"select id, time from '{tmp_path}/zoned.parquet' where {condition} order by id").fetchall() == stored
    assert [row[0] for row in stored] == [1, 2]


def test_fields_of_null_structures_are_null(db, tmp_path):
    """Arrow files have values there."""
    fields = pa.struct([("x", pa.int64()), ("of", pa.struct([("text", pa.string())]))])
    rows = pa.table(
        {
            "id": [0, 1, 2, 3],
            "st": pa.array([{"x": 5, "of": {"text": "a"}}, None, {"x": None, "of": None}, {"x": 0, "of": {"text": None}}], fields),
        }
    )
    with pa.ipc.new_file(tmp_path / "st.arrow", rows.schema) as writer:
        writer.write_table(rows)
    pq.write_table(rows, tmp_path / "st.parquet")
    for name in ("st.arrow", "st.parquet"):
        answer = db.sql(
            f"select st.x as x, st['of']['text'] as text, st is null as missing from '{tmp_path}/{name}' order by id"
        ).to_arrow()
        assert answer.to_pydict() == {"x": [5, None, None, 0], "text": ["a", None, None, None], "missing": [False, True, False, False]}
        assert db.sql(f"select id from '{tmp_path}/{name}' where st.x = 0").to_arrow()["id"].to_pylist() == [3]


def test_categories_of_no_value_are_null(db, tmp_path):
    rows = pa.table({"id": [0, 1], "c": pa.array([None, None], pa.string()).dictionary_encode()}).to_pandas()
    rows.to_parquet(tmp_path / "c.parquet")
    assert db.sql(f"select id, c from '{tmp_path}/c.parquet' order by id").to_arrow().to_pydict() == {"id": [0, 1], "c": [None, None]}
    assert db.sql(f"select count(c) n, count(*) m from '{tmp_path}/c.parquet'").to_arrow().to_pylist() == [{"n": 0, "m": 2}]


def test_names_that_differ_in_case_are_refused_with_the_file(db, tmp_path):
    pq.write_table(pa.table({"A": [1], "a": [2]}), tmp_path / "case.parquet")
    with pytest.raises(splay.Error, match=r'case.parquet: its columns "A" and "a" have the same name but for case'):
        db.sql(f"select count(*) from '{tmp_path}/case.parquet'").to_arrow()


def test_writers_types_of_text_are_text(db, tmp_path):
    """Polars writes views and large texts, pandas codes of eight bits."""
    texts = pa.array(["a", None, "b", "a"])
    for number, kind in enumerate(
        [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int16(), pa.large_string())]
    ):
        column = texts.cast(kind) if kind != pa.string_view() else pa.array(texts.to_pylist(), kind)
        with pa.ipc.new_file(tmp_path / f"{number}.arrow", pa.schema([("s", kind)])) as writer:
            writer.write_table(pa.table({"s": column}))
        answer = db.sql(f"select s, count(*) n from '{tmp_path}/{number}.arrow' where s is not null group by s order by s").to_arrow()
        assert [str(text) for text in answer["s"].to_pylist()] == ["a", "b"]
        assert answer["n"].to_pylist() == [2, 1]


def test_far_times_are_compared_in_the_units_of_files(db, tmp_path):
    far = 253402300799000000
    for unit, divisor in (("us", 1), ("ms", 1_000), ("s", 1_000_000)):
        for zone in (None, "UTC"):
            rows = pa.table(
                {"id": [0, 1, 2, 3], "t": pa.array([0, far // divisor, -62135596800000000 // divisor, None], pa.timestamp(unit, zone))}
            )
            pq.write_table(rows, tmp_path / "t.parquet", version="2.6", coerce_timestamps=None)

            def found(condition):
                return db.sql(f"select id from '{tmp_path}/t.parquet' where {condition} order by id").to_arrow()["id"].to_pylist()

            assert found("t >= timestamp '9999-12-31 00:00:00'") == [1]
            assert found("t = timestamp '9999-12-31 23:59:59'") == [1]
            assert found("'9999-12-31' <= t") == [1]
            assert found("t < date '9999-12-31'") == [0, 2]
            assert found("t between '0001-01-01' and '1969-01-01'") == [2]
            assert found("t not between timestamp '0001-01-01' and timestamp '9999-01-01'") == [1]
            assert found("t in (timestamp '9999-12-31 23:59:59', '1970-01-01')") == [0, 1]
            assert found("t is distinct from timestamp '9999-12-31 23:59:59'") == [0, 2, 3]
            assert found(f"t > (select min(t) from '{tmp_path}/t.parquet') and t < '9999-12-31'") == [0]
