"""Frames, tables and answers as text and HTML: names, types, a few rows. No whole column is read for it."""

import dataclasses
import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from splay.frames.frame import Frame

ROWS = 5
"""Rows that are shown of each end."""
COLUMNS = 12
"""Columns that are shown; the middle of more is left out."""
TEXT = 32
"""Characters that are shown of a value."""


@dataclasses.dataclass(frozen=True)
class Preview:
    """What is shown of rows."""

    names: list[str]
    types: list[str]
    head: list[tuple[Any, ...]]
    tail: list[tuple[Any, ...]]
    is_whole: bool
    """Whether there are no rows between both."""

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """Both, and a row of dots between them where rows are left out."""
        gap = [] if self.is_whole else [("…",) * len(self.names)]
        return [*self.head, *gap, *self.tail]


def text_of(frame: "Frame") -> str:
    """A frame as text."""
    shown = preview(frame)
    title = f"<splay.Frame of {', '.join(_facts(frame))}>"
    if shown is None:
        run = "not run yet: .df(), .pl(), .to_arrow(), .head().df()"
        return "\n".join([title, f"columns: {', '.join(_some(frame.columns))}", frame.sql(), run])
    return f"{title}\n{table_text(shown.names, shown.types, shown.rows)}"


def html_of(frame: "Frame") -> str:
    """A frame for a notebook."""
    shown = preview(frame)
    title = f"<b>splay.Frame</b> of {html.escape(', '.join(_facts(frame)))}"
    if shown is None:
        columns = ", ".join(html.escape(name) for name in _some(frame.columns))
        return f"<div>{title}<br>{columns}<pre>{html.escape(frame.sql())}</pre>not run yet</div>"
    return f"<div>{title}{table_html(shown.names, shown.types, shown.rows)}</div>"


def preview(frame: "Frame") -> Preview | None:
    """Names, types, the first rows of a frame and the last of a table, or None if finding them could read many rows."""
    query = frame._query
    is_cheap = not (query.where or query.qualify or query.keys is not None or query.is_distinct or query.order or query.tail)
    # What a sub-query or a join costs isn't seen here.
    if not is_cheap or query.relation.text.startswith("(") or query.relation.left:
        return None
    if query.items is not None and any(item.node.kind for item in query.items):
        return None
    answer = frame.head(ROWS + 1).run()
    names, types, first = list(answer.columns), [str(kind) for kind in answer.schema.types], answer.fetchall()
    if len(first) <= ROWS:
        return Preview(names, types, first, [], True)
    count = _rows(frame)
    if count is None:
        return Preview(names, types, first[:ROWS], [], False)
    start = max(ROWS, count - ROWS)
    return Preview(names, types, first[:ROWS], frame[start:count].run().fetchall(), start == ROWS)


def _rows(frame: "Frame") -> int | None:
    """How many rows a table has, which is known without reading any."""
    query = frame._query
    if query.relation.table is None or query.is_cut:
        return None
    return int(frame._source.table(query.relation.table).rows)  # type: ignore[attr-defined]


def _facts(frame: "Frame") -> list[str]:
    """What is said of a frame: columns, and of a table rows, dates and order."""
    query = frame._query
    facts = [f"{len(frame.columns)} columns"]
    if query.relation.table is not None and query == type(query)(query.relation):
        table: Any = frame._source.table(query.relation.table)  # type: ignore[attr-defined]
        dates = table.dates if hasattr(table, "dates") else _ends([partition.date for partition in table.partitions])
        facts.append(f"{table.rows:,} rows")
        facts += [f"dates {dates[0]} to {dates[1]}"] if dates else []
    return [*facts, *([order] if (order := _order(frame)) else [])]


def _ends(dates: Sequence[Any]) -> tuple[Any, Any] | None:
    return (min(dates), max(dates)) if dates else None


def _order(frame: "Frame") -> str:
    query = frame._query
    if query.order:
        from splay.frames.nodes import PLAIN

        return "sorted by " + ", ".join(key.render(PLAIN) for key in query.order)
    return "in the order of the table" if query.is_ordered else ""


def _some(names: Sequence[str]) -> list[str]:
    if len(names) <= COLUMNS:
        return list(names)
    half = COLUMNS // 2
    return [*names[:half], f"… {len(names) - 2 * half} more …", *names[-half:]]


def table_text(names: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Rows below names and types."""
    places = _places(len(names))
    lines = [[names[place] if place >= 0 else "…" for place in places], [types[place] if place >= 0 else "" for place in places]]
    lines += [[_value(row[place]) if place >= 0 else "…" for place in places] for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(places))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def table_html(names: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """The same as a table of HTML."""
    places = _places(len(names))

    def line(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    head = [f"{names[place]} ({types[place]})" if place >= 0 else "…" for place in places]
    body = "".join(line("td", [_value(row[place]) if place >= 0 else "…" for place in places]) for row in rows)
    return f"<table><thead>{line('th', head)}</thead><tbody>{body}</tbody></table>"


def _places(count: int) -> list[int]:
    """Which columns are shown; -1 stands for those that aren't."""
    if count <= COLUMNS:
        return list(range(count))
    half = COLUMNS // 2
    return [*range(half), -1, *range(count - half, count)]


def _value(value: Any) -> str:
    text = "null" if value is None else str(value)
    text = text.replace("\n", " ")
    return text if len(text) <= TEXT else text[: TEXT - 1] + "…"
