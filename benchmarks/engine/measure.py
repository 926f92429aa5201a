"""How long an answer takes: warm, in this process, alone.

The comparison is the first run of each system and warms it. Then each runs its rounds without the others between: the median
counts, the best is kept beside it. Short questions get more rounds, since their times scatter more.
"""

import gc
import statistics
import time
from dataclasses import dataclass

ROUNDS_MAX = 250


@dataclass(frozen=True)
class Rounds:
    """How often a question is timed: ``least`` times, and on until that took ``seconds``, or to ``ROUNDS_MAX``."""

    least: int
    seconds: float = 0.25


@dataclass
class Timing:
    """Milliseconds of one question on one system."""

    median: float
    best: float
    rounds: int

    @classmethod
    def of(cls, seconds: list[float]) -> "Timing":
        return cls(statistics.median(seconds) * 1e3, min(seconds) * 1e3, len(seconds))


def seconds_of(call) -> float:
    """One run. The answer is dropped after the clock stopped."""
    start = time.perf_counter()
    answer = call()
    seconds = time.perf_counter() - start
    del answer
    return seconds


def measure(prepare, rounds: Rounds) -> Timing:
    """Times ``prepare(run)``, a call for each run."""
    seconds_of(prepare(0))
    gc.collect()
    gc.disable()
    try:
        seconds = []
        while len(seconds) < rounds.least or (len(seconds) < ROUNDS_MAX and sum(seconds) < rounds.seconds):
            seconds.append(seconds_of(prepare(len(seconds))))
    finally:
        gc.enable()
    return Timing.of(seconds)


def percentile(values: list[float], share: float) -> float:
    """The value that ``share`` of all don't exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
