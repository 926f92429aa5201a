"""The rows of the long tests: each is a function of its way in, its batch and its place there, so that any row can be compared."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np
import pyarrow as pa

TABLES = ("trade", "quote")
SYMBOLS = np.array([f"SYM{number:02}" for number in range(20)])
START_NS = 1_767_225_600_000_000_000
"""2026-01-01T00:00:00Z."""

DAY_NS = 86_400_000_000_000
COLUMNS = ("time", "sym", "way", "number", "place", "price")


@dataclasses.dataclass(frozen=True)
class Shape:
    """How many rows batches have, and how fast dates go by."""

    rows_max: int = 8
    batches_a_day: int = 100
    seed: int = 1

    def size(self, way: int, number: int) -> int:
        """Rows of a batch: one to `rows_max`."""
        return 1 + int(mixed(np.array([number]), self.seed + way * 7)[0] % self.rows_max)

    def sizes(self, way: int, numbers: np.ndarray) -> np.ndarray:
        return 1 + mixed(numbers, self.seed + way * 7) % self.rows_max

    def columns(self, way: int, number: int, first: int = 0) -> dict[str, np.ndarray]:
        """The rows of a batch, from a place on."""
        places = np.arange(first, self.size(way, number))
        return self.of(way, np.full(len(places), number), places)

    def of(self, way: int, numbers: np.ndarray, places: np.ndarray) -> dict[str, np.ndarray]:
        """Rows by the numbers of their batches and their places. One in sixteen is late by up to three dates."""
        salt = self.seed * 1_000_003 + way * 101
        ids = numbers * 4_096 + places
        late = np.where(mixed(ids, salt) % 16 == 0, mixed(ids, salt + 1) % (3 * DAY_NS), 0)
        time = START_NS + 4 * DAY_NS + numbers * (DAY_NS // self.batches_a_day) + places - late
        return {
            "time": time,
            "sym": mixed(ids, salt + 2) % len(SYMBOLS),
            "way": np.full(len(ids), way),
            "number": numbers,
            "place": places,
            "price": 100 + (mixed(ids, salt + 3) % 8_000) / 64,
        }


def mixed(numbers: np.ndarray, salt: int) -> np.ndarray:
    """Numbers without a pattern, the same each time."""
    with np.errstate(over="ignore"):
        found = (numbers.astype(np.uint64) + np.uint64(salt)) * np.uint64(0x9E3779B97F4A7C15)
        found ^= found >> np.uint64(29)
        found *= np.uint64(0xBF58476D1CE4E5B9)
    return (found >> np.uint64(33)).astype(np.int64)


def record_batch(columns: dict[str, np.ndarray]) -> pa.RecordBatch:
    symbols = pa.DictionaryArray.from_arrays(pa.array(columns["sym"].astype(np.int32)), pa.array(SYMBOLS))
    times = pa.array(columns["time"], pa.timestamp("ns", "UTC"))
    arrays = [{"time": times, "sym": symbols}.get(name, columns[name]) for name in COLUMNS]
    return pa.record_batch([pa.array(array) if isinstance(array, np.ndarray) else array for array in arrays], list(COLUMNS))


def arrow_stream(columns: dict[str, np.ndarray]) -> bytes:
    batch, stream = record_batch(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, batch.schema) as writer:
        writer.write_batch(batch)
    return stream.getvalue().to_pybytes()


def texts(columns: dict[str, np.ndarray]) -> list[tuple]:
    """Rows as values of Python."""
    return list(zip(*((SYMBOLS[columns[name]] if name == "sym" else columns[name]).tolist() for name in COLUMNS)))


def csv(columns: dict[str, np.ndarray]) -> bytes:
    return ("".join(",".join(map(str, row)) + "\n" for row in [COLUMNS, *texts(columns)])).encode()


def ndjson(columns: dict[str, np.ndarray]) -> bytes:
    shape = '{{"time":{},"sym":"{}","way":{},"number":{},"place":{},"price":{}}}\n'
    return "".join(shape.format(*row) for row in texts(columns)).encode()


def line_protocol(tables: list[str], columns: dict[str, np.ndarray]) -> bytes:
    """A line for each row; a row goes to the table at its place in the list, and so on around."""
    shape = "{},sym={} way={}i,number={}i,place={}i,price={} {}\n"
    rows = enumerate(texts(columns))
    return "".join(shape.format(tables[at % len(tables)], *row[1:], row[0]) for at, row in rows).encode()


def digest(columns: dict[str, np.ndarray]) -> str:
    """Of rows, in whatever order they come."""
    order = np.lexsort((columns["place"], columns["number"], columns["way"]))
    told = hashlib.blake2b(digest_size=16)
    for name in COLUMNS:
        told.update(np.ascontiguousarray(columns[name][order]).tobytes())
    return told.hexdigest()


def of_answer(table: pa.Table) -> dict[str, np.ndarray]:
    """Rows of an answer, symbols as their numbers."""
    places = {symbol: at for at, symbol in enumerate(SYMBOLS.tolist())}
    found = {name: table[name].to_numpy() for name in ("way", "number", "place", "price")}
    found["time"] = table["time"].cast(pa.int64()).to_numpy()
    symbols = table["sym"].cast(pa.string()).combine_chunks().dictionary_encode()
    symbols = symbols.combine_chunks() if isinstance(symbols, pa.ChunkedArray) else symbols
    numbers = np.array([places[symbol] for symbol in symbols.dictionary.to_pylist()], np.int64)
    found["sym"] = numbers[symbols.indices.to_numpy()] if len(numbers) else np.zeros(0, np.int64)
    return found
