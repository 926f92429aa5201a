"""How much of the processors others used while something was measured: whether the machine was quiet.

Linux only. Others are all processes that don't descend from the runner, and what a hypervisor kept for itself.
"""

import contextlib
import os
import pathlib
import time
from dataclasses import dataclass

from .memory import family

TICKS = os.sysconf("SC_CLK_TCK")
QUIET_CORES = 0.1
"""Others that keep no more cores busy than this leave a machine quiet."""
STEADY = 1.25
"""So far the yardstick's 95th percentile may be above its 5th on a machine that keeps its speed."""


def busy_seconds() -> float | None:
    """Seconds that all processors were at work, or taken away, since the machine's start; ``None`` where it isn't told."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        line = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0]
        user, nice, system, _, _, interrupts, soft, stolen = map(int, line.split()[1:9])
        return (user + nice + system + interrupts + soft + stolen) / TICKS
    return None


def own_seconds() -> float:
    """Seconds of processor time of this process, its descendants, and those of them that have ended."""
    total = 0
    for pid in family(os.getpid()):
        with contextlib.suppress(OSError):
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += sum(map(int, fields[11:15]))
    return total / TICKS


@dataclass
class Others:
    """Cores that others kept busy, on average; ``None`` where it isn't told."""

    cores: float | None = None


@contextlib.contextmanager
def watched():
    """Gives an ``Others`` that is filled in when the block ends. Nothing that was started inside may have lost its parent."""
    others = Others()
    busy, own, start = busy_seconds(), own_seconds(), time.monotonic()
    yield others
    seconds = time.monotonic() - start
    if busy is not None and seconds > 0:
        others.cores = max(0.0, (busy_seconds() - busy - (own_seconds() - own)) / seconds)
