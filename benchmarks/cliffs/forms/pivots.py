"""Pivots: values of the subject as columns, by PIVOT, by FILTER or by CASE; rows by symbol, venue, a bucket of time, or one alone."""

from ..columns import Column
from ..draw import Draw, where_clause
from ..expressions import COARSE, Expression, literal, looseness
from ..statement import SALT, Statement

ROWS = {
    "symbol": "symbol",
    "venue": "venue",
    "minute": "time_bucket(INTERVAL '1 minute', time)",
    "hour": "date_trunc('hour', time)",
}
COLUMNS_MAX = 24
"""Columns of a pivot besides its rows."""


def draw(d: Draw) -> Statement:
    values = d.values(d.subject, d.rng.choice([2, 4, 8]))
    rows = d.rng.choice([["symbol"], ["venue"], ["minute"], ["hour"], ["symbol", "hour"], []])
    rows = [name for name in rows if name != d.subject.name]
    aggregates = [folded(d, column) for column in d.columns()]
    aggregates = aggregates[: max(1, COLUMNS_MAX // len(values))]
    kind = d.rng.choice(["pivot", "filter", "case"])
    if kind == "pivot" and rows:
        return pivot(d, rows, values, aggregates)
    return conditional(d, rows, values, aggregates, by_case=kind == "case")


def folded(d: Draw, column: Column) -> tuple[str, Column, str, float]:
    """An aggregate for a column: its name, its column, the type and looseness of its values."""
    if not column.is_number:
        name = d.rng.choice(["min", "max", "count"])
    else:
        name = d.rng.choice(["sum", "sum", "avg", "avg", "min", "max", "count"])
    loose = {"sum": looseness(column.type), "avg": max(1e-9, looseness(column.type))}.get(name, 0.0)
    return name, column, "float64" if name == "avg" else column.type, COARSE if loose > 1e-9 else loose


def pivot(d: Draw, rows, values, aggregates) -> Statement:
    """The clause itself. Its source names the rows, the key and what is aggregated, and nothing else."""
    columns = [f"{ROWS[name]} AS {name}_" for name in rows]
    columns.append(f"{d.subject.name} AS key_")
    columns += [f"{column.name} AS v{place}" for place, (_, column, _, _) in enumerate(aggregates)]
    called = ", ".join(f"{name}(v{place}) AS a{place}" for place, (name, *_) in enumerate(aggregates))
    listed = ", ".join(f"{literal(value)} AS p{place}" for place, value in enumerate(values))
    source = f"(SELECT {', '.join(columns)} FROM {d.relation()}{where_clause(d.where())})"
    return Statement(
        f"SELECT * FROM {source} PIVOT ({called} FOR key_ IN ({listed})) AS p{SALT}",
        d.share,
        "pivot",
        (0.0,) * len(rows) + tuple(loose for _ in values for *_, loose in aggregates),
    )


def conditional(d: Draw, rows, values, aggregates, by_case: bool) -> Statement:
    """An aggregate of the rows of each value."""
    outputs = [Expression(ROWS[name], None, "text") for name in rows]
    for value in values:
        for name, column, type, loose in aggregates:
            test = f"{d.subject.name} = {literal(value)}"
            text = (
                f"{name}(CASE WHEN {test} THEN {column.name} END)"
                if by_case
                else f"{name}({column.name}) FILTER (WHERE {test})"
            )
            outputs.append(Expression(text, None, type, loose))
    texts = ", ".join(f"{output.sql} AS c{place}" for place, output in enumerate(outputs))
    group = f" GROUP BY {', '.join(ROWS[name] for name in rows)}" if rows else ""
    return Statement(
        f"SELECT {texts} FROM {d.relation()}{where_clause(d.where())}{group}",
        d.share,
        "case" if by_case else "filter",
        tuple(output.loose for output in outputs),
    )
