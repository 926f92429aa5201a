"""Asks each statement of both: answers first, then times in turns, and the plan that SplayDB runs it by."""

import gc
import statistics
import time
from dataclasses import dataclass, field

import pyarrow as pa

from engine.ask import message
from engine.builds import renamed
from engine.compare import Different, check_equal, plain

from .statements import Statement


ROUNDS_MIN, SECONDS_MAX = 3, 20
"""Slow statements have fewer rounds: three, and no more once so many seconds are over."""


@dataclass(frozen=True)
class Times:
    """Milliseconds of one way of asking."""

    values: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def quartiles(self) -> tuple[float, float]:
        first, _, third = statistics.quantiles(self.values, n=4, method="inclusive")
        return first, third


@dataclass
class Result:
    """What came of a statement. ``problem`` says why it has no times, ``note`` what else is to be known."""

    statement: Statement
    rows: int | None = None
    plan: str = ""
    reason: str = ""
    problem: str = ""
    note: str = ""
    rival_plan: str = ""
    differs: bool = False
    times: dict[str, Times] = field(default_factory=dict)

    def ratio(self, ours: str) -> float | None:
        """DuckDB's time, as a text or prepared, whichever is less, over one of SplayDB's."""
        rival = [self.times[name].median for name in ("DuckDB", "prepared") if name in self.times]
        return min(rival) / self.times[ours].median if rival and ours in self.times else None


def positional(table: pa.Table) -> pa.Table:
    """Columns named by their place, in types that can be sorted: each system names what is computed in its own way."""
    columns = [plain(column) for column in table.columns]
    columns = [column.cast(pa.int64()) if pa.types.is_boolean(column.type) else column for column in columns]
    return pa.table({f"column {place}": column for place, column in enumerate(columns, 1)})


def check(expected: pa.Table, found: pa.Table) -> None:
    """Compares two answers; rows are a bag, since few statements order all of them.

    Raises
    ------
    Different
        If they aren't equal.
    """
    if expected.num_columns != found.num_columns:
        raise Different(f"{found.num_columns} columns instead of {expected.num_columns}")
    expected, found = positional(expected), positional(found)
    # Columns that are exact first, so that rows are paired by them.
    keys = tuple(name for name in expected.column_names if not pa.types.is_floating(expected[name].type))
    try:
        check_equal(expected, found, (), ordered=True)
    except Different:
        check_equal(expected, found, keys, bag=True)


def plan_of(database, text: str) -> tuple[str, str]:
    """How SplayDB runs it, in a word, and the tick plan or the reason why there is none."""
    rows = database.sql("EXPLAIN " + text).to_arrow().to_pylist()
    said = next((row["plan"] for row in rows if row.get("plan_type") == "tick_plan"), "none: not told")
    return ("general", said.removeprefix("none: ")) if said.startswith("none") else ("tick plan", said)


def timed(call) -> float:
    start = time.perf_counter()
    answer = call()
    taken = (time.perf_counter() - start) * 1e3
    del answer
    return taken


def measure(calls: dict, rounds: int, seconds: float) -> dict[str, Times]:
    """Rounds in which all take turns, every other one backwards: ``rounds`` of them, and more until ``seconds`` are over; fewer where
    statements are slow."""
    found = {name: [] for name in calls}
    for call in calls.values():
        call()
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        while len(found["DuckDB"]) < rounds or time.perf_counter() - start < seconds:
            if len(found["DuckDB"]) >= ROUNDS_MIN and time.perf_counter() - start > SECONDS_MAX:
                break
            order = list(calls.items())
            for name, call in order if len(found["DuckDB"]) % 2 == 0 else reversed(order):
                found[name].append(timed(call))
    finally:
        gc.enable()
    return {name: Times(values) for name, values in found.items()}


class Asker:
    """Asks of a database and its copy; ``columns`` are names that stay when a text is varied."""

    def __init__(self, database, copy, columns: set[str], rounds: int, seconds: float):
        self.database, self.copy, self.columns = database, copy, columns
        self.rounds, self.seconds = rounds, seconds
        self.marks = 0

    def ours(self, text: str) -> pa.Table:
        return self.database.sql(text).to_arrow()

    def unseen(self, text: str) -> pa.Table:
        """The answer to the statement as a text that wasn't asked before: with other names for what it computes."""
        self.marks += 1
        return self.ours(renamed(text, self.columns, str(self.marks)))

    def varies(self, result: Result, expected: pa.Table) -> bool:
        """Whether the statement can be asked with other names, and gives the same then."""
        text = result.statement.text
        if renamed(text, self.columns, "0") == text:
            return False
        try:
            check(expected, self.unseen(text))
        except Exception as error:  # noqa: BLE001
            result.note = f"Not asked as a text never seen: with other names for what it computes it fails: {message(error)}"
            return False
        return True

    def result(self, statement: Statement) -> Result:
        result = Result(statement, problem=statement.refusal)
        if result.problem:
            return result
        try:
            found = self.ours(statement.text)
            result.rows = found.num_rows
            result.plan, result.reason = plan_of(self.database, statement.text)
        except Exception as error:  # noqa: BLE001  whatever a system raises is its result
            result.problem = f"SplayDB: {message(error)}"
            return result
        try:
            check(self.copy.ask(statement.duckdb), found)
            result.rival_plan = self.copy.plan(statement.duckdb)
        except Different as difference:
            result.problem, result.differs = f"answers differ: {difference}", True
            return result
        except Exception as error:  # noqa: BLE001
            result.problem = f"DuckDB: {message(error)}"
            return result
        calls = {"SplayDB": lambda: self.ours(statement.text)}
        if self.varies(result, found):
            calls["never seen"] = lambda: self.unseen(statement.text)
        calls["DuckDB"] = lambda: self.copy.ask(statement.duckdb)
        if self.copy.prepare(statement.duckdb):
            calls["prepared"] = self.copy.ask_prepared
        try:
            result.times = measure(calls, self.rounds, self.seconds)
        except Exception as error:  # noqa: BLE001  the other statements are asked all the same
            result.problem = f"while it was timed: {message(error)}"
        return result
