"""DuckDB: a database file, tables sorted by day, symbol, time and arrival.

Sorted tables let the zone maps of its row groups pass over other days and, within a day, other symbols; half of the queries ask for
one day. Row groups have 16,384 rows. Codes are one ENUM for each column name:
they group and compare as numbers. Times are ``TIMESTAMP_NS``. Closing values are ``arg_max`` by
``rowid``, which is the order of arrival within a symbol, and beat an ordered aggregate or a window. Texts and tables are those
of the side-by-side benchmark (``engine.systems.duckdb_memory``), here in a file. A text goes by ``execute``, which plans once; a
prepared statement is SQL's ``PREPARE``, run by ``EXECUTE`` with its values as literals.
"""

from . import rows
from .base import TOTALS, Base, sync
from .translate import never_seen, placeholders


TIME = "TIMESTAMP_NS"
"""`TIMESTAMP`, which has the microseconds of this data, is level with it (geometric mean of the fourteen queries 11.1 ms and 11.1 ms)."""
ROW_GROUP_ROWS = 16_384
"""Against 122,880, the default: a day of one symbol is a fraction of that. 4 % faster in the mean of the fourteen queries, 15 % for days and for O-V2, a month (beside other work)."""


class Engine(Base):
    name = "duckdb"
    title = "DuckDB"
    requirements = ("duckdb==2.0.0", "numpy", "pyarrow==26.0.1")
    layout = ("engine.systems.duckdb_memory", "engine.tables")
    best = (
        "A database file of tables sorted by day, symbol, time and arrival, in row groups of 16,384 rows, so that zone maps prune; codes as ENUM; "
        "`arg_max` by `rowid` for closing values; answers as Arrow."
    )

    @property
    def file(self):
        return self.folder / "market.duckdb"

    def version(self) -> str:
        import duckdb

        return duckdb.__version__

    def connect(self, database: str | None = None):
        from engine.systems.duckdb_memory import System

        self.system = System(TIME)
        self.system.connect(database or str(self.file), self.threads)
        self.statements = set()
        return self.system

    def create(self):
        """A new file with row groups of our size, attached to a database in memory: a connection to a file can't choose them."""
        self.file.unlink(missing_ok=True)
        system = self.connect(":memory:")
        system.connection.execute(f"attach '{self.file}' as market (row_group_size {ROW_GROUP_ROWS})")
        system.connection.execute("use market")
        return system

    def load(self, tables) -> None:
        from engine.tables import Tables

        system = self.create()
        system.fill(Tables(self.folder, dict(tables)))
        system.connection.execute("checkpoint market")
        system.connection.execute("use memory")
        system.connection.execute("detach market")
        self.close()
        sync()

    def open(self) -> None:
        self.connect()

    def prepare(self, question, parameters, variant):
        return self.system.prepare(question, parameters, variant)

    def unseen(self, question, parameters, variant, mark: int):
        return self.system.asking(never_seen(self.system.text(question, parameters, variant), mark))

    def prepared(self, question, parameters, variant):
        from engine.systems.duckdb_memory import literal

        marks, values = placeholders(question.duckdb or question.sql, parameters, variant, "${}".format)
        name = "asked_" + question.id.replace("-", "_")
        if name not in self.statements:
            self.system.connection.execute(f"prepare {name} as {self.system.text(question, parameters, marks)}")
            self.statements.add(name)
        given = f"({literal(values, TIME)})" if values else ""
        return self.system.asking(f"execute {name}{given}")

    def session(self):
        # A cursor is a connection of its own to the same database.
        return self.system.session()

    def write_open(self, files) -> None:
        """Codes' values are known beforehand, as those of a venue are."""
        connection = self.create().connection
        for code, values in rows.CODES.items():
            connection.execute(f"create type {code}_code as enum ({', '.join(map(repr, values))})")

    def write(self, files) -> None:
        connection = self.system.connection
        for table, path in files.items():
            with open(path, encoding="utf-8") as file:
                header = file.readline().strip().replace('"', "").split(",")
            types = {name: f"{name}_code" if name in rows.CODES else "DOUBLE" for name in header}
            types |= {"timestamp": TIME} | ({"id": "BIGINT"} if "id" in types else {})
            connection.execute(
                f"create table {table} as select * from read_csv('{path}', header = true, columns = {types}) "
                "order by symbol, timestamp"
            )
        connection.execute("checkpoint market")
        sync()

    def totals(self):
        connection = self.system.connection
        return {name: connection.execute(text).fetchone()[0] for name, text in TOTALS.items()}

    def close(self) -> None:
        if hasattr(self, "system"):
            self.system.connection.close()
            del self.system
