"""How soon rows are seen, and what queries take meanwhile."""

import os
import pathlib
import time

from .figures import middle_and_last
from .lines import Senders
from .rates import batch, until


def visible(server, ack: str, seconds: float) -> tuple[float, float]:
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
    return middle_and_last(times)


def sync(folder: pathlib.Path, count: int) -> tuple[float, float]:
    """What the machine itself needs for a write of 4 KiB and its ``fdatasync``: milliseconds, median and 99th percentile."""
    times = []
    with open(folder / "sync", "wb", buffering=0) as file:
        for _ in range(count):
            begun = time.monotonic()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            times.append((time.monotonic() - begun) * 1000)
    return middle_and_last(times)


def query(server, table: str, seconds: float) -> tuple[float, float]:
    """A minute of one symbol by second, asked again and again: milliseconds, median and 99th percentile."""
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
    return middle_and_last(times)


def query_idle_and_busy(server, rows: int, seconds: float, rate: int = 200_000):
    """The same over ``rows`` rows while nothing comes in, and while ``rate`` rows a second do."""
    senders = Senders(server.line, "queried", rows, 1)
    senders.begin()
    senders.wait()
    until(server, "queried", senders.rows)
    idle = query(server, "queried", seconds)
    senders = Senders(server.line, "queried", int(rate * (seconds + 2)), 1, rate=rate, first=senders.rows)
    senders.begin()
    time.sleep(1)
    busy = query(server, "queried", seconds)
    senders.wait()
    return idle, busy
