"""Columns of every type, cast from the few that the simulator gives: time, symbol, venue, a price, a second price and a size.

- Times are whole microseconds, since DuckDB's functions of time have no finer ones, and no two rows of a table have the same, so
  that an order by time and an as-of join leave no ties open.
- Values of ``mark`` are eighths, which float32, float64 and decimal literals hold alike.
- ``move``, ``tier`` and ``depth`` leave room: twice their values plus a few still fit their types, where DuckDB keeps the type of a sum.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us", "UTC")),
        ("symbol", pa.dictionary(pa.int32(), pa.string())),
        ("venue", pa.dictionary(pa.int32(), pa.string())),
        ("price", pa.float64()),
        ("level", pa.float64()),
        ("mark", pa.float32()),
        ("move", pa.int8()),
        ("lots", pa.int16()),
        ("size", pa.int32()),
        ("sequence", pa.int64()),
        ("tier", pa.uint8()),
        ("depth", pa.uint16()),
        ("turnover", pa.uint32()),
        ("number", pa.uint64()),
        ("amount", pa.decimal128(18, 4)),
        ("settle", pa.date32()),
        ("clock", pa.time64("us")),
        ("received", pa.timestamp("us", "UTC")),
        ("live", pa.bool_()),
        ("note", pa.string()),
    ]
)
TYPES = {
    "time": "timestamp",
    "symbol": "symbol",
    "venue": "symbol",
    "amount": "decimal(18,4)",
    "received": "timestamp",
    "note": "text",
}
"""Column types of SplayDB where a frame's own leave a choice."""

DAY = 86_400_000_000
"""Microseconds of a day."""


def unique_times(nanoseconds: np.ndarray) -> np.ndarray:
    """Ascending times as microseconds, each above the one before."""
    place = np.arange(len(nanoseconds))
    return np.maximum.accumulate(nanoseconds // 1000 - place) + place


def with_nulls(values: np.ndarray, numbers: np.ndarray, one_in: int) -> pa.Array:
    """The values, one in so many null."""
    return pa.array(values, mask=numbers % one_in == 0)


def typed(base: pa.Table, seed: int) -> pa.Table:
    """A table with all columns, from ``time`` (nanoseconds), ``symbol``, ``venue``, ``price``, ``level`` and ``size``.

    Rows come in the order of time.
    """
    base = base.sort_by([("time", "ascending"), ("symbol", "ascending")])
    rng = np.random.default_rng(seed)
    rows = base.num_rows
    time = unique_times(base["time"].cast(pa.int64()).to_numpy())
    price = base["price"].cast(pa.float64()).fill_null(0).to_numpy()
    level = base["level"].cast(pa.float64()).fill_null(0).to_numpy()
    size = np.clip(base["size"].cast(pa.float64()).fill_null(0).to_numpy(), 0, 1e9).astype(np.int64)
    scatter = rng.integers(0, 1 << 40, rows)
    sequence = np.arange(1, rows + 1)
    venue = base["venue"].cast(pa.string())
    live = size > np.median(size)
    note = pc.binary_join_element_wise(venue, pa.array((scatter % 997).astype(str)), "-")
    columns = {
        "time": time,
        "symbol": base["symbol"].cast(pa.string()),
        "venue": venue,
        "price": price,
        "level": with_nulls(level, scatter, 19),
        "mark": (np.round(price * 8) / 8).astype(np.float32),
        "move": np.clip(np.round((level - price) / np.maximum(price, 1e-9) * 4000), -40, 40).astype(np.int8),
        "lots": with_nulls(np.clip(size // 10, 0, 15_000).astype(np.int16), scatter, 23),
        "size": size.astype(np.int32),
        "sequence": sequence,
        "tier": np.clip(np.log2(size + 1), 0, 40).astype(np.uint8),
        "depth": (scatter % 20_000).astype(np.uint16),
        "turnover": np.clip(price * size, 0, 1e9).astype(np.uint32),
        "number": (sequence // 10 * 7).astype(np.uint64),
        "amount": pc.round(pa.array(price), 4).cast(pa.decimal128(22, 4), safe=False).cast(pa.decimal128(18, 4)),
        "settle": ((time // DAY) + 1 + scatter % 31).astype(np.int32),
        "clock": time % DAY,
        "received": with_nulls(time + 20 + (rng.lognormal(4, 1, rows)).astype(np.int64), scatter, 29),
        "live": live,
        "note": pc.if_else(pa.array(scatter % 13 == 0), pa.scalar(None, pa.string()), note.combine_chunks()),
    }
    return pa.table([as_type(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)


def as_type(values, type: pa.DataType) -> pa.Array:
    """Values as an array of a type."""
    array = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return array if array.type == type else array.cast(type)
