"""What every expression is, and how values of a caller become expressions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from splay.frames import nodes
from splay.frames.nodes import Node, Operation, SortKey

if TYPE_CHECKING:
    from splay.frames.expr import Expr
    from splay.frames.frame import Frame


class Base:
    """A node under a name, and perhaps the frame whose column it began with."""

    def __init__(self, node: Node, name: str | None = None, frame: "Frame | None" = None):
        self.node = node
        self.name = name if name is not None else _name_of(node)
        self._frame = frame

    def _new(self, node: Node, *others: Any, name: str | None = None) -> "Expr":
        """An expression over this one and others, which keeps the frame that one of them came from."""
        frame = self._frame
        for other in others:
            if frame is None and isinstance(other, Base):
                frame = other._frame
        return make_expr(node, name, frame)

    def _operation(self, template: str, *others: Any, is_call: bool = False) -> "Expr":
        operands = (self.node, *(node_of(other) for other in others))
        return self._new(Operation(template, operands, is_call), *others, name=self.name)


def make_expr(node: Node, name: str | None = None, frame: "Frame | None" = None) -> "Expr":
    """An expression of a node."""
    from splay.frames.expr import Expr

    return Expr(node, name, frame)


class Ordering:
    """A key of a sort, made by ``asc`` or ``desc``."""

    def __init__(self, key: SortKey):
        self.key = key

    def __repr__(self) -> str:
        return self.key.render(nodes.PLAIN)


def of(operand: Any) -> "Expr":
    """An expression, or one of a value."""
    return operand if isinstance(operand, Base) else make_expr(nodes.value(operand))  # type: ignore[return-value]


def node_of(operand: Any) -> Node:
    """The node of an expression, or of a value.

    Raises
    ------
    TypeError
        If it is neither, an ordering or an unfinished choice for example.
    """
    return operand.node if isinstance(operand, Base) else nodes.value(operand)


def condition_of(operand: Any) -> "Expr":
    """A condition: an expression, and no value.

    Raises
    ------
    TypeError
        If it is a value. One of True or False is what Python compared by itself, two texts or a method for example, and would hold of all
        rows or of none.
    """
    if isinstance(operand, Base):
        return operand  # type: ignore[return-value]
    nodes.value(operand)  # What no value can be is refused with what to write instead.
    compared = ", which Python compared by itself" if type(operand).__name__ in ("bool", "bool_") else ""
    raise TypeError(f"a condition is an expression such as splay.col('price') > 1, not {operand!r}{compared}")


def named(operand: "str | Expr") -> "Expr":
    """A column by its name, or an expression as it is."""
    if isinstance(operand, str):
        return make_expr(nodes.Column(operand))
    if isinstance(operand, Base):
        return operand
    raise TypeError(f"a column is named by text or an expression, not by {type(operand).__name__}")


def sort_keys(keys: "Sequence[str | Expr | Ordering] | str | Expr | Ordering | None") -> tuple[SortKey, ...]:
    """Keys of a sort: names, expressions, orderings."""
    if keys is None:
        return ()
    if isinstance(keys, (str, Base, Ordering)):
        keys = [keys]
    return tuple(key.key if isinstance(key, Ordering) else SortKey(named(key).node) for key in keys)


def _name_of(node: Node) -> str:
    """The name that an expression has by itself: that of its first column, as Polars does it."""
    for part in node.walk():
        if isinstance(part, nodes.Column):
            return part.name
    return "literal"
