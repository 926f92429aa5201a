"""Who runs the statements of frames: a database, a server, or this process over files."""

import atexit
import dataclasses
import os
import shutil
import tempfile
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from splay._sizes import byte_count
from splay._types import type_name
from splay.errors import Error, FrameError, NoSuchTableError
from splay.frames.nodes import Column, Node, Operation
from splay.frames.query import Query
from splay.frames.relation import Item, Relation
from splay.frames.text import identifier, literal

if TYPE_CHECKING:
    import splay
    from splay.remote import RemoteAnswer

    AnyAnswer: TypeAlias = splay.Answer | RemoteAnswer

TIME_NAMES = ("ts_event", "timestamp", "time", "ts", "datetime", "ts_recv", "participant_timestamp", "date_time")
"""Columns of files that are taken for the time of a row, the likeliest first."""
_NAIVE = {"Timestamp(s)": "s", "Timestamp(ms)": "ms", "Timestamp(µs)": "us", "Timestamp(ns)": "ns"}
DATE_COLUMN = "date"
"""The virtual column of tables: the date of a row's partition."""
SYMBOL_NAMES = ("symbol", "sym", "ticker", "instrument")
"""Columns of files that are taken for the symbol of a row, the likeliest first."""


class Source(Protocol):
    """Where statements run: a :class:`splay.Database`, a :class:`splay.Client`, or :data:`FILES`."""

    def sql(self, statement: str, params: Any = None) -> "AnyAnswer":
        """Run a statement."""


class Files:
    """Runs statements over files in place, by a database without tables that lives as long as the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._databases: dict[tuple[int, int | None], splay.Database] = {}
        self.memory_bytes: int | None = None

    def sql(self, statement: str, params: Any = None) -> "AnyAnswer":
        """Run a statement."""
        return self.database().sql(statement, params)

    def database(self) -> "splay.Database":
        """The database of this process; a forked one makes its own."""
        import splay

        key = (os.getpid(), self.memory_bytes)
        with self._lock:
            if key not in self._databases:
                folder = tempfile.mkdtemp(prefix="splay-files-")
                atexit.register(_remove, folder, os.getpid())
                self._databases[key] = splay.open(folder, memory_bytes=self.memory_bytes, journal=False)
            return self._databases[key]

    def __repr__(self) -> str:
        return "files"


FILES = Files()
"""Runs frames of :func:`splay.scan`."""


def set_memory_limit(memory_bytes: int | str | None) -> None:
    """Say how much a statement over files may hold before it spills or fails: a number of bytes, or a size such as ``"2G"``, in powers of
    1,024. None: 4 GiB.

    A database has a limit of its own: ``splay.open(..., memory_bytes=...)``.

    >>> splay.set_memory_limit("2G")
    >>> splay.set_memory_limit(None)
    """
    limit = byte_count(memory_bytes, "a memory limit")
    if limit is not None and limit <= 0:
        raise ValueError(f"a memory limit is above zero, not {memory_bytes}")
    FILES.memory_bytes = limit


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def table_query(source: Source, name: str) -> Query:
    """All rows of a table or view of a database or server.

    Raises
    ------
    NoSuchTableError
        If there is none.
    """
    try:
        table: Any = source.table(name)  # type: ignore[attr-defined]
    except NoSuchTableError:
        table = None
    if table is None:
        return _inferred(source, identifier(name), identifier(name))
    names = list(table.columns if hasattr(table, "columns") else table.schema.names)
    # The one column that isn't stored stands behind the others, unless a stored one has its name. A statement would know it as well, but
    # the first one of a table of many dates looks at all of them.
    has_none = table.key is not None or any(column.lower() == DATE_COLUMN for column in names)
    virtual = None if has_none else DATE_COLUMN
    text = identifier(name)
    columns = (*names, virtual) if virtual else tuple(names)
    return Query(Relation(text, columns, text, True, table.time, table.symbol, virtual=virtual, table=name))


def files_query(path: str, time: str | None, symbol: str | None) -> Query:
    """All rows of files."""
    return _inferred(FILES, f"{literal(path)} AS f", "f", time, symbol)


def _inferred(source: Source, text: str, alias: str, time: str | None = None, symbol: str | None = None) -> Query:
    """All rows of what stands in a ``FROM``, with time and symbol by the names and types of its columns. Times without a zone get the
    label of UTC, so that all of them are instants.
    """
    names, types = columns_of(source, f"SELECT * FROM {text} LIMIT 0")
    found = Query(Relation(text, tuple(names), alias))
    if time is None:
        times = [name for name, kind in zip(names, types) if kind.lower().startswith("timestamp")]
        time = _likeliest(times, TIME_NAMES) or (times[0] if len(times) == 1 else None)
    else:
        time = found.spelled(time)
    symbol = _likeliest(names, SYMBOL_NAMES) if symbol is None else found.spelled(symbol) if symbol else None
    query = Query(dataclasses.replace(found.relation, time=time, symbol=symbol))
    units = {name: _NAIVE[kind] for name, kind in zip(names, types) if kind in _NAIVE}
    if not units:
        return query
    items = [Item(name, _zoned(name, units[name]) if name in units else Column(name)) for name in names]
    zoned = query.projected(items).nested()
    return Query(dataclasses.replace(zoned.relation, time=time, symbol=symbol, is_mixed=False))


def _zoned(column: str, unit: str) -> Node:
    """A time without a zone as an instant in UTC.

    Through its number, which costs nothing: Arrow asks the calendar of a zone for each value of the direct cast, 170 ns a row.
    """
    kind = literal(f'Timestamp({unit}, "UTC")')
    return Operation(f"arrow_cast(arrow_cast({{}}, 'Int64'), {kind})", (Column(column),), is_call=True)


_TIES = "ASOF JOIN have the same keys and the same time"
"""Stands in the engine's error of an as-of join whose match ties with another row."""


def in_words_of_frames(error: BaseException | None) -> None:
    """Let an error of the engine that speaks of the statement's parts speak of the frames that these were made of."""
    if isinstance(error, Error) and _TIES in str(error):
        error.args = (
            "several rows of the right frame have the same keys and the same time, and nothing says which came first: sort it by columns "
            "that do, quote.sort('time', 'sequence'), or load its files into a table, which keeps their order",
        )


def columns_of(source: Source, statement: str) -> tuple[list[str], list[str]]:
    """Names and types of the columns of a statement's answer."""
    with source.sql(statement) as answer:
        return list(answer.columns), [type_name(kind) for kind in answer.schema.types]


def _likeliest(names: Sequence[str], likely: Sequence[str]) -> str | None:
    by_lower = {name.lower(): name for name in names}
    return next((by_lower[name] for name in likely if name in by_lower), None)


def common(left: Source, right: Source) -> Source:
    """Who runs a statement over frames of both.

    Raises
    ------
    FrameError
        If they belong to different databases.
    """
    if left is right or (isinstance(right, Files) and is_local(left)):
        return left
    if isinstance(left, Files) and is_local(right):
        return right
    raise FrameError(
        f"one statement can't read {_place(left)} and {_place(right)}: write the rows of one frame where the other is, "
        "client.write(name, frame.to_arrow()) or db.write(name, frame)"
    )


def _place(source: Source) -> str:
    """Where a source is, in a line."""
    if isinstance(source, Files):
        return "files here"
    return f"the database {str(source.path)!r}" if is_local(source) else f"the server {getattr(source, 'url', source)}"  # type: ignore[attr-defined]


def is_local(source: Source) -> bool:
    """Whether it runs in this process, which can read files."""
    if isinstance(source, Files):
        return True
    import splay

    return hasattr(splay, "Database") and isinstance(source, splay.Database)
