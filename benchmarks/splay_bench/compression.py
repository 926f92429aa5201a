"""What a row takes on disk, how fast it is read back and written: our tiers against Arrow and Parquet files, DuckDB and ClickHouse, on four
kinds of table, and on any files that ``--data`` names.

All hold the same rows in the same order, by date, symbol and time. Files are read by pyarrow, which keeps Arrow files mapped, ours by an
open SplayDB, which does too. Mapped files are not read until their values are touched, so each time ends when every
number and time that was asked for has been added up once; the sums are compared. The suite ``formats`` has more codecs and whole
queries.
"""

import hashlib
import math
import pathlib
import random
import re
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as dataset
import pyarrow.feather as feather
import pyarrow.parquet as pq

from engine.data import QUOTE_COLUMNS, TRADE_COLUMNS
from engine.measure import Rounds, measure as measure_calls
from engine.report import milliseconds

from . import inside
from .compression_rivals import ClickHouse, DuckFile, seconds_of, timed

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


READ_ROWS = 1_024
READ_ASKS = 24
"""So many times ``READ_ROWS`` rows from a row at random on."""


def run(settings) -> None:
    inside.run("compression", settings)


def measure(given: inside.Inside) -> dict:
    folder = given.work / f"compression-{given.size}-{given.seed}"
    rows = rows_of(given) | files_given(given, folder)
    pa.set_cpu_count(given.threads)
    readers = files(folder, rows) | rivals(given, folder, rows) | ours(given, folder, rows)
    missing = "" if any(isinstance(one, ClickHouse) for one in readers.values()) else " ClickHouse's package (chdb) couldn't be had."
    return {
        "title": "compression: bytes of a row, and how fast it is read back",
        "note": f"{given.threads} threads; warm medians; GB/s are of the rows as plain Arrow, where all of them are decoded. Files are read "
        "by pyarrow, ours by an open SplayDB, until every number and time was added up once; sums compared. Arrow files and the mapped tier, "
        "which is plain Arrow itself, stay mapped between runs. Doubles are all columns of floats, encoding is that of all rows as plain "
        "Arrow, with sort, index and sync where it is ours; both by as many threads. "
        f"{READ_ROWS:,} rows are those of two columns from a row at random on, by its symbol and time.{missing} "
        "One symbol is the one with the most rows.",
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


def files_given(given: inside.Inside, folder: pathlib.Path) -> dict[str, pa.Table]:
    """The tables of the files that were named, as ``splay load`` reads and orders them."""
    import splay

    found = {}
    for path in given.files:
        about = f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}"
        # What was made of other files of that name isn't taken for this one's.
        name = re.sub(r"\W", "_", path.stem) + "_" + hashlib.sha256(about.encode()).hexdigest()[:6]
        database = folder / f"given-{name}"
        if not database.exists():
            partial = folder / f"given-{name}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            given.data.command("load", partial, name, path)
            partial.rename(database)
        handle = splay.open(database, create=False)
        table = handle.table(name)
        names = ", ".join(f'"{column}"' for column in table.schema.names)
        values = handle.sql(f'SELECT {names} FROM "{name}" LIMIT {ROWS_MAX[given.size]}').to_arrow()
        ROLES[name] = (table.time, table.symbol)
        ABOUT[name] = f"rows of {path.name}"
        floats = floating(values)
        ONE_COLUMN[name] = floats[0] if floats else values.column_names[-1]
        found[name] = values.unify_dictionaries().combine_chunks()
    return found


ROLES: dict[str, tuple[str, str | None]] = {}
"""Time and symbol of the tables that aren't ours."""


def ordered(values: pa.Table) -> pa.Table:
    """Rows of one day by symbol and time."""
    # Arrow doesn't sort by dictionaries.
    keys = pa.table({"symbol": values["symbol"].cast(pa.string()), "timestamp": values["timestamp"]})
    return values.take(pc.sort_indices(keys, [("symbol", "ascending"), ("timestamp", "ascending")]))


def time_and_symbol(table: str, values: pa.Table) -> tuple[str, str | None]:
    """Names of the two columns by which rows are ordered."""
    if table in ROLES:
        return ROLES[table]
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
                with timed(self.path(table)):
                    self.write(values, str(partial))
                partial.rename(self.path(table))

    def size(self, table: str) -> int:
        return self.path(table).stat().st_size

    def seconds(self, table: str) -> float | None:
        return seconds_of(self.path(table))

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

    def some(self, table: str, columns: list[str], symbol: tuple[str, str], since: tuple[str, int], count: int) -> pa.Table:
        """Two columns of the rows of a symbol from an instant on."""
        source = dataset.dataset(self.path(table), format=self.ending.replace("arrow", "feather"))
        instant = pa.scalar(since[1], source.schema.field(since[0]).type)
        wanted = (pc.field(symbol[0]) == symbol[1]) & (pc.field(since[0]) >= instant)
        return source.head(count, columns=columns, filter=wanted)


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
                instant, symbol = time_and_symbol(table, values)
                with timed(self.of(table)):
                    handle.write(
                        table, values, time=instant, symbol=symbol, tier=self.tier, threads=self.given.threads, partition="day"
                    )
            del handle
            partial.rename(self.database)
        self.handle = splay.open(self.database, create=False, threads=self.given.threads)

    def of(self, table: str) -> pathlib.Path:
        return self.database.with_name(f"{self.database.name}-{table}")

    def seconds(self, table: str) -> float | None:
        return seconds_of(self.of(table))

    def size(self, table: str) -> int:
        """Bytes of segments and indexes, and of the manifest."""
        return sum(path.stat().st_size for path in (self.database / table).rglob("*") if path.is_file())

    def read(self, table: str, columns: list[str], symbol: tuple[str, str] | None = None) -> pa.Table:
        names = ", ".join(f'"{name}"' for name in columns)
        where = "" if symbol is None else f" WHERE \"{symbol[0]}\" = '{symbol[1]}'"
        return self.handle.sql(f'SELECT {names} FROM "{table}"{where}').to_arrow()

    def some(self, table: str, columns: list[str], symbol: tuple[str, str], since: tuple[str, int], count: int) -> pa.Table:
        names = ", ".join(f'"{name}"' for name in columns)
        text = f'SELECT {names} FROM "{table}" WHERE "{symbol[0]}" = \'{symbol[1]}\' AND "{since[0]}" >= $1 LIMIT {count}'
        return self.handle.sql(text, [np.datetime64(since[1], "ns")]).to_arrow()


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


def rivals(given: inside.Inside, folder: pathlib.Path, rows) -> dict:
    """DuckDB, and ClickHouse where its package is there."""
    found = {DuckFile.name: DuckFile(folder / "duckdb", given.threads)}
    found[DuckFile.name].make(rows)
    clickhouse = ClickHouse(folder / "clickhouse")
    try:
        clickhouse.make(rows)
    except ImportError:
        return found
    return found | {ClickHouse.name: clickhouse}


def floating(values: pa.Table) -> list[str]:
    return [field.name for field in values.schema if pa.types.is_floating(field.type)]


def ours(given: inside.Inside, folder: pathlib.Path, rows) -> dict[str, Ours]:
    found = {
        f"SplayDB, {tier}": Ours(given, folder / f"splay-{tier}", tier) for tier in ("mapped", "fast", "small", "dense")
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
    """A row for each format: bytes, times of reading all, the doubles, one column, one symbol and some rows, and of writing."""
    symbol = time_and_symbol(name, values)[1]
    chosen = None if symbol is None else (symbol, busiest(values, symbol))
    floats = floating(values)
    asks = [(values.column_names, None), (floats, None), ([ONE_COLUMN[name]], None), (values.column_names, chosen)]
    few = asks_of_few(name, values) if symbol and len(floats) > 1 else []
    plain, doubles = values.nbytes, sum(values[column].nbytes for column in floats)
    expected = [sums(readers["Arrow, plain"].read(name, *ask)) for ask in asks]
    rows = []
    for title, reader in readers.items():
        print(f"compression: {name}, {title}", flush=True)
        size = reader.size(name)
        row = [title, f"{size / values.num_rows:.2f}", f"{size / readers[YARDSTICK].size(name):.2f}"]
        if not getattr(reader, "reads", True):
            rows.append([*row, *[""] * (len(HEAD) - len(row))])
            continue
        taken = [taken_ms(reader, name, ask, wanted, rounds) for ask, wanted in zip(asks, expected, strict=True)]
        words = ["wrong" if ms is None else milliseconds(ms) for ms in taken]
        speeds = [
            "" if ms is None or not size or title in MAPPED and number == 0 else f"{size / 1e6 / ms:.2f}"
            for number, (ms, size) in enumerate([(taken[0], plain), (taken[1], doubles)])
        ]
        of_few = "" if not few else taken_few(reader, name, few, rounds)
        seconds = reader.seconds(name)
        encoding = "" if seconds is None else f"{plain / 1e6 / seconds:.0f}"
        rows.append([*row, words[0], *speeds, words[2], words[3] if chosen else "", of_few, encoding])
    return {"title": f"{values.num_rows:,} {ABOUT[name]}", "head": HEAD, "rows": rows}


HEAD = [
    "format",
    "bytes a row",
    "to brotli 9",
    "all columns, ms",
    "GB/s",
    "doubles, GB/s",
    "one column, ms",
    "one symbol, ms",
    f"{READ_ROWS:,} rows, µs",
    "encoding, MB/s",
]


def asks_of_few(name: str, values: pa.Table) -> list[tuple]:
    """Two columns from rows at random on, each with the sums of what is to be read."""
    instant, symbol = time_and_symbol(name, values)
    columns = floating(values)[:2]
    times, symbols = values[instant].cast(pa.int64()), values[symbol].cast(pa.string())
    numbers, found = random.Random(7), []
    for _ in range(READ_ASKS):
        row = numbers.randrange(values.num_rows)
        of_symbol, since = symbols[row].as_py(), times[row].as_py()
        if of_symbol is None:
            continue
        mask = pc.and_(pc.equal(symbols, of_symbol), pc.greater_equal(times, since))
        wanted = values.select(columns).filter(mask).slice(0, READ_ROWS)
        found.append((columns, (symbol, of_symbol), (instant, since), sums(wanted)))
    return found


def taken_few(reader, name: str, asks: list[tuple], rounds: Rounds) -> str:
    """Microseconds of the median, each run at another row."""

    def call(run: int):
        columns, symbol, since, _ = asks[run % len(asks)]
        return lambda: sums(reader.some(name, columns, symbol, since, READ_ROWS))

    if any(differ(ask[3], call(number)()) for number, ask in enumerate(asks[:4])):
        return "wrong"
    return f"{measure_calls(call, rounds).median * 1e3:,.0f}"


def taken_ms(reader, name: str, ask, wanted: list[float], rounds: Rounds) -> float | None:
    """Milliseconds of the median; ``None`` if the sums differ."""

    def call() -> list[float]:
        return sums(reader.read(name, *ask))

    return None if differ(wanted, call()) else measure_calls(lambda run: call, rounds).median
