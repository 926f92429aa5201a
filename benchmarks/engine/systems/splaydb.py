"""SplayDB: SQL text in, Arrow out, over mapped segments."""

import datetime

import os
import sys

import splay

from ..question import Raw, render
from . import THREADS


def literal(value) -> str:
    """A value as SplayDB's SQL spells it."""
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMPTZ '{value.isoformat(sep=' ')}'"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(literal, value))
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


class System:
    """An open database."""

    name = "SplayDB"

    def __init__(self):
        self.database = None

    @staticmethod
    def version() -> str:
        return getattr(splay, "__version__", "0")

    def open(self, tables) -> None:
        self.database = splay.open(tables.database, create=False, threads=THREADS)

    def text(self, question, parameters, variant) -> str:
        return render(question.sql, parameters, variant, literal)

    def prepare(self, question, parameters, variant):
        """A call without arguments that asks the question: what is timed."""
        text = self.text(question, parameters, variant)
        return lambda: self.database.sql(text).to_arrow()

    def statement(self, question, parameters, placeholders: list[str]):
        """A prepared statement: a call with values in the order of ``placeholders``."""
        names = {name: Raw(f"${place}") for place, name in enumerate(placeholders, 1)}
        prepared = self.database.prepare(self.text(question, parameters, {"shape": Raw("")} | names))
        return lambda *values: prepared.run(list(values)).to_arrow()

    def session(self):
        """What a thread asks by."""
        return self

    def stats(self, question, parameters, variant):
        """What the question costs: the answer's own statistics."""
        answer = self.database.sql(self.text(question, parameters, variant))
        answer.to_arrow()
        return answer.stats

    def moved(self, question, parameters, variant) -> tuple[int, int]:
        """Bytes that are read of columns for a question, and those of its answer."""
        answer = self.database.sql(self.text(question, parameters, variant))
        written = answer.to_arrow().nbytes
        return answer.stats.bytes_scanned, written

    @staticmethod
    def arrow(answer):
        return answer

    def path(self, question, parameters, variant) -> str:
        """Which way the statement runs, as ``EXPLAIN`` tells; ``?`` if it doesn't."""
        try:
            plan = self.database.sql("EXPLAIN " + self.text(question, parameters, variant)).to_arrow()
        except splay.Error:
            return "?"
        for row in plan.to_pylist():
            if row.get("plan_type") == "tick_plan":
                if not row["plan"].startswith("none"):
                    return "tick"
                if os.environ.get("EXPLAIN_REASONS"):
                    print(f"{question.id}: {row['plan']}", file=sys.stderr)
                return "general"
        return "?"
