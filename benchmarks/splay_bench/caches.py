"""The page cache: dropped before a cold run, filled before the load of the write day."""

import os
import pathlib

DROP = pathlib.Path("/proc/sys/vm/drop_caches")


def droppable() -> str | None:
    """Why the page cache can't be dropped; ``None`` if it can."""
    if not DROP.exists():
        return f"{DROP} doesn't exist here: cold runs need Linux"
    if not os.access(DROP, os.W_OK):
        return f"{DROP} isn't writable: cold runs need root"
    return None


def drop() -> None:
    """Writes dirty pages and drops all clean ones, of the whole machine."""
    os.sync()
    DROP.write_text("3\n")


def fill(path: pathlib.Path) -> None:
    """Reads a file once."""
    with open(path, "rb") as file:
        while file.read(1 << 24):
            pass


def libraries(pid: int) -> list[pathlib.Path]:
    """Program files that a process has mapped: they are read in again after a drop, for a cold run is about data."""
    found = set()
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        for line in maps:
            parts = line.split(maxsplit=5)
            if len(parts) == 6 and parts[5].startswith("/") and ".so" in parts[5]:
                found.add(pathlib.Path(parts[5].strip()))
    return sorted(path for path in found if path.exists())
