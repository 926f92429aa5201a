"""DuckDB: tables in memory, sorted by day, symbol, time and arrival; codes as one ENUM for each column name.

The day comes first as in our partitions: where a month of few symbols is asked about one day, zone maps then leave out the others.

An ENUM groups, compares and leaves for Arrow faster than text, and joins need no cast when both tables have the same one.
Times are ``TIMESTAMP_NS`` of UTC: ``TIMESTAMPTZ`` has microseconds. ``rowid`` is the order of arrival
within a symbol. Statements go by ``execute``: a relation, as ``sql`` makes it, is planned twice.
"""

import datetime

import warnings

import duckdb

from ..question import Raw, render
from . import THREADS


def literal(value, time: str = "TIMESTAMP_NS") -> str:
    """A value as DuckDB spells it; ``time`` is the type of instants."""
    if isinstance(value, datetime.datetime):
        return f"{time} '{value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(sep=' ')}'"
    if isinstance(value, (list, tuple)):
        return ", ".join(literal(each, time) for each in value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


class System:
    """A connection to a database in memory."""

    name = "DuckDB"

    def __init__(self, time: str = "TIMESTAMP_NS"):
        self.connection = None
        self.time = time
        """The type of times: ``TIMESTAMP`` has whole microseconds."""
        self.lists = {}

    @staticmethod
    def version() -> str:
        return duckdb.__version__

    def open(self, tables) -> None:
        self.connect(":memory:")
        self.fill(tables)

    def connect(self, database: str, threads: int = THREADS) -> None:
        """Opens a database, in memory or a file."""
        # It advises `sql`, which copies less and plans twice: measured, `execute` is the faster for all but the largest answers.
        warnings.filterwarnings("ignore", "Arrow output on a DB-API result")
        self.connection = duckdb.connect(database)
        self.connection.execute(f"set threads = {threads}")
        self.connection.execute("set timezone = 'UTC'")
        self.connection.execute("set enable_progress_bar = false")

    def fill(self, tables) -> None:
        """Makes the tables."""
        for code in tables.codes():
            files = [str(path) for table in tables.with_column(code) for path in tables.files(table)]
            values = f"select distinct {code}::varchar as v from read_parquet({files}, union_by_name = true)"
            self.connection.execute(
                f"create type {code}_code as enum (select v from ({values}) where v is not null order by v)"
            )
        for table in tables.names:
            self.load(tables, table)

    def load(self, tables, table: str) -> None:
        files = [str(path) for path in tables.files(table)]
        casts = [f"{code}::varchar::{code}_code as {code}" for code in tables.codes_of(table)]
        casts += [f"{time}::timestamp_ns::{self.time} as {time}" for time in tables.times_of(table)]
        columns = ", ".join(tables.columns_of(table))
        # Equal symbols and times stay in the order of the files.
        self.connection.execute(
            f"create table {table} as select {columns} from (select * replace ({', '.join(casts)}) "
            f"from read_parquet({files}, file_row_number = true, filename = true)) "
            f"order by {tables.time(table)}::date, {tables.symbol(table)}, {tables.time(table)}, filename, file_row_number"
        )

    def text(self, question, parameters, variant) -> str:
        return render(question.duckdb or question.sql, parameters, variant, self.literal)

    def literal(self, value) -> str:
        """A value; symbols as a table of them, ``IN (FROM symbols_1)``, since a join on it beats a list of texts."""
        if not isinstance(value, list) or not isinstance(value[0], str):
            return literal(value, self.time)
        key = tuple(value)
        if key not in self.lists:
            self.lists[key] = f"symbols_{len(self.lists) + 1}"
            self.connection.execute(
                f"create table {self.lists[key]} as select unnest([{literal(value)}])::Symbol_code as Symbol"
            )
        return f"FROM {self.lists[key]}"

    def prepare(self, question, parameters, variant):
        """A call without arguments that asks the question: what is timed."""
        text = self.text(question, parameters, variant)
        return self.asking(text)

    def asking(self, text: str):
        """A call that runs a text, as a relation: a result of ``execute`` copies its rows once more."""
        return lambda: self.connection.sql(text).to_arrow_table()

    def reference(self, question, parameters, variant):
        """The answer by definition."""
        text = render(question.reference or question.duckdb or question.sql, parameters, variant, self.literal)
        return self.connection.sql(text).to_arrow_table()

    def statement(self, question, parameters, placeholders: list[str]):
        """A prepared statement: a call with values in the order of ``placeholders``."""
        names = {name: Raw(f"${place}") for place, name in enumerate(placeholders, 1)}
        text = self.text(question, parameters, {"shape": Raw("")} | names)
        self.connection.execute(f"prepare asked_{question.id} as {text}")
        return lambda *values: self.connection.execute(f"execute asked_{question.id}({literal(values, self.time)})").to_arrow_table()

    def session(self):
        """What a thread asks by: a connection of its own."""
        other = System(self.time)
        other.connection = self.connection.cursor()
        return other

    @staticmethod
    def arrow(answer):
        return answer
