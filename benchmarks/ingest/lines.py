"""Trades as line protocol, made before anything is timed, and their senders."""

import multiprocessing
import random
import socket
import time

START_NS = 1_700_000_000_000_000_000
"""Time of the first trade, in nanoseconds since the epoch."""

SYMBOLS = 500
STEP_NS = 5_000
"""From one trade to the next: 200,000 a second."""
CONNECTIONS = 8
"""Of each process that sends requests one row at a time: as many are under way."""


def trades(table: str, first: int, rows: int, producer: int, producers: int) -> list[str]:
    """Lines of one of several producers, in order of time, of ``SYMBOLS`` symbols; ``first`` numbers the first row."""
    numbers = random.Random(producer)
    lines = []
    for row in range(rows):
        at = START_NS + (first + row * producers + producer) * STEP_NS
        symbol, side = numbers.randrange(SYMBOLS), ("buy", "sell")[numbers.randrange(2)]
        price, size = 100 + numbers.randrange(8000) / 64, numbers.randrange(1, 1000)
        lines.append(f"{table},symbol=SYM{symbol:03},side={side} price={price},size={size}i {at}\n")
    return lines


def stream(lines: list[str], rate: float):
    """Sends lines as one stream of bytes, ``rate`` rows a second, 0 for as fast as it goes."""
    content = "".join(lines).encode()

    def send(address) -> None:
        with socket.create_connection(address) as connection:
            if rate <= 0:
                connection.sendall(content)
                return
            # Slices of ten milliseconds.
            begun, sent = time.monotonic(), 0
            bytes_per_second = rate * len(content) / len(lines)
            while sent < len(content):
                due = min(len(content), int((time.monotonic() - begun) * bytes_per_second) + 1)
                if due > sent:
                    connection.sendall(content[sent:due])
                    sent = due
                time.sleep(0.01)

    return send


def one_by_one(lines: list[str], _rate: float):
    """Sends each line by a call of its own, without waiting for others to join it."""
    messages = [line.encode() for line in lines]

    def send(address) -> None:
        with socket.create_connection(address) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for message in messages:
                connection.sendall(message)

    return send


def requests(lines: list[str], _rate: float):
    """Sends each line as a request over HTTP that is answered once the row is acknowledged as `process`."""
    head = "POST /api/v2/write?precision=ns&ack=process HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n{}"
    messages = [head.format(len(line), line).encode() for line in lines]

    def send(address) -> None:
        connections = [socket.create_connection(address) for _ in range(CONNECTIONS)]
        for connection in connections:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(messages), CONNECTIONS):
            under_way = list(zip(connections, messages[start : start + CONNECTIONS], strict=False))
            for connection, message in under_way:
                connection.sendall(message)
            for connection, _ in under_way:
                expect_taken(connection)
        for connection in connections:
            connection.close()

    return send


def expect_taken(connection: socket.socket) -> None:
    """Reads one answer, which has no body.

    Raises
    ------
    RuntimeError
        If the row wasn't taken.
    """
    answer = b""
    while b"\r\n\r\n" not in answer:
        part = connection.recv(4096)
        if not part:
            break
        answer += part
    if not answer.startswith(b"HTTP/1.1 204"):
        raise RuntimeError(f"a row wasn't taken: {answer[:200]!r}")


def _send(kind, address, lines_of, rate: float, ready, go) -> None:
    send = kind(trades(*lines_of), rate)
    ready.release()
    go.wait()
    send(address)


class Senders:
    """Producers in processes of their own, which have their lines ready before they begin."""

    def __init__(self, address, table: str, rows: int, producers: int, rate: float = 0.0, first: int = 0, kind=stream):
        """``rows`` and ``rate`` (rows a second, 0 for as fast as it goes) are of all producers together."""
        context = multiprocessing.get_context("fork")
        ready, self._go = context.Semaphore(0), context.Event()
        share = rows // producers
        self._processes = [
            context.Process(
                target=_send,
                args=(kind, address, (table, first, share, number, producers), rate / producers, ready, self._go),
            )
            for number in range(producers)
        ]
        self.rows = share * producers
        for process in self._processes:
            process.start()
        for _ in self._processes:
            ready.acquire()

    def begin(self) -> float:
        """Let them go; gives the time of that by :func:`time.monotonic`."""
        self._go.set()
        return time.monotonic()

    def wait(self) -> None:
        """Wait until all is handed to the system.

        Raises
        ------
        RuntimeError
            If a producer failed.
        """
        for process in self._processes:
            process.join()
            if process.exitcode:
                raise RuntimeError(f"a producer ended with {process.exitcode}")
