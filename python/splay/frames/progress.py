"""Bars that show how far long statements of frames and loads of files are.

- They are drawn by tqdm, if it is installed, on standard error if that is a terminal, or in a notebook.
- A statement gets one when it has run for :data:`DELAY_SECONDS`; one that is faster costs a thread's start.
- Rows that were read are compared with those of the tables in the statement, so a bar may end early where an index leaves rows out.
  For files, servers and statements that run within one call only the time is shown.
"""

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from splay.frames.source import in_words_of_frames

if TYPE_CHECKING:
    from splay.frames.source import AnyAnswer, Source

DELAY_SECONDS = 2.0
"""Seconds after which a statement gets a bar."""
INTERVAL_SECONDS = 0.2
"""Seconds between two looks at a statement."""

_is_wanted: bool | None = None


def set_progress(is_shown: bool | None) -> None:
    """Say whether long statements of frames, and loads of files, show a bar. It needs tqdm.

    Parameters
    ----------
    is_shown
        None, the default: on terminals and in notebooks.

    >>> splay.set_progress(False)
    >>> splay.set_progress(None)
    """
    global _is_wanted
    if is_shown:
        _bars()
    _is_wanted = is_shown


def _is_shown() -> bool:
    if _is_wanted is not None:
        return _is_wanted
    # Import of the module is no sign of a notebook; a kernel's class of standard error is.
    return sys.stderr is not None and (sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel"))


def _bars() -> Any:
    """tqdm's class of bars; that of notebooks where these can draw it.

    Raises
    ------
    ImportError
        If tqdm is not installed.
    """
    try:
        import tqdm
    except ImportError as error:
        raise ImportError("bars need tqdm, which splay doesn't install: pip install tqdm") from error
    if type(sys.stderr).__module__.startswith("ipykernel"):
        try:
            import ipywidgets  # noqa: F401
            import tqdm.notebook

            return tqdm.notebook.tqdm
        except ImportError:
            pass
    return tqdm.tqdm


class Watch:
    """Watches a statement while the block runs: ``with Watch(source, tables) as start: start(sql)``. Errors speak of frames then."""

    def __init__(self, source: "Source", tables: "Callable[[], int | None]"):
        self._source, self._tables = source, tables
        self._answer: AnyAnswer | None = None
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "Callable[[str], AnyAnswer]":
        if _is_shown():
            try:
                bars = _bars()
            except ImportError:
                return self._start
            self._thread = threading.Thread(target=self._watch, args=(bars,), daemon=True)
            self._thread.start()
        return self._start

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        in_words_of_frames(error)
        if self._thread is not None:
            self._is_over.set()
            self._thread.join()

    def _start(self, statement: str) -> "AnyAnswer":
        self._answer = self._source.sql(statement)
        return self._answer

    def _watch(self, bars: Any) -> None:
        if self._is_over.wait(DELAY_SECONDS):
            return
        total = self._tables()
        shape = {} if total else {"bar_format": "{desc}: {elapsed}"}
        with bars(total=total, desc="rows", unit=" rows", unit_scale=True, file=None, leave=False, **shape) as bar:
            while not self._is_over.wait(INTERVAL_SECONDS):
                stats = getattr(self._answer, "stats", None)
                if total and stats is not None:
                    bar.n = min(total, stats.rows_scanned)
                bar.refresh()


class Load:
    """Shows how far a load is: ``with Load() as told: db.load(..., progress=told)``."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._bars: Any = None
        self._bar: Any = None

    def __enter__(self) -> "Callable[[int, int], object] | None":
        if not _is_shown():
            return None
        try:
            self._bars = _bars()
        except ImportError:
            return None
        return self._update

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def _update(self, read: int, total: int) -> None:
        if self._bar is None:
            if time.monotonic() < self._begin + DELAY_SECONDS:
                return
            self._bar = self._bars(total=total, desc="load", unit="B", unit_scale=True, leave=False)
        self._bar.update(read - self._bar.n)
