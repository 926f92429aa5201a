"""What a select reads, and the columns that it gives."""

import dataclasses
from collections.abc import Sequence

from splay.errors import FrameError
from splay.frames.nodes import Column, Node, Scope
from splay.frames.text import identifier


@dataclasses.dataclass(frozen=True)
class Relation:
    """What stands in ``FROM``."""

    text: str
    """Its SQL, with an alias where it needs one."""
    columns: tuple[str, ...]
    """Names of its columns in order."""
    prefix: str = ""
    """What its columns are called by where a name alone could mean something else: a table's name or an alias."""
    is_ordered: bool = False
    """Whether its rows have an order that ``first`` and ``last`` follow."""
    time: str | None = None
    """The column that is the time of rows, if one is."""
    symbol: str | None = None
    """The column by which series are told apart, if one is."""
    is_mixed: bool = False
    """Whether several series may be in it that no symbol column tells apart any more."""
    virtual: str | None = None
    """The virtual column of a table, its date, if it is one of the columns."""
    table: str | None = None
    """The table that it is, if it is one."""
    left: tuple[str, ...] = ()
    """Of a join: columns of the left, called by ``l``; `columns` are those of the right then, called by ``r``."""

    def scope(self, order: tuple[str, ...] = (), is_qualified: bool = False) -> Scope:
        """What names stand for over it."""
        prefix = f"{self.prefix}." if self.prefix and (is_qualified or self.left) else ""
        columns = {name.lower(): prefix + identifier(name) for name in self.columns}
        left = {name.lower(): f"l.{identifier(name)}" for name in self.left}
        if self.left:
            columns = {**left, **columns}
        return Scope(columns, order, self.is_ordered, left, names=(*self.left, *self.columns))


@dataclasses.dataclass(frozen=True)
class Item:
    """A column of the result."""

    name: str
    node: Node

    def render(self, scope: Scope) -> str:
        """As an item of a select list."""
        text = self.node.render(scope)
        name = identifier(self.name)
        return text if isinstance(self.node, Column) and text.rpartition(".")[2] == name else f"{text} AS {name}"


def check_names(names: Sequence[str]) -> None:
    """Refuse two columns of one name.

    Raises
    ------
    FrameError
        If there are.
    """
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise FrameError(f"two columns are called {name!r}: give one of them another name by .alias()")
        seen.add(name.lower())


def renamed(column: str | None, items: Sequence[Item] | None) -> str | None:
    """What a column is called in a select list that may have left it out."""
    if column is None or items is None:
        return column
    for item in items:
        node = item.node
        # Those of the left of a join come first.
        if isinstance(node, Column) and node.name.lower() == column.lower():
            return item.name
    return None
