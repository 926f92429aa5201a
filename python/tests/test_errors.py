"""Errors have a class each, a text for people, and their fields as attributes."""

import pathlib

import pyarrow as pa
import pytest

import splay

TIME = pa.array([1], pa.timestamp("ns"))


def test_every_class_is_an_error():
    classes = [value for value in vars(splay.errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert len(classes) > 30
    for found in classes:
        assert issubclass(found, splay.Error)
        assert getattr(splay, found.__name__) is found
        assert found.__name__ in splay.__all__


def test_a_folder_without_a_database(tmp_path):
    with pytest.raises(splay.NotADatabaseError, match="is not a SplayDB database") as caught:
        splay.open(tmp_path / "none", create=False)
    assert caught.value.path == tmp_path / "none"
    (tmp_path / "file").write_text("x")
    with pytest.raises(splay.StorageError, match="empty folder") as caught:
        splay.open(tmp_path)
    assert isinstance(caught.value, OSError)
    assert caught.value.path == tmp_path


def test_an_address_is_no_folder(tmp_path, monkeypatch, db, trades):
    monkeypatch.chdir(tmp_path)
    for address in ("http://127.0.0.1:7750", "https://ticks.example.com", "s3://bucket/market"):
        for create in (True, False):
            with pytest.raises(splay.NotADatabaseError, match="is an address, and this takes a folder.*splay.connect") as caught:
                splay.open(address, create=create)
            assert caught.value.address == address
    db.write("trade", trades)
    with pytest.raises(splay.NotADatabaseError, match="is an address"):
        db.table("trade").export("http://127.0.0.1:7750/x")
    assert not [path.name for path in tmp_path.iterdir() if ":" in path.name]


def test_no_such_table(db):
    with pytest.raises(splay.NoSuchTableError, match='no table "quote"; this database has none') as caught:
        db.table("quote")
    assert (caught.value.table, caught.value.existing) == ("quote", [])
    assert isinstance(caught.value, LookupError)


def test_methods_that_are_called_otherwise_elsewhere(db, trades):
    db.write("trade", trades)
    for name, here in [("join_asof", "asof_join"), ("sort_values", "sort"), ("drop_duplicates", "unique")]:
        with pytest.raises(AttributeError, match=f"a frame has no '{name}': use {here}"):
            getattr(db["trade"], name)
        assert hasattr(db["trade"], here)
    with pytest.raises(AttributeError, match="columns are time, sym"):
        getattr(db["trade"], "nothing")  # noqa: B009


def test_statements(db, trades):
    db.write("trade", trades)
    for wrong in ("selec 1", "select nothing from trade", "select $1", "select 'x' + now()", "copy trade to 'x.csv'"):
        with pytest.raises(splay.StatementError):
            db.sql(wrong)
    with pytest.raises(splay.NoSuchTableError, match="this database has trade"):
        db.sql("select 1 from nowhere")
    with pytest.raises(splay.StatementError, match="WITH before INSERT isn't supported"):
        db.sql("with t as (select * from trade) insert into trade select * from t")
    with pytest.raises(splay.ReadOnlyError, match="a setting belongs to a session"):
        db.sql("set a.b = 1")


def test_a_statement_that_fails_while_it_runs(db):
    answer = db.sql("select 1 / (value - 5) as x from generate_series(1, 10)")
    with pytest.raises(splay.ExecutionError, match="[Dd]ivi"):
        answer.to_arrow()


def test_the_memory_limit(tmp_path, trades):
    db = splay.open(tmp_path, memory_bytes=1 << 20)
    with pytest.raises(splay.MemoryLimitError, match="1048576 bytes") as caught:
        db.sql("select count(*) from (select value, count(*) from generate_series(1, 1000000) group by value)").to_arrow()
    assert caught.value.limit_bytes == 1 << 20
    assert isinstance(caught.value, MemoryError)


def test_frames_that_do_not_fit(db):
    with pytest.raises(TypeError, match="list has neither"):
        db.write("t", [1, 2])
    with pytest.raises(splay.SchemaError, match="no column looks like a time; name one with time=, of a, b"):
        db.write("t", pa.table({"a": [1], "b": ["x"]}))
    with pytest.raises(splay.SchemaError, match='the column "time" is text, and a time column has to be timestamps: convert it first'):
        db.write("t", pa.table({"time": ["2024-01-01"], "sym": ["A"]}))
    with pytest.raises(splay.SchemaError, match='no column "when"'):
        db.write("t", pa.table({"time": TIME}), time="when")
    with pytest.raises(splay.SchemaError, match='"a" is int64; it must be text'):
        db.write("t", pa.table({"time": TIME, "a": [1]}), symbol="a")
    with pytest.raises(splay.SchemaError, match="List.*name one in types"):
        db.write("t", pa.table({"time": TIME, "a": [[1]]}))
    with pytest.raises(splay.SchemaError, match="IANA"):
        db.write("t", pa.table({"time": TIME}), time_zone="Mars/Base")
    with pytest.raises(splay.InvalidNameError, match="may not begin with a dot") as caught:
        db.write("../t", pa.table({"time": TIME}))
    assert caught.value.name == "../t"
    with pytest.raises(ValueError, match="not a column type"):
        db.write("t", pa.table({"time": TIME}), types={"time": "varchar"})
    with pytest.raises(splay.SettingError, match="1 MiB") as caught:
        db.write("t", pa.table({"time": TIME}), memory_bytes=1)
    assert caught.value.setting == "memory_bytes"
    assert db.tables() == []


def test_a_row_without_a_time_is_named_by_its_place_in_the_frame(db):
    rows = 200_000
    time = pa.array([None if i == 150_000 else i for i in range(rows)], pa.timestamp("ns"))
    with pytest.raises(splay.RowError, match="row 150000 of the batch has no time") as caught:
        db.write("t", pa.table({"time": time}))
    assert (caught.value.table, caught.value.row) == ("t", 150_000)


def test_a_table_keeps_its_roles(db, trades):
    db.write("t", trades)
    with pytest.raises(splay.SchemaError, match='its time column is "time"'):
        db.write("t", trades, time="size")
    with pytest.raises(splay.SchemaError, match='its symbol column is "sym"'):
        db.write("t", trades, symbol="")
    with pytest.raises(splay.SchemaError, match="its dates are in UTC"):
        db.write("t", trades, time_zone="Asia/Tokyo")
    with pytest.raises(splay.SchemaError, match='"price" is float64, not float32'):
        db.write("t", trades, types={"price": "float32"})


def test_a_producer_that_fails_writes_nothing(db):
    schema = pa.schema({"time": pa.timestamp("ns")})

    def broken():
        yield pa.record_batch([TIME], schema=schema)
        raise RuntimeError("the feed broke")

    with pytest.raises(splay.ArrowError, match="the feed broke"):
        db.write("t", pa.RecordBatchReader.from_batches(schema, broken()))
    assert db.tables() == []


def test_one_writer_at_a_time(db, trades):
    """The producer of the first write begins a second one."""
    schema = pa.schema({"time": pa.timestamp("ns")})
    seen = []

    def nested():
        with pytest.raises(splay.LockedError, match="locked by another writer") as caught:
            db.write("u", trades)
        seen.append(caught.value.path)
        yield pa.record_batch([TIME], schema=schema)

    db.write("t", pa.RecordBatchReader.from_batches(schema, nested()))
    assert [path.name for path in seen] == ["writer.lock"]
    assert db.tables() == ["t"]


def test_damage_is_told_by_file_and_place(tmp_path, trades):
    db = splay.open(tmp_path)
    db.write("trade", trades)
    (segment,) = pathlib.Path(tmp_path).glob("trade/*2024-01-02*/*.arrow")
    damaged = bytearray(segment.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    segment.write_bytes(damaged)
    problems = splay.open(tmp_path).table("trade").verify()
    assert [problem.path for problem in problems] == [segment]
    error = problems[0].error
    assert isinstance(error, splay.CorruptError)
    assert error.path == segment
    assert error.offset >= 0
    assert error.expected != error.found
