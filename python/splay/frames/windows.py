"""Functions over rows: of neighbours, running and moving, and aggregates over partitions."""

import dataclasses
from typing import TYPE_CHECKING, Any

from splay.errors import FrameError
from splay.frames.base import Base, named, node_of, sort_keys
from splay.frames.nodes import Call, Cast, Kind, Node, Operation, Over, SortKey, value
from splay.frames.text import interval, nanoseconds_of, span

if TYPE_CHECKING:
    from splay.frames.expr import Expr

WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
PLACES = {"min": "rank()", "dense": "dense_rank()", "ordinal": "row_number()"}
"""Functions of SQL for the place of a value, by what equal values get."""
SO_FAR = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"


class Windows(Base):
    """The half of :class:`splay.Expr` that looks at other rows.

    Which row is before which is said by ``.over(..., order_by=...)``, else by the frame: by the columns it is sorted by, else by
    its time.
    """

    def over(
        self,
        *by: Any,
        order_by: Any = None,
        rows: tuple[int | None, int | None] | None = None,
        time: Any = None,
    ) -> "Expr":
        """Compute aggregates and functions over rows for each row, among the rows that are equal in some columns.

        Parameters
        ----------
        *by
            Columns; none: all rows are one partition.
        order_by
            The order of rows within a partition.
        rows
            Rows before and behind that belong to an aggregate, the row itself between them; None: all. ``(9, 0)`` are the
            last ten.
        time
            A span of the order, such as ``"5m"``: rows no further back belong to an aggregate, both ends among them.

        >>> import splay
        >>> splay.col("price").mean().over("symbol")
        avg(price) OVER (PARTITION BY symbol)
        >>> splay.col("price").shift(1).over("symbol", order_by="time")
        lag(price, 1) OVER (PARTITION BY symbol ORDER BY time)
        """
        if rows is not None and time is not None:
            raise ValueError("a window has rows or a time, not both")
        window = rows_window(*rows) if rows is not None else "" if time is None else time_window(time)
        if len(by) == 1 and isinstance(by[0], (list, tuple)):
            by = tuple(by[0])
        partition = tuple(named(column).node for column in by)
        order = sort_keys(order_by)

        def windowed(node: Node) -> Node:
            if isinstance(node, Over):
                if node.partition or (node.order and order):
                    raise FrameError(f"{self} has a window of its own: name it first, by with_columns")
                return dataclasses.replace(
                    node, partition=partition, order=node.order or order, window=window or node.window
                )
            if isinstance(node, Call):
                return Over(node, partition, order, window)
            return node.replace_parts(windowed)

        if self.node.kind == Kind.ROW:
            raise FrameError(f"{self} looks at one row: over() stands behind an aggregate or a function such as shift")
        return self._new(windowed(self.node), *by, name=self.name)

    def _window(self, template: str, *others: Any) -> "Expr":
        operands = (self.node, *(node_of(other) for other in others))
        return self._new(Call(template, operands, is_aggregate=False, needs_order=True), *others, name=self.name)

    # Neighbours

    def shift(self, rows: int = 1, fill: Any = None) -> "Expr":
        """The value so many rows before; behind if negative.

        >>> col("price").shift(1).over("symbol", order_by="time")
        lag(price, 1) OVER (PARTITION BY symbol ORDER BY time)
        """
        if fill is None:
            return self._window("lag({}, {})", _count(rows, None))
        return self._window("lag({}, {}, {})", _count(rows, None), fill)

    def diff(self, rows: int = 1) -> "Expr":
        """The difference from the value so many rows before.

        >>> col("price").diff().over("symbol", order_by="time")
        price - lag(price, 1) OVER (PARTITION BY symbol ORDER BY time)
        """
        before = self.shift(rows)
        return self._new(Operation("{} - {}", (self.node, before.node)), name=self.name)

    def pct_change(self, rows: int = 1) -> "Expr":
        """The relative change from the value so many rows before.

        >>> col("price").pct_change().over("symbol", order_by="time")
        price / CAST(lag(price, 1) OVER (PARTITION BY symbol ORDER BY time) AS double) - 1
        """
        before = self.shift(rows).cast(float)
        return self._new(Operation("{} / {} - 1", (self.node, before.node)), name=self.name)

    def log_return(self) -> "Expr":
        """The logarithm of the ratio to the value in the row before.

        >>> col("price").log_return().over("symbol", order_by="time")
        log_return(price) OVER (PARTITION BY symbol ORDER BY time)
        """
        return self._window("log_return({})")

    def differs(self) -> "Expr":
        """Whether it isn't the value in the row before; true in the first row.

        >>> col("side").differs().over("symbol", order_by="time")
        differ(side) OVER (PARTITION BY symbol ORDER BY time)
        """
        return self._window("differ({})")

    def forward_fill(self) -> "Expr":
        """The value, or where it is null the last one that isn't.

        >>> col("price").forward_fill().over("symbol", order_by="time")
        fills(price) OVER (PARTITION BY symbol ORDER BY time)
        """
        return self._window("fills({})")

    # Running

    def cum_sum(self) -> "Expr":
        """The sum so far; in a row whose value is null that of the rows before, null before the first value.

        >>> col("size").cum_sum().over("symbol", order_by="time")
        sum(size) OVER (PARTITION BY symbol ORDER BY time ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
        """
        return self._running("sum({})")

    def cum_min(self) -> "Expr":
        """The least value so far.

        >>> col("price").cum_min().over("symbol", order_by="time")
        min(price) OVER (PARTITION BY symbol ORDER BY time ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
        """
        return self._running("min({})")

    def cum_max(self) -> "Expr":
        """The greatest value so far.

        >>> col("price").cum_max().over("symbol", order_by="time")
        max(price) OVER (PARTITION BY symbol ORDER BY time ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
        """
        return self._running("max({})")

    def cum_count(self) -> "Expr":
        """How many values so far aren't null.

        >>> col("price").cum_count().over("symbol", order_by="time")
        count(price) OVER (PARTITION BY symbol ORDER BY time ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
        """
        return self._running("count({})")

    def cum_prod(self) -> "Expr":
        """The product so far, as a float; 1 before the first value.

        >>> col("factor").cum_prod().over("symbol", order_by="time")
        prds(factor) OVER (PARTITION BY symbol ORDER BY time)
        """
        return self._window("prds({})")

    def ema(self, alpha: float | None = None, *, span: float | None = None) -> "Expr":
        """The exponential average: the first value, then ``r + alpha * (x - r)``.

        Parameters
        ----------
        alpha
            Above 0, at most 1.
        span
            Periods in place of alpha, which is ``2 / (span + 1)`` then.

        >>> col("price").ema(span=19).over("symbol", order_by="time")
        ema(price, 0.1) OVER (PARTITION BY symbol ORDER BY time)
        """
        if (alpha is None) == (span is None):
            raise ValueError("an ema has an alpha or a span")
        weight = float(alpha) if alpha is not None else 2.0 / (float(span or 0) + 1.0)
        if not 0 < weight <= 1:
            raise ValueError(f"the alpha of an ema is above 0 and at most 1, not {weight:g}: ema(span=20) is that of 20 periods")
        return self._window("ema({}, {})", weight)

    def _running(self, template: str) -> "Expr":
        call = Call(template, (self.node,), needs_order=True)
        return self._new(Over(call, window=SO_FAR), name=self.name)

    # Moving

    def rolling_mean(self, window: Any, min_samples: int | None = None) -> "Expr":
        """The mean of the last rows, or of a span of time before. See :meth:`rolling`.

        >>> col("price").rolling_mean(20).over("symbol", order_by="time")
        CASE WHEN count(price) OVER (PARTITION BY symbol ORDER BY time ROWS BETWEEN 19 PRECEDING AND CURRENT ROW) >= 20 THEN avg(price) OVER (PARTITION BY symbol ORDER BY time ROWS BETWEEN 19 PRECEDING AND CURRENT ROW) END
        """
        return self._rolling("avg({})", window, min_samples)

    def rolling_sum(self, window: Any, min_samples: int | None = None) -> "Expr":
        """The sum of the last rows, or of a span of time before. See :meth:`rolling`.

        >>> col("size").rolling_sum(20).over("symbol", order_by="time")
        CASE WHEN count(size) OVER (PARTITION BY symbol ORDER BY time ROWS BETWEEN 19 PRECEDING AND CURRENT ROW) >= 20 THEN sum(size) OVER (PARTITION BY symbol ORDER BY time ROWS BETWEEN 19 PRECEDING AND CURRENT ROW) END
        """
        return self._rolling("sum({})", window, min_samples)

    def rolling_min(self, window: Any, min_samples: int | None = None) -> "Expr":
        """The least of the last rows, or of a span of time before. See :meth:`rolling`.

        >>> col("price").rolling_min("5m").over("symbol", order_by="time")
        min(price) OVER (PARTITION BY symbol ORDER BY time RANGE BETWEEN INTERVAL '299999999999 nanoseconds' PRECEDING AND CURRENT ROW)
        """
        return self._rolling("min({})", window, min_samples)

    def rolling_max(self, window: Any, min_samples: int | None = None) -> "Expr":
        """The greatest of the last rows, or of a span of time before. See :meth:`rolling`.

        >>> col("price").rolling_max("5m").over("symbol", order_by="time")
        max(price) OVER (PARTITION BY symbol ORDER BY time RANGE BETWEEN INTERVAL '299999999999 nanoseconds' PRECEDING AND CURRENT ROW)
        """
        return self._rolling("max({})", window, min_samples)

    def rolling_std(self, window: Any, min_samples: int | None = None) -> "Expr":
        """The standard deviation of the last rows, of a sample. See :meth:`rolling`.

        >>> col("price").rolling_std(20).over("symbol", order_by="time")
        CASE WHEN count(price) OVER (PARTITION BY symbol ORDER BY time ROWS BETWEEN 19 PRECEDING AND CURRENT ROW) >= 20 THEN stddev(price) OVER (PARTITION BY symbol ORDER BY time ROWS BETWEEN 19 PRECEDING AND CURRENT ROW) END
        """
        return self._rolling("stddev({})", window, min_samples)

    def rolling(self, window: Any, min_samples: int | None = None) -> "Expr":
        """An aggregate of the last rows, or of a span of time before: ``col.max().rolling("5m")``.

        Parameters
        ----------
        window
            Rows, the row itself among them; or a span such as ``"5m"``, of which the row's own time belongs to it and the
            other end doesn't, as in pandas and Polars.
        min_samples
            Values that aren't null that there must be; null otherwise. Default: all rows of a window of rows, one of a span.

        >>> col("price").mean().rolling("5m").over("symbol", order_by="time")
        avg(price) OVER (PARTITION BY symbol ORDER BY time RANGE BETWEEN INTERVAL '299999999999 nanoseconds' PRECEDING AND CURRENT ROW)
        """
        if not isinstance(self.node, Call) or not self.node.is_aggregate:
            raise FrameError(f"rolling stands behind an aggregate, not behind {self}: splay.col('x').mean().rolling(20)")
        return self._new(rolled(self.node, window, min_samples), name=self.name)

    def _rolling(self, template: str, window: Any, min_samples: int | None) -> "Expr":
        return self._new(rolled(Call(template, (self.node,)), window, min_samples), name=self.name)

    # Places

    def rank(self, method: str = "min", descending: bool = False) -> "Expr":
        """Its place in the order of values, from 1; null of null. NaN is the greatest number.

        Parameters
        ----------
        method
            What equal values get: ``"min"`` their least place, ``"max"`` their greatest, ``"average"`` the mean of both, which pandas
            and Polars give unless told otherwise, ``"dense"`` places without gaps, ``"ordinal"`` different ones.
        descending
            Whether the greatest value has the first place.

        >>> col("price").rank().over("symbol")
        CASE WHEN price IS NOT NULL THEN CAST(rank() OVER (PARTITION BY symbol ORDER BY price NULLS LAST) AS bigint) END
        """
        if method not in (*PLACES, "max", "average"):
            raise ValueError(f"method is one of {', '.join([*PLACES, 'max', 'average'])}, not {method!r}")
        place = self._place(PLACES.get(method, "rank()"), descending)
        if method in ("max", "average"):
            # Behind the greatest place of a value are as many as there are before its least place in the other direction.
            count = Over(Call("count({})", (self.node,)))
            greatest = Operation("{} - {} + 1", (count, self._place("rank()", not descending)))
            place = greatest if method == "max" else Operation("({} + {}) / 2.0", (place, greatest), True)
        return self._new(Operation("CASE WHEN {} IS NOT NULL THEN {} END", (self.node, place), True), name=self.name)

    def _place(self, function: str, descending: bool) -> Node:
        """A function of the place among values, nulls behind all."""
        over = Over(Call(function, (), is_aggregate=False), order=(SortKey(self.node, descending, True),))
        # SQL's has no sign, and what is computed of it and a number with one would be a decimal.
        return Cast(over, "int64")


def rolled(call: Call, window: Any, min_samples: int | None) -> Node:
    """An aggregate over the rows of a moving window, null where it has too few values."""
    is_rows = isinstance(window, int) and not isinstance(window, bool)
    clause = rows_window(_count(window, 1) - 1, 0) if is_rows else time_window(window, is_open=True)
    over = Over(dataclasses.replace(call, needs_order=True), window=clause)
    needed = min_samples if min_samples is not None else window if is_rows else 1
    if needed <= 1 or not call.operands:
        return over
    count = Over(Call("count({})", call.operands[:1], needs_order=True, where=call.where), window=clause)
    template = "CASE WHEN {} >= {} THEN {} END"
    return Operation(template, (count, value(int(needed)), over), is_call=True)


def rows_window(before: int | None, behind: int | None) -> str:
    """A frame of rows around the row itself."""
    return f"ROWS BETWEEN {_end(before, 'PRECEDING')} AND {_end(behind, 'FOLLOWING')}"


def _end(rows: int | None, side: str) -> str:
    if rows is None:
        return f"UNBOUNDED {side}"
    return f"{_count(rows, 0)} {side}" if rows else "CURRENT ROW"


def time_window(width: Any, is_open: bool = False) -> str:
    """A frame of the rows no further back than a span; if it is open, the far end doesn't belong to it."""
    length = nanoseconds_of(width)
    if length <= 0:
        raise ValueError(f"a window reaches back, {width!r} doesn't")
    # Times are whole nanoseconds: what is nearer than the span is at most a nanosecond less away.
    back = span(length - 1) if is_open else interval(width)
    return f"RANGE BETWEEN {back} PRECEDING AND CURRENT ROW"


def _count(rows: Any, least: int | None) -> int:
    if isinstance(rows, bool) or not isinstance(rows, int):
        raise TypeError(f"a number of rows is a whole number, not {rows!r}")
    if least is not None and rows < least:
        raise ValueError(f"a number of rows is {least} or more, not {rows}")
    return rows


def by_columns(by: Any) -> list[Any]:
    """One column, several or none, as a list."""
    if by is None:
        return []
    return list(by) if isinstance(by, (list, tuple)) else [by]
