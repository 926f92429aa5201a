"""DuckDB's file and ClickHouse's parts with the same rows in the same order, for the suite ``compression``.

ClickHouse runs as chDB. Its size is that of a table in which each column has the codec that made it smallest of those that are tried; how
fast it is read isn't measured here. Where its package can't be had the report says so.
"""

import contextlib
import csv
import io
import pathlib
import shutil
import time

import pyarrow as pa
import pyarrow.parquet as pq

SETTINGS = "min_bytes_for_wide_part = 0, min_rows_for_wide_part = 0"
"""A file for each column, so that each one's bytes are told."""
WHOLE = ["ZSTD(3)", "LZ4HC(9)", "Delta, ZSTD(3)", "DoubleDelta, ZSTD(3)", "T64, ZSTD(3)"]
FLOATS = ["ZSTD(3)", "LZ4HC(9)", "Gorilla, ZSTD(3)", "FPC, ZSTD(3)", "Delta, ZSTD(3)"]
TEXTS = ["ZSTD(3)", "LZ4HC(9)"]


@contextlib.contextmanager
def timed(made: pathlib.Path):
    """Notes beside what is made how long that took: a later run, which finds it made, tells it as well."""
    start = time.perf_counter()
    yield
    made.with_name(made.name + ".seconds").write_text(str(time.perf_counter() - start))


def seconds_of(made: pathlib.Path) -> float | None:
    noted = made.with_name(made.name + ".seconds")
    return float(noted.read_text()) if noted.exists() else None


def without_zones(values: pa.Table) -> pa.Table:
    """Instants as nanoseconds without a zone: both rivals would cut those with one to microseconds, or keep the zone by value."""
    fields = [
        pa.field(field.name, pa.timestamp("ns") if pa.types.is_timestamp(field.type) else field.type) for field in values.schema
    ]
    return values.cast(pa.schema(fields))


class DuckFile:
    """A database file for each table. Codes are enumerations."""

    name = "DuckDB's file"

    def __init__(self, folder: pathlib.Path, threads: int):
        self.folder, self.threads, self.open = folder, threads, {}

    def path(self, table: str) -> pathlib.Path:
        return self.folder / f"{table}.duckdb"

    def make(self, rows: dict[str, pa.Table]) -> None:
        import duckdb

        self.folder.mkdir(parents=True, exist_ok=True)
        for table, values in rows.items():
            if not self.path(table).exists():
                partial = self.path(table).with_suffix(".partial")
                partial.unlink(missing_ok=True)
                given = without_zones(values)
                with duckdb.connect(str(partial), config={"threads": self.threads}) as connection:
                    connection.register("given", given)
                    with timed(self.path(table)):
                        connection.execute("CREATE TABLE rows AS SELECT * FROM given")
                        connection.execute("CHECKPOINT")
                partial.rename(self.path(table))
            self.open[table] = duckdb.connect(str(self.path(table)), read_only=True, config={"threads": self.threads})

    def size(self, table: str) -> int:
        return self.path(table).stat().st_size

    def seconds(self, table: str) -> float | None:
        return seconds_of(self.path(table))

    def read(self, table: str, columns: list[str], symbol: tuple[str, str] | None = None) -> pa.Table:
        where = "" if symbol is None else f" WHERE {quoted(symbol[0])} = {literal(symbol[1])}"
        return self.ask(table, f"SELECT {', '.join(map(quoted, columns))} FROM rows{where}")

    def some(self, table: str, columns: list[str], symbol: tuple[str, str], since: tuple[str, int], count: int) -> pa.Table:
        names, (time_name, instant) = ", ".join(map(quoted, columns)), since
        return self.ask(
            table,
            f"SELECT {names} FROM rows WHERE {quoted(symbol[0])} = {literal(symbol[1])} "
            f"AND {quoted(time_name)} >= make_timestamp_ns({instant}) LIMIT {count}",
        )

    def ask(self, table: str, text: str) -> pa.Table:
        return self.open[table].sql(text).to_arrow_table()


class ClickHouse:
    """The best codec of each column, as chDB keeps it."""

    name = "ClickHouse, best codec a column"
    reads = False

    def __init__(self, folder: pathlib.Path):
        self.folder, self.sizes = folder, {}

    def make(self, rows: dict[str, pa.Table]) -> None:
        from chdb.session import Session

        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        session = Session(str(self.folder / "db"))
        try:
            session.query("CREATE DATABASE given ENGINE = Atomic")
            for table, values in rows.items():
                path = self.folder / f"{table}.parquet"
                pq.write_table(plain_texts(without_zones(values)), path)
                self.sizes[table] = smallest(session, table, values, path)
                path.unlink()
        finally:
            session.close()

    def size(self, table: str) -> int:
        return self.sizes[table]


def smallest(session, table: str, values: pa.Table, path: pathlib.Path) -> int:
    """Bytes on disk once each column has its best type and codec."""
    tried = {field.name: choices(values[field.name]) for field in values.schema}
    best: dict[str, tuple[int, tuple[str, str]]] = {}
    for number in range(max(map(len, tried.values()))):
        chosen = {name: options[min(number, len(options) - 1)] for name, options in tried.items()}
        made(session, f"given.{table}_{number}", chosen, path)
        for name, size in bytes_by_column(session, f"{table}_{number}").items():
            best[name] = min(best.get(name, (size, chosen[name])), (size, chosen[name]))
        session.query(f"DROP TABLE given.{table}_{number} SYNC")
    made(session, f"given.{table}", {name: choice for name, (_, choice) in best.items()}, path)
    return int(lines(session, f"SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'given' AND table = '{table}'")[0][0])


def made(session, name: str, columns: dict[str, tuple[str, str]], path: pathlib.Path) -> None:
    """A table of one part whose rows stand as they are in the file."""
    declared = ", ".join(f"{ticked(column)} {kind} CODEC({codec})" for column, (kind, codec) in columns.items())
    session.query("SET allow_suspicious_codecs = 1, allow_suspicious_low_cardinality_types = 1, max_threads = 1")
    session.query(f"CREATE TABLE {name} ({declared}) ENGINE = MergeTree ORDER BY tuple() SETTINGS {SETTINGS}")
    names = ", ".join(map(ticked, columns))
    session.query(f"INSERT INTO {name} ({names}) SELECT {names} FROM file('{path}', Parquet) SETTINGS max_insert_threads = 1")
    session.query(f"OPTIMIZE TABLE {name} FINAL")


def bytes_by_column(session, table: str) -> dict[str, int]:
    text = (
        "SELECT column, sum(column_bytes_on_disk) FROM system.parts_columns "
        f"WHERE active AND database = 'given' AND table = '{table}' GROUP BY column"
    )
    return {name: int(size) for name, size in lines(session, text)}


def lines(session, text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(session.query(text, "CSV").bytes().decode())))


def choices(column: pa.ChunkedArray) -> list[tuple[str, str]]:
    """Types and codecs that a column is tried with."""
    kind, codecs = column.type, WHOLE
    if pa.types.is_floating(kind):
        names, codecs = ["Float32" if kind.bit_width == 32 else "Float64"], FLOATS
    elif pa.types.is_timestamp(kind):
        names = ["DateTime64(9)"]
    elif pa.types.is_integer(kind):
        names = [("Int" if pa.types.is_signed_integer(kind) else "UInt") + str(kind.bit_width)]
    elif pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        names, codecs = ["LowCardinality(String)", "String"], TEXTS
    elif pa.types.is_boolean(kind):
        names, codecs = ["Bool"], TEXTS
    elif pa.types.is_date(kind):
        names = ["Date32"]
    else:
        raise ValueError(f"a column of type {kind}")
    if column.null_count:
        names = [f"LowCardinality(Nullable({name[15:]})" if name.startswith("Low") else f"Nullable({name})" for name in names]
    return [(name, codec) for name in names for codec in codecs]


def plain_texts(values: pa.Table) -> pa.Table:
    fields = [pa.field(field.name, pa.string() if pa.types.is_dictionary(field.type) else field.type) for field in values.schema]
    return values.cast(pa.schema(fields))


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def ticked(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
