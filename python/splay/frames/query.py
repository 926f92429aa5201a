"""One ``SELECT`` as a value, and how the verbs of frames change it.

A verb is put into the select that is there where SQL means the same by that, else around it. What SQL evaluates in which order
decides: ``WHERE``, ``GROUP BY``, ``QUALIFY``, the list, ``DISTINCT``, ``ORDER BY``, ``LIMIT``.
"""

import dataclasses
from collections.abc import Sequence

from splay.errors import FrameError
from splay.frames.checks import check_nesting, in_order
from splay.frames.nodes import Column, Kind, Node, Scope, SortKey, no_such_column
from splay.frames.relation import Item, Relation, check_names, renamed
from splay.frames.text import identifier


@dataclasses.dataclass(frozen=True)
class Query:
    """A select. Made of a relation alone it is ``SELECT * FROM relation``."""

    relation: Relation
    items: tuple[Item, ...] | None = None
    """The select list; None is ``*``."""
    where: tuple[Node, ...] = ()
    keys: tuple[Node, ...] | None = None
    """``GROUP BY``; an empty tuple groups all rows, None none."""
    qualify: tuple[Node, ...] = ()
    is_distinct: bool = False
    order: tuple[SortKey, ...] = ()
    """``ORDER BY``, of columns of the relation, or of the result if `orders_result`."""
    orders_result: bool = False
    limit: int | None = None
    offset: int = 0
    time_item: str | None = None
    """The column of the result that is the time of rows where none of the relation is, such as a bucket's start."""
    tail: str = ""
    """A clause of its own between ``WHERE`` and ``QUALIFY``, such as ``LATEST ON``."""

    # What it gives

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the result."""
        return self.relation.columns if self.items is None else tuple(item.name for item in self.items)

    @property
    def time(self) -> str | None:
        """The column of the result that is the time of rows, if one is."""
        return self.time_item if self.time_item is not None else renamed(self.relation.time, self.items)

    @property
    def symbol(self) -> str | None:
        """The column of the result by which series are told apart, if one is."""
        return renamed(self.relation.symbol, self.items)

    @property
    def is_mixed(self) -> bool:
        """Whether several series may be in it that no symbol column tells apart any more."""
        if self.symbol is not None:
            return False
        if self.keys is None:
            return self.relation.is_mixed or self.relation.symbol is not None
        # Groups by time alone are one series.
        return any(item.name != self.time for item in (self.items or ())[: len(self.keys)])

    @property
    def virtual(self) -> str | None:
        """The column of the result that a table has by itself, if there is one."""
        name = self.relation.virtual
        return name if renamed(name, self.items) == name else None

    @property
    def is_ordered(self) -> bool:
        """Whether rows of the result have an order that ``first`` and ``last`` follow around it."""
        if self.order:
            return True
        return self.relation.is_ordered and self.keys is None and not self.is_distinct and not self.tail

    @property
    def is_cut(self) -> bool:
        """Whether it has a limit."""
        return self.limit is not None or self.offset > 0

    # Its text

    def scope(self, is_qualified: bool = False) -> Scope:
        """What names stand for in it. Functions of neighbouring rows that name no order follow the time."""
        time = self.relation.time
        order = () if time is None else (self.relation.scope().column(time),)
        return self.relation.scope(order, is_qualified)

    def _ordered(self, node: Node) -> Node:
        """An expression over its rows. Functions of neighbouring rows that name no order follow the sort, which may go away."""
        return in_order(node, self.order) if self.order and not self.orders_result else node

    def sql(self, is_nested: bool = False) -> str:
        """The statement."""
        scope = self.scope()
        clauses = [f"SELECT {'DISTINCT ' if self.is_distinct else ''}{self._list(scope)}", f"FROM {self.relation.text}"]
        if self.where:
            clauses.append("WHERE " + " AND ".join(self._conditions(self.where, scope)))
        if self.keys:
            clauses.append("GROUP BY " + ", ".join(key.render(scope) for key in self.keys))
        if self.tail:
            clauses.append(self.tail)
        if self.qualify:
            clauses.append("QUALIFY " + " AND ".join(self._conditions(self.qualify, scope)))
        if self.order:
            clauses.append("ORDER BY " + ", ".join(self._order()))
        if self.limit is not None:
            clauses.append(f"LIMIT {self.limit}")
        if self.offset:
            clauses.append(f"OFFSET {self.offset}")
        return (" " if is_nested else "\n").join(clauses)

    @staticmethod
    def _conditions(conditions: Sequence[Node], scope: Scope) -> list[str]:
        if len(conditions) == 1:
            return [conditions[0].render(scope)]
        return [condition.inner(scope) for condition in conditions]

    def _list(self, scope: Scope) -> str:
        if self.items is None:
            return "*"
        own = self.relation.columns
        first = self.items[: len(own)]
        is_star = not self.relation.left and [(item.name, item.node) for item in first] == [(name, Column(name)) for name in own]
        shown = self.items[len(own) :] if is_star and own and self.keys is None else self.items
        texts = [item.render(scope) for item in shown]
        return ", ".join(["*", *texts] if shown is not self.items else texts)

    def _order(self) -> list[str]:
        if self.orders_result:
            names = Scope({name.lower(): identifier(name) for name in self.columns}, names=self.columns)
            return [key.render(names) for key in self.order]
        # A column of the result would hide that of the relation.
        scope = self.scope(is_qualified=self.items is not None)
        return [key.render(scope) for key in self.order]

    # Around it

    def nested(self, keeps_order: bool = True, is_order_needed: bool = False) -> "Query":
        """A select of everything from this one.

        Parameters
        ----------
        keeps_order
            Whether rows come in the order of this one.
        is_order_needed
            Whether what is put around asks for the first and last of its rows: its order stays inside then.
        """
        outer_order = self._order_outside() if keeps_order and self.order else ()
        inside = self
        if self.order and not self.is_cut and not is_order_needed:
            inside = dataclasses.replace(self, order=())
        text = f"({inside.sql(is_nested=True)}) AS s"
        relation = Relation(
            text, self.columns, "s", inside.is_ordered, self.time, self.symbol, self.is_mixed, self.virtual
        )
        return Query(relation, order=outer_order)

    def _order_outside(self) -> tuple[SortKey, ...]:
        """The same order, of columns of the result."""
        if self.orders_result:
            return self.order
        if self.items is None:
            return self.order
        same = {item.name.lower() for item in self.items if item.node == Column(item.name)}
        for key in self.order:
            for part in key.node.walk():
                if isinstance(part, Column) and part.name.lower() not in same:
                    raise FrameError(
                        f"the rows are sorted by {part.name}, which is no column any more: keep it, or sort behind this"
                    )
        return self.order

    # Verbs

    def filtered(self, condition: Node) -> "Query":
        """Rows of which a condition holds."""
        check_nesting(condition)
        if condition.kind == Kind.AGGREGATE:
            raise FrameError("an aggregate is one value of many rows, no condition of a row: write .over() behind it")
        query = self
        is_window = condition.kind == Kind.WINDOW
        if self.items is not None or self.is_cut or self.is_distinct or self.qualify or self.tail:
            query = self.nested()
        condition = query._ordered(condition)
        condition.render(query.scope())
        if is_window:
            return dataclasses.replace(query, qualify=(*query.qualify, condition))
        return dataclasses.replace(query, where=(*query.where, condition))

    def projected(self, items: Sequence[Item]) -> "Query":
        """Other columns of the same rows."""
        check_names([item.name for item in items])
        is_window = any(item.node.kind == Kind.WINDOW for item in items)
        query = self
        if self.items is not None or self.is_distinct or self.qualify or (is_window and (self.is_cut or self.tail)):
            query = self.nested()
        items = [Item(item.name, query._ordered(item.node)) for item in items]
        scope = query.scope()
        for item in items:
            check_nesting(item.node)
            item.node.render(scope)
        if query._is_hidden(items):
            return query._over_hidden(items)
        return dataclasses.replace(query, items=tuple(items))

    def _is_hidden(self, items: Sequence[Item]) -> bool:
        """Whether a column by which rows are sorted has another meaning among new ones."""
        changed = {item.name.lower() for item in items if item.node != Column(item.name)}
        parts = [part for key in self.order for part in key.node.walk()]
        return any(isinstance(part, Column) and part.name.lower() in changed for part in parts)

    def _over_hidden(self, items: Sequence[Item]) -> "Query":
        """New columns around a select that has what rows are sorted by as further columns."""
        query = self.nested() if self.is_cut else self
        names = [f"sort_{place}" for place in range(len(query.order))]
        while {item.name.lower() for item in items} & set(names):
            names = [f"{name}_" for name in names]
        hidden = [Item(name, key.node) for name, key in zip(names, query.order)]
        around = dataclasses.replace(query, items=(*items, *hidden), order=()).nested()
        order = tuple(dataclasses.replace(key, node=Column(name)) for name, key in zip(names, query.order))
        return dataclasses.replace(around, items=tuple(Item(item.name, Column(item.name)) for item in items), order=order)

    def grouped(self, keys: Sequence[Item], aggregates: Sequence[Item], needs_order: bool) -> "Query":
        """One row for each combination of keys; without keys one row."""
        items = [*keys, *aggregates]
        check_names([item.name for item in items])
        query = self
        if self.items is not None or self.is_cut or self.is_distinct or self.qualify or self.tail or self.order:
            query = self.nested(keeps_order=False, is_order_needed=needs_order)
        scope = query.scope()
        for item in items:
            check_nesting(item.node)
            item.node.render(scope)
        return dataclasses.replace(
            query,
            items=tuple(items),
            keys=tuple(key.node for key in keys),
            order=(),
        )

    def sorted(self, order: tuple[SortKey, ...]) -> "Query":
        """The same rows in an order."""
        plain = all(isinstance(key.node, Column) for key in order)
        query = self
        if self.is_cut or ((self.items is not None or self.is_distinct) and not plain):
            query = self.nested(keeps_order=False)
        names = {name.lower(): identifier(name) for name in query.columns}
        for key in order:
            check_nesting(key.node)
            if key.node.kind != Kind.ROW:
                raise FrameError("rows are sorted by columns: name what is computed over rows first, by with_columns")
            key.render(Scope(names, names=query.columns))
        is_of_result = query.items is not None or query.is_distinct
        return dataclasses.replace(query, order=order, orders_result=is_of_result)

    def sliced(self, offset: int, limit: int | None) -> "Query":
        """Some of the rows, from a place on."""
        left = None if self.limit is None else max(0, self.limit - offset)
        both = limit if left is None else left if limit is None else min(left, limit)
        return dataclasses.replace(self, offset=self.offset + offset, limit=both)

    def distinct(self) -> "Query":
        """Each different row once, in any order."""
        query = self.nested(keeps_order=False) if self.order or self.is_cut or self.qualify or self.tail else self
        return dataclasses.replace(query, is_distinct=True)

    # Names

    def spelled(self, name: str) -> str:
        """A column's name as the result has it.

        Raises
        ------
        NoSuchColumnError
            If there is none.
        """
        for column in self.columns:
            if column.lower() == name.lower():
                return column
        raise no_such_column(name, self.columns)
