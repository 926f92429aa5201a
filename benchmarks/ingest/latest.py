"""How soon the latest rows of a real-time table are found as it grows and nothing of it is written down.

Before each question a row comes in, which has to be in the answer: no answer is one that was kept.
"""

import pathlib
import shutil
import time
from collections.abc import Iterator

import pyarrow

from .figures import middle_and_last
from .keeping import LIVE
from .latency import connected, message, post
from .lines import START_NS, STEP_NS
from .rates import batches, send_batches
from .servers import Splay

TABLE = "latest"
SYMBOLS = 1_000
STEPS = (1, 2, 4, 8, 16)
"""Lengths of the table, in sixteenths of the longest."""
BATCH_ROWS = 50_000
UNMEASURED = 20
"""Questions of each kind at each length before the first that counts: background work on what came in gives way by then."""

ONE = f"select time, symbol, price, size from {TABLE} where symbol = '{{}}' order by time desc limit 1"
ALL = f"select symbol, last(time), last(price), last(size) from {TABLE} group by symbol"


def latest(command: str, folder: pathlib.Path, rows: int, seconds: float) -> Iterator[tuple[int, tuple, tuple]]:
    """A table of ``SYMBOLS`` symbols that grows to ``rows`` rows. At each length: live rows, and milliseconds of one symbol's latest row
    and of all symbols' latest rows, median and 99th percentile each, asked for so many seconds.

    Raises
    ------
    RuntimeError
        If an answer lacks the row that came last, or if rows were written down.
    """
    server = Splay(command, folder, capture=LIVE)
    server.start()
    try:
        table = Growing(server)
        for step in STEPS:
            table.grow(rows * step // STEPS[-1])
            yield server.live_rows(TABLE), asked(table, one, seconds), asked(table, everyone, seconds)
            if server.live_rows(TABLE) != table.rows:
                raise RuntimeError(f"{server.live_rows(TABLE):,} of {table.rows:,} rows are in memory")
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


class Growing:
    """A table in order of time, and what its last row is."""

    def __init__(self, server: Splay):
        self.server, self.rows = server, 0
        self._connection = connected(server.http)

    def grow(self, rows: int) -> None:
        """Let it have so many rows at least; whole batches are added."""
        more = rows - self.rows
        if more > 0:
            parts = list(batches(more, min(more, BATCH_ROWS), first=self.rows, symbols=SYMBOLS))
            send_batches(self.server, TABLE, parts)
            self.rows += sum(part.num_rows for part in parts)

    def append(self) -> list:
        """Add a row of the next symbol, and give it: time, symbol, price and size, which no other row has."""
        row = [START_NS + self.rows * STEP_NS, f"SYM{self.rows % SYMBOLS:03}", self.rows / 64, -self.rows]
        times = pyarrow.array(row[:1], pyarrow.timestamp("ns", "UTC"))
        columns = {"time": times, "symbol": pyarrow.array(row[1:2]).dictionary_encode(), "price": row[2:3], "size": row[3:]}
        post(self._connection, message(pyarrow.table(columns), TABLE, "process"))
        self.rows += 1
        return row


def one(table: Growing, row: list) -> None:
    """Ask for the latest row of the symbol that has just had one."""
    answer = table.server.ask(ONE.format(row[1]))
    if [found[1:] for found in answer] != [row[1:]]:
        raise RuntimeError(f"the latest row is {row}, not {answer}")


def everyone(table: Growing, row: list) -> None:
    """Ask for the latest rows of all symbols."""
    found = {answer[0]: answer[2:] for answer in table.server.ask(ALL)}
    if len(found) != SYMBOLS or found[row[1]] != row[2:]:
        raise RuntimeError(f"the latest row is {row}, not {found.get(row[1])}, of {len(found)} symbols")


def asked(table: Growing, ask, seconds: float) -> tuple[float, float]:
    """Milliseconds of a question, each after a row of its own: median and 99th percentile."""
    times: list[float] = []
    for _ in range(UNMEASURED):
        ask(table, table.append())
    ended = time.monotonic() + seconds
    while time.monotonic() < ended or not times:
        row = table.append()
        begun = time.monotonic()
        ask(table, row)
        times.append((time.monotonic() - begun) * 1000)
    return middle_and_last(times)
