"""Tables: what they are, and their upkeep."""

import datetime
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, final

import pandas
import polars
import pyarrow

from splay._database import Database, Parameter
from splay._reports import Commit, CompactReport, LoadReport, Partition, Problem, PublishReport, Source
from splay.frames.frame import Frame

@final
class Schema:
    """Columns in order, with their types.

    Anything that takes Arrow schemas takes it: ``pyarrow.schema(schema)``.
    """

    @property
    def names(self) -> list[str]:
        """Names in order."""

    @property
    def types(self) -> list[str]:
        """Types in order, by SplayDB's names (``timestamp``, ``symbol``, ``float64``), or Arrow's where SplayDB has none."""

    def to_arrow(self) -> pyarrow.Schema:
        """The Arrow schema.

        Raises
        ------
        ImportError
            If pyarrow is not installed.
        """

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[str]: ...
    def __contains__(self, name: object) -> bool: ...
    def __getitem__(self, name: str) -> str: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class Table:
    """A table of a database. What it says is so at the time of the question.

    The methods that change the table wait for nobody: they raise :class:`splay.LockedError` while another writer is at work.
    Readers go on with what they see. None of them can be stopped by Ctrl-C before it is done.
    """

    @property
    def name(self) -> str:
        """Its name, in the case that it was given."""

    @property
    def schema(self) -> Schema:
        """Its columns, without the virtual column ``date``."""

    @property
    def rows(self) -> int:
        """Rows of all partitions."""

    @property
    def bytes(self) -> int:
        """Bytes of all segments and indexes."""

    @property
    def time(self) -> str | None:
        """Name of the time column; ``None`` for a reference table without one."""

    @property
    def key(self) -> list[str] | None:
        """Columns of the key of a reference table; ``None`` for other tables."""

    @property
    def effective(self) -> str | None:
        """Column from which on rows of a reference table are in effect."""

    @property
    def symbol(self) -> str | None:
        """Name of the symbol column, by which rows are ordered before time."""

    @property
    def time_zone(self) -> str:
        """IANA time zone in which a row's date is taken."""

    @property
    def day_start(self) -> str:
        """When a date begins by the clock of that zone: ``"17:00"`` of the day before, or ``"00:00"``."""

    @property
    def epoch(self) -> int:
        """Number of the last commit."""

    @property
    def partitions(self) -> list[Partition]:
        """Partitions by date."""

    @property
    def sources(self) -> list[Source]:
        """Files that were loaded."""

    @property
    def database(self) -> Database:
        """The database that it is of."""

    def frame(self) -> Frame:
        """A lazy frame of its rows, which ``database[name]`` is as well."""

    def head(self, rows: int = 5) -> Frame:
        """A lazy frame of its first rows, in its order."""

    def to_arrow(self) -> pyarrow.Table:
        """All rows as a pyarrow table, with the virtual column ``date``."""

    def df(self, **options: Any) -> pandas.DataFrame:
        """All rows as pandas has them; options are those of ``pyarrow.Table.to_pandas``."""

    to_pandas = df

    def pl(self) -> polars.DataFrame:
        """All rows as Polars has them."""

    to_polars = pl

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples of Python's values."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows for whoever takes Arrow streams."""

    def __arrow_c_schema__(self) -> object:
        """The schema of these rows, for whoever takes Arrow schemas: that of the table has no virtual column."""

    def _repr_html_(self) -> str: ...
    def add_column(self, name: str, type: str) -> None:
        """Add a column, null in all rows there are. No row is rewritten.

        Parameters
        ----------
        name
            Its name.
        type
            Its type, see :meth:`splay.Database.write`.

        Raises
        ------
        SchemaError
            If there is a column of that name.
        ValueError
            If there is no such type.
        """

    def widen_column(self, name: str, type: str) -> None:
        """Widen a column's type; values don't change. Only ``int64`` and ``uint64`` to ``float64``, and ``text`` to ``symbol``,
        rewrite the table's files.

        Parameters
        ----------
        name
            Its name.
        type
            A type that has every value of the present one, such as ``int64`` for ``int32``; ``float64`` for ``int64`` if it has every value
            that is there.

        Raises
        ------
        NoSuchColumnError
            If there is no such column.
        SchemaError
            If some value of the present type has no equal in the new one, or the column orders the rows.
        """

    def commits(self, count: int = 100) -> list[Commit]:
        """The newest commits first. Of captures and compactions only the newest 1,000 are known.

        Parameters
        ----------
        count
            How many at most.
        """

    def storage(self) -> list[dict[str, Any]]:
        """What each column takes on disk: a row for each segment and column, to be made a frame.

        ``date``, ``tier`` and ``rows`` are the segment's; ``bytes`` what the column takes there, ``plain_bytes`` what its values take in memory
        (``None`` for texts), ``kept`` how it is encoded.
        """

    def advise(
        self, goal: str = "balanced", *, budget: float = 20.0, memory: int | str | None = None, apply: bool = False
    ) -> dict[str, Any]:
        """Measure samples of the table's rows in each tier, and advise which tiers suit a goal, as ``splay advise`` does.

        ``columns`` are rows to be made a frame: ``now`` and, for each of the tiers ``mapped``, ``fast``, ``small`` and ``dense``, bytes a row, how the
        column is kept and GB that a core reads in a second, and the ``reason`` in words. ``tiers`` is what the whole table would take, ``rules`` what is
        advised, ``bytes_advised`` what that gives, ``reasons`` why. Rows that are in no file yet don't count.

        Parameters
        ----------
        goal
            ``"size"``: the fewest bytes; ``"speed"``: the fastest statements; ``"balanced"``: fast statements over new dates, few bytes for old
            ones.
        budget
            Seconds to spend on samples. The first one is taken whole.
        memory
            Bytes, or a text such as ``"64G"``, in which the system keeps mapped files; by default that limits nothing.
        apply
            Whether to set the rules, as :meth:`set_tier` does. Files move with :meth:`move_to_tiers`.

        Raises
        ------
        ValueError
            If there is no such goal.
        SchemaError
            If rules are to be set for a table without rows.
        """

    def undo(self, commit: int) -> LoadReport:
        """Undo a commit; later commits stay. The undo is itself a commit that can be undone, unless it restores a
        dropped column.

        Parameters
        ----------
        commit
            Its number, see :meth:`commits`.

        Raises
        ------
        CannotUndoError
            If it changed no rows and dropped no column, was undone before, or files for it are gone: the setting ``history_s`` says how long
            they are kept.
        """

    def rename(self, name: str) -> Table:
        """Give the table another name, by one commit, and give the table of that name. Its rows, its earlier commits and what can be undone stay,
        and no file changes its place.

        Parameters
        ----------
        name
            The new name.

        Raises
        ------
        InvalidNameError
            If a table or a view has the name, or it can't be one.
        ExecutionError
            If views read the table, or it keeps the rows of one.
        BusyError
            If a server captures.
        """

    def delete(self, condition: str, params: Sequence[Parameter] | Mapping[str, Parameter] | None = None) -> int:
        """Delete rows, by one commit, which can be undone, and give their number.

        Parameters
        ----------
        condition
            What is true for them, as behind ``WHERE`` in SQL; ``"true"`` for all rows. It is a part of the statement: values from
            elsewhere belong into ``params``.
        params
            Values for placeholders, see :meth:`splay.Database.sql`.

        Raises
        ------
        StatementError
            If it is no condition, or names a column that there isn't.
        BusyError, LockedError
            If others write.
        """

    def drop(self, *, cascade: bool = False) -> list[str]:
        """Drop the table. ``splay undo`` brings it back while its files are kept and no table was made with its name since.

        Parameters
        ----------
        cascade
            Drop the views that read it as well, and those that read these, for good; their names are given.

        Raises
        ------
        NoSuchTableError
            If it is gone already.
        ExecutionError
            If views read it.
        BusyError, LockedError
            If another process captures rows into it, or others write.
        """

    def drop_column(self, name: str) -> None:
        """Drop a column. No file is written anew; until files are, undoing the commit brings it back.

        Parameters
        ----------
        name
            Its name.

        Raises
        ------
        NoSuchColumnError
            If there is no such column.
        SchemaError
            If it orders the rows.
        StatementError
            If views name it.
        """

    def rename_column(self, name: str, to: str) -> None:
        """Give a column another name. No file is written anew. Rows that a server has captured are under the new name, and later ones have to be.

        Parameters
        ----------
        name
            Its name.
        to
            The new name.

        Raises
        ------
        NoSuchColumnError
            If there is no such column.
        SchemaError
            If another column has the new name, or had it.
        StatementError
            If views name it.
        """

    def set_options(self, **options: int | str | None) -> None:
        """Set options of the table, by one commit; those that aren't named stay as they are.

        Parameters
        ----------
        options
            As behind ``ALTER TABLE … SET``: ``retain_days=90``, ``retain_bytes="200G"``, ``tier="fast, small after 30"``; None takes an
            option back.

        Raises
        ------
        StatementError
            If there is no such option, or it can't have the value.
        SchemaError
            If it is a reference table, which has no retention.
        """

    def retain(self, *, days: int | None = None, bytes: int | str | None = None) -> None:
        """Set how long rows stay; without bounds for ever. Whole dates go, by :meth:`expire` or a server; the newest stays.

        Parameters
        ----------
        days
            Days that the table has, the newest date's among them.
        bytes
            Bytes that its segments and indexes may have: a number, or a size such as ``"2G"``, in powers of 1,024.
        """

    def set_tier(self, tier: Literal["mapped", "fast", "small", "dense", "object"], *, after: int = 0) -> None:
        """Set the tier of dates from an age on. New rows and :meth:`compact` follow it; :meth:`move_to_tiers`, or a server, moves the others.

        Parameters
        ----------
        tier
            ``"mapped"``: uncompressed Arrow, the fastest; ``"fast"``: Parquet in light encodings; ``"small"``: Parquet, compressed;
            ``"dense"``: chunks of pco, the smallest; ``"object"``: as ``"small"``, in the object store of ``splay.toml``.
        after
            Days that a date is older than the table's newest.
        """

    def set_publish(self, form: Literal["delta", "delta-nanos"] | None) -> None:
        """Set the form in which other engines are to read the table's Parquet segments. Those that are written from now on have it;
        :meth:`compact` writes the others anew, and :meth:`publish` publishes them.

        Parameters
        ----------
        form
            ``"delta"``: a Delta table with timestamps of microseconds; ``"delta-nanos"``: one with whole numbers of nanoseconds;
            ``None``: none.

        Raises
        ------
        SchemaError
            If a column's name is none that the form has.
        """

    def publish(self) -> PublishReport:
        """Bring the Delta table, by which other engines read the Parquet segments in place, up to the last commit.

        Raises
        ------
        SchemaError
            If the table isn't to be published, or a segment isn't in the form that others read. The message says the way out.
        """

    @property
    def partition(self) -> Literal["day", "month", "year", "all"]:
        """What a partition of the table spans."""

    def set_partition(self, period: Literal["day", "month", "year", "all"]) -> None:
        """Change what a partition spans, by one commit that writes all rows anew. Commits from before can't be undone or read any more.

        Raises
        ------
        Error
            If rows are captured into the table.
        """

    def move_to_tiers(self) -> list[datetime.date]:
        """Move dates to the tiers of their age, a commit each, and give them. Ctrl-C ends it behind a segment."""

    def expire(self, *, dry_run: bool = False) -> list[datetime.date]:
        """Remove the dates beyond the retention, by one commit, and give them.

        Parameters
        ----------
        dry_run
            Only say which.
        """

    def forget(self, *, all: bool = False) -> int:
        """Remove files that were kept so that commits can be undone, and give their bytes.

        Parameters
        ----------
        all
            All, and not only those that were kept for ``history_s`` seconds.
        """

    def compact(
        self,
        *,
        tier: Literal["mapped", "fast", "small", "dense", "object"] | None = None,
        before: datetime.date | None = None,
        memory_bytes: int | None = None,
    ) -> CompactReport:
        """Join the segments of each partition to few large ones. Ctrl-C ends it behind a segment, and nothing has changed.

        Parameters
        ----------
        tier
            Tier that all segments shall have. Default: that of :meth:`set_tier`, else each partition stays in that of its first segment.
        before
            Only partitions before this date.
        memory_bytes
            As for :meth:`splay.Database.write`.
        """

    def export(self, folder: str | os.PathLike[str], *, format: Literal["arrow", "parquet"] = "parquet") -> tuple[int, int]:
        """Copy the table to files for other tools, one folder a partition: ``date=YYYY-MM-DD``, ``month=YYYY-MM``, ``year=YYYY`` or ``all``.

        Files that were written are removed if it fails or is ended by Ctrl-C.

        Returns
        -------
        rows, bytes
            That were written.

        Raises
        ------
        StorageError
            If a file is in the way or can't be written.
        """

    def verify(self) -> list[Problem]:
        """Check every byte of the table's segments and indexes. Ctrl-C ends it behind a segment.

        Returns
        -------
        list of Problem
            One for each file that is not as it was written; empty for a sound table.

        Raises
        ------
        CorruptError
            If the manifest itself is damaged.
        """
