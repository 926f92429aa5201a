"""The page cache: dropped before a cold run, filled before the load of the write day.

A cold run is about data, so what a program consists of is held in the cache meanwhile: pages that are mapped stay when the
rest is dropped.
"""

import mmap
import os
import pathlib

DROP = pathlib.Path("/proc/sys/vm/drop_caches")
PROGRAM_ENDINGS = (".so", ".jar", ".jsa", ".pyc", ".py", "/modules")
"""Libraries, Java's archives and images of classes, Python's code."""


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


def is_program(path: str) -> bool:
    return path.endswith(PROGRAM_ENDINGS) or ".so." in path.rsplit("/", 1)[-1]


def programs(pids: list[int]) -> set[pathlib.Path]:
    """Program files that processes run, have mapped or have open."""
    found = set()
    for pid in pids:
        try:
            found.add(os.readlink(f"/proc/{pid}/exe"))
            opened = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd")]
            maps = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
        except OSError:
            # It ended meanwhile.
            continue
        mapped = [line.split(maxsplit=5)[-1] for line in maps]
        found.update(path for path in [*opened, *mapped] if path.startswith("/") and is_program(path))
    return {pathlib.Path(path) for path in found}


class Held:
    """Program files kept in the page cache until ``close``."""

    def __init__(self):
        self.maps: dict[pathlib.Path, mmap.mmap] = {}

    def add(self, paths) -> None:
        """Maps the files whole and reads them in; what isn't there or is empty is left out."""
        for path in set(map(pathlib.Path, paths)) - set(self.maps):
            try:
                with open(path, "rb") as file:
                    flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
                    self.maps[path] = mmap.mmap(file.fileno(), 0, flags=flags, prot=mmap.PROT_READ)
            except (OSError, ValueError):
                continue

    @property
    def bytes(self) -> int:
        return sum(map(len, self.maps.values()))

    def close(self) -> None:
        for held in self.maps.values():
            held.close()
        self.maps.clear()
