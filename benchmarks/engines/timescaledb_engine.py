"""TimescaleDB: PostgreSQL with hypertables, on a server that the user names.

It is in none of the registries that this benchmark installs from, so it runs only where ``SPLAY_BENCH_TIMESCALEDB`` holds the
address of an empty database with the extension, such as ``host=127.0.0.1 user=bench dbname=bench``. Its best: hypertables with
daily chunks, compressed by segments of one symbol in the order of time; `time_bucket` and `last`.

No server was there when this was written: what it has beyond PostgreSQL hasn't been run.
"""

from dataclasses import replace

from .postgresql_client import TRANSPORT, Client
from .postgresql_engine import DIALECT, OWN, TABLES, as_csv
from .postgresql_engine import Engine as PostgreSQL
from . import rows
from .base import sync

VARIABLE = "SPLAY_BENCH_TIMESCALEDB"


class Engine(PostgreSQL):
    name = "timescaledb"
    title = "TimescaleDB"
    is_remote = True
    starts = f"a server named by {VARIABLE}"
    best = "Hypertables with daily chunks, compressed by symbol in the order of time; `time_bucket` and `last`."
    dialect = replace(
        DIALECT,
        bucket=lambda seconds, column: f"time_bucket('{seconds} seconds', {column})",
        last=lambda value: f"last({value}, n)",
    )
    requirements = ("numpy", "psycopg[binary]==3.3.9", "pyarrow==26.0.1")
    transport = TRANSPORT
    # Closing values are `last` by the number of arrival, so the shared texts serve.
    own = {"O-T": OWN["O-T"]}

    @classmethod
    def unavailable(cls, settings):
        if settings.get("timescaledb"):
            return None
        return f"in no package registry; {VARIABLE} doesn't name a server"

    def version(self) -> str:
        self.open()
        found = self.client.run("SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'").fetchone()
        self.close()
        return found[0] if found else "without the extension"

    def start(self) -> None:
        """The server runs already."""

    def address(self) -> str:
        return self.settings["timescaledb"]

    def create(self) -> None:
        for table, columns in TABLES.items():
            text = columns.replace("symbol symbol", "symbol text").replace("exchange exchange", "exchange text")
            self.client.run(f"DROP TABLE IF EXISTS {table}")
            self.client.run(f"CREATE TABLE {table} ({text.replace('side side', 'side text')})")
            self.client.run(f"SELECT create_hypertable('{table}', by_range('timestamp', INTERVAL '1 day'))")
            options = "timescaledb.compress, timescaledb.compress_segmentby = 'symbol'"
            self.client.run(f"ALTER TABLE {table} SET ({options}, timescaledb.compress_orderby = 'timestamp, n')")

    def fill_all(self, table: str, header: list[str], pieces) -> None:
        statement = f"COPY {table} ({', '.join(header)}) FROM STDIN (FORMAT csv)"
        with self.client.connection.cursor().copy(statement) as copy:
            for piece in pieces:
                copy.write(piece)

    def finish(self, tables) -> None:
        for table in tables:
            self.client.run(f"SELECT compress_chunk(c) FROM show_chunks('{table}') c")
        self.client.run("VACUUM (ANALYZE)")
        sync()

    def load(self, tables) -> None:
        self.open()
        self.create()
        for table, paths in tables.items():
            for part in rows.numbered(rows.from_parquet(paths)):
                self.fill_all(table, part.column_names, as_csv(part))
        self.finish(tables)
        self.close()

    def write_open(self, files) -> None:
        self.open()
        self.create()

    def write(self, files) -> None:
        for table, path in files.items():
            with open(path, "rb") as file:
                header = file.readline().decode().strip().replace('"', "").split(",")
                self.fill_all(table, header, iter(lambda: file.read(1 << 20), b""))
        self.finish(files)

    def size(self) -> int:
        self.open()
        size = self.client.run("SELECT hypertable_size('trades') + hypertable_size('books')").fetchone()[0]
        self.close()
        return int(size)

    def session(self) -> Client:
        return Client(self.address(), self.own, self.dialect)
