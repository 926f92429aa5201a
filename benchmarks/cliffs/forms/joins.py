"""Joins: as-of for one half; rows by a unique number, rows with groups, semi and anti joins, and lists of values for the other.

``l`` is the left side, a table as selective as the statement; ``r`` the right, its partner. No join makes more rows than its left
has, so that what is timed is the join and not the answer.
"""

from ..aggregates import aggregate
from ..columns import BY_NAME, COLUMNS
from ..draw import Draw, where_clause
from ..expressions import Expression, both, literal, of_column
from ..statement import SALT, Statement

LEFT, RIGHT = f"l{SALT}", f"r{SALT}"


def draw(d: Draw) -> Statement:
    if d.chance(0.5):
        return as_of(d)
    return d.rng.choice([by_number, with_groups, with_groups, semi, with_values])(d)


def statement(d: Draw, kind: str, outputs: list[Expression], source: str, condition=None, group="") -> Statement:
    """A join's statement."""
    texts = ", ".join(f"{output.sql} AS c{place}" for place, output in enumerate(outputs))
    return Statement(
        f"SELECT {texts} FROM {source}{where_clause(condition)}{group}",
        d.share,
        kind,
        tuple(output.loose for output in outputs),
    )


def sides(d: Draw) -> list[Expression]:
    """As many columns as the statement is wide, from both sides: the subject from the right."""
    chosen = d.columns()
    return [of_column(column, RIGHT if place % 2 == 0 else LEFT) for place, column in enumerate(chosen)]


def summary(d: Draw) -> tuple[list[Expression], str]:
    """Aggregates of the joined rows, perhaps by a key of the left."""
    chosen = d.columns()
    values = [
        aggregate(d.rng, column, RIGHT if place % 2 == 0 else LEFT, f"{LEFT}.time")
        for place, column in enumerate(chosen)
    ]
    if d.chance(0.6):
        key = of_column(BY_NAME[d.rng.choice(["symbol", "venue"])], LEFT)
        return [key, *values], f" GROUP BY {key.sql}"
    return values, ""


def rows_or_summary(d: Draw) -> tuple[list[Expression], str]:
    return (sides(d), "") if d.chance(0.6) else summary(d)


def as_of(d: Draw) -> Statement:
    """Each left row with the right row before or after it, by symbol, perhaps by one more key."""
    comparison = d.rng.choice([">=", ">=", ">=", ">", "<=", "<"])
    keys = ["symbol"]
    if d.chance(0.25):
        keys.append(d.rng.choice(["venue", "live", d.grouping().name]))
    on = " AND ".join(f"{LEFT}.{key} = {RIGHT}.{key}" for key in dict.fromkeys(keys))
    right = f"{d.partner} AS {RIGHT}"
    if d.chance(0.2):
        right = f"(SELECT * FROM {d.partner}{where_clause(d.simple(d.subject))}) AS {RIGHT}"
    outer = d.rng.choice(["", "LEFT "])
    outputs, group = rows_or_summary(d)
    source = f"{d.table} AS {LEFT} ASOF {outer}JOIN {right} ON {on} AND {LEFT}.time {comparison} {RIGHT}.time"
    return statement(d, "as-of", outputs, source, d.where(LEFT), group)


def by_number(d: Draw) -> Statement:
    """Rows of both tables with the same sequence number, which no other row has."""
    kind = d.rng.choice(["JOIN", "LEFT JOIN"])
    outputs, group = rows_or_summary(d)
    source = f"{d.table} AS {LEFT} {kind} {d.partner} AS {RIGHT} ON {LEFT}.sequence = {RIGHT}.sequence"
    condition = both(d.where(LEFT), d.simple(d.subject, LEFT) if d.chance(0.3) else None)
    return statement(d, "by number", outputs, source, condition, group)


def with_groups(d: Draw) -> Statement:
    """Left rows with an aggregate of the right rows of equal value in the subject, or of the same symbol and minute."""
    columns = d.columns()
    values = [aggregate(d.rng, column) for column in columns]
    inner = ", ".join(f"{value.sql} AS v{place}" for place, value in enumerate(values))
    if d.chance(0.3):
        minute = "time_bucket(INTERVAL '1 minute', {}time)"
        keys = f"symbol AS k, {minute.format('')} AS m"
        on = f"{LEFT}.symbol = {RIGHT}.k AND {minute.format(f'{LEFT}.')} = {RIGHT}.m"
        group = f"symbol, {minute.format('')}"
    else:
        key = d.subject.name
        keys, on, group = f"{key} AS k", f"{LEFT}.{key} = {RIGHT}.k", key
    right = f"(SELECT {keys}, {inner} FROM {d.partner} GROUP BY {group}) AS {RIGHT}"
    kind = d.rng.choice(["JOIN", "LEFT JOIN"])
    outputs = [
        of_column(BY_NAME["sequence"], LEFT),
        *(Expression(f"{RIGHT}.v{place}", None, value.type, value.loose) for place, value in enumerate(values)),
    ]
    return statement(d, "with groups", outputs, f"{d.table} AS {LEFT} {kind} {right} ON {on}", d.where(LEFT))


def semi(d: Draw) -> Statement:
    """Left rows whose value occurs, or doesn't, among some right rows."""
    key = d.subject.name
    negated = d.chance(0.4)
    test = d.simple(d.rng.choice([column for column in COLUMNS if not column.nullable]))
    # NOT IN is null where a null is among the values: those are left out.
    where = f" WHERE {test.sql} AND {key} IS NOT NULL"
    if d.chance(0.5):
        text = f"{LEFT}.{key} {'NOT ' if negated else ''}IN (SELECT {key} FROM {d.partner}{where})"
    else:
        inner = f"SELECT 1 FROM {d.partner} AS {RIGHT} WHERE {RIGHT}.{key} = {LEFT}.{key}"
        inner += f" AND {d.simple(BY_NAME['price'], RIGHT).sql}"
        text = f"{'NOT ' if negated else ''}EXISTS ({inner})"
    condition = both(d.where(LEFT), Expression(text, None, "bool"))
    outputs = [of_column(column, LEFT) for column in d.columns()]
    return statement(d, "anti" if negated else "semi", outputs, f"{d.table} AS {LEFT}", condition)


def with_values(d: Draw) -> Statement:
    """Left rows with a list of values of the subject, each with a name."""
    values = d.values(d.subject, d.rng.choice([2, 10, 50]))
    rows = ", ".join(f"({literal(value)}, {place})" for place, value in enumerate(values))
    outputs = [
        Expression(f"{RIGHT}.name", None, "int64"),
        *(of_column(column, LEFT) for column in d.columns()),
    ]
    source = (
        f"{d.table} AS {LEFT} JOIN (VALUES {rows}) AS {RIGHT}(value, name) ON {LEFT}.{d.subject.name} = {RIGHT}.value"
    )
    return statement(d, "with values", outputs, source, d.where(LEFT))
