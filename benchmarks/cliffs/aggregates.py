"""Aggregates of a group's rows."""

from engine.polars_words import pl

from .columns import Column
from .expressions import COARSE, EXACT, FLOAT, Expression, of_column

SPREAD = 1e-6
"""Deviations lose digits of the values' squares."""


def count_rows() -> Expression:
    return Expression("count(*)", pl.len(), "int64")


def aggregate(rng, column: Column, relation: str = "", moment: str = "time") -> Expression:
    """An aggregate that the column's type has. ``moment`` is the order of ``first`` and ``last``."""
    choices = [counted, counted_distinct, least, greatest, first, last]
    if column.is_number:
        # As often as all others together: what is asked of numbers is mostly a sum or an average.
        choices = [counted, counted_distinct, least, greatest, first, last, summed, summed, averaged, averaged, spread]
    if column.type == "float64":
        choices.append(middle)
    if column.type == "bool":
        choices += [every, some]
    base = of_column(column, relation)
    chosen = rng.choice(choices)
    return chosen(base, moment) if chosen in (first, last) else chosen(base)


def counted(base: Expression) -> Expression:
    return Expression(f"count({base.sql})", base.polars.count(), "int64")


def counted_distinct(base: Expression) -> Expression:
    return Expression(f"count(DISTINCT {base.sql})", base.polars.drop_nulls().n_unique(), "int64")


def least(base: Expression) -> Expression:
    return Expression(f"min({base.sql})", base.polars.min(), base.type)


def greatest(base: Expression) -> Expression:
    return Expression(f"max({base.sql})", base.polars.max(), base.type)


def first(base: Expression, moment: str) -> Expression:
    polars = base.polars.sort_by("time").first() if moment == "time" else None
    return Expression(f"first({base.sql} ORDER BY {moment})", polars, base.type)


def last(base: Expression, moment: str) -> Expression:
    polars = base.polars.sort_by("time").last() if moment == "time" else None
    return Expression(f"last({base.sql} ORDER BY {moment})", polars, base.type)


def summed(base: Expression) -> Expression:
    if base.type == "float64":
        return Expression(f"sum({base.sql})", none_of_nothing(base.polars), base.type, FLOAT)
    if base.type == "float32":
        return Expression(f"sum({base.sql})", none_of_nothing(base.polars.cast(pl.Float64)), "float64", COARSE)
    if base.type == "decimal":
        return Expression(f"sum({base.sql})", none_of_nothing(base.polars), base.type, EXACT)
    return Expression(f"sum({base.sql})", none_of_nothing(base.polars.cast(pl.Int64)), "int64")


def none_of_nothing(column):
    """A sum that is null where there are no values; Polars says 0."""
    return pl.when(column.count() > 0).then(column.sum())


def averaged(base: Expression) -> Expression:
    loose = COARSE if base.type in ("float32", "decimal") else FLOAT
    return Expression(f"avg({base.sql})", base.polars.cast(pl.Float64).mean(), "float64", loose)


def spread(base: Expression) -> Expression:
    return Expression(f"stddev({base.sql})", base.polars.cast(pl.Float64).std(), "float64", SPREAD)


def middle(base: Expression) -> Expression:
    return Expression(f"median({base.sql})", base.polars.median(), "float64", FLOAT)


def every(base: Expression) -> Expression:
    return Expression(f"bool_and({base.sql})", base.polars.all(), "bool")


def some(base: Expression) -> Expression:
    return Expression(f"bool_or({base.sql})", base.polars.any(), "bool")
