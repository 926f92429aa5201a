"""Whether two answers are equal.

Same columns, same rows; keys exactly equal, values within 1e-9 relative or 1e-13 absolute; null is equal to null alone, NaN
to NaN alone. Codes are compared as text, times as nanoseconds, numbers of any width by value. The absolute floor is for
returns, which are differences of logarithms of size 10 and may be exactly 0.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

RELATIVE = 1e-9
ABSOLUTE = 1e-13
NO_OTHERS: Mapping[str, float] = {}


class Different(Exception):
    """Answers differ; the message says where, ``rows`` in how many rows."""

    def __init__(self, message: str, rows: int | None = None):
        super().__init__(message)
        self.rows = rows


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in one of four types: text, int64, float64, bool."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return column.cast(pa.string())
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("ns", kind.tz)).cast(pa.int64())
    if pa.types.is_duration(kind):
        return column.cast(pa.duration("ns")).cast(pa.int64())
    if pa.types.is_time(kind):
        return column.cast(pa.time64("ns")).cast(pa.int64())
    if pa.types.is_date(kind):
        return column.cast(pa.timestamp("ns")).cast(pa.int64())
    if pa.types.is_uint64(kind) or pa.types.is_decimal(kind):
        whole = pa.types.is_uint64(kind) or kind.scale == 0
        return column.cast(pa.int64() if whole else pa.float64())
    if pa.types.is_integer(kind):
        return column.cast(pa.int64())
    if pa.types.is_floating(kind):
        return column.cast(pa.float64())
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return column
    raise Different(f"column of type {kind}, which no question should give")


def normal(table: pa.Table, names: list[str] | None = None) -> pa.Table:
    """Columns in plain types, named in lower case, in the order of ``names``."""
    table = pa.table({name.lower(): plain(column) for name, column in zip(table.column_names, table.columns)})
    if names is None:
        return table
    if sorted(table.column_names) != sorted(names):
        raise Different(f"columns {table.column_names} instead of {names}")
    return table.select(names)


def sorted_by(table: pa.Table, keys: list[str]) -> pa.Table:
    return table.sort_by([(key, "ascending") for key in keys]) if keys and table.num_rows > 1 else table


def check_unique(table: pa.Table, keys: tuple[str, ...]) -> None:
    """That the keys name the rows: a mistake in the question otherwise."""
    keys = [key.lower() for key in keys]
    if not keys:
        if table.num_rows > 1:
            raise Different(f"{table.num_rows} rows without keys")
        return
    found = table.select(keys).group_by(keys).aggregate([]).num_rows
    if found != table.num_rows:
        raise Different(f"keys {keys} name {found} of {table.num_rows} rows: the question is at fault")


def nulls(column: pa.ChunkedArray) -> np.ndarray:
    return column.is_null().to_numpy()


def unequal(left: pa.ChunkedArray, right: pa.ChunkedArray, exact: bool, relative: float = RELATIVE) -> np.ndarray:
    """Rows in which two columns differ; ``relative`` is what is allowed where they needn't be exactly equal."""
    null_left, null_right = nulls(left), nulls(right)
    wrong = null_left != null_right
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        return wrong
    both = ~(null_left | null_right)
    if pa.types.is_string(left.type) or pa.types.is_string(right.type):
        if left.type != right.type:
            return wrong | both
        return wrong | (both & ~pc.equal(left, right).fill_null(True).to_numpy())
    one = pc.fill_null(left, False if pa.types.is_boolean(left.type) else 0).to_numpy()
    other = pc.fill_null(right, False if pa.types.is_boolean(right.type) else 0).to_numpy()
    if exact or (one.dtype != np.float64 and other.dtype != np.float64):
        same = one == other
    else:
        one, other = one.astype(np.float64), other.astype(np.float64)
        with np.errstate(invalid="ignore"):
            distance = np.abs(one - other)
            allowed = np.maximum(relative * np.maximum(np.abs(one), np.abs(other)), ABSOLUTE)
            # An infinity is equal to itself alone, though any distance is within its allowance.
            near = np.isfinite(allowed) & (distance <= allowed)
            same = near | (one == other) | (np.isnan(one) & np.isnan(other))
    return wrong | (both & ~same)


def check_equal(
    expected: pa.Table,
    found: pa.Table,
    keys: tuple[str, ...],
    ordered: bool = False,
    bag: bool = False,
    relative: Mapping[str, float] = NO_OTHERS,
) -> None:
    """Compares an answer with the reference's, in the order it has, or sorted by its keys, or (``bag``) by all columns.

    ``relative`` has what is allowed in columns where it isn't ``RELATIVE``.

    Raises
    ------
    Different
        If they are not equal.
    """
    expected = normal(expected)
    found = normal(found, expected.column_names)
    if expected.num_rows != found.num_rows:
        raise Different(f"{found.num_rows} rows instead of {expected.num_rows}")
    keys = [key.lower() for key in keys]
    if not ordered:
        order = [*keys, *(name for name in expected.column_names if name not in keys)] if bag else keys
        expected, found = sorted_by(expected, order), sorted_by(found, order)
    wrong_rows = np.zeros(expected.num_rows, dtype=bool)
    first = None
    for name in expected.column_names:
        wrong = unequal(expected[name], found[name], name in keys, relative.get(name, RELATIVE))
        if first is None and wrong.any():
            row = int(wrong.argmax())
            place = ", ".join(f"{key}={expected[key][row]}" for key in keys)
            first = f"{name}: {found[name][row]} instead of {expected[name][row]} (row {row}: {place})"
        wrong_rows |= wrong
    if first is not None:
        count = int(wrong_rows.sum())
        raise Different(f"{count} of {len(wrong_rows)} rows, first {first}", count)
