"""Frames of trading calendars."""

import datetime
from typing import Any, Literal

from splay.frames.frame import Frame
from splay.frames.query import Query
from splay.frames.relation import Relation
from splay.frames.source import FILES, Source, columns_of
from splay.frames.text import literal

_FUNCTIONS = {"days": "trading_days", "sessions": "trading_sessions", "special": "special_days"}


def calendar(
    name: str,
    start: "str | datetime.date | None" = None,
    end: "str | datetime.date | None" = None,
    *,
    rows: Literal["days", "sessions", "special"] = "days",
    database: Any = None,
) -> Frame:
    """A lazy frame of an exchange's trading days: date, opening and close in UTC, and how a day differs from others.

    Parameters
    ----------
    name
        ``"NYSE"``, ``"CME"``, ``"LSE"``, ``"EUREX"``, ``"24x7"``, or a market identifier code such as ``"XNYS"``. The table
        ``calendars()`` of SQL lists them with the dates that each covers. With a database also the name of a reference table that is a
        calendar: one with the columns ``date``, ``open`` and ``close``.
    start, end
        The first and the last date, both included. Default: all dates that the calendar covers.
    rows
        ``"days"`` gives a row for each trading day, ``"sessions"`` one for each time without a break, ``"special"`` holidays and days of
        other hours.
    database
        A database or client that the frame shall be joined with, and whose tables may be calendars. Frames of no database are joined with those of any local one.

    Raises
    ------
    StatementError
        If there is no such calendar, or it doesn't cover the dates.

    >>> import splay
    >>> splay.calendar("NYSE", "2024-11-27", "2024-11-29").df()[["date", "early_close"]]    # doctest: +SKIP
             date  early_close
    0  2024-11-27        False
    1  2024-11-29         True
    """
    if rows not in _FUNCTIONS:
        raise ValueError(f"rows are 'days', 'sessions' or 'special', not {rows!r}")
    if (start is None) != (end is None):
        raise ValueError("a start and an end are given both, or neither")
    source: Source = FILES if database is None else database
    dates = [] if start is None else [_date(start), _date(end)]
    text = f"{_FUNCTIONS[rows]}({', '.join([literal(name), *map(literal, dates)])})"
    names, _ = columns_of(source, f"SELECT * FROM {text} LIMIT 0")
    time = "open" if "open" in names else None
    return Frame(source, Query(Relation(f"{text} AS c", tuple(names), "c", time=time)))


def _date(date: "str | datetime.date | None") -> str:
    """A date as SQL reads it. What has a time of day is none."""
    if isinstance(date, datetime.datetime):
        raise ValueError(f"{date!r} is a time; a calendar has dates")
    return date.isoformat() if isinstance(date, datetime.date) else str(date)
