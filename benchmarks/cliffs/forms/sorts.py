"""Sorts: by one to three keys, up or down, nulls first or last; whole answers, or their first rows."""

from engine.polars_words import pl

from ..columns import COLUMNS
from ..draw import Draw, filtered, translated, where_clause
from ..expressions import computed, of_column
from ..statement import Statement


def draw(d: Draw) -> Statement:
    condition = d.where()
    keys = [of_column(d.subject) if d.chance(0.8) else computed(d.rng, d.subject)]
    others = [column for column in COLUMNS if column != d.subject]
    keys += [of_column(column) for column in d.rng.sample(others, d.rng.choice([0, 0, 1, 2]))]
    total = d.chance(0.5)
    if total:
        # Sequence numbers are unique: no tie is left open.
        keys = [key for key in keys if key.sql != "sequence"] + [of_column(unique())]
    orders = [(d.chance(0.5), d.chance(0.3)) for _ in keys]
    limit = d.rng.choice([None, None, 10, 100, 10_000])
    offset = d.rng.choice([0, 0, 50]) if limit else 0
    return statement(d, condition, keys, orders, total, limit, offset)


def unique():
    return next(column for column in COLUMNS if column.name == "sequence")


def statement(d: Draw, condition, keys, orders, total, limit, offset) -> Statement:
    """The keys come first among the columns, and alone count where ties are left open."""
    named = {key.sql for key in keys}
    rest = [of_column(column) for column in d.columns() if column.name not in named]
    outputs = [*keys, *rest[: max(0, d.width - len(keys))]]
    texts = ", ".join(f"{output.sql} AS c{place}" for place, output in enumerate(outputs))
    order = ", ".join(
        f"c{place}{' DESC' if down else ''} NULLS {'FIRST' if first else 'LAST'}"
        for place, (down, first) in enumerate(orders)
    )
    bounds = f" LIMIT {limit}" + (f" OFFSET {offset}" if offset else "") if limit else ""
    table = d.table

    def polars(frames):
        rows = filtered(frames[table], condition).select(
            output.named(f"c{place}") for place, output in enumerate(outputs)
        )
        rows = rows.sort(
            [pl.col(f"c{place}") for place in range(len(keys))],
            descending=[down for down, _ in orders],
            nulls_last=[not first for _, first in orders],
        )
        return rows.slice(offset, limit) if limit else rows

    return Statement(
        f"SELECT {texts} FROM {d.relation()}{where_clause(condition)} ORDER BY {order}{bounds}",
        d.share,
        "first rows" if limit else "all rows",
        tuple(output.loose for output in outputs),
        ordered=True,
        compared=None if total else tuple(range(len(keys))),
        polars=polars if translated(condition, *outputs) else None,
    )
