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


def trades(table: str, first: int, rows: int, producer: int, producers: int) -> bytes:
    """Lines of one of several producers, in order of time, of ``SYMBOLS`` symbols; ``first`` numbers the first row."""
    numbers = random.Random(producer)
    lines = []
    for row in range(rows):
        at = START_NS + (first + row * producers + producer) * STEP_NS
        symbol, side = numbers.randrange(SYMBOLS), ("buy", "sell")[numbers.randrange(2)]
        price, size = 100 + numbers.randrange(8000) / 64, numbers.randrange(1, 1000)
        lines.append(f"{table},symbol=SYM{symbol:03},side={side} price={price},size={size}i {at}\n")
    return "".join(lines).encode()


def _send(address, table: str, first: int, rows: int, producer: int, producers: int, rate: float, ready, go) -> None:
    content = trades(table, first, rows, producer, producers)
    with socket.create_connection(address) as connection:
        ready.release()
        go.wait()
        if rate <= 0:
            connection.sendall(content)
            return
        # Slices of ten milliseconds.
        begun, sent = time.monotonic(), 0
        bytes_per_second = rate * len(content) / rows
        while sent < len(content):
            due = min(len(content), int((time.monotonic() - begun) * bytes_per_second) + 1)
            if due > sent:
                connection.sendall(content[sent:due])
                sent = due
            time.sleep(0.01)


class Senders:
    """Producers in processes of their own, which have their lines ready before they begin."""

    def __init__(self, address, table: str, rows: int, producers: int, rate: float = 0.0, first: int = 0):
        """``rows`` and ``rate`` (rows a second, 0 for as fast as it goes) are of all producers together."""
        context = multiprocessing.get_context("fork")
        ready, self._go = context.Semaphore(0), context.Event()
        share = rows // producers
        self._processes = [
            context.Process(
                target=_send, args=(address, table, first, share, number, producers, rate / producers, ready, self._go)
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
        """Wait until all is handed to the system."""
        for process in self._processes:
            process.join()
