"""Databases, tables and answers for notebooks, as HTML."""

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from splay.frames.frame import Frame

SHOWN_TABLES = 20
"""Tables that a database shows of itself."""


def database_html(kind: str, place: str, tables: Sequence[Sequence[str]]) -> str:
    """A database: what it is, where it is, and a line for each table."""
    rows = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in line) + "</tr>" for line in tables)
    return f"<div><b>{kind}</b> {html.escape(place)}<table>{rows}</table></div>"


def table_html(kind: str, name: str, facts: Sequence[str], frame: "Frame") -> str:
    """A table: its facts, types, and the rows at both ends."""
    from splay.frames.display import rows_html

    title = f"<b>{kind}</b> {html.escape(name)}: {html.escape(', '.join(facts))}"
    return f"<div>{title}{rows_html(frame)}</div>"


def answer_html(title: str, was_read: bool, names: Sequence[str], types: Sequence[str]) -> str:
    """An answer: its columns, whose rows are read once and not here."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    kinds = "".join(f"<td>{html.escape(kind)}</td>" for kind in types)
    state = "its rows were read" if was_read else "its rows are unread"
    return f"<div><b>{html.escape(title)}</b>; {state}<table><thead><tr>{head}</tr></thead><tbody><tr>{kinds}</tr></tbody></table></div>"
