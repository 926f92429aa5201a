"""Expressions that many questions use, for Polars.

Without Polars the questions can still be read: every expression is then an ``Absent``.
"""

import os

from .systems import THREADS

os.environ.setdefault("POLARS_MAX_THREADS", str(THREADS))  # read once, on import


class Absent:
    """Stands for Polars where it is not installed: whatever is done with it gives it again."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *arguments, **named):
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __mod__ = __call__
    __eq__ = __ne__ = __ge__ = __gt__ = __le__ = __lt__ = __and__ = __or__ = __invert__ = __call__
    __hash__ = object.__hash__


try:
    import polars as pl
except ImportError:
    pl = Absent()

column = pl.col
BID, OFFER = column.Bid_Price, column.Offer_Price
BID_SIZE, OFFER_SIZE = column.Bid_Size, column.Offer_Size
PRICE, VOLUME = column.Trade_Price, column.Trade_Volume
MID = 0.5 * (BID + OFFER)
SPREAD = OFFER - BID
WEIGHTED_MID = (BID * OFFER_SIZE + OFFER * BID_SIZE) / (BID_SIZE + OFFER_SIZE)


def instant(value) -> pl.Expr:
    """A time as a literal of the columns' type: a ``datetime`` alone has microseconds, and the column would be cast."""
    return pl.lit(value, dtype=pl.Datetime("ns", "UTC"))


def between(parameters, start: str, end: str, time: str = "Time") -> pl.Expr:
    """Rows from ``start`` until before ``end``, clock times of New York."""
    return (column(time) >= instant(parameters.time(start))) & (column(time) < instant(parameters.time(end)))


def symbol(name: str) -> pl.Expr:
    return column.Symbol == name


def symbols(names: list[str]) -> pl.Expr:
    return column.Symbol.is_in(names)


def bucket(width: str, time: str = "Time") -> pl.Expr:
    """The start of the bucket, as column ``bucket``."""
    return column(time).dt.truncate(width).alias("bucket")
