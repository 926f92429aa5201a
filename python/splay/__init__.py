"""SplayDB, a database for ticks: Arrow frames in, SQL over them, Arrow frames out.

>>> import splay
>>> db = splay.open("market")                                # doctest: +SKIP
>>> db.load("trade", "2013/*.zip", recipe="lean-equity-trade")  # doctest: +SKIP
>>> db.sql("select symbol, last(price) from trade group by symbol").to_pandas()  # doctest: +SKIP
"""

from typing import TYPE_CHECKING, Any

from splay import errors
from splay._ack import Ack
from splay.errors import (
    AccessError,
    AlreadyLoadedError,
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
    Error,
    ExecutionError,
    FormatVersionError,
    FullError,
    ImportFailedError,
    InvalidNameError,
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
    UnreachableError,
    UnsupportedFileError,
)

if TYPE_CHECKING:
    from splay.remote import Client, RemoteAnswer, connect
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

_REMOTE = {"Client", "RemoteAnswer", "connect"}
_WRITER = {"AsyncTickWriter", "TickWriter", "WriterStats", "tick"}

__all__ = [
    "AccessError",
    "Ack",
    "AlreadyLoadedError",
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
    "Database",
    "Error",
    "ExecutionError",
    "FileReport",
    "FormatVersionError",
    "FullError",
    "ImportFailedError",
    "InvalidNameError",
    "Kept",
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
    "ReadOnlyError",
    "RecipeError",
    "RejectedError",
    "RemoteAnswer",
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
    "UnreachableError",
    "UnsupportedFileError",
    "WriterStats",
    "__version__",
    "connect",
    "errors",
    "open",
    "recipes",
    "tick",
]


def __getattr__(name: str) -> Any:
    """What needs pyarrow is imported when it is asked for."""
    if name in _REMOTE:
        from splay import remote

        return getattr(remote, name)
    if name in _WRITER:
        from splay import writer

        return getattr(writer, name)
    if name in __all__:
        raise ImportError(f"splay.{name} needs the compiled part of this package, which is not installed", name="splay._splay")
    raise AttributeError(f"module 'splay' has no attribute {name!r}")
