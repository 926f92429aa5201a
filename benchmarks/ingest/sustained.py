"""Line protocol for a minute: rows that are seen and rows that are in files by then, sent in order of time and not.

Short rounds have the warm-up of Java's compiler in them, and rows that are in memory alone at their end. Here each producer makes its
lines as it sends them: a block of lines whose times are written anew, so that memory doesn't limit how long it goes on. One producer
sends in order of time; the times of two interleave, so that each message has rows between those of another.
"""

import multiprocessing
import socket
import time
from dataclasses import dataclass

import numpy as np

from .figures import millions
from .lines import START_NS, STEP_NS, trades
from .rates import until

BLOCK_ROWS = 50_000
DIGITS = 19
"""Of a time in nanoseconds."""


@dataclass(frozen=True)
class Sustained:
    """How many rows there were, seconds until all were seen, and how many of them were in the table's files then.

    Files needn't be synced: QuestDB leaves that to the system, SplayDB has synced its journal within the last second.
    """

    rows: int
    seconds: float
    in_files: int

    def words(self) -> str:
        return f"{millions(self.rows / self.seconds)} seen, {millions(self.in_files / self.seconds)} in files, of {self.rows / 1e6:.1f} M rows"


class Block:
    """Lines of one producer, of which the times move on from block to block."""

    def __init__(self, table: str, producer: int, producers: int):
        lines = [line.encode() for line in trades(table, 0, BLOCK_ROWS, producer, producers)]
        self.bytes = np.frombuffer(b"".join(lines), np.uint8).copy()
        ends = np.cumsum([len(line) for line in lines])
        # A time stands before the end of its line.
        self.places = (ends - 1 - DIGITS)[:, None] + np.arange(DIGITS)
        self.first = START_NS + (np.arange(BLOCK_ROWS, dtype=np.int64) * producers + producer) * STEP_NS
        self.step = BLOCK_ROWS * producers * STEP_NS

    def at(self, number: int) -> memoryview:
        """Block ``number``."""
        times = self.first + number * self.step
        for place in range(DIGITS - 1, -1, -1):
            times, digit = np.divmod(times, 10)
            self.bytes[self.places[:, place]] = digit + ord("0")
        return memoryview(self.bytes)


def produce(address, table: str, producer: int, producers: int, seconds: float, ready, go, sent) -> None:
    block, number = Block(table, producer, producers), 0
    with socket.create_connection(address) as connection:
        ready.release()
        go.wait()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            connection.sendall(block.at(number))
            number += 1
    sent.value = number * BLOCK_ROWS


def measure(server, table: str, producers: int, seconds: float) -> Sustained:
    """Sends for so long, and waits until all is seen.

    Raises
    ------
    RuntimeError
        If a producer failed.
    """
    context = multiprocessing.get_context("fork")
    ready, go = context.Semaphore(0), context.Event()
    counts = [context.Value("q", 0) for _ in range(producers)]
    processes = [
        context.Process(target=produce, args=(server.line, table, number, producers, seconds, ready, go, count))
        for number, count in enumerate(counts)
    ]
    for process in processes:
        process.start()
    for _ in processes:
        ready.acquire()
    go.set()
    begun = time.monotonic()
    for process in processes:
        process.join()
        if process.exitcode:
            raise RuntimeError(f"a producer ended with {process.exitcode}")
    rows = sum(count.value for count in counts)
    until(server, table, rows)
    taken = time.monotonic() - begun
    return Sustained(rows, taken, rows - server.live_rows(table))
