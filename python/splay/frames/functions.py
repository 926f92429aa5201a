"""Where expressions begin: columns, values, choices, functions by name."""

import re
from collections.abc import Sequence
from typing import Any

from splay.frames.base import condition_of, named, node_of, of
from splay.frames.expr import Expr
from splay.frames.nodes import Call, Cast, Column, Node, Operation, value

_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def col(name: str) -> Expr:
    """A column of whatever frame takes the expression. Case doesn't count.

    >>> import splay
    >>> splay.col("price") * splay.col("size") > 1000
    (price * size) > 1000
    """
    return named(name)


def left(name: str) -> Expr:
    """A column of the left side, within the aggregates of a window join.

    >>> print(trade.window_join(quote, "5s", paid=(splay.left("price") - col("bid")).mean()).sql())
    SELECT l.time, l.symbol, l.price, l.size, l.side, l.date, avg(l.price - r.bid) AS paid
    FROM trade AS l WINDOW JOIN quote AS r ON l.symbol = r.symbol AND r.time BETWEEN (l.time - INTERVAL '5 seconds') AND (l.time + INTERVAL '0 seconds')
    """
    return Expr(Column(name, is_left=True))


def lit(given: Any) -> Expr:
    """A value as an expression. Texts in an expression are values already, names are :func:`col`. A time has the label of UTC.

    >>> import splay
    >>> splay.lit("N").alias("venue")
    'N'
    """
    node = value(given)
    if node.text.startswith("TIMESTAMP"):
        return Expr(Cast(node, "timestamp"))
    return Expr(node)


def count() -> Expr:
    """How many rows there are.

    >>> import splay
    >>> splay.count()
    count(*)
    """
    return Expr(Call("count(*)", ()), "count")


def row_number() -> Expr:
    """The place of each row in the order of the frame, or of ``.over(..., order_by=...)``, from 1.

    >>> splay.row_number().over("symbol", order_by="time")
    CAST(row_number() OVER (PARTITION BY symbol ORDER BY time) AS bigint)
    """
    # SQL's has no sign, and what is computed of it and a number with one would be a decimal.
    return Expr(Cast(Call("row_number()", (), is_aggregate=False, needs_order=True), "int64"), "row_number")


def vwap(price: Any, size: Any) -> Expr:
    """The price weighted by size. Pairs with a null are left out.

    >>> import splay
    >>> splay.vwap("price", "size")
    vwap(price, size)
    """
    return _column(price).wavg(_column(size))


def call(function: str, *arguments: Any, kind: str = "row", name: str | None = None) -> Expr:
    """A function of SQL by its name, for all that has no method.

    Parameters
    ----------
    function
        Its name, such as ``"greatest"``; see docs/reference/functions.md.
    *arguments
        Expressions and values.
    kind
        ``"row"`` for a value of each row, ``"aggregate"``, or ``"window"`` for a function that needs ``over``.
    name
        The name of the result; that of the first column without it.

    >>> import splay
    >>> splay.call("wilder", splay.col("move"), 14, kind="window").over("symbol", order_by="time")
    wilder(move, 14) OVER (PARTITION BY symbol ORDER BY time)
    """
    if not _FUNCTION.match(function):
        raise ValueError(f"{function!r} is no name of a function")
    if kind not in ("row", "aggregate", "window"):
        raise ValueError(f"kind is 'row', 'aggregate' or 'window', not {kind!r}")
    operands = tuple(node_of(argument) for argument in arguments)
    template = f"{function}({', '.join(['{}'] * len(operands))})"
    node: Node
    if kind == "row":
        node = Operation(template, operands, is_call=True)
    else:
        node = Call(template, operands, is_aggregate=kind == "aggregate", needs_order=kind == "window")
    frames = [argument._frame for argument in arguments if isinstance(argument, Expr) and argument._frame is not None]
    return Expr(node, name, frames[0] if frames else None)


def coalesce(*columns: Any) -> Expr:
    """The first that isn't null.

    >>> splay.coalesce("bid", "ask")
    coalesce(bid, ask)
    """
    return call("coalesce", *map(_column, columns))


def max_horizontal(*columns: Any) -> Expr:
    """The greatest of several columns of a row, nulls left out.

    >>> splay.max_horizontal("bid", "ask")
    greatest(bid, ask)
    """
    return call("greatest", *map(_column, columns))


def min_horizontal(*columns: Any) -> Expr:
    """The least of several columns of a row, nulls left out.

    >>> splay.min_horizontal("bid", "ask")
    least(bid, ask)
    """
    return call("least", *map(_column, columns))


def concat_str(columns: Sequence[Any], separator: str = "") -> Expr:
    """Texts of a row put together; null if one of them is null.

    >>> splay.concat_str(["symbol", "side"], "-")
    symbol || '-' || side
    """
    parts: list[Node] = []
    for column in columns:
        if parts and separator:
            parts.append(node_of(separator))
        parts.append(_column(column).node)
    if not parts:
        raise ValueError("concat_str needs columns")
    return Expr(Operation(" || ".join(["{}"] * len(parts)), tuple(parts)))


def when(condition: Expr) -> "When":
    """A choice: ``when(c).then(x)``, with more ``.when(c).then(x)``, and ``.otherwise(x)`` for the rest, else null.

    >>> import splay
    >>> splay.when(splay.col("side") == "buy").then(1).otherwise(-1).alias("sign")
    CASE WHEN side = 'buy' THEN 1 ELSE (-1) END
    """
    return When((), condition)


class When:
    """A condition that waits for its value."""

    def __init__(self, pairs: tuple[tuple[Node, Node], ...], condition: Any):
        self._pairs, self._condition = pairs, condition_of(condition).node

    def then(self, result: Any) -> "Then":
        """The value where the condition holds. Texts are values, not names."""
        chosen = result if isinstance(result, Expr) else lit(result)
        return Then((*self._pairs, (self._condition, chosen.node)), chosen.name)


class Then(Expr):
    """A choice that may go on. Without ``otherwise`` it is null where no condition holds."""

    def __init__(self, pairs: tuple[tuple[Node, Node], ...], name: str, rest: Node | None = None):
        template = "CASE" + " WHEN {} THEN {}" * len(pairs) + (" ELSE {}" if rest is not None else "") + " END"
        operands = [node for pair in pairs for node in pair] + ([rest] if rest is not None else [])
        super().__init__(Operation(template, tuple(operands), is_call=True), name)
        self._pairs = pairs

    def when(self, condition: Any) -> When:
        """A further condition, for rows of which the ones before don't hold."""
        return When(self._pairs, condition)

    def otherwise(self, result: Any) -> Expr:
        """The value where no condition holds."""
        rest = result if isinstance(result, Expr) else lit(result)
        return Expr(Then(self._pairs, self.name, rest.node).node, self.name)


def _column(column: Any) -> Expr:
    return named(column) if isinstance(column, str) else of(column)
