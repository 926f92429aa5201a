"""What answers, and tables, of this process and of a server have in common: rows as frames and tuples, ``with``, HTML."""

from itertools import starmap
from typing import TYPE_CHECKING, Any

from splay._elsewhere import ANSWER, FRAME, TABLE, missing, refusal
from splay._html import answer_html
from splay._shown import answer_text, counted
from splay._types import type_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas
    import polars
    import pyarrow

    from splay.frames.frame import Frame

    Parameters = Sequence[Any] | Mapping[str, Any]


class AnswerMethods:
    """Methods that need nothing but the others of an answer. Each reads the rows, which works once."""

    if TYPE_CHECKING:

        @property
        def columns(self) -> list[str]: ...
        @property
        def schema(self) -> Any: ...
        @property
        def _was_read(self) -> bool: ...
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

    if not TYPE_CHECKING:
        __getattr__ = refusal("an answer", ANSWER)

    def __repr__(self) -> str:
        return answer_text(type(self).__name__, self.schema, self._was_read)

    def _repr_html_(self) -> str:
        title = f"splay.{type(self).__name__} of {counted(len(self.columns), 'column')}"
        return answer_html(title, self._was_read, self.columns, [type_name(kind) for kind in self.schema.types])


class TableMethods:
    """Rows of a table, read by its lazy frame, and changes of it, made by SQL."""

    if TYPE_CHECKING:

        @property
        def database(self) -> Any: ...
        @property
        def name(self) -> str: ...

    def frame(self) -> "Frame":
        """A lazy frame of its rows, which ``database[name]`` is as well."""
        frame: Frame = self.database[self.name]
        return frame

    def head(self, rows: int = 5) -> "Frame":
        """A lazy frame of its first rows, in its order."""
        return self.frame().head(rows)

    def to_arrow(self) -> "pyarrow.Table":
        """All rows as a pyarrow table, with the virtual column ``date``."""
        return self.frame().to_arrow()

    def df(self, **options: Any) -> "pandas.DataFrame":
        """All rows as pandas has them; options are those of ``pyarrow.Table.to_pandas``."""
        return self.frame().df(**options)

    to_pandas = df

    def pl(self) -> "polars.DataFrame":
        """All rows as Polars has them."""
        return self.frame().pl()

    to_polars = pl

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples of Python's values."""
        return self.frame().fetchall()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows for whoever takes Arrow streams."""
        return self.frame().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The schema of these rows, for whoever takes Arrow schemas: that of the table has no virtual column."""
        return self.frame().limit(0).run().__arrow_c_schema__()

    def delete(self, condition: str, params: "Parameters | None" = None) -> int:
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
        # The bracket is in a line of its own, behind a comment that the condition may end with.
        return self._change("DELETE FROM", f"WHERE (\n{condition}\n)", params)

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
        row = self._change_row("DROP TABLE", "CASCADE" if cascade else "")
        return row[3].split(", ") if cascade and row[3] else []

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
        self._change("ALTER TABLE", f"DROP COLUMN {_name(name)}")

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
        self._change("ALTER TABLE", f"RENAME COLUMN {_name(name)} TO {_name(to)}")

    def set_options(self, **options: "int | str | None") -> None:
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
        if options:
            self._change("ALTER TABLE", f"SET ({', '.join(starmap(_option, options.items()))})")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Verbs of frames are named with the frame."""
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise missing("a table", name, _verbs() | TABLE, dir(type(self)), f"its rows are a lazy frame, db[{self.name!r}]")

    def _change(self, verb: str, what: str = "", params: "Parameters | None" = None) -> int:
        """Run a statement that changes the table, and give how many rows it changed."""
        return int(self._change_row(verb, what, params)[1])

    def _change_row(self, verb: str, what: str, params: "Parameters | None" = None) -> tuple[Any, ...]:
        """Run a statement that changes the table, and give what it tells."""
        rows: list[tuple[Any, ...]] = self.database.sql(f"{verb} {_name(self.name)} {what}", params).fetchall()
        return rows[0]


def _verbs() -> dict[str, str]:
    """What a lazy frame has and a table hasn't."""
    from splay.frames.frame import Frame

    return {name: f"db[table].{name}, a lazy frame of its rows" for name in dir(Frame) if not name.startswith("_")} | {
        name: f"db[table], a lazy frame of its rows, and there {here}" for name, here in FRAME.items()
    }


def _option(name: str, value: "int | str | None") -> str:
    text = "" if value is None else str(value).replace("'", "''")
    return f"{_name(name)} = '{text}'"


def _name(name: str) -> str:
    from splay.frames.text import identifier

    return identifier(name)


TABLE_METHODS = (
    "frame", "head", "to_arrow", "df", "to_pandas", "pl", "to_polars", "fetchall", "__arrow_c_stream__",
    "__arrow_c_schema__", "__getattr__",
    "delete", "drop", "drop_column", "rename_column", "set_options", "_change", "_change_row",
)  # fmt: skip
"""Names of the methods that the compiled class of tables gets."""


def dropped(answer: Any) -> None:
    """Stop the statement of an answer whose rows nobody has read."""
    from splay.errors import ConsumedError

    try:
        rows = iter(answer)
    except ConsumedError:
        return
    del rows
