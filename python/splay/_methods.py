"""Methods of the compiled classes that are written in Python. Importing this puts them there; their stubs are with the others."""

import functools
import os
from pathlib import Path
from typing import Any

from splay import _splay
from splay._answers import TABLE_METHODS, AnswerMethods, TableMethods, dropped
from splay._elsewhere import DATABASE, PREPARED, SCHEMA, TABLES, refusal
from splay._html import SHOWN_TABLES, database_html, table_html
from splay._shown import counted, database_text, order_text, size_text, span_of, table_text
from splay._sizes import byte_count
from splay._splay import Answer, Database, Prepared, Schema, Table
from splay.errors import Error, NotADatabaseError


def _frame(self: Database, name: str) -> Any:
    """A lazy frame of a table or view."""
    from splay.frames.opening import table_frame

    return table_frame(self, name)


def _tables_of(database: Database) -> list[tuple[str, str, str]]:
    """Name, rows and dates of the tables that are shown."""
    lines = []
    for name in database.tables()[:SHOWN_TABLES]:
        try:
            table = database.table(name)
            dates = [partition.date for partition in table.partitions]
            lines.append((name, counted(table.rows, "row"), span_of(min(dates), max(dates)) if dates else "no dates"))
        except Error as error:
            # A table that is damaged doesn't hide the others.
            lines.append((name, type(error).__name__, str(error)))
    return lines


def _text(self: Database) -> str:
    return database_text("Database", str(self.path), _tables_of(self), len(self.tables()) - SHOWN_TABLES)


def _html(self: Database) -> str:
    return database_html("splay.Database", str(self.path), _tables_of(self))


def _table_facts(table: Table) -> list[str]:
    """Rows and order of a table."""
    partitions = table.partitions
    dates = [partition.date for partition in partitions] if table.key is None else []
    ends = (min(dates), max(dates)) if dates else None
    return [size_text(table.rows, len(partitions), ends), order_text(table.time, table.symbol, table.key)]


def _table_text(self: Table) -> str:
    return table_text(f'splay.Table "{self.name}": {", ".join(_table_facts(self))}', self.frame())


def _table_html(self: Table) -> str:
    facts = [*_table_facts(self), f"{self.bytes:,} bytes"]
    return table_html("splay.Table", self.name, facts, self.frame())


_answer_text = Answer.__repr__


def _was_read(self: Answer) -> bool:
    """Only the text of the compiled class tells."""
    return _answer_text(self).endswith("were read>")


def _names(self: Database) -> Any:
    return iter(self.tables())


def _contains(self: Database, name: object) -> bool:
    return isinstance(name, str) and name.lower() in (table.lower() for table in self.tables())


def _itself(self: Any) -> Any:
    return self


def _nothing(self: Any, *_: object) -> None:
    return None


def _to_arrow(self: Answer) -> Any:
    """All rows, batch by batch: the functions of pyarrow that take any frame import pandas to look for its own."""
    batches = iter(self)
    import pyarrow

    return pyarrow.Table.from_batches(list(batches), pyarrow.schema(self.schema))


def _dropped(self: Answer, *_: object) -> None:
    dropped(self)


def in_home(path: Any) -> Any:
    """A path in which ``~`` at the begin is the home folder, as pandas, Polars and DuckDB read it."""
    return os.path.expanduser(path) if isinstance(path, (str, os.PathLike)) else path


@functools.wraps(_splay.open)
def open_folder(path: Any, **options: Any) -> Database:
    """Open a database; a name that means no folder elsewhere is refused, as it would be made."""
    if path == ":memory:":
        error = NotADatabaseError("a database is a folder, and there is none in memory: splay.open(tempfile.mkdtemp()) makes one to throw away")
        error.path = Path(path)
        raise error
    sizes = {name: byte_count(size, name) for name, size in options.items() if name.endswith("_bytes")}
    return _splay.open(in_home(path), **{**options, **sizes})


_load_files = Database.load


def _load(self: Database, table: str, files: Any, *, progress: Any = None, **options: Any) -> Any:
    """Load files, with a bar unless the caller shows how far it is by itself."""
    files = [in_home(file) for file in files] if isinstance(files, (list, tuple)) else in_home(files)
    if progress is not None:
        return _load_files(self, table, files, progress=progress or None, **options)
    from splay.frames.progress import Load

    with Load() as bar:
        return _load_files(self, table, files, progress=bar, **options)


def _put(owner: type, **methods: Any) -> None:
    for name, method in methods.items():
        setattr(owner, name, method)


_put(
    Database,
    __getitem__=_frame,
    __contains__=_contains,
    __iter__=_names,
    __repr__=_text,
    _repr_html_=_html,
    _ipython_key_completions_=Database.tables,
    __enter__=_itself,
    __exit__=_nothing,
    load=_load,
    __getattr__=refusal("a database", DATABASE, TABLES),
)
_put(Table, _facts=_table_facts, __repr__=_table_text, _repr_html_=_table_html, **{name: vars(TableMethods)[name] for name in TABLE_METHODS})
_put(Answer, to_arrow=_to_arrow, __enter__=_itself, __exit__=_dropped, _was_read=property(_was_read))
_put(Answer, **{name: vars(AnswerMethods)[name] for name in ("df", "pl", "fetchall", "head", "__repr__", "_repr_html_", "__getattr__")})
_put(Prepared, __getattr__=refusal("a prepared statement", PREPARED))
_put(Schema, __getattr__=refusal("a schema", SCHEMA, "the type of a column is schema['{name}']"))
