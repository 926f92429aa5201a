"""Published tables: other engines see the rows of a commit, all of them and no others, whatever is done to the table."""

import datetime
import pathlib
import random
import subprocess
from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from delta_readers import READERS, Absent, spark_session, stop_spark
from test_server import SPLAY

import splay

START = datetime.datetime(2024, 3, 4, 14, 30, tzinfo=datetime.UTC)
PRICES = [100.25, 99.5, 1 / 3, 1e300, -0.0, 0.1, 123456.789]


def frame(seed: int, rows: int = 2000, days: range = range(3)) -> pa.Table:
    """Rows of all types that tables have but lists, with nulls."""
    rng = random.Random(seed)
    times = sorted(START + datetime.timedelta(days=rng.choice(days), microseconds=rng.randrange(20_000_000_000)) for _ in range(rows))
    some = lambda value: None if rng.random() < 0.05 else value  # noqa: E731
    return pa.table(
        {
            "time": pa.array(times, pa.timestamp("ns", "UTC")),
            "sym": pa.array([rng.choice(["AAPL", "IBM", "ÖMV"]) for _ in times]).dictionary_encode(),
            "price": pa.array([some(rng.choice(PRICES)) for _ in times], pa.float64()),
            "single": pa.array([some(rng.randrange(1000) / 4) for _ in times], pa.float32()),
            "size": pa.array([some(rng.randrange(1, 40) * 100) for _ in times], pa.int32()),
            "number": pa.array([seed * 100_000 + row for row in range(rows)], pa.int64()),
            "tiny": pa.array([some(rng.randrange(256)) for _ in times], pa.uint8()),
            "flags": pa.array([some(rng.randrange(2**32)) for _ in times], pa.uint32()),
            "order_id": pa.array([some(rng.randrange(2**63, 2**64)) for _ in times], pa.uint64()),
            "fee": pa.array([some(rng.randrange(10**6)) for _ in times], pa.int64()).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)),
            "note": pa.array([some(f"note {rng.randrange(500)}") for _ in times]),
            "flag": pa.array([some(rng.random() < 0.5) for _ in times]),
            "expiry": pa.array([some(datetime.date(2025, 1, 1) + datetime.timedelta(days=rng.randrange(100))) for _ in times]),
            "bid": pa.array([some([rng.random(), rng.random()]) for _ in times], pa.list_(pa.float64(), 2)),
        }
    )


def plain(rows: pa.Table) -> list[dict[str, object]]:
    """Rows by number, with every value in the type that Python has for it."""
    columns = []
    for name in rows.column_names:
        column = rows[name]
        if pa.types.is_dictionary(column.type):
            column = column.cast(pa.string())
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us")).cast(pa.int64())
        if pa.types.is_decimal(column.type):
            column = pa.array([None if value is None else str(value.normalize()) for value in column.to_pylist()])
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_fixed_size_list(column.type):
            # ClickHouse has no lists that are null, only empty ones.
            column = pa.array([value or None for value in column.to_pylist()], pa.list_(pa.float64()))
        if column.type == pa.uint64():
            column = pa.array([None if value is None else str(Decimal(value).normalize()) for value in column.to_pylist()])
        columns.append(column)
    found = pa.table(columns, names=rows.column_names)
    return found.select(sorted(found.column_names)).sort_by("number").to_pylist()


def expected_of(rows: pa.Table) -> list[dict[str, object]]:
    """The same of rows that are in the table, with their dates."""
    dates = pc.cast(pc.floor_temporal(rows["time"], unit="day"), pa.date32())
    return plain(rows.append_column("date", dates))


def run(*arguments: object) -> str:
    done = subprocess.run([SPLAY, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def _spark() -> Iterator[None]:
    yield
    stop_spark()


def read(engine: str, folder: pathlib.Path) -> list[dict[str, object]]:
    try:
        return plain(READERS[engine](folder))
    except Absent as reason:
        pytest.skip(str(reason))


def published(path: pathlib.Path, form: str = "delta") -> "splay.Table":
    """A table of three dates in Parquet, in the form that others read."""
    database = splay.open(path)
    database.write("trade", frame(1), time="time", symbol="sym", tier="small")
    table = database.table("trade")
    table.set_publish(form)
    table.compact()
    return table


def together(*parts: pa.Table) -> pa.Table:
    return pa.concat_tables(parts).unify_dictionaries()


@pytest.mark.parametrize("engine", READERS)
def test_engines_see_each_commit(tmp_path: pathlib.Path, engine: str) -> None:
    table = published(tmp_path / "db")
    folder = table.publish().path
    first, later = frame(1), frame(2, 300, range(1, 5))
    assert read(engine, folder) == expected_of(first)

    write = lambda rows, **options: splay.open(tmp_path / "db").write("trade", rows, tier="small", **options)  # noqa: E731
    write(later)
    assert read(engine, folder) == expected_of(first), "others see what was published last"
    table.publish()
    rows = together(first, later)
    assert read(engine, folder) == expected_of(rows)

    table.compact(tier="fast")
    table.publish()
    assert read(engine, folder) == expected_of(rows)

    table.delete("size > 3000")
    table.publish()
    goes = pc.fill_null(pc.greater(rows["size"], 3000), False)
    assert read(engine, folder) == expected_of(rows.filter(pc.invert(goes)))

    table.undo(table.commits(1)[0].commit)
    table.publish()
    assert read(engine, folder) == expected_of(rows)

    of_date = frame(3, 100, range(1, 2))
    write(of_date, replace="date")
    table.publish()
    is_of_date = pc.equal(pc.day(rows["time"]), START.day + 1)
    rows = together(rows.filter(pc.invert(is_of_date)), of_date)
    assert read(engine, folder) == expected_of(rows)

    table.retain(days=2)
    table.expire()
    table.publish()
    is_kept = pc.greater_equal(pc.day(rows["time"]), START.day + 3)
    rows = rows.filter(is_kept)
    assert rows.num_rows > 0 and read(engine, folder) == expected_of(rows)


@pytest.mark.parametrize("engine", READERS)
def test_engines_see_nanoseconds_as_whole_numbers(tmp_path: pathlib.Path, engine: str) -> None:
    rows = frame(4, 500)
    fine = pc.add(rows["time"].cast(pa.int64()), pa.array(range(500))).cast(pa.timestamp("ns", "UTC"))
    rows = rows.set_column(0, "time", fine)
    database = splay.open(tmp_path / "db")
    database.write("trade", rows, time="time", symbol="sym", tier="small")
    table = database.table("trade")
    table.set_publish("delta")
    table.compact()
    with pytest.raises(splay.SchemaError, match="parts of a microsecond.*delta-nanos"):
        table.publish()
    table.set_publish("delta-nanos")
    table.compact()
    folder = table.publish().path
    times = sorted(rows["time"].cast(pa.int64()).to_pylist())
    assert sorted(row["time"] for row in read(engine, folder)) == times
    assert sorted(database.sql("select time from trade").to_arrow()["time"].cast(pa.int64()).to_pylist()) == times


@pytest.mark.parametrize("engine", READERS)
def test_engines_see_months_and_new_columns(tmp_path: pathlib.Path, engine: str) -> None:
    """Partitions that aren't dates, and files from before a column was added."""
    database = splay.open(tmp_path / "db")
    rows = frame(5, 300, range(40))
    database.write("trade", rows, time="time", symbol="sym", tier="small", partition="month")
    database.sql("alter table trade set (publish = 'delta')")
    database.sql("alter table trade add column venue text")
    table = database.table("trade")
    table.compact()
    folder = table.publish().path
    expected = plain(rows.append_column("venue", pa.nulls(300, pa.string())))
    assert read(engine, folder) == expected


def test_a_publication_says_what_it_did(tmp_path: pathlib.Path) -> None:
    table = published(tmp_path / "db")
    report = table.publish()
    assert (report.version, report.is_new, report.files, report.rows, report.files_added, report.left_out) == (0, True, 3, 2000, 3, [])
    assert not table.publish().is_new
    splay.open(tmp_path / "db").write("trade", frame(6, 50, range(4, 5)), tier="mapped")
    report = table.publish()
    assert (report.version, report.left_out, report.rows) == (1, [datetime.date(2024, 3, 8)], 2000)
    assert "left_out=1 dates" in repr(report)
    configuration = pytest.importorskip("deltalake").DeltaTable(report.path).metadata().configuration
    assert configuration["splay.leftOut"] == "2024-03-08"


def test_no_other_program_writes(tmp_path: pathlib.Path) -> None:
    """A vacuum would remove what the Delta log doesn't name: manifest, indexes, mapped segments."""
    table = published(tmp_path / "db")
    folder = table.publish().path
    files = lambda: sorted(str(path) for path in folder.rglob("*") if path.is_file())  # noqa: E731
    before = files()
    delta = pytest.importorskip("deltalake")
    for write in (
        lambda: delta.DeltaTable(folder).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True),
        lambda: delta.DeltaTable(folder).delete("size > 0"),
        lambda: delta.write_deltalake(folder, delta.DeltaTable(folder).to_pyarrow_table(), mode="append"),
    ):
        with pytest.raises(Exception, match="splayManaged"):
            write()
        assert files() == before


def test_spark_does_not_write_either(tmp_path: pathlib.Path) -> None:
    table = published(tmp_path / "db")
    folder = table.publish().path
    try:
        spark = spark_session()
    except Absent as reason:
        pytest.skip(str(reason))
    before = sorted(str(path) for path in folder.rglob("*"))
    for statement in (f"VACUUM delta.`{folder}`", f"DELETE FROM delta.`{folder}`"):
        with pytest.raises(Exception, match="splayManaged"):
            spark.sql(statement)
    assert sorted(str(path) for path in folder.rglob("*")) == before


def test_metadata_that_others_tidy_up_is_no_loss(tmp_path: pathlib.Path) -> None:
    """deltalake makes checkpoints of any table, and removes versions before them."""
    table = published(tmp_path / "db")
    folder = table.publish().path
    pytest.importorskip("deltalake").DeltaTable(folder).create_checkpoint()
    (folder / "_delta_log" / f"{0:020}.json").unlink()
    assert not table.publish().is_new
    table.delete("size > 3000")
    assert table.publish().version == 1
    assert read("deltalake", folder) == plain_of_database(tmp_path / "db")


def plain_of_database(path: pathlib.Path) -> list[dict[str, object]]:
    return plain(splay.open(path).sql("select * from trade").to_arrow())


def test_commands_publish(tmp_path: pathlib.Path) -> None:
    place = tmp_path / "db"
    splay.open(place).write("trade", frame(7, 200), time="time", symbol="sym", tier="small")
    refused = subprocess.run([SPLAY, "publish", place, "trade"], capture_output=True, text=True, check=False)
    assert refused.returncode != 0 and "isn't published" in refused.stderr, refused.stderr
    run("alter", place, "trade", "publish", "delta")
    early = subprocess.run([SPLAY, "maintain", place], capture_output=True, text=True, check=False)
    assert early.returncode != 0 and "splay compact" in early.stdout, early
    run("compact", place, "trade")
    assert "published  as delta" in run("describe", place, "trade")
    told = run("publish", place)
    assert "version 0 of" in told and "200 rows in 3 files; 3 files added, 0 removed" in told, told
    assert "nothing new" in run("maintain", place)
    run("compact", place, "trade", "--tier", "mapped", "--before", "2024-03-05")
    assert "not in it, since they are mapped or in the object store: 2024-03-04" in run("maintain", place)
    run("alter", place, "trade", "publish", "none")
    assert "0 rows in 0 files" in run("publish", place, "trade")
