"""What is computed of text (``col.str``) and of times (``col.dt``)."""

from typing import Any

from splay.frames.base import node_of
from splay.frames.expr import Expr
from splay.frames.nodes import Operation
from splay.frames.text import interval, literal

UTC_TYPE = 'Timestamp(ns, "UTC")'


class TextNamespace:
    """Functions of text and symbols."""

    def __init__(self, expression: Expr):
        self._expression = expression

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
        """A part between separators, counted from 0; an empty text if there are fewer.

        >>> col("pair").str.split_part("-", 1)
        split_part(pair, '-', 2)
        """
        return self._call("split_part({}, {}, {})", separator, place + 1)

    def to_time(self, pattern: str, strict: bool = True) -> Expr:
        """The time in UTC that it says by a format such as ``"%Y-%m-%d %H:%M:%S"``; null where it says none unless `strict`.

        >>> col("text").str.to_time("%Y-%m-%d %H:%M:%S")
        arrow_cast(strptime(text, '%Y-%m-%d %H:%M:%S'), 'Timestamp(ns, "UTC")')
        """
        return self._call("strptime({}, {})" if strict else "try_strptime({}, {})", pattern).cast("timestamp")


class TimeNamespace:
    """Functions of times and dates. Fields and dates are those of UTC unless a zone of the IANA database is named."""

    def __init__(self, expression: Expr):
        self._expression = expression

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
            A time at which one begins.

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
            others.append(origin)
        return self._call(f"time_bucket({', '.join(parts)})", *others)

    def truncate(self, unit: str, zone: str | None = None) -> Expr:
        """The start of its ``"hour"``, ``"day"``, ``"week"``, ``"month"``, ``"year"`` and so on.

        >>> col("time").dt.truncate("month")
        date_trunc('month', time)
        """
        return Expr(
            Operation("date_trunc({}, {})", (node_of(unit), self._local(zone).node), True),
            self._expression.name,
            self._expression._frame,
        )

    def _field(self, field: str, zone: str | None) -> Expr:
        return self._local(zone)._operation(f"date_part('{field}', {{}})", is_call=True)

    def year(self, zone: str | None = None) -> Expr:
        """Its year.

        >>> col("time").dt.year()
        date_part('year', time)
        """
        return self._field("year", zone)

    def quarter(self, zone: str | None = None) -> Expr:
        """Its quarter, from 1.

        >>> col("time").dt.quarter()
        date_part('quarter', time)
        """
        return self._field("quarter", zone)

    def month(self, zone: str | None = None) -> Expr:
        """Its month, from 1.

        >>> col("time").dt.month()
        date_part('month', time)
        """
        return self._field("month", zone)

    def week(self, zone: str | None = None) -> Expr:
        """Its week by ISO 8601.

        >>> col("time").dt.week()
        date_part('week', time)
        """
        return self._field("week", zone)

    def day(self, zone: str | None = None) -> Expr:
        """Its day of the month, from 1.

        >>> col("time").dt.day()
        date_part('day', time)
        """
        return self._field("day", zone)

    def weekday(self, zone: str | None = None) -> Expr:
        """Its day of the week, 1 on Monday and 7 on Sunday.

        >>> col("time").dt.weekday()
        (date_part('dow', time) + 6) % 7 + 1
        """
        local = self._local(zone)
        return local._operation("(date_part('dow', {}) + 6) % 7 + 1", is_call=False)

    def ordinal_day(self, zone: str | None = None) -> Expr:
        """Its day of the year, from 1.

        >>> col("time").dt.ordinal_day()
        date_part('doy', time)
        """
        return self._field("doy", zone)

    def hour(self, zone: str | None = None) -> Expr:
        """Its hour.

        >>> col("time").dt.hour("America/New_York")
        date_part('hour', time AT TIME ZONE 'America/New_York')
        """
        return self._field("hour", zone)

    def minute(self, zone: str | None = None) -> Expr:
        """Its minute.

        >>> col("time").dt.minute()
        date_part('minute', time)
        """
        return self._field("minute", zone)

    def second(self) -> Expr:
        """Its second, without parts.

        >>> col("time").dt.second()
        CAST(floor(date_part('second', time)) AS int)
        """
        return self._call("CAST(floor(date_part('second', {})) AS int)")

    def date(self, zone: str | None = None) -> Expr:
        """Its date.

        >>> col("time").dt.date("America/New_York")
        CAST(time AT TIME ZONE 'America/New_York' AS date)
        """
        return self._local(zone)._operation("CAST({} AS date)", is_call=True)

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


def bucket_width(width: Any) -> str:
    """The width of buckets as SQL; it is above zero."""
    text = interval(width)
    if "'-" in text or "'0 " in text:
        raise ValueError(f"a bucket's width is above zero, {width!r} isn't")
    return text
