"""What expressions are made of, and how that becomes SQL.

A node is a value: it knows its parts and nothing of a frame. :class:`Scope` says what the names in it stand for where it is
written. Each node has a *kind*, by which a frame knows where SQL takes it:

- ``ROW``: a value for each row;
- ``AGGREGATE``: one value of all rows of a group;
- ``WINDOW``: a value for each row, computed of several.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any

from splay._elsewhere import similar
from splay.errors import FrameError, NoSuchColumnError
from splay.frames.text import identifier, literal, type_call


class Kind(IntEnum):
    """What a node gives; of nodes within each other the greatest counts."""

    ROW = 0
    AGGREGATE = 1
    WINDOW = 2


@dataclasses.dataclass(frozen=True)
class Scope:
    """What names stand for, where an expression is written."""

    columns: Mapping[str, str] | None
    """The SQL text of each column by its name in lower case: names are matched without regard to case. None: any name will do."""
    order: tuple[str, ...] = ()
    """The order of rows that functions of neighbouring rows follow where they name none, as items of ``ORDER BY``."""
    is_ordered: bool = True
    """Whether ``first`` and ``last`` may rely on the order in which rows come."""
    left: Mapping[str, str] | None = None
    """Columns of the left side of a join, for names marked so."""
    frame: str = ""
    """What is called in errors."""
    names: tuple[str, ...] = ()
    """Names of the columns as they are written, for errors."""

    def column(self, name: str, is_left: bool = False) -> str:
        """How SQL names a column here.

        Raises
        ------
        NoSuchColumnError
            If there is none.
        """
        if self.columns is None:
            return f"l.{identifier(name)}" if is_left else identifier(name)
        columns = (self.left or {}) if is_left else self.columns
        found = columns.get(name.lower())
        if found is not None:
            return found
        written = {one.lower(): one for one in self.names}
        raise no_such_column(name, [written.get(one, one) for one in columns], self.frame)


def no_such_column(name: str, existing: Sequence[str], frame: str = "") -> NoSuchColumnError:
    """An error that names what is close."""
    close = similar(name, existing)
    hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(existing)}"
    error = NoSuchColumnError(f"no column {name!r}{' in ' + frame if frame else ''}; {hint}")
    error.table, error.column, error.existing = frame, name, list(existing)
    return error


class Node:
    """A part of an expression."""

    @property
    def parts(self) -> tuple["Node", ...]:
        """Nodes within it."""
        return ()

    @property
    def kind(self) -> Kind:
        """What it gives."""
        return max((part.kind for part in self.parts), default=Kind.ROW)

    @property
    def is_atom(self) -> bool:
        """Whether it stands within others without brackets."""
        return True

    def render(self, scope: Scope) -> str:
        """Its SQL."""
        raise NotImplementedError

    def inner(self, scope: Scope) -> str:
        """Its SQL within another node."""
        text = self.render(scope)
        return text if self.is_atom else f"({text})"

    def replace_parts(self, change: Callable[["Node"], "Node"]) -> "Node":
        """The same over changed parts."""
        return self

    def walk(self) -> Iterator["Node"]:
        """It and all nodes within it."""
        yield self
        for part in self.parts:
            yield from part.walk()


@dataclasses.dataclass(frozen=True)
class Column(Node):
    """A column by its name."""

    name: str
    is_left: bool = False

    def render(self, scope: Scope) -> str:
        return scope.column(self.name, self.is_left)


@dataclasses.dataclass(frozen=True)
class Literal(Node):
    """A value. Its text is made when the node is, so that what can't be one is refused there."""

    value: Any
    text: str

    def render(self, scope: Scope) -> str:
        return self.text


@dataclasses.dataclass(frozen=True)
class Operation(Node):
    """SQL with gaps: ``"{} + {}"``. Gaps are filled in the order of the parts."""

    template: str
    operands: tuple[Node, ...]
    is_call: bool = False
    """Whether the template brackets its gaps itself."""

    @property
    def parts(self) -> tuple[Node, ...]:
        return self.operands

    @property
    def is_atom(self) -> bool:
        return self.is_call

    def render(self, scope: Scope) -> str:
        texts = [part.render(scope) if self.is_call else part.inner(scope) for part in self.operands]
        return self.template.format(*texts)

    def replace_parts(self, change: Callable[[Node], Node]) -> Node:
        return dataclasses.replace(self, operands=tuple(change(part) for part in self.operands))


@dataclasses.dataclass(frozen=True)
class Cast(Node):
    """A value in another type."""

    operand: Node
    to: Any
    strict: bool = True

    @property
    def parts(self) -> tuple[Node, ...]:
        return (self.operand,)

    def render(self, scope: Scope) -> str:
        return type_call(self.operand.render(scope), self.to, self.strict)

    def replace_parts(self, change: Callable[[Node], Node]) -> Node:
        return dataclasses.replace(self, operand=change(self.operand))


@dataclasses.dataclass(frozen=True)
class SortKey:
    """A value by which rows are ordered."""

    node: Node
    descending: bool = False
    nulls_last: bool | None = None
    """None: nulls are greatest, as the engine has it."""

    def render(self, scope: Scope) -> str:
        """As an item of ``ORDER BY``."""
        text = self.node.render(scope)
        nulls = {None: "", True: " NULLS LAST", False: " NULLS FIRST"}[self.nulls_last]
        return f"{text}{' DESC' if self.descending else ''}{nulls}"


@dataclasses.dataclass(frozen=True)
class Call(Node):
    """A function over rows of a group (an aggregate) or over neighbouring rows (a window function)."""

    template: str
    operands: tuple[Node, ...]
    is_aggregate: bool = True
    needs_order: bool = False
    """Whether its value depends on the order of rows."""
    where: Node | None = None
    """Which rows it is of."""
    order: tuple[SortKey, ...] = ()

    @property
    def parts(self) -> tuple[Node, ...]:
        extra = (self.where,) if self.where is not None else ()
        return (*self.operands, *extra, *(key.node for key in self.order))

    @property
    def kind(self) -> Kind:
        return Kind.AGGREGATE if self.is_aggregate else Kind.WINDOW

    def render(self, scope: Scope) -> str:
        if not self.is_aggregate:
            return Over(self).render(scope)
        return self.call(scope, is_in_window=False)

    def call(self, scope: Scope, is_in_window: bool) -> str:
        """The call itself, without ``OVER``."""
        texts = [part.render(scope) for part in self.operands]
        order = self._order(scope, is_in_window)
        text = self.template.format(*texts)
        if order:
            text = f"{text[:-1]} ORDER BY {', '.join(order)})"
        if self.where is not None:
            text += f" FILTER (WHERE {self.where.render(scope)})"
        return text

    def _order(self, scope: Scope, is_in_window: bool) -> list[str]:
        if self.order:
            return [key.render(scope) for key in self.order]
        if not self.needs_order or is_in_window or scope.is_ordered:
            return []
        if not scope.order:
            name = self.template.partition("(")[0]
            raise FrameError(f"the rows have no order: say which one {name} follows, by order_by= or by sorting the frame")
        return list(scope.order)

    def replace_parts(self, change: Callable[[Node], Node]) -> Node:
        return dataclasses.replace(
            self,
            operands=tuple(change(part) for part in self.operands),
            where=None if self.where is None else change(self.where),
            order=tuple(dataclasses.replace(key, node=change(key.node)) for key in self.order),
        )


@dataclasses.dataclass(frozen=True)
class Over(Node):
    """A call for each row, over rows of its partition."""

    call: Call
    partition: tuple[Node, ...] = ()
    order: tuple[SortKey, ...] = ()
    window: str = ""
    """The frame, such as ``ROWS BETWEEN 9 PRECEDING AND CURRENT ROW``; none: all rows for aggregates."""

    @property
    def parts(self) -> tuple[Node, ...]:
        return (*self.call.parts, *self.partition, *(key.node for key in self.order))

    @property
    def kind(self) -> Kind:
        return Kind.WINDOW

    def render(self, scope: Scope) -> str:
        clauses = []
        if self.partition:
            clauses.append("PARTITION BY " + ", ".join(part.render(scope) for part in self.partition))
        order = self._order(scope)
        if order:
            clauses.append("ORDER BY " + ", ".join(order))
        window = self.window
        if not window and order and self.call.is_aggregate:
            window = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
        if window:
            clauses.append(window)
        return f"{self.call.call(scope, is_in_window=True)} OVER ({' '.join(clauses)})"

    def _order(self, scope: Scope) -> list[str]:
        if self.order:
            return [key.render(scope) for key in self.order]
        if not self.call.needs_order and not self.window:
            return []
        if not scope.order:
            name = self.call.template.partition("(")[0]
            raise FrameError(f"the rows have no order that {name} could follow: say one, .over(..., order_by=...)")
        return list(scope.order)

    def replace_parts(self, change: Callable[[Node], Node]) -> Node:
        call = self.call.replace_parts(change)
        assert isinstance(call, Call)
        return dataclasses.replace(
            self,
            call=call,
            partition=tuple(change(part) for part in self.partition),
            order=tuple(dataclasses.replace(key, node=change(key.node)) for key in self.order),
        )


def value(constant: Any) -> Literal:
    """A literal node.

    Raises
    ------
    TypeError
        If SQL has no literal for it.
    """
    return Literal(constant, literal(constant))


PLAIN = Scope(columns=None, order=("...",))
"""A scope that takes every name as it is: for texts that people read."""
