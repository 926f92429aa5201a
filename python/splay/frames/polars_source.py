"""Frames as lazy frames of Polars: the statement runs when Polars collects, for the columns and rows that it asks for."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars

    from splay.frames.frame import Frame


def scan(frame: "Frame") -> "polars.LazyFrame":
    """A lazy frame of Polars."""
    import polars
    from polars.io.plugins import register_io_source

    def read(
        columns: list[str] | None, condition: "polars.Expr | None", rows: int | None, batch_rows: int | None
    ) -> "Iterator[polars.DataFrame]":
        output = list(frame.columns if columns is None else columns)
        needed = list(output)
        if condition is not None:
            # Polars asks for the columns that it gets, which need not be those of the condition.
            needed += [name for name in condition.meta.root_names() if name not in needed]
        query = frame.select(*needed) if needed else frame
        # The number of rows is that before the condition.
        query = query if rows is None else query.limit(rows)
        is_empty = True
        for batch in query.iter_batches():
            part = polars.DataFrame(batch)
            is_empty = False
            yield (part if condition is None else part.filter(condition)).select(output)
        if is_empty:
            yield polars.DataFrame(query.limit(0)).select(output)

    return register_io_source(read, schema=lambda: polars.DataFrame(frame.limit(0)).schema, explain_name="splay")
