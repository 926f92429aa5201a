"""Rows become Arrow tables.

- A column has one type for the life of its :class:`Columns`: what was asked for, or what its first value that is not null says. Whole numbers
  become floats with the first number that isn't whole, unless a type was asked for.
- The time column comes first, then the symbol column, so that a server that makes a table finds both.
- Types have the names that :meth:`splay.Database.write` takes.
"""

import datetime
import decimal
import numbers
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow

from splay.errors import SchemaError, SettingError

TIME_NAMES = ("ts_event", "timestamp", "time", "ts_recv")
"""Columns that are taken for the time of a row, the likeliest first. Integers in them are nanoseconds since the epoch."""

SYMBOL_NAMES = ("symbol", "sym", "ticker")
"""Columns that are taken for the symbol of a row, the likeliest first."""

_TYPES = {
    "bool": pyarrow.bool_(),
    "int8": pyarrow.int8(),
    "int16": pyarrow.int16(),
    "int32": pyarrow.int32(),
    "int64": pyarrow.int64(),
    "uint8": pyarrow.uint8(),
    "uint16": pyarrow.uint16(),
    "uint32": pyarrow.uint32(),
    "uint64": pyarrow.uint64(),
    "float32": pyarrow.float32(),
    "float64": pyarrow.float64(),
    "date": pyarrow.date32(),
    "time": pyarrow.time64("ns"),
    "timestamp": pyarrow.timestamp("ns", "UTC"),
    "symbol": pyarrow.dictionary(pyarrow.int32(), pyarrow.utf8()),
    "text": pyarrow.utf8(),
}
LEVELS_MAX = 1024


def arrow_type(name: str) -> pyarrow.DataType:
    """The Arrow type of a column type of SplayDB, such as ``symbol``, ``levels(20)`` or ``decimal(18,4)``.

    Raises
    ------
    SettingError
        If there is no such type.
    """
    if name in _TYPES:
        return _TYPES[name]
    levels = re.fullmatch(r"levels\((\d+)\)", name)
    if levels and 1 <= int(levels[1]) <= LEVELS_MAX:
        return pyarrow.list_(pyarrow.float64(), int(levels[1]))
    digits = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", name)
    if digits and 1 <= int(digits[1]) <= 38 and int(digits[2]) <= int(digits[1]):
        return pyarrow.decimal128(int(digits[1]), int(digits[2]))
    error = SettingError(f"{name!r} is not a column type; there are {', '.join(_TYPES)}, decimal(P,S), levels(N)")
    error.setting = "types"
    raise error


class Columns:
    """Makes tables of rows that are given as mappings.

    Parameters
    ----------
    types
        Types by name of column. Those of other columns are found out from the first rows with values: texts are ``symbol`` in a column called so, ``text``
        in others; decimals become floats; lists of numbers are ``levels(N)``, N being the length of the first.
    """

    def __init__(self, types: Mapping[str, str] | None = None):
        self._types = {name: arrow_type(kind) for name, kind in (types or {}).items()}
        self._asked = frozenset(self._types)

    def table(self, rows: Sequence[Mapping[str, Any]]) -> pyarrow.Table:
        """The rows as a table; shape: one row each, one column for each name with a known type. Absent values are null.

        Raises
        ------
        SchemaError
            If a value is not of its column's type.
        """
        names = _in_order(dict.fromkeys(name for row in rows for name in row))
        found = {}
        for name in names:
            values = [row.get(name) for row in rows]
            array = self._array(name, values)
            if array is not None:
                found[name] = array
        return pyarrow.table(found)

    def _array(self, name: str, values: list[Any]) -> pyarrow.Array | None:
        kind = self._types.get(name)
        if kind is None:
            first = next((value for value in values if value is not None), None)
            if first is None:
                return None
            kind = _type_of(name, first)
        # pyarrow would cut off what is behind the point.
        is_whole = pyarrow.types.is_integer(kind) or pyarrow.types.is_temporal(kind)
        broken = next(filter(_is_broken, values), None) if is_whole else None
        if broken is not None and (name in self._asked or not pyarrow.types.is_integer(kind)):
            raise SchemaError(f"column {name!r} is {_name_of(kind)}, and {broken!r} would lose its part: types={{{name!r}: 'float64'}} keeps it")
        if broken is not None:
            # A size of 1 may come before one of 0.5: whether the table's column takes both is for the table to say.
            kind = _TYPES["float64"]
        if pyarrow.types.is_floating(kind):
            values = [float(value) if isinstance(value, decimal.Decimal) else value for value in values]
        try:
            array = pyarrow.array(values, kind)
        except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise SchemaError(f"column {name!r} is {_name_of(kind)}: {error}") from error
        self._types[name] = kind
        return array


def _in_order(names: Iterable[str]) -> list[str]:
    def place(name: str) -> tuple[int, int]:
        if name in TIME_NAMES:
            return 0, TIME_NAMES.index(name)
        if name in SYMBOL_NAMES:
            return 1, SYMBOL_NAMES.index(name)
        return 2, 0

    ordered = sorted(names, key=place)
    # Only the likeliest time goes to the front; the others stay behind the symbol.
    times = [name for name in ordered if name in TIME_NAMES]
    symbols = [name for name in ordered if name in SYMBOL_NAMES]
    return times[:1] + symbols[:1] + times[1:] + symbols[1:] + [name for name in ordered if place(name)[0] == 2]


def _is_broken(value: Any) -> bool:
    """Whether it is a number that isn't whole; neither are NaN and infinity."""
    if value is None or isinstance(value, int) or not isinstance(value, (numbers.Real, decimal.Decimal)):
        return False
    return not float(value).is_integer()


def _type_of(name: str, value: Any) -> pyarrow.DataType:
    if isinstance(value, bool):
        return _TYPES["bool"]
    if isinstance(value, int) and name in TIME_NAMES:
        return _TYPES["timestamp"]
    if isinstance(value, str):
        return _TYPES["symbol" if name in SYMBOL_NAMES else "text"]
    if isinstance(value, decimal.Decimal):
        return _TYPES["float64"]
    if isinstance(value, (list, tuple)):
        return arrow_type(f"levels({len(value)})")
    try:
        kind = pyarrow.scalar(value).type
    except pyarrow.ArrowException as error:
        raise SchemaError(f"column {name!r}: {error}") from error
    if isinstance(value, datetime.datetime) or pyarrow.types.is_timestamp(kind):
        return _TYPES["timestamp"]
    return kind


def _name_of(kind: pyarrow.DataType) -> str:
    return next((name for name, known in _TYPES.items() if known == kind), str(kind))
