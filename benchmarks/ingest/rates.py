"""How many rows a second come in, by each way. A rate ends when ``count(*)`` has all rows."""

import json
import time

import pyarrow
from pyarrow import compute, flight

from .lines import START_NS, STEP_NS, SYMBOLS, Senders, stream

UNDER_WAY = 64
"""Single rows by Flight that may wait for their acknowledgement."""


def until(server, table: str, rows: int) -> None:
    """Wait until a table has so many rows."""
    while server.count(table) < rows:
        time.sleep(0.02)


def by_lines(server, table: str, rows: int, producers: int, kind=stream, address=None) -> float:
    """Rows a second by line protocol, from the first byte until all can be queried."""
    senders = Senders(address or server.line, table, rows, producers, kind=kind)
    begun = senders.begin()
    senders.wait()
    until(server, table, senders.rows)
    return senders.rows / (time.monotonic() - begun)


def batch(start: int, rows: int, symbols: int = SYMBOLS) -> pyarrow.Table:
    """Trades of so many symbols as Arrow, in order of time."""
    numbers = [(start + row) * 2_654_435_761 >> 7 for row in range(rows)]
    names = pyarrow.array([f"SYM{number % symbols:03}" for number in numbers]).dictionary_encode()
    times = pyarrow.array([START_NS + (start + row) * STEP_NS for row in range(rows)], pyarrow.timestamp("ns", "UTC"))
    prices = pyarrow.array([100 + number % 8000 / 64 for number in numbers])
    sizes = pyarrow.array([number % 1000 for number in numbers])
    return pyarrow.table({"time": times, "symbol": names, "price": prices, "size": sizes})


def batches(rows: int, rows_each: int, first: int = 0, symbols: int = SYMBOLS):
    """Batches whose times follow each other; ``first`` numbers the first row."""
    made = batch(first, rows_each, symbols)
    nanoseconds = made["time"].cast(pyarrow.int64())
    for start in range(0, rows, rows_each):
        times = compute.add(nanoseconds, start * STEP_NS).cast(pyarrow.timestamp("ns", "UTC"))
        yield made.set_column(0, "time", times)


def put(server, table: str, schema):
    """A stream of batches that are acknowledged as ``process``."""
    client = flight.connect(f"grpc://{server.flight[0]}:{server.flight[1]}")
    options = flight.FlightCallOptions(headers=[(b"splay-ack", b"process")])
    return client.do_put(flight.FlightDescriptor.for_path(table), schema, options)


def by_flight(server, rows: int) -> float:
    """Rows a second by Flight, in batches of 50,000."""
    made = list(batches(rows, 50_000))
    begun = time.monotonic()
    send_batches(server, "by_flight", made)
    until(server, "by_flight", sum(part.num_rows for part in made))
    return sum(part.num_rows for part in made) / (time.monotonic() - begun)


def send_batches(server, table: str, parts: list[pyarrow.Table]) -> None:
    """Sends batches by one stream of Flight, and waits until all are acknowledged."""
    writer, reader = put(server, table, parts[0].schema)
    for part in parts:
        writer.write_table(part)
    writer.done_writing()
    while reader.read() is not None:
        pass
    writer.close()


def single_rows_by_flight(server, rows: int) -> float:
    """Rows a second by Flight, each a batch of its own with an acknowledgement of its own, ``UNDER_WAY`` at a time."""
    single = list(batch(0, rows).to_batches(max_chunksize=1))
    begun = time.monotonic()
    writer, reader = put(server, "single_by_flight", single[0].schema)
    for number, part in enumerate(single):
        writer.write_batch(part)
        if number >= UNDER_WAY:
            json.loads(reader.read().to_pybytes())
    writer.done_writing()
    while reader.read() is not None:
        pass
    writer.close()
    until(server, "single_by_flight", rows)
    return rows / (time.monotonic() - begun)
