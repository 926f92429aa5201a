"""Databases, tables and answers for notebooks, as HTML."""

import html
from collections.abc import Mapping, Sequence

SHOWN_TABLES = 20
"""Tables that a database shows of itself."""


def database_html(kind: str, place: str, tables: Sequence[Sequence[str]]) -> str:
    """A database: what it is, where it is, and a line for each table."""
    rows = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in line) + "</tr>" for line in tables)
    return f"<div><b>{kind}</b> {html.escape(place)}<table>{rows}</table></div>"


def table_html(kind: str, name: str, facts: Sequence[str], columns: Mapping[str, str]) -> str:
    """A table: its facts, and a line for each column."""
    title = f"<b>{kind}</b> {html.escape(name)}: {html.escape(', '.join(facts))}"
    lines = "".join(f"<tr><td>{html.escape(column)}</td><td>{html.escape(type_)}</td></tr>" for column, type_ in columns.items())
    return f"<div>{title}<table>{lines}</table></div>"


def answer_html(title: str, names: Sequence[str], types: Sequence[str]) -> str:
    """An answer: its columns, whose rows are read once and not here."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    kinds = "".join(f"<td>{html.escape(kind)}</td>" for kind in types)
    return f"<div>{html.escape(title)}<table><thead><tr>{head}</tr></thead><tbody><tr>{kinds}</tr></tbody></table></div>"
