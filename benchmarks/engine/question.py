"""Questions: one meaning, one text or function for each system.

SQL is a ``string.Template``. ``$name`` stands for a parameter, ``$t0930`` for 09:30 of the day's market, both written by each
system as it spells literals, so that one text often serves two systems.
"""

import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


class Raw(str):
    """Text that goes into SQL as it is: a piece of a statement, or a placeholder."""


NO_VARIANT: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Question:
    """One question of a suite.

    ``keys`` name the rows of the answer: no two rows have equal keys. ``ordered`` says that the order of rows is part of the
    answer; where it isn't, answers are sorted by the keys before they are compared.
    """

    id: str
    group: str
    asks: str
    keys: tuple[str, ...]
    sql: str
    polars: Callable[..., Any]
    duckdb: str | None = None
    """DuckDB's own text, where the shared one is wrong or slow there."""
    reference: str | None = None
    """A slower text for DuckDB that defines the answer, where the fast one leaves ties open. It is never timed."""
    ordered: bool = False
    bag: bool = False
    """Rows have no names: several may have equal keys. They are sorted by all columns before they are compared."""
    variants: tuple[Mapping[str, Any], ...] = (NO_VARIANT,)
    """Values of a run; run k of every system takes the k-th."""

    def variant(self, run: int) -> Mapping[str, Any]:
        """Values of a run."""
        return self.variants[run % len(self.variants)]


class Names(Mapping):
    """Parameters by name as literals of one system."""

    def __init__(self, parameters: Any, variant: Mapping[str, Any], literal: Callable[[Any], str]):
        self.parameters = parameters
        self.variant = variant
        self.literal = literal

    def __getitem__(self, name: str) -> str:
        if name in self.variant:
            value = self.variant[name]
            return value if isinstance(value, Raw) else self.literal(value)
        if name[0] == "t" and name[1:].isdigit():
            return self.literal(self.parameters.time(name[1:]))
        return self.literal(getattr(self.parameters, name))

    def __iter__(self):
        return iter(self.variant)

    def __len__(self) -> int:
        return len(self.variant)


def render(text: str, parameters: Any, variant: Mapping[str, Any], literal: Callable[[Any], str]) -> str:
    """A question's SQL for one system, on one line."""
    return " ".join(string.Template(text).substitute(Names(parameters, variant, literal)).split())
