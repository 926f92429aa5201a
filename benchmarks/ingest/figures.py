"""One measured figure with what it was wanted to be, and how latencies are summed up."""

import statistics
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """A line of the table; all but ``what`` as words."""

    what: str
    measured: str
    wanted: str = ""
    rival: str = ""
    """The same of QuestDB, where it does the same."""

    def line(self) -> str:
        rival = f"; QuestDB {self.rival}" if self.rival else ""
        wanted = f" (wanted {self.wanted})" if self.wanted else ""
        return f"{self.what}: {self.measured}{rival}{wanted}"


def millions(rate: float) -> str:
    """Rows a second, in millions."""
    return f"{rate / 1e6:.2f} M rows/s"


def percentile(values: list[float], percent: float) -> float:
    """A percentile, by the nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def middle_and_last(values: list[float]) -> tuple[float, float]:
    """Median and 99th percentile."""
    return statistics.median(values), percentile(values, 99)


def milliseconds(pair: tuple[float, float]) -> str:
    return f"P50 {pair[0]:.2f} ms, P99 {pair[1]:.2f} ms"
