"""DuckDB: a database file, tables sorted by symbol, time and arrival.

Sorted tables let the zone maps of its row groups pass over other symbols and days. Codes are one ENUM for each column name:
they group and compare as numbers. Times are ``TIMESTAMP_NS``, as the data has nanoseconds. Closing values are ``arg_max`` by
``rowid``, which is the order of arrival within a symbol, and beat an ordered aggregate or a window. Texts and tables are those
of the side-by-side benchmark (``engine.systems.duckdb_memory``), here in a file.
"""

from .base import TOTALS, Base, sync


class Engine(Base):
    name = "duckdb"
    title = "DuckDB"
    requirements = ("duckdb==2.0.0", "numpy", "pyarrow==26.0.1")
    best = (
        "A database file of tables sorted by symbol, time and arrival, so that zone maps prune; codes as ENUM; "
        "`arg_max` by `rowid` for closing values; answers as Arrow."
    )

    @property
    def file(self):
        return self.folder / "market.duckdb"

    def version(self) -> str:
        import duckdb

        return duckdb.__version__

    def connect(self):
        from engine.systems.duckdb_memory import System

        self.system = System()
        self.system.connect(str(self.file), self.threads)
        return self.system

    def load(self, tables) -> None:
        from engine.tables import Tables

        self.file.unlink(missing_ok=True)
        system = self.connect()
        system.fill(Tables(self.folder, dict(tables)))
        system.connection.execute("checkpoint")
        system.connection.close()
        sync()

    def open(self) -> None:
        self.connect()

    def prepare(self, question, parameters, variant):
        return self.system.prepare(question, parameters, variant)

    def session(self):
        # A cursor is a connection of its own to the same database.
        return self.system.session()

    def write(self, files) -> None:
        """Text columns stay text: an ENUM needs a pass over the file first."""
        self.file.unlink(missing_ok=True)
        connection = self.connect().connection
        for table, path in files.items():
            connection.execute(
                f"create table {table} as select * replace (timestamp::timestamp_ns as timestamp) "
                f"from read_csv('{path}') order by symbol, timestamp"
            )
        connection.execute("checkpoint")
        connection.close()
        sync()

    def totals(self):
        connection = self.connect().connection
        return {name: connection.execute(text).fetchone()[0] for name, text in TOTALS.items()}

    def close(self) -> None:
        if hasattr(self, "system"):
            self.system.connection.close()
