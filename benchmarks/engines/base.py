"""What an engine is to the benchmark.

Life of an engine in its worker, a process of its own:

- ``load(tables)`` makes its tables from the Parquet files, in ``folder``, once; not for engines that hold rows in memory
- ``open()`` makes it ready for questions; ``close()`` ends what it started
- ``prepare(question, parameters, variant)`` gives a call without arguments, which is what is timed: from sending the
  statement to holding the whole answer as columns; ``arrow(answer)`` makes a table of it outside of the clock
- ``prepared(…)`` gives the same of a statement that the engine has prepared before, ``unseen(…, mark)`` of a text that it has
  never been sent; each is ``None`` where the engine has no such thing
- ``forget()`` gives up what the engine keeps of its files, in the same process
- ``write_open()``, ``write(files)`` loads the write day from CSV until it can be queried and was synced; ``totals()`` counts what is there
"""

import gc
import os
import pathlib
from collections.abc import Mapping

Files = Mapping[str, list[pathlib.Path]]
"""Parquet files of each table, in the order of time, which is the order of arrival."""


class Skipped(Exception):
    """An engine can't be had here; the message says exactly why."""


class Base:
    """An engine; those below override what differs."""

    name = ""
    title = ""
    stores = "disk"
    """``disk`` or ``memory``. Those in memory have no cold runs, no size and no load of the write day."""
    requirements: tuple[str, ...] = ()
    """What pip installs into the engine's own virtual environment."""
    starts = "in the process of its worker"
    """How it starts."""
    is_server = False
    """Whether it answers from a process of its own. Then nothing has to be imported to ask it, and its version is asked once."""
    is_remote = False
    """Whether it is a server that the user started: it isn't started afresh, so there are no cold runs, and its memory isn't seen."""
    best = ""
    """Why this is its best."""
    answers = "Arrow table"
    """What the client holds when the clock stops."""
    transport = "in process"
    """How statements and answers travel."""
    takes_write_day = True
    """Whether it loads the write day; not where another engine's load is the same."""

    takes_cold = True
    """Whether it has cold runs; not where another engine's say the same."""
    settle_seconds = 0
    """How long all queries are asked in turn, off the clock, before a sitting: for engines that compile while they run."""
    layout: tuple[str, ...] = ()
    """Modules besides its own that its tables are made by: the tables are made anew when one changes."""
    shares = ""
    """The engine whose tables it reads, in the place of tables of its own."""

    def __init__(self, folder: pathlib.Path, threads: int, settings: Mapping[str, str]):
        self.folder = folder
        self.threads = threads
        self.settings = settings

    @classmethod
    def unavailable(cls, settings: Mapping[str, str]) -> str | None:
        """Why it can't be had, as far as can be said before anything is installed."""
        return None

    @classmethod
    def fetch(cls, cache: pathlib.Path, settings: Mapping[str, str]) -> None:
        """Gets what pip doesn't: runs in the runner, before the worker starts. Raises ``Skipped``."""

    def version(self) -> str:
        raise NotImplementedError

    def load(self, tables: Files) -> None:
        raise NotImplementedError

    def open(self) -> None:
        raise NotImplementedError

    def prepare(self, question, parameters, variant):
        raise NotImplementedError

    def prepared(self, question, parameters, variant):
        """As ``prepare``, of a statement that was prepared off the clock and gets the variant's values; ``None`` if there is none."""

    def unseen(self, question, parameters, variant, mark: int):
        """As ``prepare``, of a text that wasn't sent before: ``mark`` is another number each time. ``None`` for calls of a library."""

    def engine_ms(self) -> float | None:
        """Milliseconds of the last statement by the engine's own clock; ``None`` where it doesn't say. Asked off the clock."""
        return None

    def session(self):
        """What one more client asks by: something with ``prepare``. A thread of its own calls it."""
        return self

    @staticmethod
    def arrow(answer):
        return answer

    def forget(self) -> bool:
        """Opens the tables anew in the same process, so that only the page cache may hold them; ``False`` if it can't.

        A file that stays mapped isn't dropped from the page cache: then there is no such figure.
        """
        if self.stores != "disk" or self.is_server:
            return False
        self.close()
        gc.collect()
        held = is_mapped(self.folder)
        self.open()
        return not held

    def write_open(self, files: Mapping[str, pathlib.Path]) -> None:
        """Makes ready for ``write``, off the clock: starts a server, makes empty tables."""

    def write(self, files: Mapping[str, pathlib.Path]) -> None:
        raise NotImplementedError

    def totals(self) -> dict[str, float]:
        """``trades``, ``amount``, ``books``, ``a20s``: counts of rows and sums of two columns."""
        raise NotImplementedError

    def size(self) -> int:
        """Bytes on disk of the main tables."""
        return folder_bytes(self.folder)

    def close(self) -> None:
        """Ends what ``open`` started."""


TOTALS = {
    "trades": "SELECT count(*) FROM trades",
    "amount": "SELECT sum(amount) FROM trades",
    "books": "SELECT count(*) FROM books",
    "a20s": "SELECT sum(a20s) FROM books",
}
"""The totals as SQL that every engine with SQL understands."""


def folder_bytes(folder: pathlib.Path) -> int:
    """Bytes of all files below a folder, as far as they take space."""
    # Blocks, not lengths: files of memory-mapped stores have holes.
    return sum(
        min(path.stat().st_size, path.stat().st_blocks * 512)
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    )


def is_mapped(folder: pathlib.Path) -> bool:
    """Whether this process maps a file below a folder."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        return any(f" {folder.resolve()}/" in line for line in maps)


def sync() -> None:
    """Waits until all that was written is on disk."""
    os.sync()
