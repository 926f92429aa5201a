"""Measures capture: ``python -m ingest`` with ``benchmarks`` on the path, or ``make bench-ingest``.

Everything runs on this machine, producers included. Each figure is printed with what it was wanted to be.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import tempfile
import time

import pyarrow
from pyarrow import compute, flight

from ingest.lines import START_NS, STEP_NS, SYMBOLS, Senders
from ingest.servers import QuestDB, Splay


def percentile(values: list[float], percent: float) -> float:
    """A percentile, by the nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def until(server, table: str, rows: int) -> None:
    """Wait until a table has so many rows."""
    while server.count(table) < rows:
        time.sleep(0.02)


def line_rate(server, rows: int, producers: int, round_number: int) -> float:
    """Rows a second by line protocol over TCP, from the first byte until all can be queried."""
    senders = Senders(server.line, f"trades{round_number}", rows, producers)
    begun = senders.begin()
    senders.wait()
    until(server, f"trades{round_number}", senders.rows)
    return senders.rows / (time.monotonic() - begun)


def batch(start: int, rows: int) -> pyarrow.Table:
    """Trades as Arrow, in order of time."""
    numbers = [(start + row) * 2_654_435_761 >> 7 for row in range(rows)]
    symbols = pyarrow.array([f"SYM{number % SYMBOLS:03}" for number in numbers]).dictionary_encode()
    times = pyarrow.array([START_NS + (start + row) * STEP_NS for row in range(rows)], pyarrow.timestamp("ns", "UTC"))
    prices = pyarrow.array([100 + number % 8000 / 64 for number in numbers])
    sizes = pyarrow.array([number % 1000 for number in numbers])
    return pyarrow.table({"time": times, "symbol": symbols, "price": prices, "size": sizes})


def flight_rate(server: Splay, rows: int) -> float:
    """Rows a second by Flight, in batches of 50,000, acknowledged as ``process``."""
    first = batch(0, 50_000)
    nanoseconds = first["time"].cast(pyarrow.int64())
    batches = []
    for start in range(0, rows, 50_000):
        times = compute.add(nanoseconds, start * STEP_NS).cast(pyarrow.timestamp("ns", "UTC"))
        batches.append(first.set_column(0, "time", times))
    client = flight.connect(f"grpc://{server.flight[0]}:{server.flight[1]}")
    descriptor = flight.FlightDescriptor.for_path("by_flight")
    begun = time.monotonic()
    options = flight.FlightCallOptions(headers=[(b"splay-ack", b"process")])
    writer, reader = client.do_put(descriptor, batches[0].schema, options)
    sent = 0
    for part in batches:
        writer.write_table(part)
        sent += part.num_rows
    writer.done_writing()
    while reader.read() is not None:
        pass
    writer.close()
    until(server, "by_flight", sent)
    return sent / (time.monotonic() - begun)


def visible(server: Splay, ack: str, seconds: float) -> tuple[float, float]:
    """Milliseconds from sending 50 rows to their acknowledgement, from which on they are seen, at 1,000 batches a second at most:
    median and 99th percentile."""
    import splay

    client = splay.connect(f"http://{server.http[0]}:{server.http[1]}")
    frames = [batch(start, 50) for start in range(0, 50_000, 50)]
    times: list[float] = []
    ended = time.monotonic() + seconds
    while time.monotonic() < ended:
        sent = time.monotonic()
        client.write(f"by_http_{ack}", frames[len(times) % len(frames)], ack=ack)
        times.append((time.monotonic() - sent) * 1000)
        time.sleep(max(0.0, 0.001 - (time.monotonic() - sent)))
    return statistics.median(times), percentile(times, 99)


def sync_milliseconds(folder: pathlib.Path, count: int) -> tuple[float, float]:
    """What the machine itself needs for a write of 4 KiB and its ``fdatasync``: median and 99th percentile."""
    times = []
    with open(folder / "sync", "wb", buffering=0) as file:
        for _ in range(count):
            begun = time.monotonic()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            times.append((time.monotonic() - begun) * 1000)
    return statistics.median(times), percentile(times, 99)


def query_milliseconds(server: Splay, table: str, seconds: float) -> tuple[float, float]:
    """A minute of one symbol by second, asked again and again: median and 99th percentile."""
    statement = (
        f"select time_bucket(interval '1 second', time) s, last(price), sum(size) from {table} "
        "where symbol = 'SYM007' group by 1 order by 1 desc limit 60"
    )
    times = []
    ended = time.monotonic() + seconds
    while time.monotonic() < ended:
        begun = time.monotonic()
        server.ask(statement)
        times.append((time.monotonic() - begun) * 1000)
    return statistics.median(times), percentile(times, 99)


def main() -> None:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(prog="ingest", description=__doc__.splitlines()[0])
    parser.add_argument("--splay", default="target/release/splay", help="the command")
    parser.add_argument("--rows", type=int, default=4_000_000, help="rows of each round (default 4,000,000)")
    parser.add_argument("--producers", type=int, default=2, help="processes that send lines (default 2)")
    parser.add_argument("--seconds", type=float, default=5, help="length of the runs at a fixed rate (default 5)")
    parser.add_argument("--no-questdb", action="store_true", help="leave QuestDB out")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ingest-", dir=pathlib.Path(options.splay).resolve().parents[1]))
    try:
        measure(options, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(options: argparse.Namespace, folder: pathlib.Path) -> None:
    """All figures, one line each."""
    splay = Splay(options.splay, folder / "splay")
    splay.start()
    before = splay.resident_bytes()
    rates = [line_rate(splay, options.rows, options.producers, number) for number in range(3)]
    print(f"line protocol over TCP: {statistics.median(rates) / 1e6:.2f} M rows/s (wanted 1)", flush=True)
    if not options.no_questdb:
        rival = QuestDB(folder / "questdb", QuestDB.fetch(pathlib.Path(options.splay).resolve().parents[1] / "bench" / "downloads"))
        rival.start()
        theirs = [line_rate(rival, options.rows, options.producers, number) for number in range(3)]
        rival.stop()
        print(f"  {rival.name}: {statistics.median(theirs) / 1e6:.2f} M rows/s", flush=True)
    rate = flight_rate(splay, max(options.rows, 5_000_000))
    print(f"Flight, batches of 50,000: {rate / 1e6:.2f} M rows/s (wanted 5)", flush=True)
    sync = sync_milliseconds(folder, 500)
    print(f"write and fdatasync of this machine: P50 {sync[0]:.2f} ms, P99 {sync[1]:.2f} ms")
    for ack, wanted in [("process", "P99 1 ms"), ("disk", "P99 10 ms or 3 times the machine's sync")]:
        middle, last = visible(splay, ack, options.seconds)
        print(f"sent to visible, {ack}: P50 {middle:.2f} ms, P99 {last:.2f} ms (wanted {wanted})", flush=True)
    senders = Senders(splay.line, "queried", options.rows // 4, 1)
    senders.begin()
    senders.wait()
    until(splay, "queried", senders.rows)
    idle = query_milliseconds(splay, "queried", options.seconds)
    rows = int(200_000 * (options.seconds + 2))
    senders = Senders(splay.line, "queried", rows, 1, rate=200_000, first=senders.rows)
    senders.begin()
    time.sleep(1)
    busy = query_milliseconds(splay, "queried", options.seconds)
    senders.wait()
    print(
        f"query idle: P50 {idle[0]:.2f} ms, P99 {idle[1]:.2f} ms; at 200,000 rows/s: P50 {busy[0]:.2f} ms, "
        f"P99 {busy[1]:.2f} ms ({busy[1] / idle[1]:.1f} times; wanted 2)",
        flush=True,
    )
    total = sum(splay.count(f"trades{number}") for number in range(3))
    live = splay.resident_bytes() - before
    print(f"memory beyond the start after all of it: {live / 1e6:.0f} MB")
    journal = sum(file.stat().st_size for file in (folder / "splay" / ".journal").iterdir())
    splay.kill()
    seconds = splay.start()
    print(f"start after kill -9: {seconds:.2f} s over {journal / 1e9:.2f} GB of journal (wanted 5 s per GB)")
    assert total == sum(splay.count(f"trades{number}") for number in range(3)), "rows were lost"
    splay.stop()


if __name__ == "__main__":
    main()
