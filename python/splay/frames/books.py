"""Order books in a row: which columns hold the levels of which side, and what is computed of them.

Levels are lists, such as ``bid_price levels(20)`` of the feeds, or columns of their own that a number tells apart: ``b1p``, ``bid_px_00``,
``bids[0].price``, ``bid_price_1``.
"""

import dataclasses
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from splay.errors import FrameError
from splay.frames.base import make_expr
from splay.frames.functions import coalesce, col
from splay.frames.nodes import Column, Operation
from splay.frames.query import Query

if TYPE_CHECKING:
    from splay.frames.expr import Expr
    from splay.frames.frame import Frame

SIDES = {"bid": ("b", "bid", "bids"), "ask": ("a", "ask", "asks", "offer")}
VALUES = {"price": ("p", "px", "price", "prices"), "size": ("s", "sz", "size", "sizes", "amount", "qty", "quantity", "volume")}
_COUNT = re.compile(r"levels\((\d+)\)|\[(\d+)\]|FixedSizeList\((\d+)")


@dataclasses.dataclass(frozen=True)
class Book:
    """Where a row has its book: for each side and value the levels, best first."""

    levels: dict[tuple[str, str], "list[Expr]"]

    def side(self, side: str, value: str, count: int) -> "list[Expr]":
        """The best levels of a side.

        Raises
        ------
        FrameError
            If there are fewer.
        """
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"levels is a number from 1 on, not {count!r}")
        found = self.levels[side, value]
        if count > len(found):
            raise FrameError(f"the book has {len(found)} levels of each side, not {count}")
        return found[:count]

    @property
    def count(self) -> int:
        """Levels of a side."""
        return min(len(levels) for levels in self.levels.values())


class BookVerbs:
    """The part of :class:`splay.Frame` that knows order books."""

    _query: Query

    def book_depth(self, levels: int = 10) -> "Frame":
        """The frame with ``bid_depth`` and ``ask_depth``: the sizes of the best levels of each side added up.

        A level that is null adds nothing. The depth over time is the mean of a bucket:
        ``books.book_depth(5).bucket("1m").agg(col("bid_depth").mean(), col("ask_depth").mean())``.

        Parameters
        ----------
        levels
            How many of each side, from the best on.

        Raises
        ------
        FrameError
            If the frame has no book, or one of fewer levels.

        >>> book.book_depth(2).select("bid_depth", "ask_depth").head(1).fetchall()
        [(96.0, 108.0)]
        """
        frame = self._frame()
        book = book_of(frame)
        sums = {f"{side}_depth": _sum(book.side(side, "size", levels)) for side in SIDES}
        return frame.with_columns(**sums)

    def _frame(self) -> "Frame":
        raise NotImplementedError


def book_of(frame: "Frame") -> Book:
    """Where a frame has the levels of books.

    Raises
    ------
    FrameError
        If it has none.
    """
    levels: dict[tuple[str, str], dict[int, Expr]] = {}
    lists: dict[tuple[str, str], str] = {}
    for name in frame.columns:
        found = _part(name)
        if found is None:
            continue
        side, value, number = found
        if number is None:
            lists.setdefault((side, value), name)
        else:
            levels.setdefault((side, value), {})[number] = col(name)
    parts = [(side, value) for side in SIDES for value in VALUES]
    if all(part in levels for part in parts):
        return Book({part: _numbered(levels[part]) for part in parts})
    if all(part in lists for part in parts):
        types = frame.select(*(lists[part] for part in parts)).dtypes
        return Book({part: _elements(lists[part], types[lists[part]]) for part in parts})
    raise FrameError(
        "the frame has no book: its levels are lists bid_price, bid_size, ask_price and ask_size, or columns such as b1p, b1s, a1p, a1s; "
        f"there are {', '.join(frame.columns)}"
    )


def best_price(frame: "Frame", side: str, name: str | None = None) -> "Expr":
    """The best price of a side in frames of quotes and of books: the column of a name, or the one that is called as quotes and books call theirs.

    Raises
    ------
    FrameError
        If it isn't clear which one that is.
    """
    name = _quoted(frame, side) if name is None else frame._query.spelled(name)
    kind = frame.select(name)._planned_types()[name]
    return _elements(name, kind)[0] if _COUNT.search(kind) else col(name)


def _quoted(frame: "Frame", side: str) -> str:
    """The column of the best price of a side: ``bid``, ``Bid_Price``, ``best_bid_px``, or that of the best level."""
    ranks: dict[int, list[str]] = {}
    for name in frame.columns:
        plain = re.sub("best_?", "", name.lower())
        found = _part(plain)
        if plain in SIDES[side]:
            ranks.setdefault(-2, []).append(name)
        elif found is not None and found[:2] == (side, "price"):
            ranks.setdefault(-1 if found[2] is None else found[2], []).append(name)
    likely = ranks[min(ranks)] if ranks else []
    if len(likely) != 1:
        raise FrameError(f"which column is the {side}? {side}='...'; there are {', '.join(frame.columns)}")
    return likely[0]


def _part(name: str) -> tuple[str, str, int | None] | None:
    """Side, value and number of level that a column's name says."""
    words, numbers = re.findall(r"[a-z]+", name.lower()), re.findall(r"\d+", name)
    if len(words) != 2 or len(numbers) > 1:
        return None
    side = next((side for side, names in SIDES.items() if words[0] in names), None)
    value = next((value for value, names in VALUES.items() if words[1] in names), None)
    if side is None or value is None:
        return None
    return side, value, int(numbers[0]) if numbers else None


def _numbered(levels: dict[int, "Expr"]) -> "list[Expr]":
    """Levels in the order of their numbers, up to the first that is missing."""
    first = min(levels)
    return [levels[number] for number in range(first, first + len(levels)) if number in levels]


def _elements(name: str, kind: str) -> "list[Expr]":
    """The levels of a list. Of one without a fixed length it isn't known how many there are."""
    found = _COUNT.search(kind)
    if found is None:
        raise FrameError(f"{name} is {kind}, no list of a fixed number of levels")
    count = int(next(group for group in found.groups() if group))
    return [make_expr(Operation(f"{{}}[{place}]", (Column(name),), is_call=True), f"{name}_{place}") for place in range(1, count + 1)]


def _sum(sizes: "Sequence[Expr]") -> "Expr":
    total: Any = coalesce(sizes[0], 0.0)
    for size in sizes[1:]:
        total = total + coalesce(size, 0.0)
    return total  # type: ignore[no-any-return]
