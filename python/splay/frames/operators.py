"""Operators of expressions: arithmetic, comparisons, conditions, as Python writes them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from splay.errors import FrameError
from splay.frames import nodes
from splay.frames.base import Base, make_expr, node_of, of
from splay.frames.nodes import Operation

if TYPE_CHECKING:
    from splay.frames.expr import Expr


class Operators(Base):
    """The part of :class:`splay.Expr` that Python's operators call."""

    __hash__ = object.__hash__

    # Arithmetic

    def __add__(self, other: Any) -> "Expr":
        if _is_text(self) or _is_text(other):
            return self._operation("{} || {}", other)
        return self._operation("{} + {}", other)

    def __radd__(self, other: Any) -> "Expr":
        if _is_text(other):
            return of(other)._operation("{} || {}", self)
        return self._reversed("{} + {}", other)

    def __sub__(self, other: Any) -> "Expr":
        return self._operation("{} - {}", other)

    def __rsub__(self, other: Any) -> "Expr":
        return self._reversed("{} - {}", other)

    def __mul__(self, other: Any) -> "Expr":
        return self._operation("{} * {}", other)

    def __rmul__(self, other: Any) -> "Expr":
        return self._reversed("{} * {}", other)

    def __truediv__(self, other: Any) -> "Expr":
        return _quotient(of(self), of(other))

    def __rtruediv__(self, other: Any) -> "Expr":
        return _quotient(of(other), of(self))

    def __mod__(self, other: Any) -> "Expr":
        return _remainder(of(self), of(other))

    def __rmod__(self, other: Any) -> "Expr":
        return _remainder(of(other), of(self))

    def __pow__(self, other: Any) -> "Expr":
        return of(self).cast(float)._operation("power({}, {})", other, is_call=True).alias(self.name)

    def __rpow__(self, other: Any) -> "Expr":
        return of(other).__pow__(self)

    def __floordiv__(self, other: Any) -> "Expr":
        raise FrameError("// isn't there: write (a / b).floor(), or a.bucket(width) for multiples of a width")

    __rfloordiv__ = __floordiv__

    def __neg__(self) -> "Expr":
        return self._operation("-{}")

    def __pos__(self) -> "Expr":
        return of(self)

    def __abs__(self) -> "Expr":
        return of(self).abs()

    def __round__(self, digits: int = 0) -> "Expr":
        return of(self).round(digits)

    def _reversed(self, template: str, other: Any) -> "Expr":
        return self._new(Operation(template, (node_of(other), self.node)), name=self.name)

    # Comparisons and conditions

    def __eq__(self, other: object) -> "Expr":  # type: ignore[override]
        return self._compared("{} = {}", other)

    def __ne__(self, other: object) -> "Expr":  # type: ignore[override]
        return self._compared("{} <> {}", other)

    def __lt__(self, other: Any) -> "Expr":
        return self._compared("{} < {}", other)

    def __le__(self, other: Any) -> "Expr":
        return self._compared("{} <= {}", other)

    def __gt__(self, other: Any) -> "Expr":
        return self._compared("{} > {}", other)

    def __ge__(self, other: Any) -> "Expr":
        return self._compared("{} >= {}", other)

    def _compared(self, template: str, other: Any) -> "Expr":
        if other is None:
            raise FrameError("a comparison with None is never true: write .is_null() or .is_not_null()")
        return self._operation(template, other)

    def __and__(self, other: Any) -> "Expr":
        return self._operation("{} AND {}", other)

    def __rand__(self, other: Any) -> "Expr":
        return self._reversed("{} AND {}", other)

    def __or__(self, other: Any) -> "Expr":
        return self._operation("{} OR {}", other)

    def __ror__(self, other: Any) -> "Expr":
        return self._reversed("{} OR {}", other)

    def __xor__(self, other: Any) -> "Expr":
        return self._operation("{} <> {}", other)

    def __invert__(self) -> "Expr":
        return self._operation("NOT {}")

    def __bool__(self) -> bool:
        raise TypeError(
            f"whether {self} holds is known for each row only: join conditions by & and |, write ~ for not, and is_in for in"
        )

    def is_null(self) -> "Expr":
        """Whether it is null.

        >>> col("price").is_null()
        price IS NULL
        """
        return self._operation("{} IS NULL")

    def is_not_null(self) -> "Expr":
        """Whether it isn't null.

        >>> col("price").is_not_null()
        price IS NOT NULL
        """
        return self._operation("{} IS NOT NULL")

    def is_nan(self) -> "Expr":
        """Whether it is not a number; null of null.

        >>> col("price").is_nan()
        isnan(price)
        """
        return self._operation("isnan({})", is_call=True)

    def is_finite(self) -> "Expr":
        """Whether it is neither infinite nor NaN; null of null.

        >>> col("price").is_finite()
        isfinite(price)
        """
        return self._operation("isfinite({})", is_call=True)

    def eq_missing(self, other: Any) -> "Expr":
        """Whether both are equal, two nulls among it.

        >>> col("a").eq_missing(col("b"))
        a IS NOT DISTINCT FROM b
        """
        return self._operation("{} IS NOT DISTINCT FROM {}", other)

    def ne_missing(self, other: Any) -> "Expr":
        """Whether they differ, null from a value among it.

        >>> col("a").ne_missing(col("b"))
        a IS DISTINCT FROM b
        """
        return self._operation("{} IS DISTINCT FROM {}", other)

    def is_in(self, values: Iterable[Any]) -> "Expr":
        """Whether it is one of some values. Null where it is null itself; a null among the values equals nothing.

        >>> import splay
        >>> splay.col("symbol").is_in(["IBM", "A"])
        symbol IN ('IBM', 'A')
        """
        if isinstance(values, (str, bytes, Base)):
            raise TypeError("is_in takes a list of values")
        listed = [node_of(value) for value in values]
        listed = [node for node in listed if not (isinstance(node, nodes.Literal) and node.text == "NULL")]
        if not listed:
            # `x IN ()` is none in SQL.
            return self._operation("CASE WHEN {} IS NOT NULL THEN FALSE END", is_call=False)
        gaps = ", ".join(["{}"] * len(listed))
        return self._new(Operation(f"{{}} IN ({gaps})", (self.node, *listed)), name=self.name)

    def is_between(self, low: Any, high: Any, closed: str = "both") -> "Expr":
        """Whether it lies between two values.

        Parameters
        ----------
        closed
            Which ends belong to it: ``"both"``, ``"left"``, ``"right"``, ``"none"``.

        >>> import splay
        >>> splay.col("price").is_between(1, 2, closed="left")
        (price >= 1) AND (price < 2)
        """
        if closed == "both":
            return self._operation("{} BETWEEN {} AND {}", low, high)
        if closed not in ("left", "right", "none"):
            raise ValueError(f"closed is 'both', 'left', 'right' or 'none', not {closed!r}")
        above: Expr = self >= low if closed == "left" else self > low
        below: Expr = self <= high if closed == "right" else self < high
        return above & below

    between = is_between


def _is_text(operand: Any) -> bool:
    """Whether it is known to be text: a value, or what was put together of one."""
    if isinstance(operand, Base):
        node = operand.node
        return isinstance(node, Operation) and node.template == "{} || {}" or isinstance(getattr(node, "value", None), str)
    return isinstance(operand, str)


def _quotient(left: "Expr", right: "Expr") -> "Expr":
    """A division that isn't one of whole numbers: one side is made a float if no literal is."""
    for side in (right, left):
        if isinstance(side.node, nodes.Literal) and isinstance(side.node.value, (int, float)):
            as_float = make_expr(nodes.value(float(side.node.value)))
            left, right = (left, as_float) if side is right else (as_float, right)
            break
    else:
        if not any(isinstance(side.node, nodes.Cast) and side.node.to is float for side in (left, right)):
            left = left.cast(float)
    return left._operation("{} / {}", right)


def _remainder(left: "Expr", right: "Expr") -> "Expr":
    """The remainder that has the sign of the divisor, as in Python; SQL's has that of the dividend."""
    cut = Operation("{} % {}", (left.node, right.node))
    zero = nodes.value(0)
    differ = Operation("{} < {}", (cut, zero)), Operation("{} < {}", (right.node, zero))
    template = "CASE WHEN {} <> 0 AND {} <> {} THEN {} + {} ELSE {} END"
    parts = (cut, *differ, cut, right.node, cut)
    node = Operation(template.replace("{}", "({})"), parts, is_call=True)
    return left._new(node, right, name=left.name)
