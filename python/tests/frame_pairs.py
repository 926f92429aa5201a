"""Expressions and frames of two kinds at once: each is written for SplayDB and for Polars, so that their answers can be compared."""

import dataclasses
import datetime as dt
import math
from typing import Any

import polars as pl
from hypothesis import strategies as st

import splay

TEXTS = ["N", "Q", "it's", 'a "b"', "", "null", "{}", "%_", "ä"]
SYMBOLS = ["A", "B", "it's"]
START = dt.datetime(2024, 1, 2, 14, 30, tzinfo=dt.UTC)
SCHEMA = {
    "time": pl.Datetime("ns", "UTC"),
    "sym": pl.String,
    "price": pl.Float64,
    "size": pl.Int64,
    "odd name": pl.String,
    "order": pl.Boolean,
}


@dataclasses.dataclass
class Pair:
    """The same for SplayDB and for Polars."""

    splay: Any
    polars: Any

    def __repr__(self) -> str:
        return repr(self.splay)


def rows(most: int = 25) -> st.SearchStrategy[list[tuple]]:
    """Rows of the table; times may be equal, all other columns but the symbol may be null."""
    row = st.tuples(
        st.integers(0, 40).map(lambda n: START + dt.timedelta(seconds=n)),
        st.sampled_from(SYMBOLS),
        st.none() | st.integers(-20, 20).map(lambda n: n / 4) | st.just(math.nan),
        st.none() | st.integers(-9, 9),
        st.none() | st.sampled_from(TEXTS),
        st.none() | st.booleans(),
    )
    return st.lists(row, max_size=most)


def frame_of(given: list[tuple]) -> pl.DataFrame:
    """Rows as a Polars frame."""
    return pl.DataFrame(given, schema=SCHEMA, orient="row")


def column(name: str) -> Pair:
    """A column of both."""
    return Pair(splay.col(name), pl.col(name))


def both(function: Any, *parts: Pair) -> Pair:
    """What a function makes of both, by operators that both have."""
    return Pair(function(*(part.splay for part in parts)), function(*(part.polars for part in parts)))


def numbers(depth: int = 2) -> st.SearchStrategy[Pair]:
    """Expressions that are numbers."""
    leaf = st.sampled_from(["price", "size"]).map(column) | st.sampled_from([-3, 0, 2, 0.5, -1.25]).map(
        lambda n: Pair(splay.lit(n), pl.lit(n))
    )
    if depth == 0:
        return leaf
    inner = numbers(depth - 1)
    return st.one_of(
        leaf,
        st.builds(lambda a, b: both(lambda x, y: x + y, a, b), inner, inner),
        st.builds(lambda a, b: both(lambda x, y: x - y, a, b), inner, inner),
        st.builds(lambda a, b: both(lambda x, y: x * y, a, b), inner, inner),
        st.builds(lambda a: both(lambda x: -x, a), inner),
        st.builds(lambda a: both(lambda x: x.abs(), a), inner),
        st.builds(lambda a: both(lambda x: x / 4, a), inner),
        st.builds(lambda a, b: both(lambda x, y: x.fill_null(y), a, b), inner, inner),
        st.builds(
            lambda c, a, b: Pair(
                splay.when(c.splay).then(a.splay).otherwise(b.splay), pl.when(c.polars).then(a.polars).otherwise(b.polars)
            ),
            conditions(depth - 1),
            inner,
            inner,
        ),
    )


def conditions(depth: int = 1) -> st.SearchStrategy[Pair]:
    """Expressions that are conditions."""
    number = numbers(0)
    text = st.sampled_from(TEXTS)
    leaf = st.one_of(
        st.builds(lambda a, b: both(lambda x, y: x > y, a, b), number, number),
        st.builds(lambda a, b: both(lambda x, y: x <= y, a, b), number, number),
        st.builds(lambda a, b: both(lambda x, y: x == y, a, b), number, number),
        st.builds(lambda a, b: both(lambda x, y: x != y, a, b), number, number),
        st.builds(lambda a: both(lambda x: x.is_null(), a), number),
        st.builds(lambda t: both(lambda x: x == pl.lit(t) if isinstance(x, pl.Expr) else x == t, column("odd name")), text),
        st.builds(lambda t: Pair(splay.col("odd name").str.contains(t, literal=True),
                                 pl.col("odd name").str.contains(t, literal=True)), text),
        st.builds(lambda t: both(lambda x: x.str.starts_with(t), column("odd name")), text),
        st.builds(lambda t: both(lambda x: x.is_in(t), column("odd name")), st.lists(text, max_size=3)),
        st.builds(lambda t: both(lambda x: x.is_in(t), column("sym")), st.lists(st.sampled_from(SYMBOLS), max_size=2)),
        st.builds(lambda a, b: both(lambda x: x.is_between(a, b), column("size")), st.integers(-5, 5), st.integers(-5, 5)),
        st.just(column("order")),
    )
    if depth == 0:
        return leaf
    inner = conditions(depth - 1)
    return st.one_of(
        leaf,
        st.builds(lambda a, b: both(lambda x, y: x & y, a, b), inner, inner),
        st.builds(lambda a, b: both(lambda x, y: x | y, a, b), inner, inner),
        st.builds(lambda a: both(lambda x: ~x, a), inner),
    )


def _sum(x: pl.Expr) -> pl.Expr:
    """SQL's sum of no value is null, that of Polars 0."""
    return pl.when(x.count() > 0).then(x.sum())


def aggregates() -> st.SearchStrategy[Pair]:
    """Expressions that are one value of many."""
    # Polars takes an expression of literals alone for one value, not for one of each row.
    number = st.builds(lambda a, b: both(lambda x, y: x - y, a, b), numbers(1), st.sampled_from(["price", "size"]).map(column))
    return st.one_of(
        st.builds(lambda a: Pair(a.splay.sum(), _sum(a.polars)), number),
        st.builds(lambda a: both(lambda x: x.mean(), a), number),
        st.builds(lambda a: both(lambda x: x.count(), a), number),
        st.builds(lambda a: both(lambda x: x.n_unique(), a), st.sampled_from(["odd name", "size", "order"]).map(column)),
        st.builds(lambda a: both(lambda x: x.max(), a), st.sampled_from(["size", "odd name", "time"]).map(column)),
        st.builds(lambda a: both(lambda x: x.min(), a), st.sampled_from(["size", "odd name", "time"]).map(column)),
        st.builds(lambda a: both(lambda x: x.first(), a), st.sampled_from(["price", "size", "odd name"]).map(column)),
        st.builds(lambda a: both(lambda x: x.last(), a), st.sampled_from(["price", "size", "odd name"]).map(column)),
        st.builds(
            lambda a, c: Pair(a.splay.count().filter(c.splay), a.polars.filter(c.polars).count()), number, conditions(0)
        ),
        st.just(Pair(splay.count(), pl.len())),
    )


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal; floats to their last digits, NaN with NaN."""
    if isinstance(left, float) and isinstance(right, (int, float)):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(float(right))
        return math.isclose(left, right, rel_tol=1e-12, abs_tol=1e-12)
    return left == right


def values(given: Any) -> list[tuple]:
    """Rows of a Polars frame, symbols as text."""
    return given.with_columns(pl.col(pl.Categorical).cast(pl.String)).rows()


def assert_same(found: pl.DataFrame, expected: pl.DataFrame, is_ordered: bool) -> None:
    """Equal names, and equal rows, in whichever order unless that is given."""
    assert found.columns == expected.columns
    left, right = values(found), values(expected)
    if not is_ordered:
        left, right = sorted(left, key=_key), sorted(right, key=_key)
    assert len(left) == len(right), f"{len(left)} rows for {len(right)}"
    for one, other in zip(left, right):
        assert all(map(same, one, other)), f"{one} is not {other}"


def _key(row: tuple) -> list:
    # Floats that differ in their last digits have one place.
    return [(value is not None, f"{value + 0.0:.9g}" if isinstance(value, float) else str(value)) for value in row]
