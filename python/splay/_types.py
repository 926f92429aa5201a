"""Names of types: those of columns of tables, and Arrow's for types that tables don't have."""

import re
from typing import Any

_UNITS = {"s": "s", "ms": "ms", "us": "µs", "ns": "ns"}
_ARROW = {
    "bool": "Boolean", "int8": "Int8", "int16": "Int16", "int32": "Int32", "int64": "Int64", "uint8": "UInt8", "uint16": "UInt16",
    "uint32": "UInt32", "uint64": "UInt64", "halffloat": "Float16", "float": "Float32", "double": "Float64", "string": "Utf8",
    "large_string": "LargeUtf8", "string_view": "Utf8View", "binary": "Binary", "null": "Null", "date32[day]": "Date32",
    "date64[ms]": "Date64", "month_day_nano_interval": "Interval(MonthDayNano)",
}  # fmt: skip
"""Arrow's names of types without parameters, by pyarrow's."""
_OWN = {
    "Boolean": "bool", "Int8": "int8", "Int16": "int16", "Int32": "int32", "Int64": "int64", "UInt8": "uint8", "UInt16": "uint16",
    "UInt32": "uint32", "UInt64": "uint64", "Float32": "float32", "Float64": "float64", "Utf8": "text", "Date32": "date",
    "Time64(ns)": "time", 'Timestamp(ns, "UTC")': "timestamp", "Dictionary(Int32, Utf8)": "symbol",
}  # fmt: skip
"""Types of columns of tables by Arrow's names."""


def type_name(kind: Any) -> str:
    """The name of a type: of a schema of this process, which has it as text, or of one of pyarrow, as answers of servers have."""
    if isinstance(kind, str):
        return kind
    name = _arrow_name(kind)
    name = re.sub(r"^Decimal128\((\d+), (-?\d+)\)$", r"decimal(\1,\2)", name)
    name = re.sub(r"^FixedSizeList\((\d+) x Float64\)$", r"levels(\1)", name)
    return _OWN.get(name, name)


def _arrow_name(kind: Any) -> str:
    """A type of pyarrow as the engine's Arrow names it."""
    from pyarrow import types

    if types.is_timestamp(kind):
        return f"Timestamp({_UNITS[kind.unit]})" if kind.tz is None else f'Timestamp({_UNITS[kind.unit]}, "{kind.tz}")'
    if types.is_duration(kind):
        return f"Duration({_UNITS[kind.unit]})"
    if types.is_time(kind):
        return f"Time{kind.bit_width}({_UNITS[kind.unit]})"
    if types.is_decimal(kind):
        return f"Decimal{kind.bit_width}({kind.precision}, {kind.scale})"
    if types.is_dictionary(kind):
        return f"Dictionary({_arrow_name(kind.index_type)}, {_arrow_name(kind.value_type)})"
    if types.is_fixed_size_list(kind):
        return f"FixedSizeList({kind.list_size} x {_arrow_name(kind.value_type)})"
    if types.is_list(kind):
        return f"List({_arrow_name(kind.value_type)})"
    if types.is_struct(kind):
        fields = ", ".join(f'"{field.name}": {_arrow_name(field.type)}' for field in kind)
        return f"Struct({fields})"
    return _ARROW.get(str(kind), str(kind))
