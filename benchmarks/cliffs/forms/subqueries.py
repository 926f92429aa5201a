"""Statements within statements: a value, a list, a test of each row, a group of groups, a window of groups, named queries, unions."""

from engine.polars_words import pl

from ..aggregates import aggregate, averaged, counted, greatest, least, summed
from ..columns import BY_NAME
from ..draw import Draw, where_clause
from ..expressions import Expression, both, of_column
from ..statement import SALT, Statement

OUTER, INNER = f"o{SALT}", f"i{SALT}"


def draw(d: Draw) -> Statement:
    kinds = [scalar, listed, correlated, groups_of_groups, window_of_groups, groups_of_windows, named, union]
    return d.rng.choice(kinds)(d)


def statement(d: Draw, kind: str, outputs: list[Expression], rest: str, before: str = "") -> Statement:
    texts = ", ".join(f"{output.sql} AS c{place}" for place, output in enumerate(outputs))
    return Statement(f"{before}SELECT {texts} {rest}", d.share, kind, tuple(output.loose for output in outputs))


def bound(d: Draw, relation: str = "") -> Expression:
    """An aggregate in the subject's own type, to compare the subject with."""
    return d.rng.choice([least, greatest])(of_column(d.subject, relation))


def scalar(d: Draw) -> Statement:
    """Rows by a comparison with one value of the same or the partner's table."""
    table = d.rng.choice([d.table, d.partner])
    # A float's average differs in its last bits between systems, and with it which rows are equal to it: the extremes don't.
    inner = f"(SELECT {bound(d).sql} FROM {table} AS {INNER}{where_clause(d.simple(d.subject))})"
    test = Expression(f"{d.subject.name} {d.rng.choice(['<', '>=', '='])} {inner}", None, "bool")
    outputs = [of_column(column) for column in d.columns()]
    return statement(d, "scalar", outputs, f"FROM {d.relation()}{where_clause(both(d.where(), test))}")


def listed(d: Draw) -> Statement:
    """Rows whose value is among those of groups that are large enough."""
    key = d.subject.name
    having = d.rng.choice([1, 5, 100])
    inner = f"(SELECT {key} FROM {d.table} AS {INNER} GROUP BY {key} HAVING count(*) > {having})"
    test = Expression(f"{key} IN {inner}", None, "bool")
    outputs = [of_column(column) for column in d.columns()]
    return statement(d, "list", outputs, f"FROM {d.relation()}{where_clause(both(d.where(), test))}")


def correlated(d: Draw) -> Statement:
    """Rows by a comparison with a value of the rows of the same symbol or venue."""
    key = d.rng.choice(["symbol", "venue"])
    inner = f"(SELECT {bound(d, INNER).sql} FROM {d.table} AS {INNER} WHERE {INNER}.{key} = {OUTER}.{key})"
    test = Expression(f"{OUTER}.{d.subject.name} {d.rng.choice(['=', '<'])} {inner}", None, "bool")
    outputs = [of_column(column, OUTER) for column in d.columns()]
    source = f"FROM {d.table} AS {OUTER}{where_clause(both(d.where(OUTER), test))}"
    return statement(d, "correlated", outputs, source)


def inner_groups(d: Draw) -> tuple[str, list[Expression]]:
    """A sub-query of groups by symbol and something finer, and its values."""
    fine = d.rng.choice([d.subject.name, "time_bucket(INTERVAL '5 minutes', time)", "venue"])
    values = [aggregate(d.rng, column) for column in d.columns()]
    texts = ", ".join(f"{value.sql} AS v{place}" for place, value in enumerate(values))
    text = (
        f"SELECT symbol AS s, {fine} AS f, {texts} FROM {d.relation()}{where_clause(d.where())} GROUP BY symbol, {fine}"
    )
    columns = [Expression(f"v{place}", None, value.type, value.loose) for place, value in enumerate(values)]
    return text, columns


def groups_of_groups(d: Draw) -> Statement:
    """Aggregates of aggregates."""
    text, columns = inner_groups(d)
    outputs = [Expression("s", None, "symbol"), Expression("count(*)", None, "int64")]
    outputs += [extreme(d, column) for column in columns]
    return statement(d, "groups of groups", outputs, f"FROM ({text}) AS g{SALT} GROUP BY s")


def extreme(d: Draw, column: Expression) -> Expression:
    """The least or greatest value, or the number of values, of a column of a sub-query."""
    name = d.rng.choice(["min", "max", "count"])
    loose = 0.0 if name == "count" else column.loose
    return Expression(f"{name}({column.sql})", None, "int64" if name == "count" else column.type, loose)


def window_of_groups(d: Draw) -> Statement:
    """Neighbours and running values of groups."""
    text, columns = inner_groups(d)
    outputs = [Expression("s", None, "symbol"), Expression("f", None, "text")]
    for column in columns[:6]:
        name = d.rng.choice(["lag", "lead", "max", "count"])
        frame = " ROWS UNBOUNDED PRECEDING" if name in ("max", "count") else ""
        sql = f"{name}({column.sql}) OVER (PARTITION BY s ORDER BY f NULLS LAST{frame})"
        outputs.append(Expression(sql, None, column.type, 0.0 if name == "count" else column.loose))
    return statement(d, "window of groups", outputs, f"FROM ({text}) AS g{SALT}")


def groups_of_windows(d: Draw) -> Statement:
    """Aggregates of each row's neighbour or place."""
    column = of_column(d.number())
    inner = d.rng.choice(
        [
            f"lag({column.sql}) OVER (PARTITION BY symbol ORDER BY time)",
            f"max({column.sql}) OVER (PARTITION BY symbol ORDER BY time ROWS BETWEEN 99 PRECEDING AND CURRENT ROW)",
            f"{column.sql}",
        ]
    )
    key = d.rng.choice(["symbol", "venue"])
    carried = [BY_NAME[name] for name in dict.fromkeys(["time", "symbol", "venue", *(c.name for c in d.columns())])]
    names = ", ".join(one.name for one in carried)
    text = f"SELECT {names}, {inner} AS w FROM {d.relation()}{where_clause(d.where())}"
    window = Expression("w", pl.col("w"), column.type)
    outputs = [of_column(BY_NAME[key]), counted(window), summed(window), averaged(window)]
    outputs += [aggregate(d.rng, one) for one in carried[3:]]
    return statement(d, "groups of windows", outputs, f"FROM ({text}) AS w{SALT} GROUP BY {key}")


def named(d: Draw) -> Statement:
    """Named queries: groups of one table beside groups of the other, or the rows of a group that stand out."""
    value = averaged(of_column(d.number()))
    key = d.grouping().name
    extra = [extreme(d, of_column(column)) for column in d.columns()]
    texts = ", ".join(f"{one.sql} AS e{place}" for place, one in enumerate(extra))
    query = "SELECT {0} AS k, {1} AS v, {2} FROM {3} AS {4}{5} GROUP BY {0}"
    left = query.format(key, value.sql, texts, d.table, OUTER, where_clause(d.where()))
    right = query.format(key, value.sql, texts, d.partner, INNER, "")
    outputs = [Expression("a.k", None, "text"), Expression("a.v", None, "float64", value.loose)]
    outputs.append(Expression("b.v", None, "float64", value.loose))
    outputs += [Expression(f"a.e{place}", None, one.type, one.loose) for place, one in enumerate(extra)]
    outputs += [Expression(f"b.e{place}", None, one.type, one.loose) for place, one in enumerate(extra)]
    return statement(d, "named", outputs, "FROM a JOIN b ON a.k = b.k", f"WITH a AS ({left}), b AS ({right}) ")


def union(d: Draw) -> Statement:
    """Rows of two tables, or two parts of one, together; aggregated or not."""
    columns = d.columns()
    names = ", ".join(column.name for column in columns)
    first = f"SELECT {names} FROM {d.table} AS {OUTER}{where_clause(d.where())}"
    second = f"SELECT {names} FROM {d.partner} AS {INNER}{where_clause(d.simple(d.subject))}"
    source = f"FROM ({first} UNION ALL {second}) AS u{SALT}"
    if d.chance(0.5):
        return statement(d, "union", [of_column(column) for column in columns], source)
    values = [extreme(d, of_column(column)) for column in columns]
    return statement(d, "union", [Expression("count(*)", None, "int64"), *values], source)
