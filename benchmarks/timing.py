"""Times of calls, for benchmarks that set statements side by side."""

import time
from collections.abc import Callable


def milliseconds(run: Callable[[], object], repeats: int) -> list[float]:
    """How long each of some runs takes."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1000)
    return times
