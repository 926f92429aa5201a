"""How statements are dealt out: each form, selectivity, width, type and table as often as any other of its kind.

Every dimension has a deck, which holds each of its values once. A deck that is used up is shuffled anew, by the seed and its
number alone, so that statement 17 is the same whether 20 or 20,000 are drawn.
"""

import random
from dataclasses import dataclass

from .columns import TYPES

DIMENSIONS = {
    "form": ("filters", "groups", "windows", "joins", "pivots", "sorts", "distinct", "subqueries"),
    "selectivity": ("one symbol", "few symbols", "short time", "tenth", "half", "all"),
    "width": ("one", "few", "many", "all"),
    "type": TYPES,
    "table": ("quote", "trade", "tick", "book"),
}


@dataclass(frozen=True)
class Share:
    """What one statement is to be."""

    form: str
    selectivity: str
    width: str
    type: str
    table: str


class Shares:
    """The decks of a run; ``only`` leaves some values of some dimensions."""

    def __init__(self, seed: int, only: dict[str, list[str]] | None = None):
        self.seed = seed
        self.values = dict(DIMENSIONS)
        for dimension, wanted in (only or {}).items():
            self.values[dimension] = checked(dimension, wanted)
        self.decks = {}

    def of(self, number: int) -> Share:
        """What statement ``number`` is to be."""
        return Share(**{dimension: self.card(dimension, number) for dimension in DIMENSIONS})

    def card(self, dimension: str, number: int) -> str:
        values = self.values[dimension]
        deck, place = divmod(number, len(values))
        key = (dimension, deck)
        if key not in self.decks:
            shuffled = list(values)
            random.Random(f"{self.seed}/{dimension}/{deck}").shuffle(shuffled)
            self.decks[key] = shuffled
        return self.decks[key][place]


def checked(dimension: str, wanted: list[str]) -> tuple[str, ...]:
    """The wanted values of a dimension.

    Raises
    ------
    ValueError
        If there is no such dimension or value.
    """
    if dimension not in DIMENSIONS:
        raise ValueError(f"no dimension {dimension!r}; there are {', '.join(DIMENSIONS)}")
    for value in wanted:
        if value not in DIMENSIONS[dimension]:
            raise ValueError(f"no {dimension} {value!r}; there are {', '.join(DIMENSIONS[dimension])}")
    return tuple(wanted)


def parse(texts: list[str]) -> dict[str, list[str]]:
    """``form=windows,sorts`` and the like by dimension."""
    only = {}
    for text in texts:
        dimension, _, values = text.partition("=")
        only.setdefault(dimension, []).extend(value.strip() for value in values.split(","))
    return only
