"""Expressions: values of columns that are not computed yet."""

from typing import TYPE_CHECKING, Any, TypeAlias

from splay._elsewhere import EXPRESSION, refusal
from splay.errors import FrameError
from splay.frames import nodes
from splay.frames.aggregates import Aggregates
from splay.frames.arrays import Arrays
from splay.frames.base import Ordering
from splay.frames.nodes import SortKey
from splay.frames.numeric import Numbers
from splay.frames.operators import Operators
from splay.frames.text import identifier
from splay.frames.windows import Windows

if TYPE_CHECKING:
    import pyarrow

    from splay.frames.frame import Frame
    from splay.frames.namespaces import TextNamespace, TimeNamespace


Text: TypeAlias = str
"""Within :class:`Expr` the name ``str`` is that of a namespace."""


class Expr(Operators, Numbers, Aggregates, Windows, Arrays):
    """A value of columns, to be computed by a frame. Made by :func:`splay.col` and its kin, or as ``frame.name``.

    Operators and methods make new expressions; printing one shows its SQL. Null is SQL's: what is computed of null is null, and
    a row whose condition is null doesn't pass a filter.

    >>> import splay
    >>> (splay.col("bid") + splay.col("ask")) / 2
    (bid + ask) / 2.0
    """

    __hash__ = object.__hash__
    __iter__ = None

    if not TYPE_CHECKING:
        __getattr__ = refusal("an expression", EXPRESSION, "functions of SQL are called by splay.call")

    # Text

    def sql(self) -> Text:
        """Its SQL, names as they are.

        >>> (col("price") * 2).sql()
        'price * 2'
        """
        return self.node.render(nodes.PLAIN)

    def __repr__(self) -> Text:
        return self.sql()

    # Names and types

    def alias(self, name: Text) -> "Expr":
        """The same under another name.

        >>> import splay
        >>> splay.col("price").max().alias("high").name
        'high'
        """
        identifier(name)
        return self._new(self.node, name=name)

    def cast(self, to: Any, *, strict: bool = True) -> "Expr":
        """The value in another type.

        Parameters
        ----------
        to
            A type by SplayDB's name (``"float64"``, ``"timestamp"``, ``"symbol"``, ``"decimal(18,4)"``), or ``int``, ``float``,
            ``str``, ``bool``, ``datetime.date`` and so on.
        strict
            Whether a value that the type doesn't have is an error. Otherwise it is null.

        >>> import splay
        >>> splay.col("size").cast(float)
        CAST(size AS double)
        """
        node = nodes.Cast(self.node, to, strict)
        node.render(nodes.PLAIN)  # An unknown type is refused here.
        return self._new(node, name=self.name)

    # Order, for `sort` and `order_by`

    def asc(self, nulls_last: bool | None = None) -> "Ordering":
        """A key of a sort, least first. Nulls come last unless it says otherwise.

        >>> col("price").asc(nulls_last=False)
        price NULLS FIRST
        """
        return Ordering(SortKey(self.node, False, nulls_last))

    def desc(self, nulls_last: bool | None = None) -> "Ordering":
        """A key of a sort, greatest first. Nulls come first unless it says otherwise.

        >>> col("price").desc()
        price DESC
        """
        return Ordering(SortKey(self.node, True, nulls_last))

    # More of text and times

    @property
    def str(self) -> "TextNamespace":
        """What is computed of text.

        >>> col("side").str.to_uppercase()
        upper(side)
        """
        from splay.frames.namespaces import TextNamespace

        return TextNamespace(self)

    @property
    def dt(self) -> "TimeNamespace":
        """What is computed of times.

        >>> col("time").dt.hour("America/New_York")
        date_part('hour', time AT TIME ZONE 'America/New_York')
        """
        from splay.frames.namespaces import TimeNamespace

        return TimeNamespace(self)

    # Values, where the expression came from a frame

    def _of_frame(self) -> "Frame":
        if self._frame is None:
            raise FrameError(f"{self} belongs to no frame: write frame.select(...)")
        return self._frame.select(self.alias("value"))

    def to_arrow(self) -> "pyarrow.ChunkedArray":
        """All values, where the expression was made of a frame's columns: ``t.price.to_arrow()``.

        >>> len(trade.price.to_arrow())
        400
        """
        return self._of_frame().to_arrow().column(0)

    def to_list(self) -> list[Any]:
        """All values as Python has them.

        >>> trade.head(2).price.to_list()
        [99.51, 99.31]
        """
        values: list[Any] = self.to_arrow().to_pylist()
        return values

    def to_numpy(self) -> Any:
        """All values as NumPy has them; a view of Arrow's where that has one chunk, no null, and a type of NumPy.

        >>> trade.price.to_numpy().dtype
        dtype('float64')
        """
        array = self.to_arrow()
        if array.num_chunks == 1:
            return array.chunk(0).to_numpy(zero_copy_only=False)
        return array.to_numpy()

    def item(self) -> Any:
        """The value of an expression that has one, such as ``t.price.mean().item()``.

        Raises
        ------
        FrameError
            If there isn't exactly one.

        >>> trade["size"].max().item()
        498
        """
        values = self._of_frame().limit(2).to_arrow().column(0)
        if len(values) != 1:
            raise FrameError(f"{self} has {'no value' if not len(values) else 'a value for each row'}, not one")
        return values[0].as_py()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())
