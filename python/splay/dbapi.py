"""DB-API 2.0 (PEP 249) over a database folder or a server, for tools that speak it: ``pandas.read_sql``, SQLAlchemy, report builders.

>>> import splay.dbapi
>>> with splay.dbapi.connect("market") as connection, connection.cursor() as cursor:    # doctest: +SKIP
...     cursor.execute("select symbol, max(price) from trade where size > ? group by symbol", [100])
...     cursor.fetchall()

- Placeholders are ``?``; ``$1`` and ``$name`` work as well.
- A statement that writes is a commit of its own, at once. ``rollback`` is refused where that would have to be taken back.
- Values are Python's; :meth:`Cursor.fetch_arrow_table` gives columns instead, without a copy.
"""

import datetime
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow

from splay import errors
from splay._elsewhere import CURSOR, refusal

if TYPE_CHECKING:
    import pandas

    import splay
    from splay.frames.source import AnyAnswer

apilevel = "2.0"
threadsafety = 2
"""Threads may share a connection; each makes cursors of its own."""
paramstyle = "qmark"

Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any]

# Errors


class Warning(Exception):  # noqa: A001 - the name is PEP 249's
    """Never raised; PEP 249 asks for it."""


class Error(errors.Error):
    """Base of the errors of this module. The error of SplayDB that caused one is its ``__cause__``."""


class InterfaceError(Error):
    """This module was used wrongly."""


class DatabaseError(Error):
    """The database refused or failed; its subclasses say how."""


class DataError(DatabaseError):
    """Values that don't fit."""


class OperationalError(DatabaseError):
    """Locks, memory, disks, connections: the same statement may succeed later or elsewhere."""


class IntegrityError(DatabaseError):
    """Never raised: there are no constraints."""


class InternalError(DatabaseError):
    """Stored bytes are not what was written."""


class ProgrammingError(DatabaseError):
    """The statement is wrong, or what it names isn't there."""


class NotSupportedError(DatabaseError):
    """What was asked for isn't there."""


_CLASSES: tuple[tuple[tuple[type[Exception], ...], type[DatabaseError]], ...] = (
    ((errors.ReadOnlyError, errors.UnsupportedFileError, errors.CannotUndoError), NotSupportedError),
    ((errors.CorruptError, errors.DamagedFileError, errors.PoisonedError), InternalError),
    ((errors.SchemaError, errors.RowError, errors.RejectedError, errors.ImportFailedError), DataError),
    (
        (
            errors.StatementError,
            errors.NoSuchTableError,
            errors.NoSuchColumnError,
            errors.InvalidNameError,
            errors.NotADatabaseError,
            errors.ConsumedError,
            TypeError,
            ValueError,
            OverflowError,
        ),
        ProgrammingError,
    ),
    (
        (
            errors.StorageError,
            errors.LockedError,
            errors.FullError,
            errors.MemoryLimitError,
            errors.CancelledError,
            errors.ExecutionError,
            errors.ServerError,
            errors.UnreachableError,
        ),
        OperationalError,
    ),
)


def _translated(error: Exception) -> Error:
    for kinds, ours in _CLASSES:
        # Errors of SplayDB are ValueErrors and LookupErrors too: more than one line may fit, the first does.
        if isinstance(error, kinds):
            return ours(str(error))
    return DatabaseError(str(error))


class _Translation:
    """Errors of the block as those of this module."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (errors.Error, TypeError, ValueError, OverflowError)) and not isinstance(error, Error):
            raise _translated(error) from error


# Types


class TypeObject:
    """A family of types, which the second field of a column's description is."""

    def __init__(self, name: str):
        self._name = name

    def __repr__(self) -> str:
        return self._name


STRING = TypeObject("STRING")
BINARY = TypeObject("BINARY")
NUMBER = TypeObject("NUMBER")
DATETIME = TypeObject("DATETIME")
ROWID = TypeObject("ROWID")
BOOLEAN = TypeObject("BOOLEAN")
LIST = TypeObject("LIST")

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:  # noqa: N802 - the name is PEP 249's
    """The date of a number of seconds since 1970, on the clock of this machine."""
    return Date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802
    """The time of day of a number of seconds since 1970, on the clock of this machine."""
    return Time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:  # noqa: N802
    """The instant of a number of seconds since 1970."""
    return datetime.datetime.fromtimestamp(ticks, datetime.UTC)


def _type_of(kind: pyarrow.DataType) -> TypeObject:
    types = pyarrow.types
    if types.is_dictionary(kind):
        return _type_of(kind.value_type)
    if types.is_boolean(kind):
        return BOOLEAN
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return NUMBER
    if types.is_temporal(kind):
        return DATETIME
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return BINARY
    return LIST if types.is_nested(kind) else STRING


# Connections


def connect(database: "str | os.PathLike[str]", *, token: str | None = None, **options: Any) -> "Connection":
    """A connection to a database folder, or to a server.

    Parameters
    ----------
    database
        A folder, or the URL of a server, such as ``"http://127.0.0.1:7750"``.
    token
        What the server asks of its clients, if it does.
    **options
        Those of :func:`splay.open`, such as ``memory_bytes``, or of :func:`splay.connect`. A folder that isn't there is made
        only by ``create=True``.

    Raises
    ------
    ProgrammingError
        If the folder holds no database.
    """
    text = os.fspath(database)
    with _Translation():
        if re.match("https?://", text):
            from splay.remote import connect as remote

            return Connection(remote(text, token, **options))
        if token is not None:
            raise InterfaceError("a database folder asks for no token")
        import splay

        return Connection(splay.open(text, **{"create": False, **options}))


class Connection:
    """A connection. Made by :func:`connect`; the end of a ``with`` block closes it."""

    Warning = Warning
    Error = Error
    InterfaceError = InterfaceError
    DatabaseError = DatabaseError
    DataError = DataError
    OperationalError = OperationalError
    IntegrityError = IntegrityError
    InternalError = InternalError
    ProgrammingError = ProgrammingError
    NotSupportedError = NotSupportedError

    def __init__(self, database: "splay.Database | splay.Client"):
        self._database: splay.Database | splay.Client | None = database
        self._has_changes = False

    @property
    def database(self) -> "splay.Database | splay.Client":
        """The database, or the client of the server."""
        if self._database is None:
            raise ProgrammingError("the connection is closed")
        return self._database

    @property
    def autocommit(self) -> bool:
        """Always true: each statement that writes is a commit of its own."""
        return True

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        if not value:
            raise NotSupportedError("each statement that writes is a commit of its own: there are no transactions of several")

    if not TYPE_CHECKING:
        __getattr__ = refusal("a connection", CURSOR)

    def cursor(self) -> "Cursor":
        """A cursor, which runs statements."""
        self.database  # noqa: B018 - a closed connection is refused
        return Cursor(self)

    def execute(self, operation: str, parameters: Parameters | None = None) -> "Cursor":
        """A new cursor that has run a statement."""
        return self.cursor().execute(operation, parameters)

    def commit(self) -> None:
        """Accept what statements have written, which is stored already."""
        self.database  # noqa: B018
        self._has_changes = False

    def rollback(self) -> None:
        """Nothing, if no statement has written since the last :meth:`commit`.

        Raises
        ------
        NotSupportedError
            If one has: it stays. ``Table.undo`` takes a commit back.
        """
        self.database  # noqa: B018
        if self._has_changes:
            self._has_changes = False
            raise NotSupportedError("what was written is committed and can't be rolled back: Table.undo(commit) takes it back")

    def close(self) -> None:
        """Close the connection. Its cursors can't be used any more."""
        database, self._database = self._database, None
        close = getattr(database, "close", None)
        if close is not None:
            close()

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        database: Any = self._database
        place = "nothing, closed" if database is None else database.url if hasattr(database, "url") else database.path
        return f"<splay.dbapi.Connection to {place}>"


_QUERY = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/|\()*(?:select|with|from|values|table|pivot|unpivot|summarize)\b", re.IGNORECASE | re.DOTALL)
_WRITING = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*(?:insert|update|delete)\b", re.IGNORECASE | re.DOTALL)
_CHANGE = ["statement", "rows", "commit"]
"""Columns of the answer to a statement that writes. With CASCADE a fourth one names the views that went."""


class Cursor:
    """Runs statements and gives their rows one by one, in batches as they are made. Threads don't share one."""

    arraysize = 1
    """Rows that :meth:`fetchmany` gives unless it is told otherwise."""

    def __init__(self, connection: Connection):
        self.connection = connection
        self.description: list[tuple[str, TypeObject, None, None, None, None, bool | None]] | None = None
        """Name and type of each column of the answer; None where a statement gives no rows."""
        self.rowcount = -1
        """Rows that a statement has written, with RETURNING the rows of its answer; -1 for a query."""
        self.lastcommit: int | None = None
        """The number of the commit of the last statement that wrote; None if it has none, or had RETURNING, whose answer doesn't say it."""
        self._answer: AnyAnswer | _ReturnedRows | None = None
        self._rows: Iterator[tuple[Any, ...]] | None = None
        self._is_closed = False

    def execute(self, operation: str, parameters: Parameters | None = None) -> "Cursor":
        """Run a statement.

        Parameters
        ----------
        operation
            The statement.
        parameters
            Values for ``?`` or ``$1`` as a sequence, or for ``$name`` as a dict.

        Raises
        ------
        ProgrammingError, DataError, OperationalError, NotSupportedError, InternalError
            As its error has it; the rows of a query may raise them, too.
        """
        self._check()
        self._drop()
        with _Translation():
            # Some tools pass empty parameters where there are none.
            answer = self.connection.database.sql(operation, parameters if parameters else None)
            if list(answer.columns) in (_CHANGE, [*_CHANGE, "dropped"]) and not _QUERY.match(operation):
                self._note_change(answer.fetchall()[0])
                return self
            if _WRITING.match(operation):
                # With RETURNING.
                self.connection._has_changes, self.lastcommit = True, None
                rows = answer.to_arrow()
                self._answer, self.rowcount = _ReturnedRows(rows), rows.num_rows
            else:
                self._answer = answer
        schema = pyarrow.schema(answer.schema)
        self.description = [(field.name, _type_of(field.type), None, None, None, None, field.nullable) for field in schema]
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Parameters]) -> "Cursor":
        """Run a statement that writes with several values, each run a commit of its own. ``Database.write`` takes many rows at once."""
        total = 0
        for parameters in seq_of_parameters:
            self.execute(operation, parameters)
            if self.description is not None:
                self._drop()
                raise ProgrammingError("executemany is for statements that write: it gives no rows")
            total += self.rowcount
        self.rowcount = total
        return self

    if not TYPE_CHECKING:
        __getattr__ = refusal("a cursor", CURSOR)

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or None behind the last."""
        with _Translation():
            return next(self._tuples(), None)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows, at most `size`, or :attr:`arraysize`."""
        rows = self._tuples()
        with _Translation():
            return [row for _, row in zip(range(self.arraysize if size is None else size), rows)]

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        with _Translation():
            return list(self._tuples())

    def fetch_arrow_table(self) -> pyarrow.Table:
        """All rows as a pyarrow table, before one was fetched otherwise."""
        return self._whole(lambda answer: answer.to_arrow())

    def fetch_df(self) -> "pandas.DataFrame":
        """All rows as pandas has them, before one was fetched otherwise."""
        return self._whole(lambda answer: answer.to_pandas())

    def close(self) -> None:
        """Stop the statement and drop its rows."""
        self._drop()
        self._is_closed = True

    def setinputsizes(self, sizes: Any) -> None:
        """Nothing: values say how large they are."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Nothing: rows come in batches of the engine."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while (row := self.fetchone()) is not None:
            yield row

    def __enter__(self) -> "Cursor":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _note_change(self, row: tuple[Any, ...]) -> None:
        self.rowcount, self.lastcommit = int(row[1]), row[2]
        self.connection._has_changes = self.connection._has_changes or row[2] is not None or self.rowcount > 0

    def _check(self) -> None:
        if self._is_closed:
            raise ProgrammingError("the cursor is closed")
        self.connection.database  # noqa: B018

    def _drop(self) -> None:
        answer, self._answer, self._rows = self._answer, None, None
        self.description, self.rowcount = None, -1
        if answer is not None:
            answer.__exit__(None, None, None)

    def _whole(self, read: "Callable[[AnyAnswer | _ReturnedRows], Any]") -> Any:
        self._check()
        if self._answer is None:
            raise ProgrammingError("there are no rows: run a query first")
        with _Translation():
            return read(self._answer)

    def _tuples(self) -> Iterator[tuple[Any, ...]]:
        self._check()
        if self._rows is None:
            if self._answer is None:
                raise ProgrammingError("there are no rows: run a query first")
            with _Translation():
                self._rows = _rows_of(iter(self._answer))
        return self._rows


class _ReturnedRows:
    """The rows of a statement with RETURNING, of which the number is known. Read as an answer is: once."""

    def __init__(self, rows: pyarrow.Table):
        self.schema: pyarrow.Schema = rows.schema
        self._rows: pyarrow.Table | None = rows

    def to_arrow(self) -> pyarrow.Table:
        rows, self._rows = self._rows, None
        if rows is None:
            raise errors.ConsumedError("the rows of this answer were read before; run the statement again")
        return rows

    def to_pandas(self) -> "pandas.DataFrame":
        return self.to_arrow().to_pandas()

    def __iter__(self) -> Iterator[pyarrow.RecordBatch]:
        return iter(self.to_arrow().to_batches())

    def __exit__(self, *_: object) -> None:
        self._rows = None


def _rows_of(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        columns = [column.to_pylist() for column in batch.columns]
        yield from zip(*columns) if columns else [()] * batch.num_rows
