"""Running a frame: its rows as Arrow, pandas, Polars, tuples, batches, files, tables."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from splay.errors import FrameError
from splay.frames.nodes import Column
from splay.frames.query import Query
from splay.frames.relation import Item
from splay.frames.source import Source, columns_of

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from splay.frames.source import AnyAnswer


class Results:
    """The part of :class:`splay.Frame` that reads. Each call runs the statement anew."""

    _source: Source
    _query: Query

    def run(self) -> "AnyAnswer":
        """Start the statement.

        Returns
        -------
        Answer
            Batches as they are made, to be read once.
        """
        return self._source.sql(self._query.sql())

    def to_arrow(self) -> "pyarrow.Table":
        """All rows as a pyarrow table."""
        return self.run().to_arrow()

    collect = to_arrow

    def df(self, **options: Any) -> "pandas.DataFrame":
        """All rows as pandas has them; options are those of ``pyarrow.Table.to_pandas``."""
        return self.run().to_pandas(**options)

    to_pandas = df

    def pl(self) -> "polars.DataFrame":
        """All rows as Polars has them."""
        return self.run().to_polars()

    to_polars = pl

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples."""
        return self.run().fetchall()

    def iter_batches(self) -> "Iterator[pyarrow.RecordBatch]":
        """The rows batch by batch, without collecting them. Leaving early stops the statement."""
        return iter(self.run())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows for whoever takes Arrow streams: Polars, DuckDB, pyarrow, pandas."""
        return self.run().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        """How many rows there are; of a table alone that is known, else they are counted."""
        from splay.frames.functions import count

        query = self._query.grouped([], [Item("rows", count().node)], needs_order=False)
        return int(self._source.sql(query.sql()).fetchall()[0][0])

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns there are."""
        return len(self), len(self._query.columns)

    @property
    def dtypes(self) -> dict[str, str]:
        """Types of the columns, by SplayDB's names on a local database and Arrow's on a server. No row is read."""
        names, types = columns_of(self._source, self._query.sliced(0, 0).sql())
        return dict(zip(names, types))

    def explain(self, analyze: bool = False) -> str:
        """How the statement is run; with `analyze` it is, and each step tells what it cost."""
        prefix = "EXPLAIN ANALYZE" if analyze else "EXPLAIN"
        rows = self._source.sql(f"{prefix} {self._query.sql()}").fetchall()
        return "\n".join(f"{kind}\n{text}" for kind, text in rows)

    def describe(self) -> "pyarrow.Table":
        """A row about each column: least and greatest value, mean, quantiles, nulls. Reads all rows once."""
        return self._source.sql(f"SUMMARIZE {self._query.sql()}").to_arrow()

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
        """
        import pyarrow
        import pyarrow.parquet

        target = Path(path)
        part = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        answer = self.run()
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
        """
        target = self._source if database is None else database
        if not hasattr(target, "write"):
            raise FrameError("a frame over files belongs to no database: say which one takes its rows, by database=")
        return target.write(table, self._storable().run(), **options)

    def _storable(self) -> "Results":
        """The frame without the virtual column that every table has by itself."""
        query = self._query
        if query.virtual is None:
            return self
        items = [Item(name, Column(name)) for name in query.columns if name != query.virtual]
        return type(self)(self._source, query.projected(items))  # type: ignore[call-arg]


def _arrow_schema(answer: Any) -> "pyarrow.Schema":
    import pyarrow

    return pyarrow.schema(answer.schema)
