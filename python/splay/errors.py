"""What can go wrong, one class for each thing a caller would do differently.

Every class is an :class:`Error`. The fields of the Rust error, such as the path of a damaged file, are attributes of the
exception.
"""

from pathlib import Path


class Error(Exception):
    """Base of all errors of this package."""


class StorageError(Error, OSError):
    """The operating system refused an operation: a full disk, a missing permission, a folder that is not empty."""

    path: Path


class CorruptError(Error):
    """Stored bytes are not what was written. The data is never returned; ``Table.verify`` lists every damaged file."""

    path: Path
    offset: int
    expected: str
    found: str


class FormatVersionError(Error):
    """The file was written by a newer release. Upgrade SplayDB."""

    path: Path
    found: int
    supported: int


class LockedError(Error):
    """Another load, write or schema change is at work on this database, here or in another process. Wait for it."""

    path: Path


class FullError(Error):
    """There is no room for captured rows now, on disk or in memory. Nothing was lost: send them again later."""

    retryable = True


class RejectedError(Error, ValueError):
    """Captured rows don't fit their table. Sending them again won't help."""

    table: str


class FollowingError(Error):
    """The database follows another one, or another copy of it was promoted: it takes no rows. Send them to the leader."""


class UnreplicatedError(Error):
    """Too few followers are connected to acknowledge rows as ``replica``. Nothing was taken: send them again later."""

    retryable = True


class CaptureClosedError(Error):
    """Capture was closed."""


class CaptureFailedError(Error):
    """The journal can't be written any more. End the process; the next start recovers by itself."""


class LabError(Error):
    """A scheme can't hold a column or gives back another one, a file of results can't be used, or the measured statement failed."""


class NotADatabaseError(Error):
    """The folder holds no database; it has a ``path``. Or an address was given where a folder has to be; then it has an ``address``."""

    path: Path
    address: str


class NoSuchTableError(Error, LookupError):
    """No such table."""

    table: str
    existing: list[str]


class NoSuchColumnError(Error, LookupError):
    """No such column."""

    table: str
    column: str
    existing: list[str]


class FrameError(Error, ValueError):
    """A lazy frame can't express this; the message says what does."""


class InvalidNameError(Error, ValueError):
    """A table or column name that can't be stored."""

    name: str


class SchemaError(Error, ValueError):
    """The rows, or the wished change, don't fit the table."""

    table: str


class RowError(Error, ValueError):
    """A row of a frame has no place in the table: its time is null."""

    table: str
    row: int
    """Row of the frame, from 0."""


class DuplicateKeyError(Error):
    """Two rows of a reference table would have one key. Nothing was changed."""

    table: str
    columns: str
    """The columns of the key, separated by commas."""
    values: str
    """Their values in the row that was refused."""


class AlreadyLoadedError(Error):
    """The same file was loaded before. Pass ``again=True`` to have its rows twice."""

    table: str
    source_name: str
    epoch: int
    """The commit that loaded it."""


class DuplicateError(Error):
    """A load was to stop at a duplicate, and has one. Nothing was loaded."""

    table: str
    date: str
    row: str
    """Symbol, time and key of the row."""
    is_stored: bool
    """Whether the other one is stored; if not, it is in the load as well."""


class CannotUndoError(Error):
    """A commit can't be undone. Nothing has changed."""

    table: str
    commit: int
    reason: str


class NoSuchCommitError(Error, LookupError):
    """A table can't be read as it was after a commit: there is none, or its files are gone."""

    table: str
    commit: int
    first: int
    """The first commit that can be read."""
    last: int


class SettingError(Error, ValueError):
    """A setting has a value it can't have."""

    setting: str


class PoisonedError(Error):
    """A failed sync left it unknown what is on disk. Open the database again; it recovers by itself."""


class ArrowError(Error):
    """Arrow or Parquet refused an operation, or the producer of a frame failed."""


class StatementError(Error, ValueError):
    """The statement is wrong: unknown words, tables or columns, types that don't fit, a parameter without a value."""


class ReadOnlyError(Error):
    """The statement would change something. SQL reads; use ``load``, ``write`` and the methods of ``Table``."""


class MemoryLimitError(Error, MemoryError):
    """The statement asked for more memory than it may have. Ask for less at once, or raise ``memory_bytes``."""

    limit_bytes: int


class ExecutionError(Error):
    """The statement failed while it ran."""


class CancelledError(Error):
    """The statement was stopped from outside."""


class ConsumedError(Error):
    """The rows of an answer were read before."""


class ImportFailedError(Error):
    """Base of what can go wrong while files are read. Nothing was loaded."""


class NoMatchError(ImportFailedError, FileNotFoundError):
    """A pattern names no file."""

    pattern: str


class PatternError(ImportFailedError, ValueError):
    """A pattern that isn't one."""

    pattern: str


class MalformedRowError(ImportFailedError, ValueError):
    """A row of a file doesn't fit. Mend the file, give the column another type, or put such rows into quarantine."""

    file: str
    line: int
    """Line of the decompressed file, from 1."""
    column: str
    reason: str
    excerpt: str


class DamagedFileError(ImportFailedError):
    """The file's bytes are not what its format asks for: damaged, cut short, or of another format."""

    file: str


class UnsupportedFileError(ImportFailedError):
    """A kind of file that can't be read."""

    file: str


class MisfitError(ImportFailedError, ValueError):
    """The file's columns don't fit the table or the recipe."""

    file: str
    table: str


class TrailerError(ImportFailedError):
    """The file's last line is not what the recipe asks for: the file is cut short."""

    file: str


class UnknownRecipeError(ImportFailedError, LookupError):
    """No recipe that comes with SplayDB has this name, and no file either."""

    name: str
    known: list[str]


class RecipeError(ImportFailedError, ValueError):
    """A recipe that can't be used."""

    origin: str


class ServerError(Error):
    """A server refused, or failed; its subclasses are what a client would do something about."""

    code: str
    """What happened, as the server names it: ``rejected``, ``full``, ``too_large`` and so on."""
    status: int
    """The HTTP status."""
    retryable: bool = False
    """Whether the same request may succeed later."""


class AccessError(ServerError, PermissionError):
    """The server asks for a token, or for one that may do more."""


class TooLargeError(ServerError):
    """The message is larger than the server takes. Writers send it in parts by themselves."""


class BusyError(ServerError):
    """The server has too much to do, or is stopping. Writers send the same again by themselves."""

    retryable = True


class UnconfirmedError(ServerError):
    """The rows are on the leader's disk, and no follower has said in time that it has them. Writers send the same again by themselves; what `write` sent
    would be stored twice.
    """

    retryable = True


class UnreachableError(Error, ConnectionError):
    """No server answers at the address, or the connection broke. Writers send the same again by themselves."""

    retryable = True


class ProducerError(Error):
    """Another writer uses the producer's name: the server has had a batch with this number before. Choose another name."""

    producer: str
    sequence: int


class ClosedError(Error, ValueError):
    """The writer is closed."""
