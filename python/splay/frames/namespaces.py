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
        """Whether a part of it fits a regular expression, or is a text if `literal`."""
        return self._call("contains({}, {})" if literal else "regexp_like({}, {})", pattern)

    def starts_with(self, prefix: Any) -> Expr:
        """Whether it begins so."""
        return self._call("starts_with({}, {})", prefix)

    def ends_with(self, suffix: Any) -> Expr:
        """Whether it ends so."""
        return self._call("ends_with({}, {})", suffix)

    def like(self, pattern: str) -> Expr:
        """Whether it fits a pattern of SQL, ``%`` for any characters and ``_`` for one."""
        return self._expression._operation("{} LIKE {}", pattern)

    def ilike(self, pattern: str) -> Expr:
        """The same without regard to case."""
        return self._expression._operation("{} ILIKE {}", pattern)

    def glob(self, pattern: str) -> Expr:
        """Whether all of it fits a pattern such as ``ES[FGHJ]?``, ``*`` for any characters."""
        return self._call("glob({}, {})", pattern)

    def to_uppercase(self) -> Expr:
        """In capitals."""
        return self._call("upper({})")

    def to_lowercase(self) -> Expr:
        """In small letters."""
        return self._call("lower({})")

    def len_chars(self) -> Expr:
        """Its number of characters."""
        return self._call("character_length({})")

    def strip_chars(self) -> Expr:
        """Without spaces at its ends."""
        return self._call("trim({})")

    def replace_all(self, old: str, new: str) -> Expr:
        """With a text in the place of each occurrence of another."""
        return self._call("replace({}, {}, {})", old, new)

    def slice(self, start: int, length: int | None = None) -> Expr:
        """Characters from a place, counted from 0."""
        if start < 0 or (length is not None and length < 0):
            raise ValueError("a slice begins at 0 or later and has no negative length")
        if length is None:
            return self._call("substr({}, {})", start + 1)
        return self._call("substr({}, {}, {})", start + 1, length)

    def split_part(self, separator: str, place: int) -> Expr:
        """A part between separators, counted from 0; an empty text if there are fewer."""
        return self._call("split_part({}, {}, {})", separator, place + 1)

    def to_time(self, pattern: str, strict: bool = True) -> Expr:
        """The time in UTC that it says by a format such as ``"%Y-%m-%d %H:%M:%S"``; null where it says none unless `strict`."""
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
        """The start of its ``"hour"``, ``"day"``, ``"week"``, ``"month"``, ``"year"`` and so on."""
        return Expr(
            Operation("date_trunc({}, {})", (node_of(unit), self._local(zone).node), True),
            self._expression.name,
            self._expression._frame,
        )

    def _field(self, field: str, zone: str | None) -> Expr:
        return self._local(zone)._operation(f"date_part('{field}', {{}})", is_call=True)

    def year(self, zone: str | None = None) -> Expr:
        """Its year."""
        return self._field("year", zone)

    def quarter(self, zone: str | None = None) -> Expr:
        """Its quarter, from 1."""
        return self._field("quarter", zone)

    def month(self, zone: str | None = None) -> Expr:
        """Its month, from 1."""
        return self._field("month", zone)

    def week(self, zone: str | None = None) -> Expr:
        """Its week by ISO 8601."""
        return self._field("week", zone)

    def day(self, zone: str | None = None) -> Expr:
        """Its day of the month, from 1."""
        return self._field("day", zone)

    def weekday(self, zone: str | None = None) -> Expr:
        """Its day of the week, 1 on Monday and 7 on Sunday."""
        local = self._local(zone)
        return local._operation("(date_part('dow', {}) + 6) % 7 + 1", is_call=False)

    def ordinal_day(self, zone: str | None = None) -> Expr:
        """Its day of the year, from 1."""
        return self._field("doy", zone)

    def hour(self, zone: str | None = None) -> Expr:
        """Its hour."""
        return self._field("hour", zone)

    def minute(self, zone: str | None = None) -> Expr:
        """Its minute."""
        return self._field("minute", zone)

    def second(self) -> Expr:
        """Its second, without parts."""
        return self._call("CAST(floor(date_part('second', {})) AS int)")

    def date(self, zone: str | None = None) -> Expr:
        """Its date."""
        return self._local(zone)._operation("CAST({} AS date)", is_call=True)

    def time(self, zone: str | None = None) -> Expr:
        """Its time of day.

        >>> import splay
        >>> splay.col("time").dt.time("America/New_York")
        CAST(time AT TIME ZONE 'America/New_York' AS time)
        """
        return self._local(zone)._operation("CAST({} AS time)", is_call=True)

    def epoch(self, unit: str = "ns") -> Expr:
        """Whole units since 1970: ``"ns"``, ``"us"``, ``"ms"``."""
        if unit not in ("ns", "us", "ms"):
            raise ValueError(f"unit is 'ns', 'us' or 'ms', not {unit!r}")
        return self._call(f"epoch_{unit}({{}})")

    def offset_by(self, width: Any) -> Expr:
        """That much later, earlier if it begins with a minus: ``"-5m"``, ``"1mo"``."""
        return self._expression._operation(f"{{}} + {interval(width)}")

    def to_text(self, pattern: str) -> Expr:
        """As text by a format such as ``"%Y-%m-%d"``."""
        return self._call("strftime({}, {})", pattern)


def bucket_width(width: Any) -> str:
    """The width of buckets as SQL; it is above zero."""
    text = interval(width)
    if "'-" in text or "'0 " in text:
        raise ValueError(f"a bucket's width is above zero, {width!r} isn't")
    return text
