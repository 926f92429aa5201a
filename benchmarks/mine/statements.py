"""Statements of SQL files, and DuckDB's spelling of what it reads otherwise."""

import datetime
import pathlib
import re
from dataclasses import dataclass

from engine.builds import QUOTED


TOKENS = re.compile(rf"{QUOTED.pattern}|;", re.DOTALL)
INSTANT = re.compile(
    r"\b(?:TIMESTAMPTZ|TIMESTAMP WITH TIME ZONE|TIMESTAMP)\s*"
    r"'(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d)(:\d\d)?(\.\d+)?)?\s*(Z|UTC|[+-]\d\d(?::?\d\d)?)?'",
    re.IGNORECASE,
)
OWN_ENDING = ".duckdb.sql"
READS = ("select", "with", "values", "from", "pivot", "table")
"""What a statement that reads begins with: each is run many times, which none that changes something may be."""
WRITES = re.compile(r"\b(insert|update|delete|merge|create|drop|alter|truncate|copy)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Statement:
    """``name`` is the file's with the statement's number; ``duckdb`` is what DuckDB is asked, ``refusal`` why neither is."""

    name: str
    text: str
    duckdb: str
    refusal: str = ""


def split(text: str) -> list[str]:
    """The statements of a text, without comments: semicolons within quotes end none."""
    found, start, piece = [], 0, []
    for token in TOKENS.finditer(text):
        word = token[0]
        piece.append(text[start : token.start()])
        start = token.end()
        if word == ";":
            found.append("".join(piece))
            piece = []
        elif not word.startswith(("--", "/*")):
            piece.append(word)
        else:
            piece.append(" ")
    found.append("".join([*piece, text[start:]]))
    return [statement.strip() for statement in found if statement.strip()]


def naive(found: re.Match) -> str:
    """An instant in UTC as a literal of DuckDB's nanoseconds, which know no zone."""
    day, minute, second, fraction, zone = found.groups()
    at = datetime.datetime.fromisoformat(f"{day}T{minute or '00:00'}{second or ':00'}")
    if zone and zone.upper() not in ("Z", "UTC"):
        digits = zone[1:].replace(":", "").ljust(4, "0")
        ahead = datetime.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        at = at - ahead if zone[0] == "+" else at + ahead
    return f"TIMESTAMP_NS '{at.isoformat(sep=' ')}{fraction or ''}'"


def spelled_for_duckdb(text: str) -> str:
    """The statement with its instants as the copy's columns have them: a comparison with another type would convert each row."""
    return INSTANT.sub(naive, text)


def without_quotes(text: str) -> str:
    """The text with what stands in quotes left out."""
    return TOKENS.sub(" ", text)


def refusal(text: str) -> str:
    """Why a statement isn't asked: it may change something, or gives no rows of tables. Empty for one that reads."""
    words = without_quotes(text).lstrip(" (\n\t").split(None, 1)
    first = words[0].lower() if words else ""
    # `WITH` may stand before a change as well.
    if first in READS and not (first == "with" and WRITES.search(without_quotes(text))):
        return ""
    return f"only statements that read tables are asked, many times each, and {first.upper() or 'this one'} may do something else"


def read(paths: list[pathlib.Path]) -> list[Statement]:
    """All statements of the files. ``NAME.duckdb.sql`` beside ``NAME.sql`` holds DuckDB's own, one for each.

    Raises
    ------
    ValueError
        If a file has no statement, or the two files don't have equally many.
    """
    found = []
    for path in paths:
        texts = split(path.read_text(encoding="utf-8-sig"))
        if not texts:
            raise ValueError(f"{path} has no statement")
        own = path.with_name(path.name.removesuffix(".sql") + OWN_ENDING)
        theirs = split(own.read_text(encoding="utf-8-sig")) if own.exists() else [spelled_for_duckdb(text) for text in texts]
        if len(theirs) != len(texts):
            raise ValueError(f"{own} has {len(theirs)} statements, {path} has {len(texts)}")
        for number, (text, duckdb) in enumerate(zip(texts, theirs, strict=True), 1):
            name = f"{path.stem} {number}" if len(texts) > 1 else path.stem
            found.append(Statement(name, text, duckdb, refusal(text) or refusal(duckdb)))
    return found


def named(texts: list[str], tables: list[str]) -> list[str]:
    """The tables that occur in statements."""
    words = {word.lower() for text in texts for word in re.findall(r"[\w.\-]+", text)}
    # A qualified column, as in `trade.price`, names its table as well.
    words |= {part for word in words for part in word.split(".")}
    return [table for table in tables if table.lower() in words]
