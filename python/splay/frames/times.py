"""Verbs of time series: bars, buckets, latest rows, moving windows, returns, sessions, pivots."""

import dataclasses
import datetime
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from splay.errors import FrameError
from splay.frames.base import named, of
from splay.frames.buckets import Buckets, Rolling
from splay.frames.expr import Expr
from splay.frames.checks import NUMBERS, check_numbers
from splay.frames.functions import call, col, count
from splay.frames.query import Query
from splay.frames.source import Source
from splay.frames.text import identifier
from splay.frames.windows import by_columns

if TYPE_CHECKING:
    from splay.frames.frame import Frame

PRICE_NAMES = ("price", "trade_price", "px", "last_price")
"""Columns that are taken for the price of a trade."""
SIZE_NAMES = ("size", "trade_volume", "volume", "qty", "quantity", "amount")
"""Columns that are taken for the size of a trade."""


class TimeVerbs:
    """The part of :class:`splay.Frame` that knows time. Series are told apart by `by`: the symbol column, if there is one."""

    _source: Source
    _query: Query

    def bucket(
        self,
        every: Any,
        by: "str | Sequence[str] | None" = None,
        *,
        time: str | None = None,
        zone: str | None = None,
        origin: Any = None,
        fill: str | None = None,
        start: Any = None,
        stop: Any = None,
        sessions: str | None = None,
    ) -> Buckets:
        """Rows by buckets of time; say what is computed of each by ``agg``.

        Parameters
        ----------
        every
            The width of a bucket: ``"1m"``, ``"1h"``, ``"1d"``, ``"1mo"``.
        by
            Columns that tell series apart. Default: the symbol column; ``[]``: none.
        time
            The time. Default: the time column. The start of the bucket has its name.
        zone
            The zone on whose clock buckets are cut, such as ``"America/New_York"``.
        origin
            A time at which a bucket begins, on the clock of the zone unless it names a zone.
        fill
            What buckets without rows get, between the first and last of a series or from `start` to `stop`: ``"null"``, or
            ``"previous"``: the last value before, or ``"linear"``: one on the line between the values around. Default: there are
            no such buckets. Columns that count and add up are null there, too, unless it is ``"previous"``.
        start, stop
            The range of times that is filled, its end not included.
        sessions
            The name of a trading calendar, such as ``"NYSE"`` or ``"XNYS"``, or of a reference table of the database that is one. Rows
            outside of its sessions are left out, and `fill` makes only buckets that overlap a session.

        >>> print(trade.bucket("1h").agg(col("size").sum()).sql())
        SELECT symbol, time_bucket(INTERVAL '1 hour', time) AS time, sum(size) AS size
        FROM trade
        GROUP BY symbol, time_bucket(INTERVAL '1 hour', time)
        """
        clock = self._time(time)
        frame = self._frame() if sessions is None else self._within(sessions, clock)
        return Buckets(frame, every, self._series(by), clock, zone=zone, origin=origin, fill=fill, start=start, stop=stop)

    def bars(
        self,
        every: Any,
        by: "str | Sequence[str] | None" = None,
        *,
        price: str | None = None,
        size: str | None = None,
        time: str | None = None,
        zone: str | None = None,
        origin: Any = None,
        fill: str | None = None,
        start: Any = None,
        stop: Any = None,
        sessions: str | None = None,
    ) -> "Frame":
        """Open, high, low, close, volume, vwap and count of trades by buckets of time.

        Parameters
        ----------
        every, by, time, zone, origin, start, stop, sessions
            As for :meth:`bucket`.
        price, size
            Their columns. Default: the only one with a name of the field, such as ``price`` and ``size``.
        fill
            What buckets without trades become: ``"previous"`` bars at the last close, with a volume and a count of 0, ``"null"`` bars
            without values. Default: there are no such bars.

        Returns
        -------
        Frame
            `by`, the start of each bar under the name of the time, ``open``, ``high``, ``low``, ``close``, ``volume``, ``vwap``,
            ``count``; in any order. ``volume`` is null if no trade of a bar has a size.

        >>> trade.bars("1h").columns
        ['symbol', 'time', 'open', 'high', 'low', 'close', 'volume', 'vwap', 'count']
        >>> len(trade.bars("30m", zone="America/New_York", fill="previous", sessions="NYSE"))
        26
        """
        prices = col(self._one_of(price, PRICE_NAMES, "price"))
        sizes = col(self._one_of(size, SIZE_NAMES, "size"))
        if fill not in (None, "null", "previous"):
            raise FrameError(f"bars are filled by 'null' or 'previous', not by {fill!r}")
        fills = None if fill is None else "null"
        buckets = self.bucket(
            every, by, time=time, zone=zone, origin=origin, fill=fills, start=start, stop=stop, sessions=sessions
        )
        named_aggregates = {
            "open": prices.first(),
            "high": prices.max(),
            "low": prices.min(),
            "close": prices.last(),
            "volume": sizes.sum(),
            "vwap": prices.wavg(sizes),
            "count": count(),
        }
        return buckets._filled(named_aggregates, "close" if fill == "previous" else None, ("volume", "count"))

    def resample(
        self,
        rule: Any,
        by: "str | Sequence[str] | None" = None,
        *,
        time: str | None = None,
        zone: str | None = None,
        origin: Any = None,
        fill: str | None = None,
        start: Any = None,
        stop: Any = None,
        sessions: str | None = None,
    ) -> Buckets:
        """:meth:`bucket` for pandas' hands: ``t.resample("5min")["price"].ohlc()``.

        >>> trade.resample("5min")["price"].ohlc().columns
        ['symbol', 'time', 'open', 'high', 'low', 'close']
        """
        return self.bucket(
            rule, by, time=time, zone=zone, origin=origin, fill=fill, start=start, stop=stop, sessions=sessions
        )

    def latest(self, by: "str | Sequence[str] | None" = None, *, time: str | None = None) -> "Frame":
        """The row with the latest time of each series. Of rows that tie one comes, and which is left open.

        Parameters
        ----------
        by
            Columns that tell series apart. Default: the symbol column; ``[]``: one row of all.

        >>> print(quote.latest().sql())
        SELECT *
        FROM quote
        LATEST ON time PARTITION BY symbol
        """
        series, order = self._series(by), self._time(time)
        frame = self._frame()
        if not series:
            return frame.sort(col(order).desc(nulls_last=True)).limit(1)
        query = self._query
        if query != Query(query.relation, where=query.where):
            query = query.nested(keeps_order=False)
        partition = ", ".join(identifier(name) for name in series)
        return frame._with(dataclasses.replace(query, tail=f"LATEST ON {identifier(order)} PARTITION BY {partition}"))

    def rolling(
        self, window: Any, by: "str | Sequence[str] | None" = None, *, time: str | None = None, min_samples: int | None = None
    ) -> Rolling:
        """A moving window of rows, or of time; say what is computed of it for each row by ``agg``.

        Parameters
        ----------
        window
            A number of rows, the row itself among them; or a span such as ``"5m"``, of which the row's own time belongs to it and
            the other end doesn't, as in pandas and Polars.
        by
            Columns that tell series apart. Default: the symbol column; ``[]``: none.
        min_samples
            Values that aren't null that there must be. Default: all rows of a window of rows, one of a span.

        >>> print(trade.rolling("5m").agg(mean=col("price").mean()).sql())
        SELECT *, avg(price) OVER (PARTITION BY symbol ORDER BY time RANGE BETWEEN INTERVAL '299999999999 nanoseconds' PRECEDING AND CURRENT ROW) AS mean
        FROM trade
        """
        return Rolling(self._frame(), window, self._series(by), self._time(time), min_samples)

    def returns(
        self,
        price: str | None = None,
        by: "str | Sequence[str] | None" = None,
        *,
        kind: str = "log",
        name: str = "return",
        time: str | None = None,
    ) -> "Frame":
        """The frame with the return since the row before of the same series, null in its first row.

        Parameters
        ----------
        price
            The column. Default: ``close``, or one with a name of a price.
        kind
            ``"log"``: the logarithm of the ratio; ``"simple"``: the ratio less 1.
        name
            The new column.

        >>> print(trade.returns().sql())
        SELECT *, log_return(price) OVER (PARTITION BY symbol ORDER BY time) AS return
        FROM trade
        """
        prices = col(self._one_of(price, ("close", *PRICE_NAMES), "price"))
        if kind not in ("log", "simple"):
            raise ValueError(f"kind is 'log' or 'simple', not {kind!r}")
        change = prices.log_return() if kind == "log" else prices.pct_change()
        over = change.over(*self._series(by), order_by=self._time(time))
        return self._frame().with_columns(over.alias(name))

    def volatility(
        self,
        every: Any = "5m",
        by: "str | Sequence[str] | None" = None,
        *,
        price: str | None = None,
        periods: float | None = None,
        time: str | None = None,
        zone: str | None = None,
    ) -> "Frame":
        """Realised volatility of each series: the root of the sum of squared log returns between closes of buckets.

        Parameters
        ----------
        every
            The width of the buckets.
        periods
            How many such samples a year has, 252 where the frame is a day: the result is a year's then.

        Returns
        -------
        Frame
            `by`, ``volatility`` and the number of ``returns`` in it.

        >>> trade.volatility("5m").columns
        ['symbol', 'volatility', 'returns']
        """
        series, clock = self._series(by), self._time(time)
        prices = col(self._one_of(price, ("close", *PRICE_NAMES), "price"))
        closes = self.bucket(every, series, time=clock, zone=zone).agg(close=prices.last())
        moves = closes.returns("close", series, name="move", time=clock)
        squares = (col("move") * col("move")).sum()
        scaled = squares if periods is None else squares * float(periods)
        return moves.group_by(*series).agg(volatility=scaled.sqrt(), returns=col("move").count())

    def between_time(
        self, start: Any, stop: Any, zone: str = "UTC", *, closed: str = "left", time: str | None = None
    ) -> "Frame":
        """Rows whose time of day lies between two, on the clock of a zone: ``t.between_time("09:30", "16:00", "America/New_York")``.

        Parameters
        ----------
        start, stop
            Times of day, as text or ``datetime.time``. With a `start` behind `stop` the rows around midnight come.
        closed
            Which ends belong to it: ``"left"``, ``"right"``, ``"both"``, ``"none"``.

        >>> len(trade.between_time("09:30", "10:00", "America/New_York"))
        35
        """
        first, last = _time_of_day(start), _time_of_day(stop)
        clock = self._clock(self._time(time)).dt.time(zone)
        if closed not in ("left", "right", "both", "none"):
            raise ValueError(f"closed is 'left', 'right', 'both' or 'none', not {closed!r}")
        behind = clock >= first if closed in ("left", "both") else clock > first
        before = clock <= last if closed in ("right", "both") else clock < last
        return self._frame().filter(behind & before if first <= last else behind | before)

    def wavg(self, column: Any, weight: Any, by: "str | Sequence[str] | None" = None) -> "Frame":
        """The mean of a column weighted by another, of each series; in a column of its name.

        >>> print(trade.wavg("price", "size").sql())
        SELECT symbol, vwap(price, size) AS price
        FROM trade
        GROUP BY symbol
        """
        frame = self._frame()
        for operand in (column, weight):
            if isinstance(operand, str):
                check_numbers(frame, operand, NUMBERS, "a weighted mean is of numbers")
        expression = named(column) if isinstance(column, str) else of(column)
        return frame.group_by(*self._series(by)).agg(expression.wavg(weight))

    def pivot(
        self, on: str, values: Any, index: "str | Sequence[str]", *, columns: Sequence[Any] | None = None
    ) -> "Frame":
        """The values of one column as columns, one row for each value of others.

        Parameters
        ----------
        on
            The column whose values become columns.
        values
            An aggregate of what they hold: ``splay.col("price").last()``.
        index
            Columns by which rows are grouped.
        columns
            The values. Default: all that aren't null, in their order, which are read by a statement when this is called.

        >>> trade.pivot("side", col("size").sum(), index="symbol").sort("symbol").fetchall()
        [('A', 25446, 25918), ('B', 23943, 27467)]
        """
        frame = self._frame()
        key = col(self._query.spelled(on))
        if columns is None:
            found = frame.select(key).filter(key.is_not_null()).unique().sort(key).limit(PIVOT_COLUMNS_MAX + 1).fetchall()
            if len(found) > PIVOT_COLUMNS_MAX:
                raise FrameError(f"{on} has more than {PIVOT_COLUMNS_MAX} values: name those that become columns, columns=[...]")
            columns = [row[0] for row in found]
        if not isinstance(values, Expr):
            raise TypeError("values is an aggregate, such as splay.col('price').last()")
        cells = [values.filter(key.is_null() if one is None else key == one).alias(_name_of(one)) for one in columns]
        return frame.group_by(*by_columns(index)).agg(*cells)

    def _within(self, sessions: str, clock: str) -> "Frame":
        """Rows in the sessions of a trading calendar."""
        if not isinstance(sessions, str):
            raise TypeError(f"sessions are the name of a trading calendar, such as 'NYSE', not {sessions!r}")
        return self._frame().filter(call("in_session", col(clock), sessions))

    # What verbs look for

    def _frame(self) -> "Frame":
        raise NotImplementedError

    def _series(self, by: Any) -> list[str]:
        if by is None and self._query.is_mixed:
            raise FrameError("the symbol column is gone or has changed: name the columns that tell series apart, by='...', or by=[]")
        if by is None:
            return [] if self._query.symbol is None else [self._query.symbol]
        return [self._query.spelled(name) for name in by_columns(by)]

    def _time(self, name: str | None) -> str:
        if name is not None:
            return self._query.spelled(name)
        if self._query.time is None:
            raise FrameError("the frame has no time: name its column, time='...'")
        return self._query.time

    def _clock(self, name: str) -> Expr:
        """The time with the label of a zone: one without is taken as UTC."""
        frame = self._frame()
        kind = frame.select(name).dtypes[name].lower()
        has_zone = kind == "timestamp" or '"' in kind
        return col(name) if has_zone else col(name).cast(datetime.datetime)

    def _one_of(self, name: str | None, likely: Sequence[str], what: str) -> str:
        if name is not None:
            return self._query.spelled(name)
        found = [name for name in self._query.columns if name.lower() in likely]
        if len(found) > 1:
            found = [name for name in found if name.lower() == min((one.lower() for one in found), key=likely.index)]
        if len(found) != 1:
            raise FrameError(f"which column is the {what}? {what}='...'; there are {', '.join(self._query.columns)}")
        return found[0]


PIVOT_COLUMNS_MAX = 10_000
"""Columns that a pivot makes."""


def _time_of_day(time_of_day: Any) -> datetime.time:
    if isinstance(time_of_day, datetime.time):
        return time_of_day
    try:
        # An hour may have one digit, as in pandas.
        return datetime.time.fromisoformat(f"0{time_of_day}" if str(time_of_day)[1:2] == ":" else time_of_day)
    except ValueError as error:
        raise ValueError(f"{time_of_day!r} is no time of day such as '09:30' or '16:00:00'") from error


def _name_of(value: Any) -> str:
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return str(int(value))
    return "null" if value is None else str(value)


