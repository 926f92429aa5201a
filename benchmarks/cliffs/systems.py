"""The three systems as they are asked here: those of ``engine.systems``, with statements instead of questions.

DuckDB's tables are sorted by symbol and time, their times plain timestamps, which its functions of time take as they are.
"""

import itertools
import re

from engine.polars_words import pl
from engine.systems import duckdb_memory, load

from .columns import DATE
from .statement import Statement

SALTS = itertools.count(1)
"""Each makes a text that was never seen."""


class DuckDB(duckdb_memory.System):
    """Tables in memory."""

    def load(self, tables, table: str) -> None:
        codes = ", ".join(f"{code}::varchar::{code}_code as {code}" for code in tables.codes_of(table))
        times = ", ".join(f"{time}::timestamp as {time}" for time in tables.times_of(table))
        self.connection.execute(
            f"create table {table} as select * replace ({codes}, {times}), time::date as {DATE} "
            f"from read_parquet('{tables.files(table)[0]}') order by symbol, time"
        )

    def call(self, statement: Statement):
        text = statement.sql()
        return lambda: self.connection.sql(text).to_arrow_table()


class Polars:
    """Frames in memory, sorted by symbol and time."""

    name = "Polars"

    def __init__(self):
        self.frames = {}

    def open(self, tables) -> None:
        system = load("Polars")()
        system.open(tables)
        for table in tables.names:
            rows = getattr(system.frames, table).with_columns(pl.col("time").dt.date().alias(DATE))
            self.frames[table] = rows.collect().lazy()

    def call(self, statement: Statement):
        frames = self.frames
        return lambda: statement.polars(frames).collect()

    @staticmethod
    def arrow(answer):
        return answer.to_arrow()


def splaydb():
    """SplayDB's class, once its package is there."""

    class SplayDB(load("SplayDB")):
        """An open database, without a cache of answers, which is the default."""

        def call(self, statement: Statement):
            text = statement.sql()
            return lambda: self.database.sql(text).to_arrow()

        def call_unseen(self, statement: Statement):
            """The same, each call with a text that was never seen."""

            def ask():
                return self.database.sql(text).to_arrow()

            text = statement.sql(f"_{next(SALTS)}")
            return ask

        def reason(self, statement: Statement) -> tuple[str, list[str]]:
            """The row ``tick_plan`` of EXPLAIN, and the names of the physical operators."""
            plan = self.database.sql("EXPLAIN " + statement.sql()).to_arrow().to_pylist()
            rows = {row.get("plan_type"): row.get("plan") or "" for row in plan}
            operators = re.findall(r"\b(\w+Exec)\b", rows.get("physical_plan", ""))
            return rows.get("tick_plan", "").strip(), list(dict.fromkeys(operators))

    return SplayDB


def opened(tables) -> list:
    """All three, on the tables."""
    systems = [splaydb()(), DuckDB(), Polars()]
    for system in systems:
        system.open(tables)
    return systems
