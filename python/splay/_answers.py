"""What answers have in common, be they of this process or of a server: rows as frames and tuples, ``with``, HTML."""

import html
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class AnswerMethods:
    """Methods that need nothing but the others of an answer. Each reads the rows, which works once."""

    if TYPE_CHECKING:

        @property
        def columns(self) -> list[str]: ...
        @property
        def schema(self) -> Any: ...
        def __iter__(self) -> Any: ...
        def to_arrow(self) -> pyarrow.Table: ...
        def to_pandas(self, **options: Any) -> pandas.DataFrame: ...
        def to_polars(self) -> polars.DataFrame: ...

    def df(self, **options: Any) -> "pandas.DataFrame":
        """All rows as pandas has them; the short name of ``to_pandas``."""
        return self.to_pandas(**options)

    def pl(self) -> "polars.DataFrame":
        """All rows as Polars has them; the short name of ``to_polars``."""
        return self.to_polars()

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples of Python's values, in the order of the columns."""
        rows: list[tuple[Any, ...]] = []
        for batch in self:
            columns = [column.to_pylist() for column in batch.columns]
            rows.extend(zip(*columns) if columns else [()] * batch.num_rows)
        return rows

    def head(self, rows: int = 5) -> "pyarrow.Table":
        """The first rows; the others are dropped, and the statement is stopped."""
        import pyarrow

        batches, left = [], rows
        for batch in self:
            batches.append(batch.slice(0, left))
            left -= batch.num_rows
            if left <= 0:
                break
        return pyarrow.Table.from_batches(batches, pyarrow.schema(self.schema))

    def _repr_html_(self) -> str:
        names = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        types = "".join(f"<td>{html.escape(str(kind))}</td>" for kind in self.schema.types)
        return f"<div>{html.escape(repr(self))}<table><thead><tr>{names}</tr></thead><tbody><tr>{types}</tr></tbody></table></div>"


def dropped(answer: Any) -> None:
    """Stop the statement of an answer whose rows nobody has read."""
    from splay.errors import ConsumedError

    try:
        rows = iter(answer)
    except ConsumedError:
        return
    del rows
