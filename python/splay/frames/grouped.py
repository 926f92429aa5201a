"""Groups of rows that wait for what is computed of them."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from splay._elsewhere import GROUPS, missing, refusal
from splay.errors import FrameError
from splay.frames.checks import check_nesting, has_loose_column, needs_order
from splay.frames.functions import col, count
from splay.frames.nodes import Call, Column, Kind, Node, SortKey
from splay.frames.query import Query
from splay.frames.relation import Item

if TYPE_CHECKING:
    from splay.frames.frame import Frame


def with_order(query: Query, keys: Sequence[Item], items: Sequence[Item], time: str | None) -> list[Item]:
    """Aggregates of groups: those that need an order and name none follow the sort of the frame, else the time.

    A table's own order is that of the symbol first, so that rows come in the order of the time within a symbol alone.
    """
    if query.order or time is None:
        return list(items)
    columns = [key.node.name.lower() for key in keys if isinstance(key.node, Column)]
    is_by_time = query.is_ordered and (query.time or "").lower() == time.lower()
    if is_by_time and (query.symbol is None or query.symbol.lower() in columns):
        return list(items)
    key = (SortKey(Column(query.spelled(time))),)
    return [Item(item.name, _ordered(item.node, key)) for item in items]


def _ordered(node: Node, order: tuple[SortKey, ...]) -> Node:
    """Aggregates that need an order and name none, in this one."""
    if isinstance(node, Call):
        return dataclasses.replace(node, order=order) if node.needs_order and not node.order else node
    return node.replace_parts(lambda part: _ordered(part, order))


AGGREGATES = (
    "sum", "mean", "min", "max", "count", "n_unique", "first", "last", "median", "std", "var", "skew", "kurtosis", "mode", "product",
    "any", "all", "implode",
)  # fmt: skip
"""Methods of expressions that are aggregates of one column."""


def by_name(frame: "Frame", aggregates: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Aggregates as expressions, where they are written as pandas takes them.

    Parameters
    ----------
    aggregates
        Expressions; ``{"price": "mean"}`` stands for ``splay.col("price").mean()``.
    named
        Expressions by the name of their column; ``("price", "mean")`` stands for ``splay.col("price").mean()``.
    """
    written: list[Any] = []
    for one in aggregates:
        if isinstance(one, Mapping):
            written += [_aggregate(frame, name, function) for name, function in one.items()]
        elif isinstance(one, str) and one in AGGREGATES and one not in frame:
            raise FrameError(f"{one!r} is computed of a column: write splay.col('x').{one}(), or {{'x': {one!r}}}")
        else:
            written.append(one)
    is_pair = {name: isinstance(value, tuple) and len(value) == 2 for name, value in named.items()}
    return written, {name: _aggregate(frame, *value) if is_pair[name] else value for name, value in named.items()}


def _aggregate(frame: "Frame", column: Any, function: Any) -> Any:
    """An aggregate of a column by its name."""
    if isinstance(function, (list, tuple)):
        names = ", ".join(f"{column}_{one}=({column!r}, {one!r})" for one in function)
        raise FrameError(f"each column has a name of its own: agg({names})")
    if function not in AGGREGATES:
        hint = f"; use {GROUPS[function]}" if isinstance(function, str) and function in GROUPS else ""
        raise FrameError(f"{function!r} is no name of an aggregate{hint}; there are {', '.join(AGGREGATES)}, and more as methods of splay.col")
    return getattr(col(frame._query.spelled(column)), function)()


class GroupBy:
    """What :meth:`splay.Frame.group_by` gives."""

    __iter__ = None

    def __init__(self, frame: "Frame", keys: Sequence[Item]):
        self._frame, self._keys = frame, list(keys)

    def agg(self, *aggregates: Any, **named_aggregates: Any) -> "Frame":
        """One row for each group: its keys, then aggregates, with keywords under other names. In any order.

        Names of aggregates are understood as pandas takes them: ``{"size": "max"}`` and ``high=("price", "max")``.

        >>> trade.group_by("symbol").agg(col("size").max(), rows=splay.count()).sort("symbol").fetchall()
        [('A', 498, 196), ('B', 492, 204)]
        >>> trade.group_by("symbol").agg({"size": "max"}, high=("price", "max")).sort("symbol").fetchall()
        [('A', 498, 103.05), ('B', 492, 102.54)]
        """
        items = self._frame._items(*by_name(self._frame, aggregates, named_aggregates))
        for item in items:
            check_nesting(item.node)
            if item.node.kind != Kind.AGGREGATE or has_loose_column(item.node):
                raise FrameError(f"{item.name} is no aggregate: a group has one row, write .first(), .max(), .mean() or the like")
        query = self._frame._query
        items = with_order(query, self._keys, items, query.time)
        query = query.grouped(self._keys, items, any(needs_order(item.node) for item in items))
        return self._frame._with(query)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> "GroupedColumns":
            """Columns by their name, as of a frame."""
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            if name in self._frame:
                return self[name]
            raise missing("a group", name, GROUPS, [*dir(type(self)), *self._frame.columns], "what is computed of groups is said by agg(…)")

    def __getitem__(self, columns: str | list[str]) -> "GroupedColumns":
        """Some columns, of which all the same is computed: ``t.group_by("symbol")["price"].mean()``.

        >>> trade.group_by("symbol")["price"].max().sort("symbol").fetchall()
        [('A', 103.05), ('B', 102.54)]
        """
        names = [columns] if isinstance(columns, str) else list(columns)
        return GroupedColumns(self, [self._frame._query.spelled(name) for name in names])

    def count(self) -> "Frame":
        """How many rows each group has, as ``count``.

        >>> trade.group_by("symbol").count().sort("symbol").fetchall()
        [('A', 196), ('B', 204)]
        """
        return self.agg(count())

    len = size = count

    def __repr__(self) -> str:
        keys = ", ".join(item.name for item in self._keys)
        return f"<splay.GroupBy by {keys}: say what is computed by .agg(...)>"


class GroupedColumns:
    """Columns of groups, of which all the same is computed."""

    def __init__(self, groups: GroupBy, columns: list[str]):
        self._groups, self._columns = groups, columns

    if not TYPE_CHECKING:
        __getattr__ = refusal("a column of groups", GROUPS, "what is computed of groups is said by agg(…)")

    def _all(self, function: str, *arguments: Any) -> "Frame":
        return self._groups.agg(*(getattr(col(name), function)(*arguments) for name in self._columns))

    def agg(self, functions: str | Sequence[str]) -> "Frame":
        """What the named methods give: one of all columns, or several of one column under the names of the methods.

        >>> trade.group_by("symbol")["price"].agg(["min", "max"]).columns
        ['symbol', 'min', 'max']
        """
        frame = self._groups._frame
        if isinstance(functions, str):
            return self._groups.agg(*(_aggregate(frame, name, functions) for name in self._columns))
        if len(self._columns) != 1:
            raise FrameError("several aggregates are of one column: name others by agg(high=('price', 'max'), …) of the groups")
        return self._groups.agg(**{name: _aggregate(frame, self._columns[0], name) for name in functions})

    def sum(self) -> "Frame":
        """Sums.

        >>> trade.group_by("symbol")["size"].sum().sort("symbol").fetchall()
        [('A', 51364), ('B', 51410)]
        """
        return self._all("sum")

    def mean(self) -> "Frame":
        """Means."""
        return self._all("mean")

    def min(self) -> "Frame":
        """Least values."""
        return self._all("min")

    def max(self) -> "Frame":
        """Greatest values."""
        return self._all("max")

    def first(self) -> "Frame":
        """Values of the first rows."""
        return self._all("first")

    def last(self) -> "Frame":
        """Values of the last rows."""
        return self._all("last")

    def count(self) -> "Frame":
        """How many values aren't null."""
        return self._all("count")

    def std(self) -> "Frame":
        """Standard deviations of samples."""
        return self._all("std")

    def var(self) -> "Frame":
        """Variances of samples."""
        return self._all("var")

    def median(self) -> "Frame":
        """Medians."""
        return self._all("median")

    def quantile(self, share: float) -> "Frame":
        """The values that a share of the values doesn't exceed, between those around."""
        return self._all("quantile", share)

    def n_unique(self) -> "Frame":
        """How many different values there are, null counted as one."""
        return self._all("n_unique")

    def ohlc(self) -> "Frame":
        """First, greatest, least and last value of one column: ``open``, ``high``, ``low``, ``close``.

        >>> trade.group_by("symbol")["price"].ohlc().columns
        ['symbol', 'open', 'high', 'low', 'close']
        """
        if len(self._columns) != 1:
            raise FrameError("ohlc is of one column")
        price = col(self._columns[0])
        return self._groups.agg(open=price.first(), high=price.max(), low=price.min(), close=price.last())
