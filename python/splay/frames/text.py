"""SQL text of names, values, types and spans of time.

Every name in a statement of a frame comes from :func:`identifier` and every value from :func:`literal`; nothing else puts
text of a caller into SQL.
"""

import datetime
import decimal
import inspect
import math
import re
from typing import Any

from splay.frames.reserved import RESERVED

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SPAN = re.compile(r"(\d+)\s*([A-Za-z]+)\s*")

UNITS = {
    "ns": ("nanosecond", 1),
    "us": ("microsecond", 1_000),
    "ms": ("millisecond", 1_000_000),
    "s": ("second", 1_000_000_000),
    "sec": ("second", 1_000_000_000),
    "m": ("minute", 60_000_000_000),
    "min": ("minute", 60_000_000_000),
    "t": ("minute", 60_000_000_000),
    "h": ("hour", 3_600_000_000_000),
    "d": ("day", 86_400_000_000_000),
    "w": ("week", 604_800_000_000_000),
}
"""Units of spans with a fixed length: the engine's name and nanoseconds. ``t`` is pandas' minute."""

CALENDAR_UNITS = {"mo": ("month", 1), "q": ("month", 3), "y": ("year", 1)}
"""Units of spans that follow the calendar."""

# In small letters: the engine takes a word in capitals behind AS for the spelling of a column of that name.
_TYPES = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "uint8": "tinyint unsigned",
    "uint16": "smallint unsigned",
    "uint32": "int unsigned",
    "uint64": "bigint unsigned",
    "float32": "real",
    "float64": "double",
    "date": "date",
    "time": "time",
    "text": "varchar",
}
_ARROW_TYPES = {"timestamp": 'Timestamp(ns, "UTC")', "symbol": "Dictionary(Int32, Utf8)"}
_PYTHON_TYPES: dict[Any, str] = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "text",
    datetime.date: "date",
    datetime.datetime: "timestamp",
    datetime.time: "time",
}


def identifier(name: str) -> str:
    """A column, table or alias as SQL names it, in quotes where it needs them.

    >>> identifier("price"), identifier("last price"), identifier('5" gun'), identifier("order")
    ('price', '"last price"', '"5"" gun"', '"order"')
    """
    if not isinstance(name, str):
        raise TypeError(f"a name is text, not {type(name).__name__}")
    # The engine tells columns of one name apart by the second of these characters.
    if not name or "\0" in name or "\1" in name:
        raise ValueError(f"{name!r} can't be a name")
    if _PLAIN_NAME.match(name) and name.upper() not in RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def literal(value: Any) -> str:
    """A value of Python or NumPy as SQL writes it. Times without a zone are taken as UTC.

    >>> literal("it's"), literal(None), literal(0.1), literal(-3)
    ("'it''s'", 'NULL', '0.1', '(-3)')

    Raises
    ------
    TypeError
        If SQL has no literal for it.
    """
    value = _native(value)
    if value is None:
        return "NULL"
    for kind, write in _WRITERS:
        if isinstance(value, kind):
            return str(write(value))
    raise TypeError(f"a {type(value).__name__} can't stand in an expression: {_advice(value)}")


def _advice(value: Any) -> str:
    """What to write for what has no literal; the value itself where nothing is known."""
    name = getattr(value, "__name__", "")
    if inspect.ismethod(value) and type(value.__self__).__module__.startswith("splay."):
        return f"{name} is a method, write .{name}()"
    if callable(value) and name:
        return f"the engine runs no function of Python, {name} for example; write methods of splay.col, or take the rows by df() or pl()"
    kind = type(value)
    if kind.__module__.startswith("polars") and kind.__name__ == "Expr":
        return "expressions of Polars run in Polars, those of SplayDB begin with splay.col"
    if isinstance(value, dict):
        return f"{value!r}; columns are named by keywords, name=splay.col('x')"
    if isinstance(value, (list, tuple, set, frozenset)) or hasattr(value, "__array__"):
        return f"values of several rows, {kind.__module__}.{kind.__name__}; is_in takes a list, and a join another frame"
    return repr(value)


def _native(value: Any) -> Any:
    """NumPy's scalars as Python's, its times as text of their nanoseconds."""
    kind = type(value)
    if kind.__module__.partition(".")[0] != "numpy":
        return value
    if kind.__name__ in ("datetime64", "timedelta64"):
        return _NumpyTime(value)
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value


class _NumpyTime:
    def __init__(self, value: Any):
        self.value = value

    def __str__(self) -> str:
        text = str(self.value)
        if text == "NaT":
            return "NULL"
        if type(self.value).__name__ == "timedelta64":
            return span(int(self.value.astype("timedelta64[ns]").astype("int64")))
        return f"TIMESTAMPTZ '{self.value.astype('datetime64[ns]')}Z'"


def _whole(value: int) -> str:
    if not -(2**63) <= value < 2**64:
        raise OverflowError(f"{value} has more than 64 bits")
    # The text of the least number of 64 bits is read as a negation of one that doesn't fit.
    if value == -(2**63):
        return "CAST('-9223372036854775808' AS bigint)"
    return f"({value})" if value < 0 else str(value)


def _float(value: float) -> str:
    if math.isnan(value) or math.isinf(value):
        return f"CAST('{value}' AS double)"
    return f"({value!r})" if value < 0 or str(value).startswith("-") else repr(value)


def _decimal(value: decimal.Decimal) -> str:
    if not value.is_finite():
        raise ValueError(f"{value} is no decimal number")
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits) + max(0, int(exponent)), scale, 1)
    if precision > 38:
        raise OverflowError(f"{value} has more than 38 digits")
    return f"CAST('{value:f}' AS decimal({precision}, {scale}))"


def _timestamp(value: datetime.datetime) -> str:
    if value != value:  # pandas' NaT is a datetime.
        return "NULL"
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    # An instant: one without a label would be local time beside a time that has the label of a zone.
    # pandas' timestamps tell their nanoseconds by isoformat, too.
    return f"TIMESTAMPTZ '{value.isoformat()}Z'"


def clock_literal(value: Any) -> str:
    """A time as SQL writes it, on the clock of a bucket's zone unless it names a zone.

    >>> import datetime
    >>> clock_literal(datetime.datetime(2024, 1, 2, 9, 30)), clock_literal(datetime.datetime(2024, 1, 2, 9, 30, tzinfo=datetime.UTC))
    ("TIMESTAMP '2024-01-02T09:30:00'", "TIMESTAMPTZ '2024-01-02T09:30:00Z'")
    """
    text = literal(value)
    has_zone = isinstance(value, datetime.datetime) and value.tzinfo is not None
    return text if has_zone else text.replace("TIMESTAMPTZ", "TIMESTAMP").replace("Z'", "'")


def _interval(value: datetime.timedelta) -> str:
    if value != value:
        return "NULL"
    whole = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
    return span(whole * 1_000 + getattr(value, "nanoseconds", 0))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


# The first that fits: a bool is an int, a datetime a date.
_WRITERS: tuple[tuple[type, Any], ...] = (
    (bool, lambda value: "TRUE" if value else "FALSE"),
    (int, _whole),
    (float, _float),
    (str, _text),
    (decimal.Decimal, _decimal),
    (datetime.datetime, _timestamp),
    (datetime.date, lambda value: f"DATE '{value.isoformat()}'"),
    (datetime.time, lambda value: f"TIME '{value.isoformat()}'"),
    (datetime.timedelta, _interval),
    (_NumpyTime, str),
)


def span(nanoseconds: int) -> str:
    """An interval of so many nanoseconds, in the largest unit that holds it.

    >>> span(90_000_000_000), span(86_400_000_000_000)
    ("INTERVAL '90 seconds'", "INTERVAL '24 hours'")
    """
    # Not days: those have 23 or 25 hours where clocks change.
    for unit in ("h", "m", "s", "ms", "us", "ns"):
        name, length = UNITS[unit]
        if nanoseconds % length == 0 and nanoseconds:
            count = nanoseconds // length
            return f"INTERVAL '{count} {name}{'' if abs(count) == 1 else 's'}'"
    return "INTERVAL '0 seconds'"


def nanoseconds_of(width: Any) -> int:
    """The length of a span such as ``"1m"``, ``"1h30m"`` or a ``timedelta``, in nanoseconds.

    Raises
    ------
    ValueError
        If it is no span, or one of months.
    """
    if isinstance(width, datetime.timedelta):
        whole = (width.days * 86_400 + width.seconds) * 1_000_000 + width.microseconds
        return whole * 1_000 + int(getattr(width, "nanoseconds", 0))
    parts = _span_parts(width)
    if any(unit in CALENDAR_UNITS for _, unit in parts):
        raise ValueError(f"{width!r} has no fixed length: months and years can't be used here")
    sign = -1 if str(width).strip().startswith("-") else 1
    return sign * sum(count * UNITS[unit][1] for count, unit in parts)


def interval(width: Any) -> str:
    """A span such as ``"1m"``, ``"1h30m"``, ``"3mo"``, ``"5min"`` or a ``timedelta`` as an SQL interval.

    >>> interval("5m"), interval("1mo"), interval("1h30m"), interval("1d")
    ("INTERVAL '5 minutes'", "INTERVAL '1 month'", "INTERVAL '90 minutes'", "INTERVAL '1 day'")
    """
    if isinstance(width, datetime.timedelta):
        return span(nanoseconds_of(width))
    parts = _span_parts(width)
    if len(parts) == 1 and (parts[0][1] in CALENDAR_UNITS or parts[0][1] in ("d", "w")):
        count, unit = parts[0]
        name, times = CALENDAR_UNITS[unit] if unit in CALENDAR_UNITS else (UNITS[unit][0], 1)
        count *= times * (-1 if str(width).strip().startswith("-") else 1)
        return f"INTERVAL '{count} {name}{'' if abs(count) == 1 else 's'}'"
    return span(nanoseconds_of(width))


def _span_parts(width: Any) -> list[tuple[int, str]]:
    if not isinstance(width, str):
        raise TypeError(f"a span is text such as '5m', or a timedelta, not {type(width).__name__}")
    text = width.strip().removeprefix("-").strip()
    # Units of one letter count by case in pandas and QuestDB: 'M' is a month there and 'm' a minute.
    if re.search(r"(?<![A-Za-z])M(?![A-Za-z])", text):
        raise ValueError(f"{width!r}: write 'm' or 'min' for minutes, 'mo' for months")
    text = re.sub(r"^(?=[A-Za-z])", "1", text).lower()
    parts = [(int(count), unit) for count, unit in _SPAN.findall(text)]
    known = all(unit in UNITS or unit in CALENDAR_UNITS for _, unit in parts)
    if not parts or not known or _SPAN.sub("", text):
        units = ", ".join([*UNITS, *CALENDAR_UNITS])
        raise ValueError(f"{width!r} is no span of time such as '5m' or '1h30m'; units are {units}")
    return parts


def is_span(width: Any) -> bool:
    """Whether it is a span, or one of those units of it that are no names of SQL's units: ``"5m"``, ``"1h"``, a ``timedelta``.

    >>> is_span("5m"), is_span("minute"), is_span("month")
    (True, False, False)
    """
    return isinstance(width, datetime.timedelta) or (isinstance(width, str) and width.strip().lstrip("-")[:1].isdigit())


def type_call(template_argument: str, kind: Any, strict: bool) -> str:
    """A cast of rendered text to a type by SplayDB's name or Python's class, such as ``"decimal(18,4)"``, ``int``."""
    name = _PYTHON_TYPES.get(kind, kind)
    if not isinstance(name, str):
        raise TypeError(f"{kind!r} is no type; write its name, such as 'float64'")
    name = re.sub(r"\s+", "", name.lower())
    digits = re.fullmatch(r"decimal\((\d+),(\d+)\)", name)
    sql_type = f"decimal({digits[1]}, {digits[2]})" if digits else _TYPES.get(name)
    if sql_type is not None:
        return f"{'CAST' if strict else 'TRY_CAST'}({template_argument} AS {sql_type})"
    if name not in _ARROW_TYPES:
        raise ValueError(f"{kind!r} is no type; there are {', '.join([*_TYPES, *_ARROW_TYPES])}, decimal(P,S)")
    if not strict:
        raise ValueError(f"a cast to {name} is always strict")
    return f"arrow_cast({template_argument}, {literal(_ARROW_TYPES[name])})"
