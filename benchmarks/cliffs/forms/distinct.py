"""Distinct: rows, values, numbers of values, the first row of each group."""

from engine.polars_words import pl

from ..columns import BY_NAME
from ..draw import Draw, filtered, translated, where_clause
from ..expressions import computed, of_column
from ..statement import Statement


def draw(d: Draw) -> Statement:
    return d.rng.choice([rows, rows, numbers, numbers, first_of_each])(d, d.where())


def rows(d: Draw, condition) -> Statement:
    """SELECT DISTINCT of columns, one in four computed."""
    values = [of_column(column) if d.chance(0.75) else computed(d.rng, column) for column in d.columns()]
    texts = ", ".join(f"{value.sql} AS c{place}" for place, value in enumerate(values))
    table = d.table

    def polars(frames):
        named = [value.named(f"c{place}") for place, value in enumerate(values)]
        return filtered(frames[table], condition).select(named).unique()

    return Statement(
        f"SELECT DISTINCT {texts} FROM {d.relation()}{where_clause(condition)}",
        d.share,
        "rows",
        tuple(value.loose for value in values),
        polars=polars if translated(condition, *values) else None,
    )


def numbers(d: Draw, condition) -> Statement:
    """count(DISTINCT) of as many columns, of all rows or by a key."""
    columns = d.columns()
    key = of_column(BY_NAME[d.rng.choice(["symbol", "venue", d.grouping().name])]) if d.chance(0.6) else None
    counted = [(f"count(DISTINCT {c.name})", pl.col(c.name).drop_nulls().n_unique()) for c in columns]
    texts = [f"{sql} AS n{place}" for place, (sql, _) in enumerate(counted)]
    named = [expression.alias(f"n{place}") for place, (_, expression) in enumerate(counted)]
    table = d.table

    def polars(frames):
        found = filtered(frames[table], condition)
        return found.group_by(key.named("k")).agg(named) if key else found.select(named)

    selected = ", ".join([f"{key.sql} AS k", *texts] if key else texts)
    group = f" GROUP BY {key.sql}" if key else ""
    return Statement(
        f"SELECT {selected} FROM {d.relation()}{where_clause(condition)}{group}",
        d.share,
        "numbers by key" if key else "numbers",
        (0.0,) * (len(texts) + bool(key)),
        polars=polars if translated(condition) else None,
    )


def first_of_each(d: Draw, condition) -> Statement:
    """DISTINCT ON a key: its first or last row by time."""
    keys = d.rng.choice([["symbol"], ["venue"], ["symbol", "venue"], [d.subject.name]])
    columns = [column for column in d.columns() if column.name not in keys]
    direction = d.rng.choice(["", " DESC"])
    names = [*keys, *(column.name for column in columns)]
    table = d.table

    def polars(frames):
        found = filtered(frames[table], condition).sort("time", descending=bool(direction))
        return found.unique(keys, keep="first", maintain_order=True).select(names)

    order = ", ".join([*keys, *([] if "time" in keys else [f"time{direction}"])])
    return Statement(
        f"SELECT DISTINCT ON ({', '.join(keys)}) {', '.join(names)} FROM {d.relation()}{where_clause(condition)} "
        f"ORDER BY {order}",
        d.share,
        "first of each",
        (0.0,) * len(names),
        polars=polars if translated(condition) else None,
    )
