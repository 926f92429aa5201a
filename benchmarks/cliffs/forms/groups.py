"""Groups: aggregates of all rows, or by one to three keys, which are columns or computed; sometimes with HAVING or FILTER."""

from engine.polars_words import pl

from ..aggregates import aggregate, count_rows
from ..columns import BY_NAME
from ..draw import Draw, filtered, translated, where_clause
from ..expressions import Expression, computed, of_column
from ..statement import Statement


def draw(d: Draw) -> Statement:
    condition = d.where()
    keys = drawn_keys(d)
    values = [count_rows() if d.chance(0.1) else filtered_aggregate(d, column) for column in d.columns()]
    having = d.rng.choice([1, 10, 100]) if keys and d.chance(0.2) else None
    kind = {0: "of all", 1: "by one key", 2: "by two keys"}.get(len(keys), "by three keys")
    return statement(d, condition, keys, values, having, kind)


def drawn_keys(d: Draw) -> list[Expression]:
    """Keys: the subject, computed of it, symbol, venue, a bucket of time; or none."""
    turn = d.rng.random()
    if turn < 0.1:
        return []
    subject = of_column(d.subject) if d.chance(0.6) else computed(d.rng, d.subject)
    others = [
        of_column(BY_NAME["symbol"]),
        of_column(BY_NAME["venue"]),
        of_column(BY_NAME["live"]),
        Expression("time_bucket(INTERVAL '5 minutes', time)", pl.col("time").dt.truncate("5m"), "timestamp"),
        Expression("date_trunc('hour', time)", pl.col("time").dt.truncate("1h"), "timestamp"),
    ]
    if turn < 0.45:
        return [subject]
    if turn < 0.65:
        return [d.rng.choice(others)]
    keys = [subject, *d.rng.sample(others, d.rng.choice([1, 1, 2]))]
    return list({key.sql: key for key in keys}.values())


def filtered_aggregate(d: Draw, column) -> Expression:
    """An aggregate, one in ten of some rows of the group alone."""
    whole = aggregate(d.rng, column)
    if not d.chance(0.1):
        return whole
    condition = d.simple(d.rng.choice([column, d.subject]))
    return Expression(f"{whole.sql} FILTER (WHERE {condition.sql})", None, whole.type, whole.loose)


def statement(d: Draw, condition, keys, values, having, kind) -> Statement:
    """The statement of such a group."""
    outputs = [*keys, *values]
    texts = ", ".join(f"{output.sql} AS c{place}" for place, output in enumerate(outputs))
    group = f" GROUP BY {', '.join(key.sql for key in keys)}" if keys else ""
    having_text = f" HAVING count(*) > {having}" if having else ""
    table = d.table

    def polars(frames):
        rows = filtered(frames[table], condition)
        named = [value.named(f"c{len(keys) + place}") for place, value in enumerate(values)]
        if not keys:
            return rows.select(named)
        found = rows.group_by(*(key.named(f"c{place}") for place, key in enumerate(keys))).agg(
            *named, pl.len().alias("rows of the group")
        )
        if having:
            found = found.filter(pl.col("rows of the group") > having)
        return found.drop("rows of the group")

    return Statement(
        f"SELECT {texts} FROM {d.relation()}{where_clause(condition)}{group}{having_text}",
        d.share,
        kind,
        tuple(output.loose for output in outputs),
        polars=polars if translated(condition, *outputs) else None,
    )
