"""Answers: what statements give, and what they cost."""

from collections.abc import Iterator
from typing import Any, final

import pandas
import polars
import pyarrow

from splay._table import Schema

@final
class Answer:
    """The answer to a statement: batches as they are made.

    The rows can be read once, by one of :meth:`to_arrow`, :meth:`to_pandas`, :meth:`to_polars`, iteration, or a library that
    takes Arrow streams: ``polars.DataFrame(answer)``, ``pyarrow.table(answer)``, ``duckdb.sql("from answer")``. A second
    reading raises :class:`splay.ConsumedError`. An answer that is dropped, or left in the middle, stops the statement.

    Ctrl-C stops the statement within a tenth of a second. Where another library reads the stream, that library raises its own
    exception with our message, and ``KeyboardInterrupt`` follows.
    """

    @property
    def schema(self) -> Schema:
        """Columns with their types, known before the first row."""

    @property
    def columns(self) -> list[str]:
        """Names of the columns, spelled as the statement and the tables do."""

    @property
    def stats(self) -> Stats:
        """Costs so far; final after the last batch."""

    def to_arrow(self) -> pyarrow.Table:
        """All rows; shape: rows of the answer by its columns. Arrow's buffers are handed over, not copied.

        Raises
        ------
        ExecutionError, MemoryLimitError, CorruptError
            What goes wrong while the statement runs.
        ConsumedError
            If the rows were read before.
        ImportError
            If pyarrow is not installed.
        """

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """All rows; shape: rows of the answer by its columns, with a ``RangeIndex``.

        Timestamps are ``datetime64[ns, UTC]``, symbols categories, nulls of numbers NaN.

        Parameters
        ----------
        **options
            Those of ``pyarrow.Table.to_pandas``, such as ``types_mapper``.

        Raises
        ------
        As :meth:`to_arrow`.
        """

    def to_polars(self) -> polars.DataFrame:
        """All rows; shape: rows of the answer by its columns. pyarrow is not needed.

        Timestamps are ``Datetime("ns", "UTC")``, symbols ``Categorical``.

        Raises
        ------
        As :meth:`to_arrow`.
        """

    def df(self, **options: Any) -> pandas.DataFrame:
        """All rows as pandas has them; the short name of :meth:`to_pandas`."""

    def pl(self) -> polars.DataFrame:
        """All rows as Polars has them; the short name of :meth:`to_polars`."""

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples of Python's values, in the order of the columns. Raises as :meth:`to_arrow`."""

    def head(self, rows: int = 5) -> pyarrow.Table:
        """The first rows; the others are dropped, and the statement is stopped. Raises as :meth:`to_arrow`."""

    def _repr_html_(self) -> str: ...
    def __enter__(self) -> Answer:
        """Itself. At the end of a ``with`` block the statement is stopped, if nobody has read its rows."""

    def __exit__(self, *_: object) -> None: ...
    def __iter__(self) -> Batches:
        """The rows batch by batch, without collecting them.

        Raises
        ------
        As :meth:`to_arrow`.
        """

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows for whoever takes Arrow streams. Who reads the first batch has them."""

    def __arrow_c_schema__(self) -> object:
        """The schema for whoever takes Arrow schemas."""

@final
class Batches(Iterator[pyarrow.RecordBatch]):
    """The batches of an answer, each of about ``batch_rows`` rows. Threads may share it."""

    def __iter__(self) -> Batches: ...
    def __next__(self) -> pyarrow.RecordBatch: ...

@final
class Kept:
    """How many were kept of how many there are."""

    @property
    def kept(self) -> int:
        """How many were kept."""

    @property
    def total(self) -> int:
        """How many there are."""

@final
class Stats:
    """What a statement cost."""

    @property
    def run_by(self) -> str:
        """What ran it: ``tick_plan``, ``datafusion``, or ``tick_parts`` for DataFusion with groupings that ran as tick plans."""

    @property
    def tick_plans_refused(self) -> int:
        """Tick plans of it that the engine refused while they ran, so that DataFusion ran them again."""

    @property
    def planning_seconds(self) -> float:
        """From the text to the plan."""

    @property
    def execution_seconds(self) -> float:
        """From the plan to the last batch, with the time in which the reader was awaited."""

    @property
    def rows_returned(self) -> int:
        """Rows that were read of the answer."""

    @property
    def rows_scanned(self) -> int:
        """Rows that were read of tables to find them."""

    @property
    def bytes_scanned(self) -> int:
        """Bytes of the columns that were looked into, in the rows that were looked at; of texts, their offsets alone. Of blocks
        whose summaries did, none; of columns that were searched, all; of what a join found, the values that were taken."""

    @property
    def peak_memory_bytes(self) -> int:
        """Most bytes that sorts, joins and groups held at a time. Mapped files don't count."""

    @property
    def partitions(self) -> Kept:
        """Partitions that the indexes let through, summed over the statement's scans."""

    @property
    def symbols(self) -> Kept:
        """Runs of equal symbols, of those partitions."""

    @property
    def blocks(self) -> Kept:
        """Blocks of 1,024 rows, of all partitions."""
