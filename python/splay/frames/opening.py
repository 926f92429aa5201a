"""Where frames begin: tables of databases and servers, files."""

import glob
import os
from collections.abc import Iterable, Mapping
from typing import Any

from splay.errors import NoMatchError
from splay.frames.frame import Frame
from splay.frames.hdf5 import ENDINGS
from splay.frames.joins import concat
from splay.frames.source import FILES, Source, files_query, table_query


def table_frame(source: Source, name: str) -> Frame:
    """All rows of a table or view."""
    return Frame(source, table_query(source, name))


def scan(
    files: "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]",
    *,
    database: Any = None,
    time: str | None = None,
    symbol: str | None = None,
) -> Frame:
    """A lazy frame of files, which are read in place: Parquet, Arrow IPC, CSV and its kin, DBN. HDF5 files of Vaex are copied to Arrow
    files first, which needs h5py.

    Parameters
    ----------
    files
        A path or a pattern (``"days/*.parquet"``), or several. The current folder is that of the time of reading.
    database
        A local database whose threads and memory limit are used. Frames of files are joined with those of any local database.
    time
        The time column. Default: a timestamp with a name such as ``time`` or ``ts_event``, or the only one there is.
    symbol
        The symbol column, ``""`` for none. Default: one with a name such as ``symbol``.

    Raises
    ------
    StatementError
        If no file fits, or one can't be read.

    >>> import splay
    >>> splay.scan("days/*.parquet").group_by("symbol").agg(splay.count()).df()    # doctest: +SKIP
    """
    source: Source = FILES if database is None else database
    if hasattr(files, "__arrow_c_stream__") or isinstance(files, Mapping):
        raise TypeError("scan takes paths of files: a frame is written into a table, splay.open(folder).write(name, frame)")
    paths = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    frames = [Frame(source, files_query(path, time, symbol)) for file in paths for path in _readable(_path(file))]
    return frames[0] if len(frames) == 1 else concat(frames)


def _readable(path: str) -> list[str]:
    """What the engine reads for a path."""
    if not path.lower().endswith(ENDINGS):
        return [path]
    from splay.frames.hdf5 import copied

    found = [path] if os.path.exists(path) else sorted(glob.glob(path, recursive=True))
    if not found:
        error = NoMatchError(f"{path!r} names no file")
        error.pattern = path
        raise error
    return [copied(file) for file in found]


def _path(file: "str | os.PathLike[str]") -> str:
    text = os.path.expanduser(os.fspath(file))
    # A bare name is that of a table in SQL.
    return text if any(mark in text for mark in "./*?") else f"./{text}"
