"""A fixed piece of work on all cores: whether the machine keeps its speed while something else is measured.

What a hypervisor gives to its other guests, two processors that share a core and a lower clock are not seen in any count of the
guest's own; they are seen in how long the same work takes.
"""

import statistics
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

REPEATS = 3


class Yardstick:
    """Work of some milliseconds for each of ``threads`` threads: a sort and a checksum, which wait for no lock and little memory."""

    def __init__(self, threads: int):
        self.pool = ThreadPoolExecutor(threads)
        self.threads = threads
        # A walk by a step that has no factor in common with the length meets every number once, in disorder.
        self.numbers = pa.array([step * 40_503 % 65_536 for step in range(65_536)], pa.int64())
        self.bytes = bytes(range(256)) * 16_384

    def work(self, _) -> None:
        pc.array_sort_indices(self.numbers)
        zlib.crc32(self.bytes)

    def milliseconds(self) -> float:
        """How long it takes now: the median of three times."""
        taken = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            list(self.pool.map(self.work, range(self.threads)))
            taken.append((time.perf_counter() - start) * 1e3)
        return statistics.median(taken)
