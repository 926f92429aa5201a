"""The fourteen queries in other dialects, from the one definition in ``engine.suites.crypto14``.

What differs between the dialects of these queries is few things: buckets, closing values and how instants are spelt. Each is
a function of the engine's file; where a query is best written otherwise, the file has a text of its own.
"""

import re
import string
from collections.abc import Callable
from dataclasses import dataclass

from engine.question import Raw, render

WIDTHS = {
    "1 minute": 60,
    "5 minutes": 300,
    "1 hour": 3_600,
    "4 hours": 14_400,
    "1 day": 86_400,
}
"""Seconds of the buckets that occur."""

NAME = string.Template.pattern
RELATION = re.compile(r"\bFROM (trades|books)\b")
BUCKET = re.compile(r"time_bucket\(INTERVAL '([^']+)', (\w+)\)")
LAST = re.compile(r"arg_max\((\(.*?\) / 2|\w+), rowid\)")


def placeholders(text: str, parameters, variant, spell: Callable[[int], str]) -> tuple[dict[str, Raw], list]:
    """For a prepared statement: what stands for each name in a question's text, and the names' values in that order."""
    names = list(dict.fromkeys(found["named"] for found in NAME.finditer(text) if found["named"]))
    marks = {name: Raw(spell(place)) for place, name in enumerate(names, 1)}
    return marks, [variant[name] if name in variant else getattr(parameters, name) for name in names]


def never_seen(text: str, mark: int) -> str:
    """The statement with another name for its table: the same meaning and the same answer, a text that no kept plan fits."""
    return RELATION.sub(rf"FROM \1 AS seen_{mark}", text)


@dataclass(frozen=True)
class Dialect:
    """How one engine spells things.

    ``last(value)`` is the value of the last row to arrive; ``bucket(seconds, column)`` the start of a time's bucket;
    ``literal(value)`` an instant or text. ``replaced`` are plain replacements in the text, made last.
    """

    bucket: Callable[[int, str], str]
    last: Callable[[str], str]
    literal: Callable[[object], str]
    replaced: tuple[tuple[str, str], ...] = ()

    def text(self, question, parameters, variant, own: str | None = None) -> str:
        """A question's statement; ``own`` is a text of the engine's own, with the same words."""
        return render(self.template(question, own), parameters, variant, self.literal)

    def template(self, question, own: str | None = None) -> str:
        """The statement with its names in place of values."""
        text = own or question.duckdb or question.sql
        text = BUCKET.sub(lambda found: self.bucket(WIDTHS[found[1]], found[2]), text)
        text = LAST.sub(lambda found: self.last(found[1]), text)
        for old, new in self.replaced:
            text = text.replace(old, new)
        return text
