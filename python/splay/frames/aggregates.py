"""Aggregates of expressions: one value of all rows of a group."""

import dataclasses
import numbers
from typing import TYPE_CHECKING, Any

from splay.errors import FrameError
from splay.frames.base import Base, condition_of, make_expr, named, node_of, sort_keys
from splay.frames.checks import is_condition
from splay.frames.nodes import Call, Cast, Operation, value

if TYPE_CHECKING:
    from splay.frames.expr import Expr


class Aggregates(Base):
    """The half of :class:`splay.Expr` that makes one value of many. Nulls are left out, and of no value the aggregate is null."""

    def _aggregate(self, template: str, *others: Any, needs_order: bool = False, order_by: Any = None) -> "Expr":
        if self.node.kind.name == "AGGREGATE":
            raise FrameError(f"{self} is one value already: there is nothing to compute of it in the same group")
        operands = tuple(node_of(named(other) if isinstance(other, str) else other) for other in others)
        call = Call(template, (self.node, *operands), needs_order=needs_order, order=sort_keys(order_by))
        return self._new(call, *others, name=self.name)

    def sum(self) -> "Expr":
        """The sum. Of no value it is null, as in SQL; whole numbers that 64 bits don't hold are an error. Of a condition: how often
        it holds.

        >>> import splay
        >>> splay.col("size").sum()
        sum(size)
        """
        return self._number()._aggregate("sum({})")

    def mean(self) -> "Expr":
        """The mean. Of a condition: the share of rows of which it holds; of a column of booleans write ``col("flag").cast(int).mean()``.

        >>> col("price").mean()
        avg(price)
        """
        return self._number()._aggregate("avg({})")

    def _number(self) -> "Aggregates":
        """A condition as 0 or 1, all else as it is."""
        return self._new(Cast(self.node, "int64"), name=self.name) if is_condition(self.node) else self

    def min(self) -> "Expr":
        """The least value. NaN is the greatest number.

        >>> col("price").min()
        min(price)
        """
        return self._aggregate("min({})")

    def max(self) -> "Expr":
        """The greatest value. NaN is the greatest number.

        >>> col("price").max()
        max(price)
        """
        return self._aggregate("max({})")

    def count(self) -> "Expr":
        """How many values aren't null. Rows are counted by :func:`splay.count`.

        >>> col("price").count()
        count(price)
        """
        return self._aggregate("count({})")

    def n_unique(self) -> "Expr":
        """How many different values there are, null counted as one.

        >>> trade.select(col("side").n_unique()).fetchall()
        [(2,)]
        """
        distinct = self._aggregate("count(DISTINCT {})")
        is_null = Operation("CASE WHEN {} IS NULL THEN 1 END", (self.node,), is_call=False)
        has_null = Call("count({})", (is_null,))
        template = "{} + CASE WHEN {} > 0 THEN 1 ELSE 0 END"
        return self._new(Operation(template, (distinct.node, has_null)), name=self.name)

    def first(self, order_by: Any = None) -> "Expr":
        """The value in the first row, null if it is null there.

        Parameters
        ----------
        order_by
            What is first: columns, ``col.desc()`` among them. Default: the order of the frame, if it has one, else its time.

        >>> col("price").first(order_by="time")
        first(price ORDER BY time)
        """
        return self._aggregate("first({})", needs_order=True, order_by=order_by)

    def last(self, order_by: Any = None) -> "Expr":
        """The value in the last row, null if it is null there. Parameters are those of :meth:`first`.

        >>> col("price").last(order_by="time")
        last(price ORDER BY time)
        """
        return self._aggregate("last({})", needs_order=True, order_by=order_by)

    def arg_max(self, of: Any) -> "Expr":
        """The value in the row in which another column is greatest. Rows in which either is null have no part.

        >>> col("time").arg_max("price")
        arg_max(time, price)
        """
        return self._aggregate("arg_max({}, {})", of)

    def arg_min(self, of: Any) -> "Expr":
        """The value in the row in which another column is least. Rows in which either is null have no part.

        >>> col("time").arg_min("price")
        arg_min(time, price)
        """
        return self._aggregate("arg_min({}, {})", of)

    def median(self) -> "Expr":
        """The median; of an even count the mean of the middle two.

        >>> col("price").median()
        med(price)
        """
        return self._aggregate("med({})")

    def quantile(self, share: float, interpolation: str = "linear") -> "Expr":
        """The value that a share of the values doesn't exceed.

        Parameters
        ----------
        share
            From 0 to 1.
        interpolation
            ``"linear"``: on the line between both values around, the place on which has six digits; ``"lower"``: a value that
            is there.

        >>> col("price").quantile(0.95)
        percentile_cont(price, 0.95)
        """
        if isinstance(share, bool) or not isinstance(share, numbers.Real):
            raise TypeError(f"a share is a number from 0 to 1, not {share!r}; several shares are several columns")
        if not 0 <= share <= 1:
            raise ValueError(f"a share lies between 0 and 1, not at {share}")
        if interpolation == "linear":
            return self._aggregate("percentile_cont({}, {})", value_of(share))
        if interpolation == "lower":
            return self._aggregate("quantile_disc({}, {})", value_of(share))
        raise ValueError(f"interpolation is 'linear' or 'lower', not {interpolation!r}")

    def std(self, ddof: int = 1) -> "Expr":
        """The standard deviation, of a sample; of a population with ``ddof=0``.

        >>> col("price").std()
        stddev(price)
        """
        return self._aggregate(_by_ddof(ddof, "stddev_pop({})", "stddev({})"))

    def var(self, ddof: int = 1) -> "Expr":
        """The variance, of a sample; of a population with ``ddof=0``.

        >>> col("price").var()
        var(price)
        """
        return self._aggregate(_by_ddof(ddof, "var_pop({})", "var({})"))

    def skew(self) -> "Expr":
        """The skewness of a sample.

        >>> col("price").skew()
        skewness(price)
        """
        return self._aggregate("skewness({})")

    def kurtosis(self) -> "Expr":
        """The excess kurtosis of a sample.

        >>> col("price").kurtosis()
        kurtosis(price)
        """
        return self._aggregate("kurtosis({})")

    def mode(self) -> "Expr":
        """The most frequent value; of several the least.

        >>> col("side").mode()
        mode(side)
        """
        return self._aggregate("mode({})")

    def product(self) -> "Expr":
        """The product, as a float.

        >>> col("factor").product()
        product(factor)
        """
        return self._aggregate("product({})")

    def any(self) -> "Expr":
        """Whether it holds of some row.

        >>> (col("price") > 100).any()
        bool_or(price > 100)
        """
        return self._aggregate("bool_or({})")

    def all(self) -> "Expr":
        """Whether it holds of all rows.

        >>> (col("price") > 100).all()
        bool_and(price > 100)
        """
        return self._aggregate("bool_and({})")

    def implode(self, order_by: Any = None) -> "Expr":
        """All values as a list, nulls among them.

        >>> col("price").implode(order_by="time")
        array_agg(price ORDER BY time)
        """
        return self._aggregate("array_agg({})", needs_order=True, order_by=order_by)

    def wavg(self, weight: Any) -> "Expr":
        """The mean weighted by another column. Pairs with a null are left out; weights that add up to zero give null.

        >>> import splay
        >>> splay.col("price").wavg("size")
        vwap(price, size)
        """
        return self._aggregate("vwap({}, {})", weight)

    vwap = wavg

    def twap(self, time: Any, order_by: Any = None) -> "Expr":
        """The mean weighted by the time for which each value stood.

        >>> col("price").twap("time")
        twap(price, time)
        """
        return self._aggregate("twap({}, {})", time, needs_order=True, order_by=order_by)

    def corr(self, other: Any) -> "Expr":
        """The correlation with another column.

        >>> col("bid").corr("ask")
        corr(bid, ask)
        """
        return self._aggregate("corr({}, {})", other)

    def cov(self, other: Any, ddof: int = 1) -> "Expr":
        """The covariance with another column.

        >>> col("bid").cov("ask")
        covar_samp(bid, ask)
        """
        return self._aggregate(_by_ddof(ddof, "covar_pop({}, {})", "covar_samp({}, {})"), other)

    def filter(self, condition: Any) -> "Expr":
        """An aggregate of those rows alone of which a condition holds.

        >>> import splay
        >>> splay.col("size").sum().filter(splay.col("side") == "buy")
        sum(size) FILTER (WHERE side = 'buy')
        """
        if not isinstance(self.node, Call) or not self.node.is_aggregate:
            raise FrameError(f"filter stands behind an aggregate, not behind {self}: splay.col('x').sum().filter(...)")
        where = condition_of(condition).node
        if self.node.where is not None:
            where = Operation("{} AND {}", (self.node.where, where))
        return self._new(dataclasses.replace(self.node, where=where), condition, name=self.name)


def value_of(constant: Any) -> "Expr":
    """A constant as an argument."""
    return make_expr(value(constant))


def _by_ddof(ddof: int, population: str, sample: str) -> str:
    if ddof not in (0, 1):
        raise FrameError(f"ddof is 0 for a population or 1 for a sample, not {ddof}")
    return population if ddof == 0 else sample
