"""How soon rows are seen, and what queries take meanwhile."""

import itertools
import multiprocessing
import os
import pathlib
import re
import socket
import time
from dataclasses import dataclass

import pyarrow

from .figures import middle_and_last, milliseconds
from .lines import Senders
from .rates import batch, until


MESSAGE_ROWS = 50
MESSAGES_PER_SECOND = 1_000
ROWS_PER_SECOND = MESSAGE_ROWS * MESSAGES_PER_SECOND
SHARE_MIN = 0.95
"""Of that rate; below it the time that was measured is another rate's."""


@dataclass(frozen=True)
class Paced:
    """What messages took that were sent at a fixed rate."""

    times_ms: tuple[float, float]
    """Milliseconds: median and 99th percentile."""
    rate: float
    """Rows a second that were sent and acknowledged indeed."""

    def words(self) -> str:
        if self.rate < SHARE_MIN * ROWS_PER_SECOND:
            missed = f"MISSED THE RATE: less than {SHARE_MIN:.0%} of {ROWS_PER_SECOND:,}"
            return f"{milliseconds(self.times_ms)}, at {self.rate:,.0f} rows/s ({missed})"
        return f"{milliseconds(self.times_ms)}, at {self.rate:,.0f} rows/s"


def visible(server, ack: str, seconds: float) -> Paced:
    """From the first byte of a message of ``MESSAGE_ROWS`` rows to its acknowledgement, from which on they are seen."""
    messages = [message(rows, f"by_http_{ack}", ack) for rows in made(seconds)]
    with connected(server.http) as connection:
        return paced(lambda number: post(connection, messages[number]), seconds)


def connected(address: tuple[str, int]) -> socket.socket:
    """A connection that sends at once what it is given."""
    connection = socket.create_connection(address)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def post(connection: socket.socket, request: bytes) -> None:
    """Sends a request that stores rows, and waits for its acknowledgement.

    Raises
    ------
    RuntimeError
        If the rows weren't taken.
    """
    connection.sendall(request)
    answer = answered(connection)
    if not answer.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"rows weren't taken: {answer[:200]!r}")


def answered(connection: socket.socket) -> bytes:
    """An answer over HTTP that says how long it is."""
    answer = b""
    while part := connection.recv(1 << 16):
        answer += part
        head, end, body = answer.partition(b"\r\n\r\n")
        if end and len(body) >= int(re.search(rb"content-length: (\d+)", head)[1]):
            break
    return answer


def visible_from_python(server, ack: str, seconds: float) -> Paced:
    """The same from a frame in Python on, by ``splay.connect``."""
    import splay

    client = splay.connect(f"http://{server.http[0]}:{server.http[1]}")
    frames = made(seconds)
    return paced(lambda number: client.write(f"from_python_{ack}", frames[number], ack=ack), seconds)


def made(seconds: float) -> list[pyarrow.Table]:
    """The frames of so long a time, whose rows' times follow each other."""
    return [batch(MESSAGE_ROWS * number, MESSAGE_ROWS) for number in range(count(seconds))]


def count(seconds: float) -> int:
    """Messages of so long a time."""
    return max(1, int(seconds * MESSAGES_PER_SECOND))


def message(rows: pyarrow.Table, table: str, ack: str) -> bytes:
    """A request that stores rows."""
    body = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(body, rows.schema) as stream:
        stream.write_table(rows)
    content = body.getvalue().to_pybytes()
    head = f"POST /api/v1/write?table={table}&ack={ack} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n"
    return head.encode() + b"Content-Type: application/vnd.apache.arrow.stream\r\n\r\n" + content


def paced(send, seconds: float) -> Paced:
    """Calls ``send`` with the number of each message when it is due, or once the one before it has been acknowledged, for so long."""
    times: list[float] = []
    begun = time.monotonic()
    for number in range(count(seconds)):
        sent = time.monotonic()
        if sent - begun >= seconds:
            break
        send(number)
        times.append((time.monotonic() - sent) * 1000)
        # By the clock, not by the call before: who wakes late isn't late for all that comes.
        time.sleep(max(0.0, begun + (number + 1) / MESSAGES_PER_SECOND - time.monotonic()))
    return Paced(middle_and_last(times), len(times) * MESSAGE_ROWS / (time.monotonic() - begun))


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


HEAVY = (
    "select symbol, median(price), stddev(size), count(distinct size) from {table} group by symbol",
    "select size % 1000 k, avg(price), max(size) from {table} group by k order by 2",
    "select count(*) from (select row_number() over (order by price desc, size) n from {table}) where n % 2 = 0",
    "select count(distinct price) from {table}",
)
"""Statements that take both processors for a tenth of a second each, over a million rows."""

PAUSE = 0.01
"""Seconds between messages beside such statements."""


def beside_statements(server, rows: int, clients: int, seconds: float) -> tuple[tuple[float, float], tuple[float, float], float]:
    """Milliseconds until ``MESSAGE_ROWS`` rows are on disk, median and 99th percentile: without statements, and while so many clients ask for the heavy ones without a pause; statements a second.

    The clients are processes of their own, so that what is measured waits for the server and not for them.
    """
    senders = Senders(server.line, "asked", rows, 1)
    senders.begin()
    senders.wait()
    until(server, "asked", senders.rows)
    send = message(batch(0, MESSAGE_ROWS), "beside", "disk")
    with connected(server.http) as connection:
        idle = spaced(lambda: post(connection, send), seconds)
        answered, ended = multiprocessing.Value("l", 0), multiprocessing.Event()
        asking = [
            multiprocessing.Process(target=ask_on, args=(server, "asked", first, answered, ended)) for first in range(clients)
        ]
        for client in asking:
            client.start()
        try:
            # Until all of them are at work.
            time.sleep(1)
            before = answered.value
            busy = spaced(lambda: post(connection, send), seconds)
            rate = (answered.value - before) / seconds
        finally:
            ended.set()
            for client in asking:
                client.join()
    return idle, busy, rate


def ask_on(server, table: str, first: int, answered, ended) -> None:
    """Asks for the heavy statements in turn until it is told to end."""
    for statement in itertools.cycle(HEAVY[first % len(HEAVY) :] + HEAVY[: first % len(HEAVY)]):
        if ended.is_set():
            break
        server.ask(statement.format(table=table))
        with answered.get_lock():
            answered.value += 1


def spaced(send, seconds: float) -> tuple[float, float]:
    """What calls take with a pause behind each, for so long: milliseconds, median and 99th percentile."""
    times = []
    ended = time.monotonic() + seconds
    while time.monotonic() < ended:
        begun = time.monotonic()
        send()
        times.append((time.monotonic() - begun) * 1000)
        time.sleep(PAUSE)
    return middle_and_last(times)
