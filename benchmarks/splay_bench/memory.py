"""Peak resident memory of an engine, all its processes together, by the kernel's own high-water marks.

Linux only: writing ``5`` to ``/proc/PID/clear_refs`` lets a process' mark start again, ``VmHWM`` is the mark. Resident means
mapped files too, as far as they were touched; pages that several processes share count in each.
"""

import contextlib
import pathlib
from dataclasses import dataclass


@dataclass
class Peak:
    """Bytes; ``None`` where the system doesn't say."""

    before: int | None = None
    peak: int | None = None

    @property
    def growth(self) -> int | None:
        return None if self.peak is None or self.before is None else max(0, self.peak - self.before)


def family(pid: int) -> list[int]:
    """A process with all its descendants."""
    found, waiting = [], [pid]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                waiting += map(int, children.read_text().split())
    return found


def status(pid: int, field: str) -> int:
    """A field of a process' status in bytes; 0 if it has gone."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0


@contextlib.contextmanager
def watched(pid: int):
    """Gives a ``Peak`` that is filled in when the block ends."""
    peak = Peak()
    members = family(pid)
    try:
        for member in members:
            pathlib.Path(f"/proc/{member}/clear_refs").write_text("5")
    except OSError:
        yield peak
        return
    peak.before = sum(status(member, "VmRSS") for member in members)
    yield peak
    # Processes that came meanwhile, such as the back end of a new connection, count as well.
    peak.peak = sum(status(member, "VmHWM") for member in family(pid)) or None
