"""A statement: one text for SplayDB and DuckDB, perhaps an expression of Polars, and what of the answer is compared."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .shares import Share

SALT = "@"
"""Stands in a text behind the names of relations; what takes its place makes a text that was never seen."""


@dataclass(frozen=True)
class Statement:
    """What is asked.

    Columns are compared by position. ``loose`` says of each how far values may differ. Where a limit leaves open which rows come,
    only the columns in ``compared`` count.
    """

    text: str
    share: Share
    kind: str
    """The form's variety, such as ``as-of`` of joins."""
    loose: tuple[float, ...]
    ordered: bool = False
    compared: tuple[int, ...] | None = None
    polars: Callable[[Any], Any] | None = None
    """Takes the lazy frames by table and gives the answer's."""

    def sql(self, salt: object = "") -> str:
        """The text; another salt makes another text of the same meaning."""
        return self.text.replace(SALT, str(salt))

    @property
    def key(self) -> str:
        """What the statement is known by among results."""
        return hashlib.blake2b(self.text.encode(), digest_size=8).hexdigest()
