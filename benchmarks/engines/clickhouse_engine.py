"""ClickHouse, embedded as chDB: MergeTree tables ordered by symbol, time and arrival, with LZ4: the layout for speed.

The order is the primary key, so that a symbol and a range of time are found by the sparse index; partitions are days, so that a
range of time leaves out the others, which thirty allow. Codes are LowCardinality. Columns have ClickHouse's default codec, LZ4,
which decompresses some times as fast as ZSTD; `clickhouse-zstd` is the layout for size. `n` is the number of arrival: closing values
are ``argMax`` by it, since equal times occur. Parts are merged after the load, as they would be overnight. ClickHouse has no
prepared statements.
"""

import datetime
import re

from .base import TOTALS, Base, sync
from .translate import Dialect, never_seen

CODES = "symbol LowCardinality(String), exchange LowCardinality(String), "
TABLES = {
    "trades": "timestamp DateTime64(9, 'UTC') TIMES, "
    + CODES
    + "side LowCardinality(String), price Float64 FLOATS, amount Float64 FLOATS, id Int64 COUNTS, n Int64 COUNTS",
    "books": "timestamp DateTime64(9, 'UTC') TIMES, "
    + CODES
    + ", ".join(f"{side}{level}{kind} Float64 FLOATS" for side in "ba" for kind in "ps" for level in range(1, 21))
    + ", n Int64 COUNTS",
}
ANSWERS = {
    "output_format_arrow_compression_method": "none",
    "output_format_arrow_low_cardinality_as_dictionary": 1,
    "output_format_arrow_use_signed_indexes_for_dictionary": 1,
}
"""Arrow as it is quickest to make and to take: not compressed, which it is by default, and codes as dictionaries."""
CACHES = ("MARK CACHE", "UNCOMPRESSED CACHE", "PRIMARY INDEX CACHE", "QUERY CONDITION CACHE")
KINDS = re.compile(r" (TIMES|FLOATS|COUNTS)\b")

OWN = {
    # The key's order is read backwards, so that a few granules suffice.
    "O-T": "SELECT timestamp, b1p, b1s, a1p, a1s FROM books WHERE symbol = $symbol AND timestamp <= $instant "
    "AND timestamp > $instant - INTERVAL 1 DAY ORDER BY symbol DESC, timestamp DESC, n DESC LIMIT 1",
}


def structure(table: str) -> str:
    """A file's columns with their types, as the function ``file`` wants them."""
    columns = KINDS.sub("", TABLES[table].removesuffix(", n Int64 COUNTS"))
    return columns.replace("LowCardinality(String)", "String").replace("'", "\\'")


def literal(value) -> str:
    if isinstance(value, datetime.datetime):
        return f"toDateTime64('{value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(sep=' ')}', 9, 'UTC')"
    return "'" + value.replace("'", "''") + "'"


DIALECT = Dialect(
    bucket=lambda seconds, column: f"toStartOfInterval({column}, INTERVAL {seconds} SECOND, 'UTC')",
    last=lambda value: f"argMax({value}, n)",
    literal=literal,
    replaced=(
        # A window's first row has no previous one: 0 unless the column is nullable.
        ("lag(close)", "lag(toNullable(close))"),
        # The deviation of one return is NaN here, and null by definition.
        ("stddev_samp(ret)", "if(count() > 1, stddevSamp(ret), NULL)"),
    ),
)


class Engine(Base):
    name = "clickhouse"
    title = "chDB (ClickHouse), LZ4"
    requirements = ("chdb==4.4.0", "numpy", "pyarrow==26.0.1")
    best = (
        "MergeTree ordered by (symbol, timestamp, n), daily partitions, LowCardinality codes, LZ4; parts merged after the load; "
        "closing values by `argMax`; answers as Arrow, not compressed, codes as dictionaries."
    )
    partition = "toDate(timestamp)"
    codecs = {"TIMES": "", "FLOATS": "", "COUNTS": ""}
    """What follows the type of each kind of column."""

    def version(self) -> str:
        import chdb

        return f"chDB {chdb.__version__}, ClickHouse {chdb.engine_version}"

    def session_of(self):
        from chdb.session import Session

        if not hasattr(self, "connection"):
            self.folder.mkdir(parents=True, exist_ok=True)
            self.connection = Session(str(self.folder / "db"))
            self.connection.query(f"SET max_threads = {self.threads}, {', '.join(f'{k} = {v!r}' for k, v in ANSWERS.items())}")
        return self.connection

    def run(self, text: str):
        return self.session_of().query(text)

    def create(self) -> None:
        for table, columns in TABLES.items():
            self.run(f"DROP TABLE IF EXISTS {table} SYNC")
            self.run(
                f"CREATE TABLE {table} ({KINDS.sub(lambda kind: self.codecs[kind[1]], columns)}) ENGINE = MergeTree "
                f"PARTITION BY {self.partition} ORDER BY (symbol, timestamp, n)"
            )

    def load(self, tables) -> None:
        self.create()
        for table, paths in tables.items():
            for number, path in enumerate(paths):
                # Times of the files rise, so a file's number and a row's place in it are the order of arrival. Several
                # threads would number row groups as they come.
                self.run(
                    f"INSERT INTO {table} SELECT *, {number} * 1000000000 + rowNumberInAllBlocks() FROM file('{path}', "
                    f"Parquet, '{structure(table)}') SETTINGS max_threads = 1, input_format_parquet_preserve_order = 1"
                )
            self.run(f"OPTIMIZE TABLE {table} FINAL")
        sync()

    def open(self) -> None:
        # The first statement starts the engine, whatever it asks.
        self.run("SELECT 1")

    def size(self) -> int:
        """Of the parts in use: those that were merged away stay on disk for some minutes."""
        text = "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND table IN ('trades', 'books')"
        return int(self.session_of().query(text, "TSVRaw").data())

    def prepare(self, question, parameters, variant):
        return self.asking(DIALECT.text(question, parameters, variant, OWN.get(question.id)))

    def unseen(self, question, parameters, variant, mark: int):
        return self.asking(never_seen(DIALECT.text(question, parameters, variant, OWN.get(question.id)), mark))

    def asking(self, text: str):
        """The call that runs a text and takes its answer."""
        import pyarrow as pa

        connection = self.session_of()

        def ask():
            result = connection.query(text, "ArrowStream")
            self.elapsed_seconds = result.elapsed()
            # A table over the result's bytes, without a copy. chDB's own function does the same, but imports pandas first.
            return pa.ipc.open_stream(pa.py_buffer(result.get_memview().view())).read_all()

        return ask

    def engine_ms(self) -> float | None:
        return self.elapsed_seconds * 1e3

    @staticmethod
    def arrow(answer):
        import pyarrow as pa

        # Buckets are ClickHouse's DateTime, which leaves for Arrow as a count of seconds.
        for place, field in enumerate(answer.schema):
            if field.type == pa.uint32() and field.name in ("bucket", "coarse"):
                seconds = answer[field.name].cast(pa.int64()).cast(pa.timestamp("s", "UTC"))
                answer = answer.set_column(place, field.name, seconds)
        return answer

    def forget(self) -> bool:
        """What it keeps besides the page cache goes, too."""
        absent = not super().forget()
        for cache in CACHES:
            self.run(f"SYSTEM DROP {cache}")
        return not absent

    def write_open(self, files) -> None:
        self.create()

    def write(self, files) -> None:
        for table, path in files.items():
            self.run(
                f"INSERT INTO {table} SELECT *, rowNumberInAllBlocks() FROM file('{path}', CSVWithNames, "
                f"'{structure(table)}') SETTINGS date_time_input_format = 'best_effort', "
                f"max_insert_threads = {self.threads}"
            )
        sync()

    def totals(self):
        return {name: float(self.session_of().query(text, "TSVRaw").data()) for name, text in TOTALS.items()}

    def close(self) -> None:
        if hasattr(self, "connection"):
            self.connection.close()
            del self.connection
