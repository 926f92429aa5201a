"""Windows: neighbours, places, running and moving aggregates over partitions; all rows of them, or those that QUALIFY leaves."""

from engine.polars_words import pl

from ..columns import BY_NAME, Column
from ..draw import Draw, filtered, translated, where_clause
from ..expressions import COARSE, FLOAT, Expression, looseness, of_column
from ..statement import Statement

FUNCTIONS_MAX = 6
"""Window functions of a statement; a wider one has columns besides."""


def draw(d: Draw) -> Statement:
    condition = d.where()
    partition = drawn_partition(d)
    columns = d.columns()
    functions = [drawn(d, column, partition) for column in columns[:FUNCTIONS_MAX]]
    plain = [of_column(column) for column in columns[FUNCTIONS_MAX:]]
    if d.chance(0.2):
        return qualified(d, condition, partition, columns)
    return statement(d, condition, [*plain, *functions])


def drawn_partition(d: Draw) -> list[Column]:
    """By what rows are parted: symbol, venue, both, a column of few values, or nothing."""
    names = d.rng.choice([["symbol"], ["symbol"], ["venue"], ["symbol", "venue"], [d.grouping().name], []])
    return [BY_NAME[name] for name in names]


def over(partition: list[Column], order: str = "", frame: str = "") -> str:
    """An OVER clause."""
    parts = []
    if partition:
        parts.append("PARTITION BY " + ", ".join(column.name for column in partition))
    if order:
        parts.append("ORDER BY " + order)
    if frame:
        parts.append(frame)
    return f"OVER ({' '.join(parts)})"


def spread_over(expression, partition: list[Column], ordered: bool = True):
    """Polars' window. Rows lie by symbol and time, so that order is asked for where the partition isn't the symbol."""
    if [column.name for column in partition] in (["symbol"], ["symbol", "venue"]):
        return expression.over([column.name for column in partition])
    order = "time" if ordered else None
    if not partition:
        return expression.over(pl.lit(1), order_by=order)
    return expression.over([column.name for column in partition], order_by=order)


def drawn(d: Draw, column: Column, partition: list[Column]) -> Expression:
    """A window function of a column."""
    kinds = [neighbour, neighbour, place, ends, whole, running, moving, ranged]
    return d.rng.choice(kinds)(d, column, partition)


def neighbour(d: Draw, column: Column, partition) -> Expression:
    """``lag`` or ``lead``."""
    name, rows = d.rng.choice(["lag", "lead"]), d.rng.choice([1, 1, 5])
    shifted = pl.col(column.name).shift(rows if name == "lag" else -rows)
    return Expression(
        f"{name}({column.name}, {rows}) {over(partition, 'time')}", spread_over(shifted, partition), column.type
    )


def place(d: Draw, column: Column, partition) -> Expression:
    """A number by an order: of time, or of the column, where ties share their place."""
    name = d.rng.choice(["row_number", "rank", "dense_rank", "ntile"])
    if name == "row_number":
        return Expression(
            f"row_number() {over(partition, 'time')}",
            spread_over(pl.int_range(1, pl.len() + 1), partition),
            "int64",
        )
    if name == "ntile":
        return Expression(f"ntile(10) {over(partition, 'time')}", None, "int64")
    ranked = None
    if not column.nullable and partition:
        method = "min" if name == "rank" else "dense"
        ranked = pl.col(column.name).rank(method).cast(pl.Int64).over([part.name for part in partition])
    return Expression(f"{name}() {over(partition, f'{column.name} NULLS LAST')}", ranked, "int64")


def ends(d: Draw, column: Column, partition) -> Expression:
    """The first or last row of the partition."""
    name = d.rng.choice(["first_value", "last_value"])
    frame = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
    value = pl.col(column.name).first() if name == "first_value" else pl.col(column.name).last()
    return Expression(
        f"{name}({column.name}) {over(partition, 'time', frame)}", spread_over(value, partition), column.type
    )


def folded(d: Draw, column: Column) -> tuple[str, str, float]:
    """An aggregate's name, its type, and how far its values may differ."""
    if not column.is_number:
        name = d.rng.choice(["min", "max", "count"])
        return name, ("int64" if name == "count" else column.type), 0.0
    name = d.rng.choice(["sum", "avg", "min", "max", "count"])
    if name in ("min", "max"):
        return name, column.type, 0.0
    if name == "count":
        return name, "int64", 0.0
    loose = COARSE if column.type in ("float32", "decimal") else FLOAT
    return name, "float64", loose if name == "avg" else looseness(column.type)


def whole(d: Draw, column: Column, partition) -> Expression:
    """An aggregate of the partition beside each row."""
    name, type, loose = folded(d, column)
    base = pl.col(column.name)
    wide = base if not column.is_number else base.cast(pl.Float64) if name == "avg" else widened(base, column)
    value = {
        "min": base.min,
        "max": base.max,
        "count": base.count,
        "sum": wide.sum,
        "avg": wide.mean,
    }[name]()
    polars = spread_over(value, partition, ordered=False)
    return Expression(f"{name}({column.name}) {over(partition)}", polars, type, loose)


def widened(base, column: Column):
    """A column whose sums fit."""
    return base.cast(pl.Int64) if column.is_integer else base.cast(pl.Float64) if column.type == "float32" else base


def running(d: Draw, column: Column, partition) -> Expression:
    """An aggregate from the partition's start."""
    name, type, loose = folded(d, column)
    base = pl.col(column.name)
    polars = None
    if not column.nullable and column.is_number and column.type != "decimal":
        value = {
            "min": base.cum_min,
            "max": base.cum_max,
            "count": base.cum_count,
            "sum": widened(base, column).cum_sum,
        }.get(name)
        polars = spread_over(value(), partition) if value else None
    return Expression(
        f"{name}({column.name}) {over(partition, 'time', 'ROWS UNBOUNDED PRECEDING')}", polars, type, max(loose, 0.0)
    )


def moving(d: Draw, column: Column, partition) -> Expression:
    """An aggregate over the last rows."""
    name, type, loose = folded(d, column)
    rows = d.rng.choice([2, 20, 20, 500])
    polars = None
    if column.type in ("float64", "int32", "int64", "uint16", "uint32") and not column.nullable and name != "count":
        base = widened(pl.col(column.name), column)
        rolling = {
            "min": base.rolling_min,
            "max": base.rolling_max,
            "sum": base.rolling_sum,
            "avg": base.rolling_mean,
        }[name]
        polars = spread_over(rolling(rows, min_samples=1), partition)
    return Expression(
        f"{name}({column.name}) {over(partition, 'time', f'ROWS BETWEEN {rows - 1} PRECEDING AND CURRENT ROW')}",
        polars,
        type,
        loose and 1e-6,
    )


def ranged(d: Draw, column: Column, partition) -> Expression:
    """An aggregate over the last stretch of time."""
    name, type, loose = folded(d, column)
    width = d.rng.choice(["1 second", "10 seconds", "5 minutes"])
    frame = f"RANGE BETWEEN INTERVAL '{width}' PRECEDING AND CURRENT ROW"
    return Expression(f"{name}({column.name}) {over(partition, 'time', frame)}", None, type, loose and 1e-6)


def statement(d: Draw, condition, outputs: list[Expression]) -> Statement:
    """All rows, with what was asked for each."""
    texts = ", ".join(f"{output.sql} AS c{number}" for number, output in enumerate(outputs))
    table = d.table

    def polars(frames):
        return filtered(frames[table], condition).select(
            output.named(f"c{number}") for number, output in enumerate(outputs)
        )

    return Statement(
        f"SELECT {texts} FROM {d.relation()}{where_clause(condition)}",
        d.share,
        "rows",
        tuple(output.loose for output in outputs),
        polars=polars if translated(condition, *outputs) else None,
    )


def qualified(d: Draw, condition, partition, columns) -> Statement:
    """Rows by their place in the partition, or those that reach its greatest value."""
    names = ", ".join(column.name for column in columns)
    table = d.table
    if d.chance(0.6):
        rows = d.rng.choice([1, 1, 3])
        direction = d.rng.choice(["", " DESC"])
        test = f"row_number() {over(partition, f'time{direction}')} <= {rows}"
        place = pl.col("time").rank("ordinal", descending=bool(direction)) <= rows
    else:
        test = f"{d.subject.name} = max({d.subject.name}) {over(partition)}"
        place = pl.col(d.subject.name) == pl.col(d.subject.name).max()
    test_polars = place.over([part.name for part in partition]) if partition else place
    return Statement(
        f"SELECT {names} FROM {d.relation()}{where_clause(condition)} QUALIFY {test}",
        d.share,
        "qualify",
        (0.0,) * len(columns),
        polars=(lambda frames: filtered(frames[table], condition).filter(test_polars).select(c.name for c in columns))
        if translated(condition)
        else None,
    )
