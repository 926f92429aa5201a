"""Databases: opening, loading, writing, asking."""

import datetime
import decimal
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, final

from splay._answer import Answer
from splay._capture import Capture
from splay._reports import LoadReport
from splay._table import Table
from splay.frames.frame import Frame
from splay.writer import TickWriter

Parameter: TypeAlias = (
    None | bool | int | float | str | decimal.Decimal | datetime.date | datetime.time | datetime.timedelta
)
"""A value for a placeholder. ``datetime.datetime`` and ``pandas.Timestamp`` are dates; NumPy's scalars do too."""

class ArrowStream(Protocol):
    """A frame: pyarrow tables and readers, pandas from 2.2 on, Polars, DuckDB relations, answers of this package."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class ArrowArray(Protocol):
    """A single batch, such as ``pyarrow.RecordBatch``."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

def open(
    path: str | os.PathLike[str],
    *,
    create: bool = True,
    memory_bytes: int | str | None = None,
    threads: int | None = None,
    batch_rows: int | None = None,
    result_cache_bytes: int | str = 0,
    file_cache_bytes: int | str | None = None,
    journal: bool = True,
    journal_memory_bytes: int | str | None = None,
) -> Database:
    """Open a database; create it if the folder is absent or empty.

    Parameters
    ----------
    path
        Its folder; ``~`` at the begin is the home folder.
    create
        Whether it is created if there is none.
    memory_bytes
        Bytes that the sorts, joins and groups of one statement may hold before they spill or fail; like other sizes here also as text,
        ``"2G"``, in powers of 1,024. Default 4 GiB.
    threads
        Threads of queries. Default: as many as the machine runs at once.
    batch_rows
        Rows of a batch. Default 8,192.
    result_cache_bytes
        Bytes of answers of tick plans that are kept for the next time the same is asked of the same state of the tables.
    file_cache_bytes
        Bytes of columns of files in place that stay decoded for later statements, while the files stay as they are. Default: a quarter of
        ``memory_bytes``; 0 keeps none.
    journal
        Whether rows count that a server, or another process that captures, has acknowledged and not written to the tables' files yet,
        whether it runs or not. Each statement looks at the journal; the first reads all of it.
    journal_memory_bytes
        Bytes of such rows in memory; with more a statement fails. Default 2 GiB.

    Returns
    -------
    Database
        Threads may share it. A child process that was forked may not: open the database there.

    Raises
    ------
    NotADatabaseError
        If there is no database and ``create`` is false, or if ``path`` is an address, such as ``http://127.0.0.1:7750``: that is for :func:`connect`.
    StorageError
        If the folder holds other things, or can't be read or made.
    """

def recipes() -> list[tuple[str, str]]:
    """Recipes that come with SplayDB.

    Returns
    -------
    list of (name, description)
        In order of names. The reference of recipes is ``docs/reference/recipes.md``.
    """

@final
class Database:
    """An open database. Made by :func:`open`."""

    @property
    def path(self) -> Path:
        """Its folder."""

    def tables(self) -> list[str]:
        """Names of its tables, sorted.

        Raises
        ------
        StorageError
            If the folder can't be read.
        """

    def table(self, name: str) -> Table:
        """A table.

        Parameters
        ----------
        name
            Matched without regard to case.

        Raises
        ------
        NoSuchTableError
            If there is none.
        """

    def __getitem__(self, name: str) -> Frame:
        """A lazy frame of the rows of a table or view: ``db["trade"]``.

        Parameters
        ----------
        name
            The table's. Matched without regard to case.

        Raises
        ------
        NoSuchTableError
            If there is none.
        """

    def __contains__(self, name: object) -> bool:
        """Whether there is a table of that name."""

    def __iter__(self) -> Iterator[str]:
        """Names of its tables, sorted."""

    def _repr_html_(self) -> str: ...
    def __enter__(self) -> Database:
        """Itself. The end of a ``with`` block does nothing: a database holds no more than its answers do."""

    def __exit__(self, *_: object) -> None: ...
    def sql(self, statement: str, params: Sequence[Parameter] | Mapping[str, Parameter] | None = None) -> Answer:
        """Plan a statement and start it.

        Parameters
        ----------
        statement
            A query, or a statement that changes tables: that one is carried out by this call, as one commit.
        params
            Values for ``$1``, ``$2`` as a sequence, or for ``$name`` as a dict. A ``datetime`` without a zone is taken as
            UTC; ``timedelta`` becomes an interval; ``Decimal`` keeps its digits; ``None`` is null.

        Returns
        -------
        Answer
            Batches as they are made, to be read once. Ctrl-C while they are read stops the statement.

        Raises
        ------
        StatementError
            If the statement is wrong, or a placeholder has no value.
        NoSuchTableError
            If it reads a table that there isn't.
        ReadOnlyError
            If it would change something within a query.
        TypeError, ValueError, OverflowError
            If a value can't be a parameter; the message names the placeholder.
        """

    def prepare(self, statement: str) -> Prepared:
        """Prepare a statement that is run many times with other values for its placeholders.

        A statement that runs as a tick plan is planned when it first runs; from then on a run costs binding its values.
        Nothing is checked before the first run.

        Parameters
        ----------
        statement
            A query, with ``$1``, ``$2`` or ``$name`` for the values.

        Returns
        -------
        Prepared
            Threads may share it. It sees each commit from the next run on.
        """

    def capture(self, **settings: Any) -> Capture:
        """Begin to capture rows into this database: a journal, then real-time tables that queries see at once.

        Rows that a process before this one had acknowledged, and not written down, are back when this returns.

        Parameters
        ----------
        settings
            Those of capture by their names, such as ``default_ack="process"``, ``live_rows_max=1_000_000``,
            ``dedupe={"trade": {"key": "seq,venue"}}`` or ``quality={"book": {"sequence": "update_id"}}``; see
            docs/reference/settings.md.

        Returns
        -------
        Capture
            A context manager that closes it.

        Raises
        ------
        LockedError
            If another process captures into the database.
        CorruptError
            If the journal's bytes aren't what was written.
        SettingError
            If a setting has a value it can't have.
        """

    def tick(self, table: str, **settings: Any) -> TickWriter:
        """A writer for rows that come one by one, into the journal of this database.

        Capture runs as long as there are writers of this folder in this process; the last one that closes writes the rows to
        the table's files. For settings of capture, and for other ways in at the same time, begin it yourself:
        ``splay.tick(db.capture(...), table)``.

        Parameters
        ----------
        table
            Name of the table. The first rows create it.
        settings
            Those of :class:`splay.writer.TickWriter`.

        Raises
        ------
        LockedError
            If another process captures into the database, or this one by :meth:`capture`.
        SettingError
            If a setting has a value it can't have.
        ImportError
            If pyarrow is not installed.
        """

    def write(
        self,
        table: str,
        frame: ArrowStream | ArrowArray,
        *,
        time: str | None = None,
        symbol: str | None = None,
        time_zone: str | None = None,
        day_start: str | None = None,
        types: Mapping[str, str] | None = None,
        memory_bytes: int | None = None,
        threads: int | None = None,
        tier: Literal["mapped", "fast", "small", "dense"] | None = None,
        replace: Literal["date", "symbol", "table"] | None = None,
        partition: Literal["day", "month", "year", "all"] | None = None,
        dedupe: str | Sequence[str] | None = None,
        on_duplicate: Literal["drop", "stop"] = "drop",
        key: str | Sequence[str] | None = None,
        effective: str | None = None,
        on_conflict: Literal["refuse", "nothing", "update"] = "refuse",
    ) -> LoadReport:
        """Write the rows of a frame, all by one commit, or none.

        The first write makes the table. Later ones are merged with its rows; of rows with equal symbol and time those that
        were there come first, then the new ones in the order of the frame. Batches are taken one by one and never collected.

        Timestamps of any unit and zone become nanoseconds in UTC; without a zone they are taken as UTC. A date as time is
        midnight in the table's zone. Texts become ``text``, those of the symbol column and all dictionaries (categories)
        ``symbol``. A value that would change on its way, such as 2.5 into an integer column, is refused. Columns are matched
        by name without regard to case; those that the frame lacks are null. Of pandas frames, an index with a name is a
        column, one without is left out, and NaN is null.

        Parameters
        ----------
        table
            Its name.
        frame
            Anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``; shape: columns of the table, in any order.
        time
            The time column. Default: the table's; for a new table a timestamp named ``ts_event``, ``timestamp``, ``time``
            and so on, else the first timestamp, else such a date.
        symbol
            The symbol column, or ``""`` for a table without one. Default: the table's; for a new table a text column named
            ``sym``, ``symbol``, ``ticker`` and so on, else none.
        time_zone
            IANA time zone in which a row's date is taken. Default: the table's, or UTC.
        day_start
            When a date begins by the clock of that zone, as ``"17:00"`` for that time of the day before. Default: the table's, or
            midnight.
        types
            Types of columns of a new table by name, such as ``{"venue": "symbol", "price": "decimal(18,4)"}``, where the
            frame's own are not wanted. There are bool, int8 to int64, uint8 to uint64, float32, float64, decimal(P,S), date,
            time, timestamp, symbol, text and levels(N).
        memory_bytes
            Bytes that are held before rows are set aside on disk, at least 1 MiB. Default 1 GiB.
        threads
            Threads that sort and write. Default: as many as the machine runs at once.
        tier
            How the new rows are kept (:meth:`Table.set_tier`). Default: as the table says, else as their partition is, else ``"mapped"``.
        replace
            Which stored rows the new ones take the place of, in the same commit: ``"date"``: all of the dates that they have;
            ``"symbol"``: on each date those of the symbols that they have there; ``"table"``: all. Default: none.
        partition
            What a partition of a new table spans. Default: what suits its rows. A table that has other partitions is refused.
        dedupe
            Compare the new rows with each other and with the stored ones of their dates and symbols: ``"exact"``, duplicates are equal in
            all columns, or the columns of a key, such as ``["seq", "venue"]``. A row with a null in a key's column has no key. Stored
            rows stay; of several new ones the first in time does. Default: rows aren't compared, and equal ones are kept.
        on_duplicate
            ``"drop"``: duplicates are left out, and counted in the report and by :meth:`Table.commits`; ``"stop"``: the first one ends
            the load.
        key
            Makes a new table a reference table, whose rows differ in these columns; ``[]`` for one without a key. It has no time column.
        effective
            Column of type date or timestamp from which on the rows of a new reference table are in effect, for as-of joins.
        on_conflict
            How a row of a reference table is handled if the table has a row with its key: nothing is written (``"refuse"``),
            the new row is left out (``"nothing"``), or it replaces the stored one (``"update"``).

        Returns
        -------
        LoadReport

        Raises
        ------
        SchemaError
            If columns or values don't fit.
        RowError
            If a row has no time, or a reference table's row no key.
        DuplicateError
            If ``on_duplicate`` is ``"stop"`` and there is one.
        DuplicateKeyError
            If a key of a reference table would be there twice.
        LockedError
            If another writer is at work.
        ArrowError
            If the producer of the frame fails.
        TypeError
            If the frame doesn't speak the Arrow C interface.
        KeyboardInterrupt
            On Ctrl-C, which is looked for while rows come in, not during the commit. Nothing is written then.
        """

    def load(
        self,
        table: str,
        files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        recipe: str | os.PathLike[str] | None = None,
        format: Literal["csv", "tsv", "psv", "json", "parquet", "arrow", "dbn", "itch"] | None = None,
        header: bool | None = None,
        types: Mapping[str, str] | None = None,
        time: str | None = None,
        symbol: str | None = None,
        time_zone: str | None = None,
        day_start: str | None = None,
        on_error: Literal["stop", "quarantine"] = "stop",
        quarantine_path: str | os.PathLike[str] | None = None,
        again: bool = False,
        skip_loaded: bool = False,
        memory_bytes: int | None = None,
        threads: int | None = None,
        tier: Literal["mapped", "fast", "small", "dense"] | None = None,
        progress: Callable[[int, int], object] | Literal[False] | None = None,
        replace: Literal["date", "symbol", "table"] | None = None,
        partition: Literal["day", "month", "year", "all"] | None = None,
        dedupe: str | Sequence[str] | None = None,
        on_duplicate: Literal["drop", "stop"] = "drop",
        zone: str | None = None,
        date_format: str | Sequence[str] | None = None,
        numbers: str | None = None,
        key: str | Sequence[str] | None = None,
        effective: str | None = None,
        on_conflict: Literal["refuse", "nothing", "update"] = "refuse",
        delimiter: str | None = None,
        skip_lines: int | None = None,
        null: str | Sequence[str] | None = None,
    ) -> LoadReport:
        """Load files, all by one commit, or none.

        Parameters
        ----------
        table
            Its name; the table is made if there is none.
        files
            Paths, folders and patterns (``*``, ``**``, ``?``, ``[...]``). Zip files stand for their members; gz and zst are
            unpacked.
        recipe
            Name of a recipe that comes with SplayDB, see :func:`recipes`, or path of a ``.toml`` file. Default: columns and
            types are found out from the first rows.
        format
            Format of the files. Default: by name and content.
        header
            Whether text files begin with names of columns. Default: found out.
        types, time, symbol, time_zone, day_start
            As for :meth:`write`; they go before the recipe.
        on_error
            ``"stop"`` at a malformed row, or put it into ``"quarantine"`` and go on.
        quarantine_path
            The CSV file (``file,line,column,reason,text``) for such rows; it is made at the first one.
        again
            Whether files that were loaded before are loaded again.
        skip_loaded
            Whether files that were loaded before are passed over. They are known by their content. If there are no others, nothing is
            done, and the report has commit 0.
        memory_bytes, threads, tier
            As for :meth:`write`; the threads parse, too.
        progress
            Called with bytes read and bytes there are, at most 20 times a second. What it raises stops the load. Default: a bar for a
            load that takes longer than two seconds, see :func:`splay.set_progress`; False for none.
        replace, partition, dedupe, on_duplicate, key, effective, on_conflict
            As for :meth:`write`.
        zone
            Time zone of times in the files that are written without one: an IANA name, or an offset such as ``"-05:00"``. Default: the
            recipe's, or UTC.
        date_format
            How text files write dates and times that aren't ISO, as patterns of ``strftime``: ``"%d/%m/%Y %H:%M:%S"``.
        numbers
            How text files write the number 1234.5: ``"1,234.5"``, ``"1.234,5"``, ``"1234,5"``.
        delimiter
            The character between the fields of delimited text: ``";"``, ``"tab"``. Default: the recipe's, or found out.
        skip_lines
            Number of lines that are passed over at the beginning of each text file. Default: comments and titles before a header are
            recognised; 0 for none.
        null
            Text that means null, or several, besides the usual ones (``NA``, ``N/A``, ``null``, ``-``, …) of columns that hold no text.

        Returns
        -------
        LoadReport

        Raises
        ------
        ImportFailedError
            If a file can't be read; its subclasses say why, and ``MalformedRowError`` says where.
        AlreadyLoadedError
            If a file was loaded before.
        DuplicateError
            If ``on_duplicate`` is ``"stop"`` and there is one.
        SchemaError
            If the table can't be what is asked for.
        LockedError
            If another writer is at work.
        KeyboardInterrupt
            On Ctrl-C, which is looked for while rows come in, not during the commit. Nothing is loaded then.
        """

@final
class Prepared:
    """A statement to be run with values, made by `Database.prepare`."""

    @property
    def text(self) -> str:
        """The statement."""

    def run(self, params: Sequence[Parameter] | Mapping[str, Parameter] | None = None) -> Answer:
        """Run it; as `Database.sql` in all but the text."""
