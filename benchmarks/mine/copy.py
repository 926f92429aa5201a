"""A copy of tables in DuckDB, laid out as DuckDB's users would: a file, ordered by day, symbol and time, symbols as ENUM.

Times are ``TIMESTAMP_NS`` of UTC, since ours have nanoseconds and DuckDB's ``TIMESTAMPTZ`` has not. Rows come in the table's own order,
by one thread, so that ``rowid`` is the order of arrival within a symbol.
"""

import pathlib

import pyarrow as pa


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
        self.connection = duckdb.connect(str(file))
        self.connection.execute(f"set threads = {threads}")
        self.connection.execute("set timezone = 'UTC'")
        self.connection.execute("set enable_progress_bar = false")
        self.types = 0

    def add(self, database, name: str) -> None:
        """Copies a table, in the order in which it gives its rows."""
        table = database.table(name)
        columns = []
        reader = pa.RecordBatchReader.from_stream(database.sql(f"SELECT * FROM {quoted(name)}"))
        for field in reader.schema:
            if field.name in table.schema and table.schema[field.name] == "symbol":
                columns.append(f"{quoted(field.name)}::{self.codes(database, name, field.name)} as {quoted(field.name)}")
            else:
                columns.append(quoted(field.name))
        self.connection.register("incoming", batches(reader))
        self.connection.execute(f"create table {quoted(name)} as select {', '.join(columns)} from incoming")
        self.connection.unregister("incoming")

    def codes(self, database, table: str, column: str) -> str:
        """An ENUM of a column's values; text if it has none."""
        text = f"SELECT DISTINCT {quoted(column)} AS code FROM {quoted(table)} WHERE {quoted(column)} IS NOT NULL ORDER BY code"
        values = database.sql(text).to_arrow()["code"].cast(pa.string()).to_pylist()
        if not values:
            return "varchar"
        self.types += 1
        self.connection.execute(f"create type codes_{self.types} as enum ({', '.join(map(literal, values))})")
        return f"codes_{self.types}"

    def finish(self) -> int:
        """Writes all of it; bytes of the file."""
        self.connection.execute("checkpoint")
        return self.file.stat().st_size

    def ask(self, text: str) -> pa.Table:
        return self.connection.execute(text).to_arrow_table()

    def close(self) -> None:
        self.connection.close()
