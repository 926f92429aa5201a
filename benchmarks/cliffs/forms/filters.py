"""Filters: rows by conditions on columns, as columns, computed values, or their number; sometimes only some rows of them."""

from engine.polars_words import pl

from ..columns import COLUMNS, DATE
from ..draw import Draw, filtered, translated, where_clause
from ..expressions import both, computed, of_column
from ..statement import Statement


def draw(d: Draw) -> Statement:
    condition = both(d.where(), d.condition(d.subject))
    kind = d.rng.choice(["columns", "columns", "computed", "count", "limit"])
    return {"columns": columns, "computed": computed_values, "count": count, "limit": limited}[kind](d, condition)


def columns(d: Draw, condition) -> Statement:
    """Columns of the rows; ``*`` for all."""
    chosen = d.columns()
    names = "*" if len(chosen) == len(COLUMNS) else ", ".join(column.name for column in chosen)
    # Of ``*`` the columns come in the table's order.
    listed = [column.name for column in COLUMNS] + [DATE] if names == "*" else [column.name for column in chosen]
    table = d.table
    return Statement(
        f"SELECT {names} FROM {d.relation()}{where_clause(condition)}",
        d.share,
        "columns",
        (0.0,) * len(listed),
        polars=(lambda frames: filtered(frames[table], condition).select(listed)) if translated(condition) else None,
    )


def computed_values(d: Draw, condition) -> Statement:
    """Values computed of as many columns."""
    values = [computed(d.rng, column) for column in d.columns()]
    texts = ", ".join(f"{value.sql} AS c{place}" for place, value in enumerate(values))
    table = d.table

    def polars(frames):
        return filtered(frames[table], condition).select(value.named(f"c{place}") for place, value in enumerate(values))

    return Statement(
        f"SELECT {texts} FROM {d.relation()}{where_clause(condition)}",
        d.share,
        "computed",
        tuple(value.loose for value in values),
        polars=polars if translated(condition, *values) else None,
    )


def count(d: Draw, condition) -> Statement:
    """How many rows."""
    table = d.table
    return Statement(
        f"SELECT count(*) AS n FROM {d.relation()}{where_clause(condition)}",
        d.share,
        "count",
        (0.0,),
        polars=(lambda frames: filtered(frames[table], condition).select(pl.len())) if translated(condition) else None,
    )


def limited(d: Draw, condition) -> Statement:
    """Some rows, any of them: their number is compared alone."""
    chosen = d.columns()
    rows = d.rng.choice([1, 10, 1000])
    table = d.table
    names = ", ".join(of_column(column).sql for column in chosen)
    return Statement(
        f"SELECT {names} FROM {d.relation()}{where_clause(condition)} LIMIT {rows}",
        d.share,
        "limit",
        (0.0,) * len(chosen),
        compared=(),
        polars=(lambda frames: filtered(frames[table], condition).select(c.name for c in chosen).head(rows))
        if translated(condition)
        else None,
    )
