"""What a row takes on disk, and how fast it is read back: our tiers against Arrow and Parquet files and DuckDB, on four kinds of table.

All hold the same rows in the same order, by date, symbol and time. Files are read by pyarrow, which keeps Arrow files mapped, ours by an
open SplayDB, which does too. Mapped files are not read until their values are touched, so each time ends when every
number and time that was asked for has been added up once; the sums are compared. The suite ``formats`` has more codecs and whole
queries.
"""

import math
import pathlib
import shutil

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as dataset
import pyarrow.feather as feather
import pyarrow.parquet as pq

from engine.data import QUOTE_COLUMNS, TRADE_COLUMNS
from engine.measure import Rounds, measure as measure_calls
from engine.report import milliseconds

from . import inside

ROWS_MAX = {"smoke": 250_000, "full": 2_000_000}
"""Rows of each table; the first ones."""
MAPPED = ("Arrow, plain", "SplayDB, mapped")
"""Formats of which only the bytes that are added up are read, not texts."""
YARDSTICK = "Parquet, brotli 9"
"""What sizes are compared with."""
ONE_COLUMN = {"trade": "Trade_Price", "quote": "Bid_Price", "trades": "price", "books": "b1p"}
ABOUT = {
    "trade": "trades of US equities",
    "quote": "quotes of US equities",
    "trades": "trades of three crypto symbols",
    "books": "books of 20 levels, 83 columns",
}


def run(settings) -> None:
    inside.run("compression", settings)


def measure(given: inside.Inside) -> dict:
    rows = rows_of(given)
    folder = given.work / f"compression-{given.size}-{given.seed}"
    readers = files(folder, rows) | ours(given, folder, rows)
    return {
        "title": "compression: bytes of a row, and how fast it is read back",
        "note": f"{given.threads} threads; warm medians; GB/s are of the rows as plain Arrow, where all of them are decoded. Files are read "
        "by pyarrow, ours by an open SplayDB, until every number and time was added up once; sums compared. Arrow files and the mapped tier, "
        "which is plain Arrow itself, stay mapped between runs. One symbol is the one with the most rows.",
        "tables": [table(name, values, readers, given.rounds) for name, values in rows.items()],
    }


def rows_of(given: inside.Inside) -> dict[str, pa.Table]:
    """The tables by name: a day of equities, and the first days of a crypto month, ordered as SplayDB orders them."""
    day, month, most = given.data.taq(), given.data.crypto(), ROWS_MAX[given.size]
    found = {table: day.read(table, columns) for table, columns in (("trade", TRADE_COLUMNS), ("quote", QUOTE_COLUMNS))}
    for table in ("trades", "books"):
        parts, count = [], 0
        for path in month.files(table):
            if count < most:
                parts.append(ordered(pq.read_table(path)))
                count += parts[-1].num_rows
        found[table] = pa.concat_tables(parts).unify_dictionaries()
    return {name: values.slice(0, most).combine_chunks() for name, values in found.items()}


def ordered(values: pa.Table) -> pa.Table:
    """Rows of one day by symbol and time."""
    # Arrow doesn't sort by dictionaries.
    keys = pa.table({"symbol": values["symbol"].cast(pa.string()), "timestamp": values["timestamp"]})
    return values.take(pc.sort_indices(keys, [("symbol", "ascending"), ("timestamp", "ascending")]))


def time_and_symbol(values: pa.Table) -> tuple[str, str]:
    """Names of the two columns by which rows are ordered."""
    return ("timestamp", "symbol") if "timestamp" in values.column_names else ("Time", "Symbol")


class File:
    """One format: a file for each table."""

    def __init__(self, folder: pathlib.Path, ending: str, write):
        self.folder, self.ending, self.write = folder, ending, write
        self.maps: dict[str, pa.MemoryMappedFile] = {}

    def path(self, table: str) -> pathlib.Path:
        return self.folder / f"{table}.{self.ending}"

    def make(self, rows: dict[str, pa.Table]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for table, values in rows.items():
            if not self.path(table).exists():
                partial = self.path(table).with_suffix(".partial")
                self.write(values, str(partial))
                partial.rename(self.path(table))

    def size(self, table: str) -> int:
        return self.path(table).stat().st_size

    def read(self, table: str, columns: list[str], symbol: tuple[str, str] | None = None) -> pa.Table:
        """Columns of a table's rows; ``symbol`` is the column and the value that they must have."""
        if self.ending == "parquet":
            filters = None if symbol is None else [(symbol[0], "==", symbol[1])]
            return pq.read_table(self.path(table), columns=columns, filters=filters)
        if symbol is None:
            # One mapping for all runs, as a database keeps its own.
            if table not in self.maps:
                self.maps[table] = pa.memory_map(str(self.path(table)))
            return feather.read_table(self.maps[table], columns=columns)
        source = dataset.dataset(self.path(table), format="feather")
        return source.to_table(columns=columns, filter=pc.field(symbol[0]) == symbol[1])


class Ours:
    """A database of the same rows, in one of the tiers."""

    def __init__(self, given: inside.Inside, path: pathlib.Path, tier: str):
        self.given, self.database, self.tier = given, path, tier

    def make(self, rows: dict[str, pa.Table]) -> None:
        import splay

        if not self.database.exists():
            partial = self.database.with_name(self.database.name + ".partial")
            shutil.rmtree(partial, ignore_errors=True)
            handle = splay.open(partial)
            for table, values in rows.items():
                time, symbol = time_and_symbol(values)
                handle.write(table, values, time=time, symbol=symbol, tier=self.tier)
            del handle
            partial.rename(self.database)
        self.handle = splay.open(self.database, create=False, threads=self.given.threads)

    def size(self, table: str) -> int:
        """Bytes of segments and indexes, and of the manifest."""
        return sum(path.stat().st_size for path in (self.database / table).rglob("*") if path.is_file())

    def read(self, table: str, columns: list[str], symbol: tuple[str, str] | None = None) -> pa.Table:
        names = ", ".join(f'"{name}"' for name in columns)
        where = "" if symbol is None else f" WHERE \"{symbol[0]}\" = '{symbol[1]}'"
        return self.handle.sql(f"SELECT {names} FROM {table}{where}").to_arrow()


def files(folder: pathlib.Path, rows) -> dict[str, File]:
    def arrow(codec):
        return lambda values, path: feather.write_feather(values, path, compression=codec)

    def parquet(codec, level=None):
        return lambda values, path: pq.write_table(
            values, path, compression=codec, compression_level=level, row_group_size=131_072
        )

    found = {
        "Arrow, plain": File(folder / "arrow", "arrow", arrow("uncompressed")),
        "Arrow, lz4": File(folder / "arrow-lz4", "arrow", arrow("lz4")),
        "Arrow, zstd": File(folder / "arrow-zstd", "arrow", arrow("zstd")),
        "Parquet, snappy": File(folder / "parquet-snappy", "parquet", parquet("snappy")),
        "Parquet, zstd": File(folder / "parquet-zstd", "parquet", parquet("zstd")),
        YARDSTICK: File(folder / "parquet-brotli", "parquet", parquet("brotli", 9)),
    }
    for file in found.values():
        file.make(rows)
    return found


def ours(given: inside.Inside, folder: pathlib.Path, rows) -> dict[str, Ours]:
    found = {
        f"SplayDB, {tier}": Ours(given, folder / f"splay-{tier}", tier) for tier in ("mapped", "fast", "small")
    }
    for one in found.values():
        one.make(rows)
    return found


def sums(values: pa.Table) -> list[float]:
    """The sum of every column of numbers or times, which reads each value once; and the number of rows."""
    found = [float(values.num_rows)]
    for name in sorted(values.column_names):
        column = values[name]
        if pa.types.is_timestamp(column.type):
            # Their sum wraps around, in every format alike.
            column = column.cast(pa.int64())
        if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
            found.append(float(pc.sum(column).as_py() or 0))
    return found


def differ(expected: list[float], found: list[float]) -> bool:
    return len(expected) != len(found) or not all(
        math.isclose(one, other, rel_tol=1e-9) for one, other in zip(expected, found, strict=True)
    )


def busiest(values: pa.Table, symbol: str) -> str:
    counts = pc.value_counts(values[symbol].cast(pa.string())).to_pylist()
    return max(counts, key=lambda entry: entry["counts"])["values"]


def table(name: str, values: pa.Table, readers: dict, rounds: Rounds) -> dict:
    """A row for each format: bytes, and times of reading all, one column, one symbol."""
    symbol = time_and_symbol(values)[1]
    chosen = (symbol, busiest(values, symbol))
    asks = [(values.column_names, None), ([ONE_COLUMN[name]], None), (values.column_names, chosen)]
    plain = values.nbytes
    expected = [sums(readers["Arrow, plain"].read(name, *ask)) for ask in asks]
    rows = []
    for title, reader in readers.items():
        print(f"compression: {name}, {title}", flush=True)
        size = reader.size(name)
        row = [title, f"{size / values.num_rows:.2f}", f"{size / readers[YARDSTICK].size(name):.2f}"]
        taken = [taken_ms(reader, name, ask, wanted, rounds) for ask, wanted in zip(asks, expected, strict=True)]
        words = ["wrong" if ms is None else milliseconds(ms) for ms in taken]
        speed = "" if taken[0] is None or title in MAPPED else f"{plain / 1e6 / taken[0]:.2f}"
        rows.append([*row, words[0], speed, *words[1:]])
    head = ["format", "bytes a row", "to brotli 9", "all columns, ms", "GB/s", "one column, ms", "one symbol, ms"]
    return {"title": f"{values.num_rows:,} {ABOUT[name]}", "head": head, "rows": rows}


def taken_ms(reader, name: str, ask, wanted: list[float], rounds: Rounds) -> float | None:
    """Milliseconds of the median; ``None`` if the sums differ."""

    def call() -> list[float]:
        return sums(reader.read(name, *ask))

    return None if differ(wanted, call()) else measure_calls(lambda run: call, rounds).median
