"""How far a question is from what the machine's memory allows.

The least that an answer costs is to read the bytes of the columns that are looked into, and to write those of the answer. SplayDB says
how many the first are (``bytes_scanned``: whole blocks that summaries answer for aren't among them, columns that are searched are).
The memory's speed is measured by adding up columns that are in no cache, with as many threads as each system has.
"""

import functools
import time
from concurrent.futures import ThreadPoolExecutor

import numpy

from .systems import THREADS

VALUES = 32 << 20
"""Numbers of eight bytes that each thread adds up: far more than caches hold."""

ROUNDS = 7


@functools.cache
def bytes_per_second() -> float:
    """What all threads together read; the best of some rounds."""
    columns = [numpy.ones(VALUES) for _ in range(THREADS)]
    best = float("inf")
    with ThreadPoolExecutor(THREADS) as threads:
        for _ in range(ROUNDS):
            start = time.perf_counter()
            list(threads.map(numpy.sum, columns))
            best = min(best, time.perf_counter() - start)
    return THREADS * VALUES * 8 / best


def table(outcomes) -> list[str]:
    """A row for each question that SplayDB answered: its bytes, the time that memory needs for them, and its own."""
    measured = [outcome for outcome in outcomes if outcome.moved_bytes is not None and "SplayDB" in outcome.cells]
    measured = [outcome for outcome in measured if outcome.cells["SplayDB"].timing]
    if not measured:
        return []
    rate = bytes_per_second()
    lines = [
        f"Against the memory, which {THREADS} threads read at {rate / 1e9:.1f} GB/s:",
        "",
        "| question | MB read | MB written | memory ms | SplayDB ms | times |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for outcome in measured:
        read, written = outcome.moved_bytes
        least = (read + written) / rate * 1e3
        taken = outcome.cells["SplayDB"].timing.median
        times = f"{taken / least:.1f}" if least >= 0.001 else ""
        lines.append(
            f"| {outcome.id} | {read / 1e6:.2f} | {written / 1e6:.2f} | {least:.3f} | {taken:.3f} | {times} |"
        )
    return [*lines, ""]
