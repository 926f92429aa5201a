"""Expressions as SplayDB and DuckDB read them, one text for both, and as Polars does.

Spellings are those that both SQL dialects share, so that no system is asked something easier: division is by a number with a point,
since whole numbers are divided in two ways; sums are of signed or widened values; nulls are placed explicitly.
"""

import datetime
import decimal
from dataclasses import dataclass
from typing import Any

from engine.polars_words import pl

from .columns import Column

EXACT, FLOAT, COARSE = 0.0, 1e-9, 1e-6
"""How far values may differ: not at all, by the order of a sum, by the precision of float32 or of a decimal's average."""

TYPE_NAMES = {"date": "DATE", "time": "TIME", "timestamp": "TIMESTAMP"}


@dataclass(frozen=True)
class Expression:
    """A value of a row.

    ``loose`` is how far two systems' values may differ, relative to their size; ``polars`` is None where there is no translation.
    """

    sql: str
    polars: Any
    type: str
    loose: float = EXACT

    def named(self, name: str) -> Any:
        """As Polars' column of an answer."""
        return None if self.polars is None else self.polars.alias(name)


def looseness(type: str) -> float:
    """How far computed values of a type may differ."""
    return {"float64": FLOAT, "float32": COARSE, "decimal": COARSE}.get(type, EXACT)


def literal(value) -> str:
    """A value as both dialects spell it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(sep=' ')}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, datetime.time):
        return f"TIME '{value.isoformat()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    return repr(value)


def polars_literal(value):
    """A value as Polars takes it: instants in the columns' type."""
    if isinstance(value, datetime.datetime):
        return pl.lit(value, dtype=pl.Datetime("us", "UTC"))
    return pl.lit(value)


def of_column(column: Column, relation: str = "") -> Expression:
    """A column itself, qualified if a relation is named."""
    return Expression(f"{relation}.{column.name}" if relation else column.name, pl.col(column.name), column.type)


def both(*parts: "Expression | None") -> "Expression | None":
    """Conditions joined by AND; None if there are none."""
    given = [part for part in parts if part is not None]
    if not given:
        return None
    expression = given[0].polars
    for part in given[1:]:
        expression = None if expression is None or part.polars is None else expression & part.polars
    return Expression(" AND ".join(bracketed(part.sql) for part in given), expression, "bool")


def bracketed(sql: str) -> str:
    return f"({sql})" if " OR " in sql else sql


COMPARISONS = {
    "=": lambda left, right: left == right,
    "<>": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def compared(left: Expression, operator: str, value) -> Expression:
    """A comparison with a constant."""
    polars = None if left.polars is None else COMPARISONS[operator](left.polars, polars_literal(value))
    return Expression(f"{left.sql} {operator} {literal(value)}", polars, "bool")


def between(left: Expression, low, high) -> Expression:
    polars = (
        None if left.polars is None else (left.polars >= polars_literal(low)) & (left.polars <= polars_literal(high))
    )
    return Expression(f"{left.sql} BETWEEN {literal(low)} AND {literal(high)}", polars, "bool")


def half_open(left: Expression, low, high) -> Expression:
    """From ``low`` until before ``high``."""
    return both(compared(left, ">=", low), compared(left, "<", high))


def among(left: Expression, values: list, negated: bool = False) -> Expression:
    """``IN`` a list of constants."""
    texts = ", ".join(literal(value) for value in values)
    polars = None if left.polars is None or left.type in ("timestamp", "decimal") else left.polars.is_in(values)
    if negated and polars is not None:
        polars = ~polars
    return Expression(f"{left.sql} {'NOT IN' if negated else 'IN'} ({texts})", polars, "bool")


def is_null(left: Expression, negated: bool = False) -> Expression:
    polars = None if left.polars is None else left.polars.is_not_null() if negated else left.polars.is_null()
    return Expression(f"{left.sql} IS {'NOT ' if negated else ''}NULL", polars, "bool")


def like(left: Expression, pattern: str) -> Expression:
    """``LIKE`` with percent signs at the ends alone."""
    text = None if left.polars is None else left.polars.cast(pl.String).str
    if text is None:
        polars = None
    elif pattern.startswith("%") and pattern.endswith("%"):
        polars = text.contains(pattern.strip("%"), literal=True)
    elif pattern.endswith("%"):
        polars = text.starts_with(pattern.strip("%"))
    else:
        polars = text.ends_with(pattern.strip("%"))
    return Expression(f"{left.sql} LIKE {literal(pattern)}", polars, "bool")


def either(left: Expression, right: Expression) -> Expression:
    polars = None if left.polars is None or right.polars is None else left.polars | right.polars
    return Expression(f"{left.sql} OR {right.sql}", polars, "bool")


def negation(inner: Expression) -> Expression:
    return Expression(f"NOT ({inner.sql})", None if inner.polars is None else ~inner.polars, "bool")


# Values computed of one column.


def computed(rng, column: Column, relation: str = "") -> Expression:
    """A value computed of a column, of a shape that its type has."""
    base = of_column(column, relation)
    return rng.choice(shapes(column.type))(base)


def shapes(type: str) -> list:
    """The shapes of computed values of a type."""
    if type in ("float64", "float32"):
        return [scaled, shifted, squared, rounded, absolute, cased]
    if type == "decimal":
        return [doubled, shifted_whole, absolute, cased]
    if type in ("timestamp",):
        return [minute, hour_start, hour_of, day_of]
    return {
        "date": [month_of, month_start],
        "time": [hour_of],
        "bool": [inverse, as_number],
        "symbol": [upper, length, prefix],
        "text": [upper, length, prefix],
    }.get(type, [doubled, shifted_whole, remainder, absolute, cased, as_float])


def scaled(base: Expression) -> Expression:
    return Expression(f"{base.sql} * 1.5", base.polars * 1.5, base.type, looseness(base.type))


def shifted(base: Expression) -> Expression:
    return Expression(f"{base.sql} + 0.25", base.polars + 0.25, base.type, looseness(base.type))


def squared(base: Expression) -> Expression:
    return Expression(f"{base.sql} * {base.sql}", base.polars * base.polars, base.type, looseness(base.type))


def rounded(base: Expression) -> Expression:
    return Expression(f"floor({base.sql})", base.polars.floor(), base.type)


def absolute(base: Expression) -> Expression:
    return Expression(f"abs({base.sql})", base.polars.abs(), base.type)


def cased(base: Expression) -> Expression:
    """A number where it is positive, else nothing."""
    return Expression(
        f"CASE WHEN {base.sql} > 0 THEN {base.sql} ELSE NULL END",
        pl.when(base.polars > 0).then(base.polars),
        base.type,
    )


def doubled(base: Expression) -> Expression:
    return Expression(f"{base.sql} * 2", base.polars * 2, base.type, looseness(base.type))


def shifted_whole(base: Expression) -> Expression:
    return Expression(f"{base.sql} + 1", base.polars + 1, base.type, looseness(base.type))


def remainder(base: Expression) -> Expression:
    """Of a whole number; Polars takes the sign of the divisor, so it is left out for signed ones."""
    polars = base.polars % 10 if base.type.startswith("uint") else None
    return Expression(f"{base.sql} % 10", polars, base.type)


def as_float(base: Expression) -> Expression:
    return Expression(f"CAST({base.sql} AS DOUBLE) / 3.0", base.polars.cast(pl.Float64) / 3.0, "float64", FLOAT)


def minute(base: Expression) -> Expression:
    return Expression(f"time_bucket(INTERVAL '1 minute', {base.sql})", base.polars.dt.truncate("1m"), "timestamp")


def hour_start(base: Expression) -> Expression:
    return Expression(f"date_trunc('hour', {base.sql})", base.polars.dt.truncate("1h"), "timestamp")


def hour_of(base: Expression) -> Expression:
    return Expression(f"extract(hour FROM {base.sql})", base.polars.dt.hour().cast(pl.Int64), "int64")


def day_of(base: Expression) -> Expression:
    return Expression(f"CAST({base.sql} AS DATE)", base.polars.dt.date(), "date")


def month_of(base: Expression) -> Expression:
    return Expression(f"extract(day FROM {base.sql})", base.polars.dt.day().cast(pl.Int64), "int64")


def month_start(base: Expression) -> Expression:
    return Expression(f"date_trunc('month', {base.sql})", base.polars.dt.truncate("1mo"), "date")


def inverse(base: Expression) -> Expression:
    return Expression(f"NOT {base.sql}", ~base.polars, "bool")


def as_number(base: Expression) -> Expression:
    return Expression(f"CAST({base.sql} AS INTEGER)", base.polars.cast(pl.Int32), "int32")


def upper(base: Expression) -> Expression:
    return Expression(f"upper({base.sql})", base.polars.cast(pl.String).str.to_uppercase(), "text")


def length(base: Expression) -> Expression:
    return Expression(f"length({base.sql})", base.polars.cast(pl.String).str.len_chars().cast(pl.Int64), "int64")


def prefix(base: Expression) -> Expression:
    return Expression(f"substr({base.sql}, 1, 2)", base.polars.cast(pl.String).str.slice(0, 2), "text")
