"""What is computed of text (``col.str``) and of times (``col.dt``)."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from splay._elsewhere import TEXT, TIME, refusal
from splay.frames.base import node_of
from splay.frames.expr import Expr
from splay.frames.nodes import Operation
from splay.frames.text import clock_literal, interval, is_span, literal

UTC_TYPE = 'Timestamp(ns, "UTC")'


class TextNamespace:
    """Functions of text and symbols."""

    def __init__(self, expression: Expr):
        self._expression = expression

    if not TYPE_CHECKING:
        __getattr__ = refusal("the namespace str of an expression", TEXT, "functions of SQL are called by splay.call")

    def _call(self, template: str, *others: Any) -> Expr:
        return self._expression._operation(template, *others, is_call=True)

    def contains(self, pattern: str, literal: bool = False) -> Expr:
        """Whether a part of it fits a regular expression, or is a text if `literal`.

        >>> col("side").str.contains("b.y")
        regexp_like(side, 'b.y')
        """
        return self._call("contains({}, {})" if literal else "regexp_like({}, {})", pattern)

    def starts_with(self, prefix: Any) -> Expr:
        """Whether it begins so.

        >>> col("side").str.starts_with("b")
        starts_with(side, 'b')
        """
        return self._call("starts_with({}, {})", prefix)

    def ends_with(self, suffix: Any) -> Expr:
        """Whether it ends so.

        >>> col("side").str.ends_with("y")
        ends_with(side, 'y')
        """
        return self._call("ends_with({}, {})", suffix)

    def like(self, pattern: str) -> Expr:
        """Whether it fits a pattern of SQL, ``%`` for any characters and ``_`` for one.

        >>> col("side").str.like("b%")
        side LIKE 'b%'
        """
        return self._expression._operation("{} LIKE {}", pattern)

    def ilike(self, pattern: str) -> Expr:
        """The same without regard to case.

        >>> col("side").str.ilike("B%")
        side ILIKE 'B%'
        """
        return self._expression._operation("{} ILIKE {}", pattern)

    def glob(self, pattern: str) -> Expr:
        """Whether all of it fits a pattern such as ``ES[FGHJ]?``, ``*`` for any characters.

        >>> col("symbol").str.glob("A*")
        glob(symbol, 'A*')
        """
        return self._call("glob({}, {})", pattern)

    def to_uppercase(self) -> Expr:
        """In capitals.

        >>> col("side").str.to_uppercase()
        upper(side)
        """
        return self._call("upper({})")

    def to_lowercase(self) -> Expr:
        """In small letters.

        >>> col("side").str.to_lowercase()
        lower(side)
        """
        return self._call("lower({})")

    def len_chars(self) -> Expr:
        """Its number of characters.

        >>> col("side").str.len_chars()
        character_length(side)
        """
        return self._call("character_length({})")

    def strip_chars(self) -> Expr:
        """Without spaces at its ends.

        >>> col("side").str.strip_chars()
        trim(side)
        """
        return self._call("trim({})")

    def replace_all(self, old: str, new: str) -> Expr:
        """With a text in the place of each occurrence of another.

        >>> col("symbol").str.replace_all(".", "/")
        replace(symbol, '.', '/')
        """
        return self._call("replace({}, {}, {})", old, new)

    def slice(self, start: int, length: int | None = None) -> Expr:
        """Characters from a place, counted from 0.

        >>> col("symbol").str.slice(0, 3)
        substr(symbol, 1, 3)
        """
        if start < 0 or (length is not None and length < 0):
            raise ValueError("a slice begins at 0 or later and has no negative length")
        if length is None:
            return self._call("substr({}, {})", start + 1)
        return self._call("substr({}, {}, {})", start + 1, length)

    def split_part(self, separator: str, place: int) -> Expr:
        """A part between separators, counted from 0, from the end with -1 and below; an empty text if there are fewer.

        >>> col("pair").str.split_part("-", 1)
        split_part(pair, '-', 2)
        """
        return self._call("split_part({}, {}, {})", separator, place + 1 if place >= 0 else place)

    def to_time(self, pattern: str, strict: bool = True) -> Expr:
        """The time in UTC that it says by a format such as ``"%Y-%m-%d %H:%M:%S"``; null where it says none unless `strict`.

        >>> col("text").str.to_time("%Y-%m-%d %H:%M:%S")
        arrow_cast(strptime(text, '%Y-%m-%d %H:%M:%S'), 'Timestamp(ns, "UTC")')
        """
        return self._call("strptime({}, {})" if strict else "try_strptime({}, {})", pattern).cast("timestamp")


class Field(Expr):
    """A field of a time: by itself that of UTC, called with a zone that of the zone's clock.

    A method that is compared without being called, ``col("time").dt.hour == 9``, would be a comparison that Python answers at once
    with False, and a filter by it would drop every row.
    """

    def __init__(self, field: Callable[..., Expr]):
        plain = field()
        super().__init__(plain.node, plain.name, plain._frame)
        self._field = field

    def __call__(self, zone: str | None = None) -> Expr:
        return self._field(zone)


class _FieldMethod:
    """A method of :class:`TimeNamespace` whose brackets may be left out."""

    def __init__(self, method: Callable[..., Expr]):
        self._method = method
        # Documentation and examples are found as those of the method.
        self.__doc__, self.__wrapped__, self.__name__ = method.__doc__, method, method.__name__

    def __get__(self, namespace: "TimeNamespace | None", owner: type | None = None) -> "Field":
        if namespace is None:
            return self  # type: ignore[return-value]
        return Field(functools.partial(self._method, namespace))


class _Called:
    """A method that has to be called before it is compared."""

    def __init__(self, method: Callable[..., Expr]):
        self._method = method

    def __call__(self, zone: str | None = None) -> Expr:
        return self._method(zone)

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("dt.weekday is a method, because days are counted from 1 here: dt.weekday() == 1 is Monday, and 7 Sunday")

    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__
    __hash__ = object.__hash__


class _CalledMethod(_FieldMethod):
    """A method of :class:`TimeNamespace` whose values differ from those of pandas' attribute of that name."""

    def __get__(self, namespace: "TimeNamespace | None", owner: type | None = None) -> Any:
        return self if namespace is None else _Called(functools.partial(self._method, namespace))


class TimeNamespace:
    """Functions of times and dates. Fields and dates are those of UTC unless a zone of the IANA database is named.

    Fields need no brackets without a zone: ``col("time").dt.hour`` is ``col("time").dt.hour()``.
    """

    def __init__(self, expression: Expr):
        self._expression = expression

    if not TYPE_CHECKING:
        __getattr__ = refusal("the namespace dt of an expression", TIME, "functions of SQL are called by splay.call")

    def _call(self, template: str, *others: Any) -> Expr:
        return self._expression._operation(template, *others, is_call=True)

    def _local(self, zone: str | None) -> Expr:
        return self._expression if zone is None else self.to_zone(zone)

    def to_zone(self, zone: str) -> Expr:
        """The same instant with the label of another zone.

        >>> import splay
        >>> splay.col("time").dt.to_zone("America/New_York")
        time AT TIME ZONE 'America/New_York'
        """
        return self._expression._operation("{} AT TIME ZONE {}", zone)

    def bucket(self, width: Any, zone: str | None = None, origin: Any = None) -> Expr:
        """The start of the bucket that holds it.

        Parameters
        ----------
        width
            Such as ``"5m"``, ``"1h30m"``, ``"1mo"``, or a ``timedelta``.
        zone
            The zone on whose clock buckets are cut.
        origin
            A time at which one begins, on the clock of the zone unless it names a zone.

        >>> import splay
        >>> splay.col("time").dt.bucket("5m")
        time_bucket(INTERVAL '5 minutes', time)
        """
        parts = [bucket_width(width), "{}"]
        if zone is not None:
            parts.append(literal(str(zone)).replace("{", "{{").replace("}", "}}"))
        others = []
        if origin is not None:
            parts.append("{}")
            others.append(clock_time(origin))
        return self._call(f"time_bucket({', '.join(parts)})", *others)

    def truncate(self, unit: str, zone: str | None = None) -> Expr:
        """The start of its ``"hour"``, ``"day"``, ``"week"``, ``"month"``, ``"year"`` and so on; of spans such as ``"5m"`` that of its bucket.

        >>> col("time").dt.truncate("month")
        date_trunc('month', time)
        >>> col("time").dt.truncate("5m")
        time_bucket(INTERVAL '5 minutes', time)
        """
        if is_span(unit):
            return self.bucket(unit, zone)
        return Expr(
            Operation("date_trunc({}, {})", (node_of(unit), self._local(zone).node), True),
            self._expression.name,
            self._expression._frame,
        )

    def _field(self, field: str, zone: str | None) -> Expr:
        return self._local(zone)._operation(f"date_part('{field}', {{}})", is_call=True)

    @_FieldMethod
    def year(self, zone: str | None = None) -> Expr:
        """Its year.

        >>> col("time").dt.year()
        date_part('year', time)
        """
        return self._field("year", zone)

    @_FieldMethod
    def quarter(self, zone: str | None = None) -> Expr:
        """Its quarter, from 1.

        >>> col("time").dt.quarter()
        date_part('quarter', time)
        """
        return self._field("quarter", zone)

    @_FieldMethod
    def month(self, zone: str | None = None) -> Expr:
        """Its month, from 1.

        >>> col("time").dt.month()
        date_part('month', time)
        """
        return self._field("month", zone)

    @_FieldMethod
    def week(self, zone: str | None = None) -> Expr:
        """Its week by ISO 8601.

        >>> col("time").dt.week()
        date_part('week', time)
        """
        return self._field("week", zone)

    @_FieldMethod
    def day(self, zone: str | None = None) -> Expr:
        """Its day of the month, from 1.

        >>> col("time").dt.day()
        date_part('day', time)
        """
        return self._field("day", zone)

    @_CalledMethod
    def weekday(self, zone: str | None = None) -> Expr:
        """Its day of the week, 1 on Monday and 7 on Sunday.

        >>> col("time").dt.weekday()
        (date_part('dow', time) + 6) % 7 + 1
        """
        local = self._local(zone)
        return local._operation("(date_part('dow', {}) + 6) % 7 + 1", is_call=False)

    @_FieldMethod
    def ordinal_day(self, zone: str | None = None) -> Expr:
        """Its day of the year, from 1.

        >>> col("time").dt.ordinal_day()
        date_part('doy', time)
        """
        return self._field("doy", zone)

    @_FieldMethod
    def hour(self, zone: str | None = None) -> Expr:
        """Its hour.

        >>> col("time").dt.hour("America/New_York")
        date_part('hour', time AT TIME ZONE 'America/New_York')
        """
        return self._field("hour", zone)

    @_FieldMethod
    def minute(self, zone: str | None = None) -> Expr:
        """Its minute.

        >>> col("time").dt.minute()
        date_part('minute', time)
        """
        return self._field("minute", zone)

    @_FieldMethod
    def second(self, zone: str | None = None) -> Expr:
        """Its second, without parts.

        >>> col("time").dt.second()
        CAST(floor(date_part('second', time)) AS int)
        """
        return self._local(zone)._operation("CAST(floor(date_part('second', {})) AS int)", is_call=True)

    @_FieldMethod
    def date(self, zone: str | None = None) -> Expr:
        """Its date.

        >>> col("time").dt.date("America/New_York")
        CAST(time AT TIME ZONE 'America/New_York' AS date)
        """
        return self._local(zone)._operation("CAST({} AS date)", is_call=True)

    @_FieldMethod
    def time(self, zone: str | None = None) -> Expr:
        """Its time of day.

        >>> import splay
        >>> splay.col("time").dt.time("America/New_York")
        CAST(time AT TIME ZONE 'America/New_York' AS time)
        """
        return self._local(zone)._operation("CAST({} AS time)", is_call=True)

    def epoch(self, unit: str = "ns") -> Expr:
        """Whole units since 1970: ``"ns"``, ``"us"``, ``"ms"``.

        >>> col("time").dt.epoch("ms")
        epoch_ms(time)
        """
        if unit not in ("ns", "us", "ms"):
            raise ValueError(f"unit is 'ns', 'us' or 'ms', not {unit!r}")
        return self._call(f"epoch_{unit}({{}})")

    def total_seconds(self) -> Expr:
        """The seconds of a difference of times, with parts, as a float.

        >>> (col("time") - col("time").shift(1)).dt.total_seconds().over("symbol", order_by="time")
        CAST(date_part('epoch', time - lag(time, 1) OVER (PARTITION BY symbol ORDER BY time)) AS double)
        """
        return self._call("date_part('epoch', {})").cast(float)

    def offset_by(self, width: Any) -> Expr:
        """That much later, earlier if it begins with a minus: ``"-5m"``, ``"1mo"``.

        >>> col("time").dt.offset_by("5m")
        time + INTERVAL '5 minutes'
        """
        return self._expression._operation(f"{{}} + {interval(width)}")

    def to_text(self, pattern: str) -> Expr:
        """As text by a format such as ``"%Y-%m-%d"``.

        >>> col("time").dt.to_text("%H:%M")
        strftime(time, '%H:%M')
        """
        return self._call("strftime({}, {})", pattern)


def clock_time(instant: Any) -> Expr:
    """A constant time at which buckets begin or end, on the clock of their zone unless it names a zone."""
    if isinstance(instant, Expr):
        return instant
    return Expr(Operation(clock_literal(instant).replace("{", "{{").replace("}", "}}"), (), is_call=True))


def bucket_width(width: Any) -> str:
    """The width of buckets as SQL; it is above zero."""
    text = interval(width)
    if "'-" in text or "'0 " in text:
        raise ValueError(f"a bucket's width is above zero, {width!r} isn't")
    return text
