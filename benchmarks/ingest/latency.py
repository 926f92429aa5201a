"""How soon rows are seen, and what queries take meanwhile."""

import os
import pathlib
import re
import socket
import time

import pyarrow

from .figures import middle_and_last
from .lines import Senders
from .rates import batch, until


def visible(server, ack: str, seconds: float) -> tuple[float, float]:
    """Milliseconds from the first byte of a message of 50 rows to its acknowledgement, from which on they are seen, at 1,000 messages
    a second at most: median and 99th percentile."""
    messages = [message(rows, f"by_http_{ack}", ack) for rows in fifties(seconds)]
    with socket.create_connection(server.http) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def send(number: int) -> None:
            connection.sendall(messages[number])
            answer = answered(connection)
            if not answer.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"rows weren't taken: {answer[:200]!r}")

        return paced(send, seconds)


def answered(connection: socket.socket) -> bytes:
    """An answer over HTTP that says how long it is."""
    answer = b""
    while part := connection.recv(1 << 16):
        answer += part
        head, end, body = answer.partition(b"\r\n\r\n")
        if end and len(body) >= int(re.search(rb"content-length: (\d+)", head)[1]):
            break
    return answer


def visible_from_python(server, ack: str, seconds: float) -> tuple[float, float]:
    """The same from a frame in Python on, by ``splay.connect``."""
    import splay

    client = splay.connect(f"http://{server.http[0]}:{server.http[1]}")
    frames = fifties(seconds)
    return paced(lambda number: client.write(f"from_python_{ack}", frames[number], ack=ack), seconds)


def fifties(seconds: float) -> list[pyarrow.Table]:
    """Frames of 50 rows, whose times follow each other, for so long."""
    return [batch(50 * number, 50) for number in range(int(seconds * 1000) + 1)]


def message(rows: pyarrow.Table, table: str, ack: str) -> bytes:
    """A request that stores rows."""
    body = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(body, rows.schema) as stream:
        stream.write_table(rows)
    content = body.getvalue().to_pybytes()
    head = f"POST /api/v1/write?table={table}&ack={ack} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n"
    return head.encode() + b"Content-Type: application/vnd.apache.arrow.stream\r\n\r\n" + content


def paced(send, seconds: float) -> tuple[float, float]:
    """Milliseconds that a call takes, with the number of the call, 1,000 times a second at most."""
    times: list[float] = []
    ended = time.monotonic() + seconds
    while time.monotonic() < ended and len(times) <= seconds * 1000:
        begun = time.monotonic()
        send(len(times))
        times.append((time.monotonic() - begun) * 1000)
        time.sleep(max(0.0, 0.001 - (time.monotonic() - begun)))
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
