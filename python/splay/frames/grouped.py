"""Groups of rows that wait for what is computed of them."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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


class GroupBy:
    """What :meth:`splay.Frame.group_by` gives."""

    def __init__(self, frame: "Frame", keys: Sequence[Item]):
        self._frame, self._keys = frame, list(keys)

    def agg(self, *aggregates: Any, **named_aggregates: Any) -> "Frame":
        """One row for each group: its keys, then aggregates, with keywords under other names. In any order.

        >>> trade.group_by("symbol").agg(col("size").max(), rows=splay.count()).sort("symbol").fetchall()
        [('A', 498, 196), ('B', 492, 204)]
        """
        items = self._frame._items(aggregates, named_aggregates)
        for item in items:
            check_nesting(item.node)
            if item.node.kind != Kind.AGGREGATE or has_loose_column(item.node):
                raise FrameError(f"{item.name} is no aggregate: a group has one row, write .first(), .max(), .mean() or the like")
        query = self._frame._query
        items = with_order(query, self._keys, items, query.time)
        query = query.grouped(self._keys, items, any(needs_order(item.node) for item in items))
        return self._frame._with(query)

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

    def _all(self, function: str) -> "Frame":
        return self._groups.agg(*(getattr(col(name), function)() for name in self._columns))

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

    def median(self) -> "Frame":
        """Medians."""
        return self._all("median")

    def ohlc(self) -> "Frame":
        """First, greatest, least and last value of one column: ``open``, ``high``, ``low``, ``close``.

        >>> trade.group_by("symbol")["price"].ohlc().columns
        ['symbol', 'open', 'high', 'low', 'close']
        """
        if len(self._columns) != 1:
            raise FrameError("ohlc is of one column")
        price = col(self._columns[0])
        return self._groups.agg(open=price.first(), high=price.max(), low=price.min(), close=price.last())
