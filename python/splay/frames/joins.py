"""Joins of frames by equal columns, and frames one below the other."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from splay.errors import FrameError
from splay.frames.nodes import Column, Node, Operation
from splay.frames.query import Query
from splay.frames.relation import Item, Relation, check_names
from splay.frames.source import Source, common
from splay.frames.text import identifier
from splay.frames.windows import by_columns

if TYPE_CHECKING:
    from splay.frames.frame import Frame

KINDS = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "outer": "FULL JOIN",
    "semi": "SEMI JOIN",
    "anti": "ANTI JOIN",
    "cross": "CROSS JOIN",
}


class Joins:
    """The part of :class:`splay.Frame` that joins."""

    _source: Source
    _query: Query
    _roots: frozenset[tuple[int, str]]

    def join(
        self,
        other: "Frame",
        on: "str | Sequence[str] | None" = None,
        how: str = "inner",
        *,
        left_on: "str | Sequence[str] | None" = None,
        right_on: "str | Sequence[str] | None" = None,
        suffix: str = "_right",
        nulls_equal: bool = False,
    ) -> "Frame":
        """Rows of both frames that are equal in some columns, in any order.

        Parameters
        ----------
        other
            The right frame.
        on
            Columns that are equal; with other names on either side `left_on` and `right_on`.
        how
            ``"inner"``; ``"left"``, ``"right"`` and ``"full"`` keep rows without a match, with nulls for the other side;
            ``"semi"`` and ``"anti"`` give rows of the left that have a match, or none; ``"cross"`` each with each.
        suffix
            What is put behind the name of a column of the right that the left has, too.
        nulls_equal
            Whether a null key matches a null one.

        Returns
        -------
        Frame
            Columns of the left, then those of the right without its keys and its virtual ``date``. In a right or full join a key is that of the side
            that has the row.

        >>> totals = trade.group_by("symbol").agg(total=col("size").sum())
        >>> print(trade.join(totals, "symbol", how="left").select("time", "total").sql())
        SELECT time, total
        FROM (SELECT l.time, l.symbol, l.price, l.size, l.side, l.date, r.total FROM trade AS l LEFT JOIN (SELECT symbol, sum(size) AS total FROM trade GROUP BY symbol) AS r ON l.symbol = r.symbol) AS s
        """
        other = frame_of(other)
        if how not in KINDS:
            raise ValueError(f"how is one of {', '.join(KINDS)}, not {how!r}")
        left_keys, right_keys = self._keys(other, on, how, left_on, right_on)
        comparison = "{} IS NOT DISTINCT FROM {}" if nulls_equal else "{} = {}"
        conditions = [
            Operation(comparison, (Column(left, True), Column(right))) for left, right in zip(left_keys, right_keys)
        ]
        relation = join_relation(self._query, other._query, KINDS[how], conditions)
        gone = {key.lower() for key in right_keys} if how not in ("semi", "anti") else set()
        items = [Item(name, Column(name, True)) for name in self._query.columns]
        if how in ("right", "full", "outer"):
            both = dict(zip(left_keys, right_keys))
            items = [_either(item, both.get(item.name), how) for item in items]
        if how not in ("semi", "anti"):
            items += right_items(self._query, other._query, gone, suffix)
        check_names([item.name for item in items])
        query = Query(relation, tuple(items))
        return joined(self, other, query)

    def _keys(
        self, other: "Frame", on: Any, how: str, left_on: Any, right_on: Any
    ) -> tuple[list[str], list[str]]:
        if on is not None and (left_on is not None or right_on is not None):
            raise ValueError("a join has on, or left_on and right_on")
        left = [self._query.spelled(name) for name in by_columns(on if on is not None else left_on)]
        right = [other._query.spelled(name) for name in by_columns(on if on is not None else right_on)]
        if len(left) != len(right):
            raise ValueError(f"{len(left)} columns of the left can't equal {len(right)} of the right")
        if (how == "cross") != (not left):
            raise ValueError(
                "a cross join has no columns that are equal: name them for another one, join(other, 'symbol', how='left')"
                if left
                else "a join needs columns that are equal: join(other, 'symbol'), or left_on= and right_on=; how='cross' joins all rows with all"
            )
        return left, right

    merge = join


def frame_of(other: Any) -> "Frame":
    """A frame, or that of a table.

    Raises
    ------
    TypeError
        If it is neither.
    """
    from splay.frames.frame import Frame

    if isinstance(other, Frame):
        return other
    if callable(getattr(type(other), "frame", None)):
        made = other.frame()
        if isinstance(made, Frame):
            return made
    raise TypeError(
        f"this takes a frame, db['quote'] or splay.scan(files), not a {type(other).__name__}; "
        "a frame of pandas, Polars or pyarrow is written into a table first"
    )


def _either(item: Item, right: str | None, how: str) -> Item:
    """A key of a join that keeps rows of the right."""
    if right is None:
        return item
    if how == "right":
        return Item(item.name, Column(right))
    return Item(item.name, Operation("coalesce({}, {})", (item.node, Column(right)), is_call=True))


def right_items(left: Query, right: Query, gone: set[str], suffix: str) -> list[Item]:
    """Columns of the right side but its keys and its virtual date, under names that the left hasn't."""
    left_names = {name.lower() for name in left.columns}
    items = []
    for name in right.columns:
        if name.lower() not in gone and name != right.virtual:
            items.append(Item(name + suffix if name.lower() in left_names else name, Column(name)))
    return items


def side(query: Query, alias: str, is_order_needed: bool = False) -> tuple[str, bool]:
    """A query as one side of a join, and whether its rows have an order there."""
    if query.relation.table is not None and query == Query(query.relation):
        return f"{query.relation.text} AS {alias}", query.is_ordered
    if query.order and not query.is_cut and not is_order_needed:
        query = dataclasses.replace(query, order=())
    return f"({query.sql(is_nested=True)}) AS {alias}", query.is_ordered


def join_relation(
    left: Query,
    right: Query,
    kind: str,
    conditions: Sequence[Node],
    match: str = "",
    behind: str = "",
    is_ordered: bool = False,
    follows_right: bool = False,
) -> Relation:
    """A join as what stands in ``FROM``.

    Parameters
    ----------
    match
        What stands before ``ON``.
    behind
        What stands behind it.
    is_ordered
        Whether rows of the result are in the order of the left, if that has one.
    follows_right
        Whether the order of the right says which of its rows is joined.
    """
    left_text, has_order = side(left, "l", is_ordered)
    right_text, _ = side(right, "r", follows_right)
    relation = Relation("", right.columns, "r", is_ordered and has_order, left.time, left.symbol, left.is_mixed, left.virtual, left=left.columns)
    scope = relation.scope()
    parts = [left_text, kind, right_text]
    if match:
        parts.append(match)
    if conditions:
        parts.append("ON " + " AND ".join(condition.render(scope) for condition in conditions))
    if behind:
        parts.append(behind)
    return dataclasses.replace(relation, text=" ".join(parts))


def joined(left: Any, right: "Frame", query: Query) -> "Frame":
    """The frame of a join of two."""
    from splay.frames.frame import Frame

    return Frame(common(left._source, right._source), query, left._roots | right._roots)


def concat(frames: "Sequence[Frame]") -> "Frame":
    """Rows of several frames with the same columns, in any order.

    Raises
    ------
    FrameError
        If their columns have other names.

    >>> len(splay.concat([trade, trade]))
    800
    """
    from splay.frames.frame import Frame

    if not isinstance(frames, (list, tuple)):
        raise TypeError(f"concat takes a list of frames, splay.concat([a, b]), not a {type(frames).__name__}")
    if not frames:
        raise FrameError("concat needs a frame")
    frames = [frame_of(frame) for frame in frames]
    first = frames[0]
    source, roots, texts = first._source, first._roots, []
    for frame in frames:
        if {name.lower() for name in frame.columns} != {name.lower() for name in first.columns}:
            raise FrameError(f"the frames have different columns: {', '.join(first.columns)} and {', '.join(frame.columns)}")
        source, roots = common(source, frame._source), roots | frame._roots
        alike = frame.select(*first.columns) if frame.columns != first.columns else frame
        texts.append(f"SELECT {', '.join(map(identifier, first.columns))} FROM {side(alike._query, 's')[0]}")
    text = " UNION ALL ".join(texts)
    query = first._query
    is_mixed = any(frame._query.is_mixed for frame in frames)
    virtual = query.virtual if all(frame._query.virtual == query.virtual for frame in frames) else None
    relation = Relation(f"({text}) AS s", query.columns, "s", False, query.time, query.symbol, is_mixed, virtual)
    return Frame(source, Query(relation), roots)
