"""Functions of numbers, and what stands for null and NaN."""

from typing import TYPE_CHECKING, Any

from splay.frames.base import Base, node_of, of
from splay.frames.nodes import Node, Operation

if TYPE_CHECKING:
    from splay.frames.expr import Expr


class Numbers(Base):
    """The part of :class:`splay.Expr` that computes numbers."""

    # Null and NaN

    def fill_null(self, other: Any) -> "Expr":
        """The value, or another one where it is null.

        >>> col("price").fill_null(0.0)
        coalesce(price, 0.0)
        """
        return self._operation("coalesce({}, {})", other, is_call=True)

    def fill_nan(self, other: Any) -> "Expr":
        """The value, or another one where it is NaN. The other may be None.

        >>> col("price").fill_nan(0.0)
        CASE WHEN isnan(price) THEN 0.0 ELSE price END
        """
        return self._new(
            Operation("CASE WHEN isnan({}) THEN {} ELSE {} END", (self.node, node_of(other), self.node), True),
            other,
            name=self.name,
        )

    def null_if(self, other: Any) -> "Expr":
        """The value, or null where it equals another one.

        >>> col("price").null_if(0)
        nullif(price, 0)
        """
        return self._operation("nullif({}, {})", other, is_call=True)

    # Numbers

    def abs(self) -> "Expr":
        """Its distance from zero.

        >>> col("move").abs()
        abs(move)
        """
        return self._operation("abs({})", is_call=True)

    def sign(self) -> "Expr":
        """-1, 0 or 1.

        >>> col("move").sign()
        signum(move)
        """
        return self._operation("signum({})", is_call=True)

    def floor(self) -> "Expr":
        """The whole number at or below.

        >>> col("price").floor()
        floor(price)
        """
        return self._operation("floor({})", is_call=True)

    def ceil(self) -> "Expr":
        """The whole number at or above.

        >>> col("price").ceil()
        ceil(price)
        """
        return self._operation("ceil({})", is_call=True)

    def round(self, digits: int = 0) -> "Expr":
        """Rounded to so many digits, halves away from zero.

        >>> col("price").round(2)
        round(price, 2)
        """
        return self._operation("round({}, {})", int(digits), is_call=True)

    def sqrt(self) -> "Expr":
        """Its square root.

        >>> col("variance").sqrt()
        sqrt(variance)
        """
        return self._operation("sqrt({})", is_call=True)

    def exp(self) -> "Expr":
        """e to this power.

        >>> col("move").exp()
        exp(move)
        """
        return self._operation("exp({})", is_call=True)

    def log(self, base: float | None = None) -> "Expr":
        """Its logarithm; the natural one without a base.

        >>> col("price").log()
        ln(price)
        """
        if base is None:
            return self._operation("ln({})", is_call=True)
        return self._new(Operation("log({}, {})", (node_of(float(base)), self.node), True), name=self.name)

    def log10(self) -> "Expr":
        """Its logarithm to base 10.

        >>> col("price").log10()
        log10(price)
        """
        return self._operation("log10({})", is_call=True)

    def clip(self, low: Any = None, high: Any = None) -> "Expr":
        """Brought between two values. Null stays null.

        >>> col("price").clip(1, 1000)
        CASE WHEN (CASE WHEN (price) < (1) THEN 1 ELSE price END) > (1000) THEN 1000 ELSE CASE WHEN (price) < (1) THEN 1 ELSE price END END
        """
        bounded = of(self)
        if low is not None:
            bounded = self._new(_choice(bounded, "<", of(low)), low, name=self.name)
        if high is not None:
            bounded = self._new(_choice(bounded, ">", of(high)), high, name=self.name)
        return bounded

    def bucket(self, width: Any) -> "Expr":
        """The multiple of a width at or below. Of times: :meth:`dt.bucket`.

        >>> import splay
        >>> splay.col("price").bucket(0.25)
        xbar(0.25, price)
        """
        return self._new(Operation("xbar({}, {})", (node_of(width), self.node), True), width, name=self.name)


def _choice(value: "Expr", comparison: str, bound: "Expr") -> Node:
    template = f"CASE WHEN ({{}}) {comparison} ({{}}) THEN {{}} ELSE {{}} END"
    return Operation(template, (value.node, bound.node, bound.node, value.node), is_call=True)
