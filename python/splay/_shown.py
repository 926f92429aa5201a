"""What databases, tables and answers say of themselves as text, of this process and of a server alike. HTML is in :mod:`splay._html`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from splay._types import type_name

if TYPE_CHECKING:
    from splay.frames.frame import Frame


def counted(number: int, noun: str) -> str:
    """A number of things: ``1 row``, ``2,000 rows``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def span_of(first: Any, last: Any) -> str:
    """Dates from the first to the last, or the only one."""
    return str(first) if first == last else f"{first} to {last}"


def size_text(rows: int | None, partitions: int | None, dates: "tuple[Any, Any] | None") -> str:
    """Rows of a table and where they are. None stands for what a server tells only those who may read all of them."""
    if rows is None:
        return "an untold number of rows"
    within = f" in {counted(partitions, 'partition')}" if partitions is not None and dates else ""
    return counted(rows, "row") + within + (f", {span_of(*dates)}" if dates else "")


def order_text(time: str | None, symbol: str | None, key: "Sequence[str] | None") -> str:
    """What the rows of a table are ordered by; of a reference table its key."""
    if key is not None:
        return f"reference table, key ({', '.join(key)})"
    return "ordered by " + ", ".join(name for name in (symbol, time) if name is not None)


def table_text(title: str, frame: "Frame") -> str:
    """A table: its title, types, and the rows at both ends."""
    from splay.frames.display import rows_text

    return f"<{title}>{rows_text(frame)}"


def answer_text(kind: str, schema: Any, was_read: bool) -> str:
    """An answer: its columns with their types. Its rows are read once, and not here."""
    from splay.frames.display import table_text as types_text

    names, types = list(schema.names), [type_name(one) for one in schema.types]
    state = "its rows were read" if was_read else "its rows are unread: .df(), .pl(), .to_arrow(), .fetchall()"
    return f"<splay.{kind} of {counted(len(names), 'column')}; {state}>\n{types_text(names, types, [])}"


def database_text(kind: str, place: str, tables: "Sequence[Sequence[str]]", more: int = 0) -> str:
    """A database: where it is, and a line for each table."""
    lines = ["  ".join(line).rstrip() for line in tables] + ([f"… {more} more"] if more > 0 else [])
    return "\n  ".join([f'<splay.{kind} "{place}">', *lines])
