"""SplayDB, a database for ticks: Arrow frames in, SQL over them, Arrow frames out.

>>> import splay
>>> db = splay.open("market")                                # doctest: +SKIP
>>> db.load("trade", "2013/*.zip", recipe="lean-equity-trade")  # doctest: +SKIP
>>> db.sql("select symbol, last(price) from trade group by symbol").to_pandas()  # doctest: +SKIP
"""

import importlib
from typing import TYPE_CHECKING, Any

from splay import errors
from splay._ack import Ack
from splay.errors import (
    AccessError,
    AlreadyLoadedError,
    DuplicateKeyError,
    ArrowError,
    BusyError,
    CancelledError,
    CannotUndoError,
    CaptureClosedError,
    CaptureFailedError,
    ClosedError,
    ConsumedError,
    CorruptError,
    DamagedFileError,
    DuplicateError,
    Error,
    ExecutionError,
    FollowingError,
    FormatVersionError,
    FrameError,
    FullError,
    ImportFailedError,
    InvalidNameError,
    LabError,
    LockedError,
    MalformedRowError,
    MemoryLimitError,
    MisfitError,
    NoMatchError,
    NoSuchColumnError,
    NoSuchCommitError,
    NoSuchTableError,
    NotADatabaseError,
    PatternError,
    PoisonedError,
    ProducerError,
    ReadOnlyError,
    RecipeError,
    RejectedError,
    RowError,
    SchemaError,
    ServerError,
    SettingError,
    StatementError,
    StorageError,
    TooLargeError,
    TrailerError,
    UnknownRecipeError,
    UnconfirmedError,
    UnreachableError,
    UnreplicatedError,
    UnsupportedFileError,
)

if TYPE_CHECKING:
    from splay.frames.calendars import calendar
    from splay.frames.expr import Expr
    from splay.frames.frame import Frame
    from splay.frames.functions import (
        call,
        coalesce,
        col,
        concat_str,
        count,
        left,
        lit,
        max_horizontal,
        min_horizontal,
        row_number,
        vwap,
        when,
    )
    from splay.frames.joins import concat
    from splay.frames.opening import scan
    from splay.frames.progress import set_progress
    from splay.frames.source import set_memory_limit
    from splay.remote import Client, RemoteAnswer, RemotePartition, RemotePrepared, RemoteTable, connect
    from splay.writer import AsyncTickWriter, TickWriter, WriterStats, tick

try:
    from splay._splay import (
        Answer,
        Batches,
        Capture,
        Commit,
        CompactReport,
        Database,
        FileReport,
        Kept,
        LoadReport,
        Partition,
        Prepared,
        Problem,
        PublishReport,
        Schema,
        Source,
        Stats,
        Table,
        __version__,
        open,
        recipes,
    )
except ModuleNotFoundError as missing:
    # A client of a server needs no compiled module; what does says so when it is asked for.
    if missing.name != "splay._splay":
        raise
else:
    import splay._methods

    if not TYPE_CHECKING:
        open = splay._methods.open_folder

_FRAMES = {
    "Expr": "expr",
    "Frame": "frame",
    "calendar": "calendars",
    "concat": "joins",
    "scan": "opening",
    "set_memory_limit": "source",
    "set_progress": "progress",
    **dict.fromkeys(
        (
            "call",
            "coalesce",
            "col",
            "concat_str",
            "count",
            "left",
            "lit",
            "max_horizontal",
            "min_horizontal",
            "row_number",
            "vwap",
            "when",
        ),
        "functions",
    ),
}
_REMOTE = {"Client", "RemoteAnswer", "RemotePartition", "RemotePrepared", "RemoteTable", "connect"}
_WRITER = {"AsyncTickWriter", "TickWriter", "WriterStats", "tick"}
_MODULES = {"dbapi", "remote", "writer", "subscription", "lab", "feeds"}

__all__ = [
    "AccessError",
    "Ack",
    "AlreadyLoadedError",
    "DuplicateKeyError",
    "Answer",
    "ArrowError",
    "AsyncTickWriter",
    "Batches",
    "BusyError",
    "CancelledError",
    "CannotUndoError",
    "Capture",
    "CaptureClosedError",
    "CaptureFailedError",
    "Client",
    "ClosedError",
    "Commit",
    "CompactReport",
    "ConsumedError",
    "CorruptError",
    "DamagedFileError",
    "DuplicateError",
    "Database",
    "Error",
    "ExecutionError",
    "Expr",
    "FileReport",
    "FollowingError",
    "FormatVersionError",
    "Frame",
    "FrameError",
    "FullError",
    "ImportFailedError",
    "InvalidNameError",
    "Kept",
    "LabError",
    "LoadReport",
    "LockedError",
    "MalformedRowError",
    "MemoryLimitError",
    "MisfitError",
    "NoMatchError",
    "NoSuchColumnError",
    "NoSuchCommitError",
    "NoSuchTableError",
    "NotADatabaseError",
    "Partition",
    "PatternError",
    "PoisonedError",
    "Prepared",
    "Problem",
    "ProducerError",
    "PublishReport",
    "ReadOnlyError",
    "RecipeError",
    "RejectedError",
    "RemoteAnswer",
    "RemotePartition",
    "RemotePrepared",
    "RemoteTable",
    "RowError",
    "Schema",
    "SchemaError",
    "ServerError",
    "SettingError",
    "Source",
    "StatementError",
    "Stats",
    "StorageError",
    "Table",
    "TickWriter",
    "TooLargeError",
    "TrailerError",
    "UnknownRecipeError",
    "UnconfirmedError",
    "UnreachableError",
    "UnreplicatedError",
    "UnsupportedFileError",
    "WriterStats",
    "__version__",
    "calendar",
    "call",
    "coalesce",
    "col",
    "concat",
    "concat_str",
    "connect",
    "count",
    "errors",
    "left",
    "lit",
    "max_horizontal",
    "min_horizontal",
    "open",
    "recipes",
    "row_number",
    "scan",
    "set_memory_limit",
    "set_progress",
    "tick",
    "vwap",
    "when",
]


def __getattr__(name: str) -> Any:
    """What a program may do without is imported when it is asked for."""
    if name in _FRAMES:
        found = getattr(importlib.import_module(f"splay.frames.{_FRAMES[name]}"), name)
        globals()[name] = found
        return found
    if name in _REMOTE:
        from splay import remote

        return getattr(remote, name)
    if name in _WRITER:
        from splay import writer

        return getattr(writer, name)
    if name in _MODULES:
        return importlib.import_module(f"splay.{name}")
    if name in __all__:
        raise ImportError(f"splay.{name} needs the compiled part of this package, which is not installed", name="splay._splay")
    if name.startswith("_"):
        raise AttributeError(f"module 'splay' has no attribute {name!r}")
    from splay._elsewhere import MODULE, missing

    raise missing("module 'splay'", name, MODULE, __all__)
