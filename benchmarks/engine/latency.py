"""Many small statements: how long each takes, and how many go in a second."""

import threading
import time
from collections.abc import Callable, Sequence

from .measure import percentile

SECONDS = 2.0
"""How long statements are counted."""


def one_by_one(calls: Sequence[Callable]) -> dict[str, float]:
    """P50 and P99 of the calls, each made once, in microseconds."""
    micros = []
    for call in calls:
        start = time.perf_counter()
        call()
        micros.append((time.perf_counter() - start) * 1e6)
    return {"p50": round(percentile(micros, 0.5), 1), "p99": round(percentile(micros, 0.99), 1)}


def rate(calls_of: Callable[[int], Sequence[Callable]], threads: int) -> float:
    """Calls in a second by some threads; ``calls_of(place)`` are those of one thread, made over and over.

    Raises
    ------
    RuntimeError
        If a call failed.
    """
    counts, errors = [0] * threads, []
    barrier, stop = threading.Barrier(threads + 1), threading.Event()

    def work(place: int) -> None:
        try:
            calls = calls_of(place)
            calls[0]()
            barrier.wait()
            while not stop.is_set():
                calls[counts[place] % len(calls)]()
                counts[place] += 1
        except threading.BrokenBarrierError:
            pass
        except Exception as error:  # noqa: BLE001
            errors.append(error)
            barrier.abort()

    workers = [threading.Thread(target=work, args=(place,)) for place in range(threads)]
    for worker in workers:
        worker.start()
    start = 0.0
    try:
        barrier.wait()
        start = time.perf_counter()
        time.sleep(SECONDS)
    except threading.BrokenBarrierError:
        pass
    stop.set()
    for worker in workers:
        worker.join()
    if errors:
        raise RuntimeError(str(errors[0])) from errors[0]
    return sum(counts) / (time.perf_counter() - start)
