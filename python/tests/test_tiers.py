"""Tiers: every one gives the same answers, is moved to by the command and by age, and is read by other tools as it lies on disk."""

import datetime
import json
import pathlib
import random
import subprocess

import duckdb
import polars as pl
import polars.selectors as cs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_server import SPLAY

import splay

TIERS = ["mapped", "fast", "small", "dense"]
START = datetime.datetime(2024, 3, 4, 14, 30, tzinfo=datetime.UTC)


def frame(rows: int = 20_000, days: int = 3) -> pa.Table:
    """Trades at whole milliseconds and prices of cents, with columns of other kinds and nulls."""
    rng = random.Random(5)
    times = sorted(START + datetime.timedelta(days=rng.randrange(days), milliseconds=rng.randrange(20_000_000)) for _ in range(rows))
    some = lambda value: None if rng.random() < 0.05 else value  # noqa: E731
    return pa.table(
        {
            "time": pa.array(times, pa.timestamp("ns", "UTC")),
            "sym": pa.array([rng.choice(["AAPL", "IBM", "ÖMV"]) for _ in times]).dictionary_encode(),
            "price": pa.array([some(rng.randrange(10_000, 20_000) / 100) for _ in times], pa.float64()),
            "odd": pa.array([some(rng.gauss(0, 1)) for _ in times], pa.float64()),
            "single": pa.array([some(rng.randrange(1000) / 4) for _ in times], pa.float32()),
            "size": pa.array([some(rng.randrange(1, 40) * 100) for _ in times], pa.int32()),
            "number": pa.array(range(rows), pa.int64()),
            "note": pa.array([some(f"note {rng.randrange(5000)}") for _ in times]),
            "flag": pa.array([some(rng.random() < 0.5) for _ in times]),
        }
    )


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    folders = {}
    for tier in TIERS:
        folders[tier] = tmp_path_factory.mktemp(tier) / "db"
        splay.open(folders[tier]).write("trade", frame(), time="time", symbol="sym", tier=tier)
    return folders


def run(*arguments: object) -> str:
    done = subprocess.run([SPLAY, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


STATEMENTS = [
    "select * from trade order by number",
    "select sym, count(*) as n, sum(price) as p, max(odd) as o, min(single) as s, avg(size) as z from trade group by sym order by sym",
    "select number, price, note from trade where size > 3000 and sym = 'IBM' order by number",
    "select note, count(*) as n from trade group by note order by n desc, note limit 20",
    "select sym, last(price) as p, first(odd) as o, count(flag) as f from trade group by sym order by sym",
    "select number, avg(price) over (partition by sym order by time rows between 9 preceding and current row) as a from trade order by number",
    "select count(*) as n from trade where note like '%77%' or odd > 1.5",
    "select * from trade where number = 4711",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_all_tiers_answer_alike(databases: dict[str, pathlib.Path], statement: str) -> None:
    expected = splay.open(databases["mapped"]).sql(statement).to_arrow()
    for tier in TIERS[1:]:
        assert splay.open(databases[tier]).sql(statement).to_arrow().equals(expected), (tier, statement)


def in_order(rows: pa.Table) -> list[dict[str, object]]:
    """Rows by number, with decimals as floats and texts as texts."""
    columns = []
    for name in rows.column_names:
        column = rows[name]
        if pa.types.is_decimal(column.type):
            # Arrow's own cast isn't always the nearest float.
            column = pa.array([None if value is None else float(value) for value in column.to_pylist()], pa.float64())
        if pa.types.is_dictionary(column.type):
            column = column.cast(pa.string())
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ns", "UTC"))
        columns.append(column)
    return pa.table(columns, names=rows.column_names).sort_by("number").to_pylist()


@pytest.fixture(scope="module")
def expected() -> list[dict[str, object]]:
    rows = in_order(frame())
    for row in rows:
        row["single"] = None if row["single"] is None else float(row["single"])
    return rows


@pytest.mark.parametrize("tier", ["fast", "small"])
def test_other_tools_read_parquet_segments(databases: dict[str, pathlib.Path], expected: list[dict[str, object]], tier: str) -> None:
    files = sorted((databases[tier] / "trade").glob("date=*/*.parquet"))
    assert len(files) == 3
    whole = pa.concat_tables(pq.read_table(path, partitioning=None) for path in files)
    assert pa.types.is_decimal(whole["price"].type) and pa.types.is_floating(whole["odd"].type)
    assert in_order(whole) == expected
    pattern = str(databases[tier] / "trade" / "date=*" / "*.parquet")
    rival = duckdb.connect()
    rival.execute("set timezone = 'UTC'")
    names = ", ".join(frame().column_names)
    assert in_order(rival.execute(f"select {names} from read_parquet('{pattern}', hive_partitioning = false)").to_arrow_table()) == expected
    lazy = pl.scan_parquet(pattern, hive_partitioning=False).with_columns(cs.decimal().cast(pl.Float64))
    found = lazy.collect().sort("number")
    theirs, ours = found["price"].to_list(), [row["price"] for row in expected]
    assert [one is None for one in theirs] == [one is None for one in ours]
    assert [one for one in theirs if one is not None] == pytest.approx([one for one in ours if one is not None], rel=1e-15)
    assert found["time"].dt.cast_time_unit("ns").to_list() == [row["time"] for row in expected]
    assert found["note"].to_list() == [row["note"] for row in expected]


def test_dense_rows_are_exported_to_parquet(
    databases: dict[str, pathlib.Path], expected: list[dict[str, object]], tmp_path: pathlib.Path
) -> None:
    assert len(sorted((databases["dense"] / "trade").glob("date=*/*.dense"))) == 3
    run("export", databases["dense"], "trade", "--to", tmp_path / "out")
    whole = pa.concat_tables(pq.read_table(path, partitioning=None) for path in sorted((tmp_path / "out").rglob("*.parquet")))
    assert in_order(whole) == expected


def test_other_tools_read_mapped_segments(databases: dict[str, pathlib.Path], expected: list[dict[str, object]]) -> None:
    files = sorted((databases["mapped"] / "trade").glob("date=*/*.arrow"))
    whole = pa.concat_tables((pa.ipc.open_file(path).read_all() for path in files), promote_options="default").unify_dictionaries()
    assert in_order(whole) == expected
    assert pl.concat([pl.read_ipc(path) for path in files])["number"].sum() == sum(range(len(expected)))


def test_the_smaller_tier_is_smaller(databases: dict[str, pathlib.Path]) -> None:
    sizes = [sum(path.stat().st_size for path in (databases[tier] / "trade").glob("date=*/*.[apd]*")) for tier in TIERS]
    assert sizes[0] > 2 * sizes[1] > 2 * sizes[2] and sizes[2] > sizes[3], sizes


def test_advice_is_that_of_the_command_and_can_be_followed(tmp_path: pathlib.Path) -> None:
    pq.write_table(frame(3000, 4), tmp_path / "rows.parquet")
    place = tmp_path / "db"
    run("load", place, "trade", tmp_path / "rows.parquet", "--time", "time", "--symbol", "sym")
    table = splay.open(place).table("trade")
    advice = table.advise("size")
    told = json.loads(run("advise", place, "trade", "--goal", "size", "--format", "json"))
    assert [tier["bytes"] for tier in advice["tiers"]] == [tier["bytes"] for tier in told["tiers"]]
    assert advice["rules"] == told["rules"] and advice["rows"] == 3000
    price = next(column for column in advice["columns"] if column["column"] == "price")
    assert price["small"]["bytes"] < price["mapped"]["bytes"] == price["now"]
    assert "whole numbers" in price["reason"], price["reason"]
    table.advise("speed", memory="1K", apply=True)
    assert len(table.move_to_tiers()) == 4
    assert {row["tier"] for row in table.storage()} == {"fast"}
    with pytest.raises(ValueError, match="size, speed, balanced"):
        table.advise("cheap")
    with pytest.raises(ValueError):
        table.advise(budget=-1.0)


def test_the_command_moves_dates_from_tier_to_tier(tmp_path: pathlib.Path) -> None:
    rows = frame(3000, 4)
    pq.write_table(rows, tmp_path / "rows.parquet")
    place = tmp_path / "db"
    run("load", place, "trade", tmp_path / "rows.parquet", "--time", "time", "--symbol", "sym", "--tier", "fast")
    database = splay.open(place)
    table = database.table("trade")
    kept = lambda: {row["date"].day: row["tier"] for row in table.storage()}  # noqa: E731
    assert kept() == dict.fromkeys([4, 5, 6, 7], "fast")
    run("compact", place, "trade", "--tier", "mapped", "--before", "2024-03-05")
    assert kept() == {4: "mapped", 5: "fast", 6: "fast", 7: "fast"}
    run("alter", place, "trade", "tier", "small", "--after", "2")
    assert "2024-03-04 would move to small" in run("maintain", place, "--dry-run")
    told = run("maintain", place)
    assert "2024-03-05 moved to small" in told, told
    assert kept() == {4: "small", 5: "small", 6: "fast", 7: "fast"}
    table.set_tier("mapped", after=0)
    assert [date.day for date in table.move_to_tiers()] == [6, 7]
    assert kept() == {4: "small", 5: "small", 6: "mapped", 7: "mapped"}
    assert in_order(database.sql("select * from trade").to_arrow().drop_columns(["date"])) == in_order(rows)
    told = run("describe", place, "trade", "--storage")
    assert "whole numbers / 10^2" in told and "small from 2 days on" in told, told
    price = [row for row in table.storage() if row["column"] == "price" and row["tier"] == "small"]
    assert all(row["bytes"] < row["plain_bytes"] for row in price)
    with pytest.raises(ValueError, match="mapped, fast, small"):
        table.compact(tier="tiny")
    refused = subprocess.run([SPLAY, "compact", place, "--tier", "tiny"], capture_output=True, text=True, check=False)
    assert refused.returncode != 0 and "mapped, fast, small" in refused.stderr
