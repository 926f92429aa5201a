"""Joins of frames by time: as-of, window and horizon joins."""

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from splay.errors import FrameError
from splay.frames.checks import check_nesting
from splay.frames.joins import frame_of, join_relation, joined, right_items
from splay.frames.nodes import Column, Kind, Literal, Node, Operation
from splay.frames.query import Query
from splay.frames.relation import Item, check_names
from splay.frames.source import Source
from splay.frames.text import interval, nanoseconds_of, span
from splay.frames.windows import by_columns

if TYPE_CHECKING:
    from splay.frames.frame import Frame

OFFSETS_MAX = 10_000
"""Offsets of a horizon join."""


class TimeJoins:
    """The part of :class:`splay.Frame` that joins by time.

    The times of both frames are their time columns; `left_time` and `right_time` name others. Keys are `by`, else the symbol
    column if both frames have one of the same name.
    """

    _source: Source
    _query: Query
    _roots: frozenset[tuple[int, str]]

    def asof_join(
        self,
        other: "Frame",
        by: "str | Sequence[str] | None" = None,
        *,
        direction: str = "backward",
        tolerance: Any = None,
        exact: bool = True,
        how: str = "left",
        left_time: str | None = None,
        right_time: str | None = None,
        keep_time: bool = False,
        suffix: str = "_right",
    ) -> "Frame":
        """Each row with the one row of another frame that was valid at its time.

        Parameters
        ----------
        other
            The frame that is looked into, quotes for example.
        by
            Columns that are equal in both. ``[]``: none.
        direction
            ``"backward"``: the last row at or before; ``"forward"``: the first at or after; ``"nearest"``.
        tolerance
            How far away it may be, the end included: ``"5s"``.
        exact
            Whether a row at the same time will do.
        how
            ``"left"`` keeps rows without a match, ``"inner"`` leaves them out; ``"semi"`` and ``"anti"`` give rows of this frame
            alone, those with a match or without.
        keep_time
            Whether the time of the row that was found is a column, too.
        suffix
            What is put behind the name of a column of the other frame that this one has, too.

        Returns
        -------
        Frame
            Columns of this frame, then those of the other without keys and time. In any order.

        Notes
        -----
        Of rows of the other frame with equal keys and times the last of its table is taken, looking forward the first. Rows of files, joins and
        ``concat`` have no order: where such rows tie, running the frame is an ``ExecutionError``, unless the other frame is sorted by columns
        that tell which came first, ``quote.sort("time", "sequence")``.

        >>> print(trade.asof_join(quote, tolerance="5s").select("time", "price", "bid").sql())
        SELECT time, price, bid
        FROM (SELECT l.time, l.symbol, l.price, l.size, l.side, l.date, r.bid, r.ask FROM trade AS l ASOF LEFT JOIN quote AS r MATCH_CONDITION (l.time >= r.time, TOLERANCE INTERVAL '5 seconds') ON l.symbol = r.symbol) AS s
        """
        other = frame_of(other)
        kinds = {"left": "ASOF LEFT JOIN", "inner": "ASOF INNER JOIN", "semi": "ASOF SEMI JOIN", "anti": "ASOF ANTI JOIN"}
        if how not in kinds:
            raise ValueError(f"how is one of {', '.join(kinds)}, not {how!r}")
        keys, conditions = self._equal(other, by)
        times = _time(self._query, left_time, "left"), _time(other._query, right_time, "right")
        match = _match(times, direction, exact, tolerance)
        relation = join_relation(self._query, other._query, kinds[how], conditions, match, is_ordered=True, follows_right=True)
        items = [Item(name, Column(name, True)) for name in self._query.columns]
        if how in ("left", "inner"):
            gone = {key.lower() for key in keys} | (set() if keep_time else {times[1].lower()})
            items += right_items(self._query, other._query, gone, suffix)
        check_names([item.name for item in items])
        return joined(self, other, Query(relation, tuple(items)))

    def window_join(
        self,
        other: "Frame",
        before: Any,
        after: Any = "0s",
        by: "str | Sequence[str] | None" = None,
        *,
        prevailing: bool = False,
        left_time: str | None = None,
        right_time: str | None = None,
        **aggregates: Any,
    ) -> "Frame":
        """Each row with aggregates of the rows of another frame in a window around its time.

        Parameters
        ----------
        other
            The frame that is aggregated.
        before, after
            How far the window reaches back and on, both ends included: ``"5s"``, ``"0s"``. A negative `after` ends it before.
        by
            Columns that are equal in both. ``[]``: none.
        prevailing
            Whether the last row before the window belongs to it, unless one stands exactly at its begin.
        **aggregates
            Aggregates by the names of their columns. A name means a column of the other frame if that has one;
            :func:`splay.left` names one of this.

        Returns
        -------
        Frame
            Columns of this frame, then the aggregates; one row for each row, whether its window holds rows or not.

        >>> print(trade.window_join(quote, "5s", "5s", bid=col("bid").mean()).sql())
        SELECT l.time, l.symbol, l.price, l.size, l.side, l.date, avg(r.bid) AS bid
        FROM trade AS l WINDOW JOIN quote AS r ON l.symbol = r.symbol AND r.time BETWEEN (l.time - INTERVAL '5 seconds') AND (l.time + INTERVAL '5 seconds')
        """
        other = frame_of(other)
        if not aggregates:
            raise FrameError("a window join needs aggregates: bid=splay.col('bid').mean()")
        _, conditions = self._equal(other, by)
        times = _time(self._query, left_time, "left"), _time(other._query, right_time, "right")
        begin = Operation("{} - " + _bound(before), (Column(times[0], True),))
        end = Operation("{} + " + _bound(after), (Column(times[0], True),))
        window = Operation("{} BETWEEN {} AND {}", (Column(times[1]), begin, end))
        relation = join_relation(
            self._query,
            other._query,
            "WINDOW JOIN",
            [*conditions, window],
            behind="INCLUDE PREVAILING" if prevailing else "",
            follows_right=True,
        )
        items = [Item(name, Column(name, True)) for name in self._query.columns]
        items += [Item(name, _aggregate(name, aggregate)) for name, aggregate in aggregates.items()]
        check_names([item.name for item in items])
        return joined(self, other, Query(relation, tuple(items)))

    def horizon_join(
        self,
        other: "Frame",
        offsets: "Sequence[Any] | tuple[Any, Any, Any]" = (),
        by: "str | Sequence[str] | None" = None,
        *,
        start: Any = None,
        stop: Any = None,
        step: Any = None,
        tolerance: Any = None,
        left_time: str | None = None,
        right_time: str | None = None,
        suffix: str = "_right",
    ) -> "Frame":
        """Each row once for each of some offsets, with the row of another frame that is valid then.

        Parameters
        ----------
        other
            The frame that is looked into; rows of equal keys and times as for :meth:`asof_join`.
        offsets
            How much later than the row: ``["-1s", "0s", "1m"]``; or `start`, `stop` and `step`, the end included.
        by
            Columns that are equal in both. ``[]``: none.
        tolerance
            How far before that moment the row that is valid may be.

        Returns
        -------
        Frame
            Columns of this frame, ``offset`` as a duration, then those of the other without keys and time.

        >>> print(trade.horizon_join(quote, ["-1s", "10s"]).select("time", "offset", "bid").sql())
        SELECT time, "offset", bid
        FROM (SELECT l.time, l.symbol, l.price, l.size, l.side, l.date, arrow_cast(h."offset", 'Duration(ns)') AS "offset", r.bid, r.ask FROM trade AS l HORIZON JOIN quote AS r ON l.symbol = r.symbol AND l.time >= r.time LIST (INTERVAL '-1 second', INTERVAL '10 seconds') AS h) AS s
        """
        other = frame_of(other)
        if isinstance(offsets, str):
            raise TypeError(f"offsets are a list of spans, [{offsets!r}]")
        keys, conditions = self._equal(other, by)
        times = _time(self._query, left_time, "left"), _time(other._query, right_time, "right")
        behind = f"{_offsets(offsets, start, stop, step)} AS h"
        if tolerance is not None:
            behind = f"TOLERANCE {_tolerance(tolerance)} {behind}"
        match = Operation("{} >= {}", (Column(times[0], True), Column(times[1])))
        relation = join_relation(self._query, other._query, "HORIZON JOIN", [*conditions, match], behind=behind, follows_right=True)
        items = [Item(name, Column(name, True)) for name in self._query.columns]
        items.append(Item("offset", Literal(None, "arrow_cast(h.\"offset\", 'Duration(ns)')")))
        items += right_items(self._query, other._query, {times[1].lower(), *(key.lower() for key in keys)}, suffix)
        check_names([item.name for item in items])
        return joined(self, other, Query(relation, tuple(items)))

    def _equal(self, other: "Frame", by: Any) -> tuple[list[str], list[Node]]:
        """Keys of the right, and the conditions that they equal those of the left."""
        if by is None:
            symbol = self._query.symbol
            if symbol is None or other._query.symbol is None or symbol.lower() != other._query.symbol.lower():
                raise FrameError("say by which columns the frames are joined: by=['symbol'], or by=[] for none")
            by = symbol
        names = by_columns(by)
        right = [other._query.spelled(name) for name in names]
        left = [self._query.spelled(name) for name in names]
        return right, [Operation("{} = {}", (Column(one, True), Column(two))) for one, two in zip(left, right)]


def _time(query: Query, name: str | None, which: str) -> str:
    if name is not None:
        return query.spelled(name)
    if query.time is None:
        raise FrameError(f"the {which} frame has no time: name its column, {which}_time='...'")
    return query.time


def _match(times: tuple[str, str], direction: str, exact: bool, tolerance: Any) -> str:
    from splay.frames.text import identifier

    left, right = f"l.{identifier(times[0])}", f"r.{identifier(times[1])}"
    comparisons = {("backward", True): ">=", ("backward", False): ">", ("forward", True): "<=", ("forward", False): "<"}
    if direction == "nearest":
        if not exact:
            raise FrameError("the nearest row may be one at the same time: exact=False isn't there for it")
        match = f"NEAREST {left}, {right}"
    elif (direction, exact) in comparisons:
        match = f"{left} {comparisons[direction, exact]} {right}"
    else:
        raise ValueError(f"direction is 'backward', 'forward' or 'nearest', not {direction!r}")
    if tolerance is not None:
        match += f", TOLERANCE {_tolerance(tolerance)}"
    return f"MATCH_CONDITION ({match})"


def _tolerance(width: Any) -> str:
    """How far a row may be away, which isn't less than nothing."""
    if nanoseconds_of(width) < 0:
        raise ValueError(f"a tolerance is zero or more, not {width!r}: direction= says which way is looked")
    return _bound(width)


def _bound(width: Any) -> str:
    """A distance in time, of a fixed length."""
    if isinstance(width, datetime.timedelta) or not str(width).startswith("-"):
        return span(nanoseconds_of(width))
    return interval(width)


def _offsets(offsets: Sequence[Any], start: Any, stop: Any, step: Any) -> str:
    if any(value is not None for value in (start, stop, step)):
        if offsets or start is None or stop is None or step is None:
            raise ValueError("a horizon join has offsets, or start, stop and step")
        return f"RANGE FROM {_bound(start)} TO {_bound(stop)} STEP {_bound(step)}"
    if not 0 < len(offsets) <= OFFSETS_MAX:
        raise ValueError(f"a horizon join has 1 to {OFFSETS_MAX} offsets")
    return f"LIST ({', '.join(_bound(offset) for offset in offsets)})"


def _aggregate(name: str, aggregate: Any) -> Node:
    from splay.frames.expr import Expr

    if not isinstance(aggregate, Expr) or aggregate.node.kind != Kind.AGGREGATE:
        raise FrameError(f"{name} is no aggregate: write .mean(), .last(), .sum() or the like")
    check_nesting(aggregate.node)
    return aggregate.node
