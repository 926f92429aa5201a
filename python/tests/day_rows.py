"""The rows of a simulated day: each is a function of its number, so that nothing has to be kept to compare with.

SPLAY_DAY_ROWS says how many there are over all tables. Their times come out of order, and are those of two dates that have ended.
"""

import os

import numpy as np
import pyarrow as pa

ROWS = int(os.environ.get("SPLAY_DAY_ROWS", 200_000))
TABLES = ("trade", "quote", "book")
PART_ROWS = 2_000 if ROWS < 10_000_000 else 20_000
"""Rows that go one way together."""

PARTS = ROWS // len(TABLES) // PART_ROWS
"""Parts of each table."""

TABLE_ROWS = PARTS * PART_ROWS

DAY_NS = 86_400_000_000_000
START_NS = 1_767_225_600_000_000_000
"""2026-01-01T00:00:00Z."""

SYMBOLS = np.array([f"SYM{number:02}" for number in range(40)])
VENUES = np.array(["X", "Y", "Z"])
NAMES = {"sym": SYMBOLS, "venue": VENUES}
"""What the numbers in a column stand for."""


LATE_EVERY = 16
"""One part of so many is late, from both dates."""


def is_late(part: int) -> bool:
    """Whether a part is held back until its date has been rolled."""
    return part % LATE_EVERY == 5


def ids_of(part: int) -> np.ndarray:
    return np.arange(part * PART_ROWS, (part + 1) * PART_ROWS)


def mixed(numbers: np.ndarray, salt: int) -> np.ndarray:
    """Numbers without a pattern, the same each time."""
    with np.errstate(over="ignore"):
        found = (numbers.astype(np.uint64) + np.uint64(salt)) * np.uint64(0x9E3779B97F4A7C15)
        found ^= found >> np.uint64(29)
        found *= np.uint64(0xBF58476D1CE4E5B9)
    return (found >> np.uint64(33)).astype(np.int64)


def columns(table: str, ids: np.ndarray) -> dict[str, np.ndarray]:
    """Rows by their numbers. Times are all different; within each 64 rows they come in another order."""
    salt = TABLES.index(table) * 1_000
    places = ids ^ (mixed(ids >> 6, salt) & 63)
    step = 2 * DAY_NS // (TABLE_ROWS + 64)
    found = {"time": START_NS + places * step, "sym": mixed(ids, salt + 1) % len(SYMBOLS)}
    price = 100 + (mixed(ids, salt + 2) % 8_000) / 64
    if table == "trade":
        found |= {"venue": mixed(ids, salt + 3) % len(VENUES), "price": price, "size": mixed(ids, salt + 4) % 1_000}
    elif table == "quote":
        found |= {"bid": price, "ask": price + 1 / 64}
    else:
        found |= {f"bid{level}": price - level / 64 for level in range(3)}
        found |= {f"ask{level}": price + (level + 1) / 64 for level in range(3)}
    return found | {"id": ids}


def in_order(table: str, ids: np.ndarray) -> dict[str, np.ndarray]:
    """Rows in the order of a table: by date, symbol and time."""
    found = columns(table, ids)
    order = np.lexsort((found["time"], SYMBOLS[found["sym"]], (found["time"] - START_NS) // DAY_NS))
    return {name: values[order] for name, values in found.items()}


def frame(table: str, ids: np.ndarray) -> pa.Table:
    def array(name: str, values: np.ndarray) -> pa.Array:
        if name == "time":
            return pa.array(values, pa.timestamp("ns", "UTC"))
        if name in NAMES:
            return pa.DictionaryArray.from_arrays(pa.array(values.astype(np.int32)), pa.array(NAMES[name]))
        return pa.array(values)

    return pa.table({name: array(name, values) for name, values in columns(table, ids).items()})


def header(table: str) -> bytes:
    """The line that names the columns of CSV."""
    return (",".join(columns(table, ids_of(0)[:1])) + "\n").encode()


def csv(table: str, ids: np.ndarray) -> bytes:
    names, values = texts(table, ids)
    return lines(",".join("{}" for _ in names), values)


def ndjson(table: str, ids: np.ndarray) -> bytes:
    names, values = texts(table, ids)
    held = (f'"{name}":"{{}}"' if name in NAMES else f'"{name}":{{}}' for name in names)
    return lines("{{" + ",".join(held) + "}}", values)


def line_protocol(table: str, ids: np.ndarray) -> bytes:
    names, values = texts(table, ids)
    tags = [name for name in names if name in NAMES]
    fields = [name for name in names if name not in tags and name != "time"]
    shape = table + "".join(f",{tag}={{{names.index(tag)}}}" for tag in tags) + " "
    shape += ",".join(f"{name}={{{names.index(name)}}}" + ("i" if name in ("id", "size") else "") for name in fields)
    return lines(f"{shape} {{{names.index('time')}}}", values)


def texts(table: str, ids: np.ndarray) -> tuple[list[str], list[list]]:
    """Names of the columns, and their values as Python's."""
    found = columns(table, ids)
    return list(found), [(NAMES[name][values] if name in NAMES else values).tolist() for name, values in found.items()]


def lines(shape: str, values: list[list]) -> bytes:
    """A line for each row, of a shape with a placeholder for each value: one step of the interpreter for a line."""
    return "".join(map((shape + "\n").format, *values)).encode()
