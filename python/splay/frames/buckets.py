"""Buckets of time and moving windows that wait for what is computed of them."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from splay._elsewhere import refusal
from splay.errors import FrameError
from splay.frames.expr import Expr
from splay.frames.functions import col, count
from splay.frames.grouped import GroupBy, by_name, with_order
from splay.frames.namespaces import bucket_width, clock_time
from splay.frames.nodes import Call, Kind, Node, Operation, value
from splay.frames.relation import Item
from splay.frames.text import literal
from splay.frames.windows import rolled

if TYPE_CHECKING:
    from splay.frames.frame import Frame

_ZERO_WITHOUT_ROWS = "CASE WHEN {} IS NULL THEN {} ELSE {} END"
"""A count is null in buckets that a fill adds. One with rows keeps its value, which is null if none of them has one."""

FILLS = {"null": "{}", "previous": "locf({})", "linear": "interpolate({})"}


class Buckets(GroupBy):
    """Rows by series and buckets of time, made by :meth:`splay.Frame.bucket`."""

    def __init__(
        self,
        frame: "Frame",
        every: Any,
        series: Sequence[str],
        time: str,
        *,
        zone: str | None = None,
        origin: Any = None,
        fill: str | None = None,
        start: Any = None,
        stop: Any = None,
    ):
        if fill is not None and fill not in FILLS:
            raise ValueError(f"fill is one of {', '.join(FILLS)}, not {fill!r}")
        if fill is None and (start is not None or stop is not None):
            raise ValueError("start and stop say which buckets are filled: give fill, too, or filter the frame")
        self.time, self._fill = time, fill
        bucket = _bucket(every, time, zone, origin, fill is not None, start, stop)
        keys = [Item(name, col(name).node) for name in series]
        super().__init__(frame, [*keys, Item(time, bucket)])

    def agg(self, *aggregates: Any, **named_aggregates: Any) -> "Frame":
        """A row for each bucket of each series: the series, the start of the bucket, then the aggregates. In any order.

        ``first`` and ``last`` follow the time, unless the frame is sorted.

        >>> trade.bucket("1d").agg(n=splay.count()).columns
        ['symbol', 'time', 'n']
        """
        items = self._frame._items(*by_name(self._frame, aggregates, named_aggregates))
        items = with_order(self._frame._query, self._keys, items, self.time)
        if self._fill is not None:
            template = FILLS[self._fill]
            items = [Item(item.name, _wrapped(item.node, template)) for item in items]
        return self._timed(super().agg(*(Expr(item.node, item.name) for item in items)))

    def _filled(self, aggregates: Mapping[str, Expr], carried: str | None, zeros: Sequence[str]) -> "Frame":
        """Aggregates in which buckets without rows repeat one of the bucket before, and are zero in others."""
        if carried is None:
            return self.agg(**aggregates)
        last = Operation("locf({})", (aggregates[carried].node,), is_call=True)
        items = {}
        for name, expression in aggregates.items():
            if name in zeros:
                node: Node = Operation(_ZERO_WITHOUT_ROWS, (count().node, value(0), expression.node), is_call=True)
            elif name == "vwap":
                node = expression.node
            elif name == carried:
                node = last
            else:
                node = Operation("coalesce({}, {})", (expression.node, last), is_call=True)
            items[name] = Expr(node, name)
        return self.agg(**items)

    def _timed(self, frame: "Frame") -> "Frame":
        """The start of a bucket is the time of the result."""
        return frame._with(dataclasses.replace(frame._query, time_item=self.time))


def _wrapped(node: Node, template: str) -> Node:
    if template == "{}" or node.kind != Kind.AGGREGATE:
        return node
    return Operation(template, (node,), is_call=True)


def _bucket(every: Any, time: str, zone: Any, origin: Any, is_filled: bool, start: Any, stop: Any) -> Node:
    """The start of the bucket that a time falls into."""
    parts = [bucket_width(every).replace("{", "{{"), "{}"]
    if zone is not None:
        parts.append(literal(str(zone)).replace("{", "{{").replace("}", "}}"))
    bounds = [start, stop] if start is not None or stop is not None else []
    others = [_instant(bound) for bound in ([] if origin is None else [origin]) + bounds]
    function = "time_bucket_gapfill" if is_filled else "time_bucket"
    return Operation(f"{function}({', '.join(parts + ['{}'] * len(others))})", (col(time).node, *others), is_call=True)


def _instant(instant: Any) -> Node:
    """A time; text is read as one."""
    if isinstance(instant, str):
        return Operation(f"TIMESTAMP {literal(instant).replace('{', '{{').replace('}', '}}')}", (), is_call=True)
    if isinstance(instant, Expr):
        raise FrameError("buckets begin and end at constant times")
    return clock_time(instant).node


class Rolling:
    """A moving window, made by :meth:`splay.Frame.rolling`."""

    if not TYPE_CHECKING:
        __getattr__ = refusal("a moving window", {}, "what is computed of it is said by agg(splay.col('price').mean())")

    def __init__(self, frame: "Frame", window: Any, series: Sequence[str], time: str, min_samples: int | None):
        self._frame, self._window, self._series = frame, window, list(series)
        self._time, self._min_samples = time, min_samples

    def __repr__(self) -> str:
        by = f" by {', '.join(self._series)}" if self._series else ""
        return f"<splay.Rolling of {self._window}{by}: say what is computed by .agg(...)>"

    def agg(self, *aggregates: Any, **named_aggregates: Any) -> "Frame":
        """The frame with the aggregates of each row's window as further columns.

        >>> print(trade.rolling(20).agg(high=col("price").max()).sql())
        SELECT *, CASE WHEN count(price) OVER (PARTITION BY symbol ORDER BY time ROWS BETWEEN 19 PRECEDING AND CURRENT ROW) >= 20 THEN max(price) OVER (PARTITION BY symbol ORDER BY time ROWS BETWEEN 19 PRECEDING AND CURRENT ROW) END AS high
        FROM trade
        """
        new = []
        for item in self._frame._items(*by_name(self._frame, aggregates, named_aggregates)):
            if not isinstance(item.node, Call) or not item.node.is_aggregate:
                raise FrameError(f"{item.name} is no aggregate by itself: write .mean(), .max(), .wavg(...) or the like")
            moving = Expr(rolled(item.node, self._window, self._min_samples), item.name)
            if item.name in self._frame:
                raise FrameError(f"there is a column {item.name} already: name the aggregate, mean=splay.col('price').mean()")
            new.append(moving.over(*self._series, order_by=self._time))
        return self._frame.with_columns(*new)
