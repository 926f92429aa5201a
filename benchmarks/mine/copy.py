"""A copy of tables in DuckDB, laid out as DuckDB's users would: a file of small row groups, ordered by day, symbol and time, symbols as ENUM.

Columns that are compared with each other have one ENUM: those of one name, and those that tables are ordered by. An ENUM beside another one
is compared as text, which takes an as-of join twice as long.

Times are ``TIMESTAMP_NS`` of UTC, since ours have nanoseconds and DuckDB's ``TIMESTAMPTZ`` has not. Rows come in the table's own order,
by one thread, so that ``rowid`` is the order of arrival within a symbol.
"""

import pathlib

import pyarrow as pa


ROW_GROUP_ROWS = 16_384
"""As in `engines/duckdb_engine.py`: the bounds of a row group leave more of a table out."""


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def plain(schema: pa.Schema) -> pa.Schema:
    """Times without a zone, and texts without dictionaries: DuckDB gives them types of its own."""
    fields = []
    for field in schema:
        kind = field.type
        if pa.types.is_timestamp(kind):
            kind = pa.timestamp(kind.unit)
        elif pa.types.is_dictionary(kind):
            kind = kind.value_type
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)


def batches(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """The same rows with the schema of ``plain``, one batch at a time."""
    schema = plain(reader.schema)

    def cast():
        for batch in reader:
            yield batch.cast(schema)

    return pa.RecordBatchReader.from_batches(schema, cast())


class Copy:
    """A connection to DuckDB with the copied tables."""

    def __init__(self, file: pathlib.Path, threads: int):
        import duckdb

        self.file = file
        # A connection to a file can't choose the size of its row groups.
        self.connection = duckdb.connect(":memory:")
        self.connection.execute(f"attach {literal(str(file))} as copy (row_group_size {ROW_GROUP_ROWS})")
        self.connection.execute("use copy")
        self.connection.execute(f"set threads = {threads}")
        self.connection.execute("set timezone = 'UTC'")
        self.connection.execute("set enable_progress_bar = false")
        self.types: dict[tuple[str, str], str] = {}

    def codes(self, database, tables: list[str]) -> None:
        """An ENUM for each group of columns whose values are compared, of all their values."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for name in tables:
            table = database.table(name)
            for column in (column for column in table.schema.names if table.schema[column] == "symbol"):
                group = "" if column == table.symbol else column.lower()
                groups.setdefault(group, []).append((name, column))
        # A column that orders one table may only be a column of another one.
        ordering = {column.lower() for _, column in groups.get("", [])}
        for name in [name for name in groups if name and name in ordering]:
            groups[""] += groups.pop(name)
        for number, columns in enumerate(groups.values(), 1):
            parts = [
                f"SELECT DISTINCT CAST({quoted(column)} AS text) AS code FROM {quoted(table)} WHERE {quoted(column)} IS NOT NULL"
                for table, column in columns
            ]
            values = database.sql(f"SELECT DISTINCT code FROM ({' UNION ALL '.join(parts)}) AS codes ORDER BY code").to_arrow()["code"]
            values = values.cast(pa.string()).to_pylist()
            if values:
                self.connection.execute(f"create type codes_{number} as enum ({', '.join(map(literal, values))})")
                self.types |= dict.fromkeys(columns, f"codes_{number}")

    def add(self, database, name: str) -> None:
        """Copies a table, or the kept rows of a view, in the order in which it gives its rows."""
        reader = pa.RecordBatchReader.from_stream(database.sql(f"SELECT * FROM {quoted(name)}"))
        typed = lambda column: f"::{self.types[name, column]}" if (name, column) in self.types else ""  # noqa: E731
        columns = [f"{quoted(field.name)}{typed(field.name)} as {quoted(field.name)}" for field in reader.schema]
        self.connection.register("incoming", batches(reader))
        self.connection.execute(f"create table {quoted(name)} as select {', '.join(columns)} from incoming")
        self.connection.unregister("incoming")

    def add_view(self, name: str, columns: list[str], query: str) -> bool:
        """Makes a view; whether DuckDB has all that its query names."""
        try:
            self.connection.execute(f"create view {quoted(name)} ({', '.join(map(quoted, columns))}) as {query}")
        except Exception:  # noqa: BLE001  statements that read the view tell that it isn't there
            return False
        return True

    def finish(self) -> int:
        """Writes all of it; bytes of the file."""
        self.connection.execute("checkpoint copy")
        return self.file.stat().st_size

    def ask(self, text: str) -> pa.Table:
        # As a relation: a result of `execute` copies its rows once more.
        return self.connection.sql(text).to_arrow_table()

    def prepare(self, text: str) -> bool:
        """Prepares a statement in the place of the last one; whether that is possible."""
        try:
            self.connection.execute(f"prepare asked as {text}")
        except Exception:  # noqa: BLE001  what can't be prepared is asked as a text alone
            return False
        return True

    def ask_prepared(self) -> pa.Table:
        return self.connection.execute("execute asked").to_arrow_table()

    def plan(self, text: str) -> str:
        """DuckDB's physical plan."""
        return self.connection.execute(f"explain {text}").fetchall()[-1][1].rstrip()

    def close(self) -> None:
        self.connection.close()
