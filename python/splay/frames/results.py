"""Running a frame: its rows as Arrow, pandas, Polars, tuples, batches, files, tables."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from splay.errors import Error, FrameError
from splay.frames.nodes import Column
from splay.frames.progress import Watch
from splay.frames.query import Query
from splay.frames.relation import Item
from splay.frames.source import Source, columns_of, in_words_of_frames
from splay.frames.text import identifier

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from splay.frames.source import AnyAnswer


class Results:
    """The part of :class:`splay.Frame` that reads. Each call runs the statement anew."""

    _source: Source
    _query: Query
    _roots: frozenset[tuple[int, str]]

    def run(self) -> "AnyAnswer":
        """Start the statement.

        Returns
        -------
        Answer
            Batches as they are made, to be read once.

        >>> with trade.head(3).run() as answer:
        ...     rows = answer.fetchall()
        >>> answer.stats.rows_returned
        3
        """
        return self._source.sql(self._query.sql())

    def to_arrow(self) -> "pyarrow.Table":
        """All rows as a pyarrow table.

        >>> trade.select("price").to_arrow().num_rows
        400
        """
        with self._watched() as start:
            return start(self._query.sql()).to_arrow()

    collect = to_arrow

    def df(self, **options: Any) -> "pandas.DataFrame":
        """All rows as pandas has them; options are those of ``pyarrow.Table.to_pandas``.

        >>> trade.head(3).df().shape
        (3, 6)
        """
        with self._watched() as start:
            return start(self._query.sql()).to_pandas(**options)

    to_pandas = df

    @overload
    def pl(self, lazy: Literal[False] = False) -> "polars.DataFrame": ...
    @overload
    def pl(self, lazy: Literal[True]) -> "polars.LazyFrame": ...
    @overload
    def pl(self, lazy: bool) -> "polars.DataFrame | polars.LazyFrame": ...
    def pl(self, lazy: bool = False) -> "polars.DataFrame | polars.LazyFrame":
        """All rows as Polars has them.

        Parameters
        ----------
        lazy
            Whether it is a lazy frame of Polars, which runs the statement when it is collected and asks only for the columns and the
            first rows that Polars needs.

        >>> trade.head(3).pl().shape
        (3, 6)
        >>> trade.pl(lazy=True).select("price").collect().shape
        (400, 1)
        """
        if lazy:
            from splay.frames.polars_source import scan

            return scan(self)  # type: ignore[arg-type]
        with self._watched() as start:
            return start(self._query.sql()).to_polars()

    to_polars = pl

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples.

        >>> trade.select("symbol", "price").head(2).fetchall()
        [('A', 99.51), ('A', 99.31)]
        """
        with self._watched() as start:
            return start(self._query.sql()).fetchall()

    def iter_batches(self) -> "Iterator[pyarrow.RecordBatch]":
        """The rows batch by batch, without collecting them. Leaving early stops the statement.

        >>> sum(batch.num_rows for batch in trade.iter_batches())
        400
        """
        return _batches(self.run())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows for whoever takes Arrow streams: Polars, DuckDB, pyarrow, pandas.

        >>> import polars
        >>> polars.DataFrame(trade.select("price")).shape
        (400, 1)
        """
        return self.run().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        """How many rows there are; of a table alone that is known, else they are counted.

        >>> len(trade)
        400
        """
        from splay.frames.functions import count

        query = self._query.grouped([], [Item("rows", count().node)], needs_order=False)
        with self._watched() as start:
            return int(start(query.sql()).fetchall()[0][0])

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns there are.

        >>> trade.shape
        (400, 6)
        """
        return len(self), len(self._query.columns)

    @property
    def dtypes(self) -> dict[str, str]:
        """Types of the columns, by SplayDB's names, and Arrow's for types that tables don't have. No row is read.

        >>> trade.select("time", "price").dtypes
        {'time': 'timestamp', 'price': 'float64'}
        """
        names, types = columns_of(self._source, self._query.sliced(0, 0).sql())
        return dict(zip(names, types))

    def _planned_types(self) -> dict[str, str]:
        """Types of the columns by the plan alone: even no row of some statements is known only when all rows were read. Of all times and numbers of
        decimal places the names are the same.
        """
        rows = self._source.sql(f"DESCRIBE {self._query.sql()}").fetchall()
        return dict(zip(self._query.columns, (kind for _, kind, *_ in rows)))

    def explain(self, analyze: bool = False) -> str:
        """How the statement is run; with `analyze` it is, and each step tells what it cost.

        >>> "tick_plan" in trade.group_by("symbol").agg(splay.count()).explain()
        True
        """
        prefix = "EXPLAIN ANALYZE" if analyze else "EXPLAIN"
        rows = self._source.sql(f"{prefix} {self._query.sql()}").fetchall()
        return "\n".join(f"{kind}\n{text}" for kind, text in rows)

    def describe(self) -> "pyarrow.Table":
        """A summary of each column, as pandas and Polars have it: a row for each statistic, which the column ``statistic`` names. Reads all rows
        once.

        Returns
        -------
        pyarrow.Table
            Rows ``count`` (of all rows), ``null_percentage``, ``approx_unique``, ``mean``, ``std``, ``min``, ``q25``, ``q50``, ``q75``, ``max``.
            Columns of numbers are float64, others are texts; null is what a type doesn't have. Distinct counts and quantiles are estimates.

        >>> summary = trade.select("price", "symbol").describe()
        >>> dict(zip(summary["statistic"].to_pylist(), summary["price"].to_pylist()))["max"]
        103.05
        >>> summary["symbol"].to_pylist()[0]
        '400'
        """
        with self._watched() as start:
            rows = start(f"SUMMARIZE {self._query.sql()}").to_arrow().to_pylist()
        return _summary(self._query.columns, rows)

    def to_parquet(self, path: "str | os.PathLike[str]", *, compression: str = "zstd", row_group_rows: int = 1 << 20) -> int:
        """Write the rows to a Parquet file, batch by batch.

        The file gets its name when it is complete; one of that name is replaced.

        Parameters
        ----------
        row_group_rows
            Rows of a row group, which are held in memory until it is written.

        Returns
        -------
        int
            Rows that were written.

        >>> trade.to_parquet("trades.parquet")
        400
        """
        with self._watched() as start:
            return _written(start(self._query.sql()), Path(path).expanduser(), compression, row_group_rows)

    def write_to(self, table: str, database: Any = None, **options: Any) -> Any:
        """Write the rows into a table, all by one commit, batch by batch.

        Parameters
        ----------
        table
            Its name. It is made if there is none.
        database
            Where it is. Default: the database of the frame.
        **options
            Those of ``write`` of the database or server, such as ``time`` and ``symbol``.

        Returns
        -------
        LoadReport or Ack
            What became of them. A server takes the rows as one message, which must not be larger than it allows.

        >>> trade.bars("1h").write_to("hours").rows
        16
        """
        target = self._source if database is None else database
        if not hasattr(target, "write"):
            raise FrameError("a frame over files belongs to no database: say which one takes its rows, by database=")
        with self._watched() as start:
            return target.write(table, start(self._storable()._query.sql()), **options)

    def _storable(self) -> "Results":
        """The frame without the virtual column that every table has by itself."""
        query = self._query
        if query.virtual is None:
            return self
        items = [Item(name, Column(name)) for name in query.columns if name != query.virtual]
        return type(self)(self._source, query.projected(items))  # type: ignore[call-arg]


    def _watched(self) -> Watch:
        """A bar while a statement is long."""
        return Watch(self._source, self._rows_of_tables)

    def _rows_of_tables(self) -> int | None:
        """Rows of the tables that it was made of, None if that isn't known."""
        names = {text for _, text in self._roots}
        try:
            there: dict[str, str] = {identifier(name): name for name in self._source.tables()}  # type: ignore[attr-defined]
            # Names of tables are matched without regard to case.
            spelled = {text.lower(): name for text, name in there.items()}
            tables = [self._source.table(spelled[text.lower()]) for text in names]  # type: ignore[attr-defined]
            return sum(int(table.rows) for table in tables)
        except (AttributeError, LookupError, Error):
            return None


_STATISTICS = {name: name for name in ("count", "null_percentage", "approx_unique")} | {"mean": "avg"}
_STATISTICS |= {name: name for name in ("std", "min", "q25", "q50", "q75", "max")}
"""Statistics by what ``SUMMARIZE`` calls them."""


def _summary(columns: "Sequence[str]", rows: list[dict[str, Any]]) -> "pyarrow.Table":
    """What ``SUMMARIZE`` says of columns, each as a column."""
    import pyarrow

    arrays = [pyarrow.array(list(_STATISTICS))]
    for row in rows:
        of_numbers = re.match(r"u?int\d|float|decimal", row["column_type"])
        read, kind = (float, pyarrow.float64()) if of_numbers else (str, pyarrow.string())
        found = [row[name] for name in _STATISTICS.values()]
        arrays.append(pyarrow.array([None if one is None else read(one) for one in found], kind))
    return pyarrow.Table.from_arrays(arrays, ["statistic", *columns])


def _batches(answer: "AnyAnswer") -> "Iterator[pyarrow.RecordBatch]":
    try:
        yield from answer
    except Error as error:
        in_words_of_frames(error)
        raise


def _written(answer: "AnyAnswer", target: Path, compression: str, row_group_rows: int) -> int:
    """Write the rows of an answer to a Parquet file, which gets its name when it is complete."""
    import pyarrow
    import pyarrow.parquet

    part = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    rows = 0
    try:
        with pyarrow.parquet.ParquetWriter(part, _arrow_schema(answer), compression=compression) as writer:
            waiting: list[pyarrow.RecordBatch] = []
            for batch in answer:
                waiting.append(batch)
                rows += batch.num_rows
                if sum(kept.num_rows for kept in waiting) >= row_group_rows:
                    writer.write_table(pyarrow.Table.from_batches(waiting), row_group_rows)
                    waiting = []
            if waiting:
                writer.write_table(pyarrow.Table.from_batches(waiting), row_group_rows)
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return rows


def _arrow_schema(answer: Any) -> "pyarrow.Schema":
    import pyarrow

    return pyarrow.schema(answer.schema)
