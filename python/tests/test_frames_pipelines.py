"""Chains of verbs, in any order, give what the same chains give in Polars."""

import frame_pairs as pairs
import polars as pl
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import splay

LIMITS = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
COUNT = 0


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    return splay.open(tmp_path_factory.mktemp("pipelines") / "db")


class Chain:
    """A frame of both kinds, and what is drawn for its next verb."""

    def __init__(self, lazy: "splay.Frame", eager: pl.DataFrame, data):
        self.lazy, self.eager, self.data = lazy, eager, data
        self.is_sorted = self.is_total = False
        self.number = 0

    def draw(self, strategy):
        return self.data.draw(strategy)

    def of_type(self, *kinds) -> list[str]:
        return [name for name, kind in self.eager.schema.items() if kind in kinds or (kind.is_integer() and pl.Int64 in kinds)]

    def name(self) -> str:
        """A new name, or that of a column, which is replaced."""
        if self.draw(st.booleans()):
            return self.draw(st.sampled_from(self.eager.columns))
        self.number += 1
        return self.draw(st.sampled_from(["new", "From", 'a "b"', "sort_0", "s", "l"])) + str(self.number)

    def value(self) -> pairs.Pair | None:
        """An expression of the columns that there are."""
        numbers, texts, flags = self.of_type(pl.Int64, pl.Float64), self.of_type(pl.String), self.of_type(pl.Boolean)
        kinds = [kind for kind, names in (("number", numbers), ("text", texts), ("flag", flags)) if names]
        if not kinds:
            return None
        kind = self.draw(st.sampled_from(kinds))
        if kind == "number":
            one, other = (pairs.column(self.draw(st.sampled_from(numbers))) for _ in range(2))
            made = self.draw(st.sampled_from([lambda x, y: x + y, lambda x, y: x - y, lambda x, y: -x, lambda x, y: x / 2,
                                              lambda x, y: x.fill_null(y), lambda x, y: x > y, lambda x, y: x.is_null()]))
            return pairs.both(made, one, other)
        column = pairs.column(self.draw(st.sampled_from(texts if kind == "text" else flags)))
        if kind == "text":
            part = self.draw(st.sampled_from(pairs.TEXTS))
            return pairs.both(lambda x: x.str.contains(part, literal=True), column)
        return pairs.both(lambda x: ~x, column)

    def condition(self) -> pairs.Pair | None:
        """An expression that is a condition."""
        numbers, texts = self.of_type(pl.Int64, pl.Float64), self.of_type(pl.String)
        if numbers and self.draw(st.booleans()):
            column, bound = self.draw(st.sampled_from(numbers)), self.draw(st.sampled_from([-2, 0, 0.5, 3]))
            return pairs.both(lambda x: x > bound, pairs.column(column))
        if texts:
            column, text = self.draw(st.sampled_from(texts)), self.draw(st.sampled_from(pairs.TEXTS))
            return pairs.Pair(splay.col(column) != text, pl.col(column) != pl.lit(text))
        return None

    # Verbs

    def filter(self) -> None:
        condition = self.condition()
        if condition is not None:
            self.lazy, self.eager = self.lazy.filter(condition.splay), self.eager.filter(condition.polars)

    def filter_by_window(self) -> None:
        names, keys = self.of_type(pl.Int64), self.keys(1)
        if names:
            name = self.draw(st.sampled_from(names))
            self.lazy = self.lazy.filter(splay.col(name) == splay.col(name).max().over(*keys))
            self.eager = self.eager.filter(pl.col(name) == pl.col(name).max().over(*keys))

    def with_columns(self) -> None:
        value, name = self.value(), self.name()
        if value is not None:
            self.lazy = self.lazy.with_columns(value.splay.alias(name))
            self.eager = self.eager.with_columns(value.polars.alias(name))

    def with_window(self) -> None:
        names, keys = self.of_type(pl.Int64), self.keys(2)
        if names:
            name, new = self.draw(st.sampled_from(names)), self.name()
            self.lazy = self.lazy.with_columns(splay.col(name).max().over(*keys).alias(new))
            self.eager = self.eager.with_columns(pl.col(name).max().over(*keys).alias(new))

    def with_neighbours(self) -> None:
        names, keys = self.of_type(pl.Int64), self.keys(2)
        # Rows that are equal in all columns by which they are sorted have no order.
        if names and self.is_sorted and self.is_total:
            name, new = self.draw(st.sampled_from(names)), self.name()
            made = self.draw(st.sampled_from([lambda x: x.shift(1), lambda x: x.diff(), lambda x: x.rolling_max(2), lambda x: x.first()]))
            self.lazy = self.lazy.with_columns(made(splay.col(name)).over(*keys).alias(new))
            self.eager = self.eager.with_columns(made(pl.col(name)).over(*keys).alias(new))

    def select(self) -> None:
        names = self.draw(st.lists(st.sampled_from(self.eager.columns), min_size=1, unique=True))
        self.lazy, self.eager = self.lazy.select(*names), self.eager.select(names)

    def rename(self) -> None:
        old, new = self.draw(st.sampled_from(self.eager.columns)), f"renamed {self.number}"
        self.number += 1
        self.lazy, self.eager = self.lazy.rename({old: new}), self.eager.rename({old: new})

    def sort(self) -> None:
        descending = self.draw(st.booleans())
        self.lazy = self.lazy.sort(*self.eager.columns, descending=descending, nulls_last=True)
        self.eager = self.eager.sort(self.eager.columns, descending=descending, nulls_last=True)
        self.is_sorted, self.is_total = True, not self.eager.is_duplicated().any()

    def slice(self) -> None:
        self.sort()
        start, many = self.draw(st.integers(0, 3)), self.draw(st.integers(0, 12))
        self.lazy, self.eager = self.lazy[start : start + many], self.eager[start : start + many]

    def unique(self) -> None:
        self.lazy, self.eager = self.lazy.unique(), self.eager.unique()
        self.is_sorted = False

    def group(self) -> None:
        keys, numbers = self.keys(2), self.of_type(pl.Int64)
        if not keys:
            return
        found, expected = [splay.count()], [pl.len().cast(pl.Int64).alias("count")]
        for name in [name for name in numbers if name not in keys and name != "count"][:2]:
            found.append(splay.col(name).sum())
            expected.append(pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name))
        if "count" in keys:
            found, expected = found[1:], expected[1:]
        if found:
            self.lazy, self.eager = self.lazy.group_by(keys).agg(*found), self.eager.group_by(keys).agg(*expected)
            self.is_sorted = False

    def join(self) -> None:
        keys = self.keys(2)
        if not keys:
            return
        how = self.draw(st.sampled_from(["inner", "left", "semi", "anti", "full"]))
        self.number += 1
        name = f"matches{self.number}"
        other = self.lazy.group_by(keys).agg(splay.count().alias(name))
        other_eager = self.eager.group_by(keys).agg(pl.len().cast(pl.Int64).alias(name))
        self.lazy = self.lazy.join(other, keys, how)
        extra = {"coalesce": True} if how in ("left", "full") else {}
        joined = self.eager.join(other_eager, on=keys, how=how, **extra)
        self.eager = joined.select(self.lazy.columns)
        self.is_sorted = False

    def keys(self, most: int) -> list[str]:
        names = self.of_type(pl.String, pl.Boolean, pl.Int64)
        return self.draw(st.lists(st.sampled_from(names), min_size=1, max_size=most, unique=True)) if names else []


VERBS = ["filter", "filter_by_window", "with_columns", "with_window", "with_neighbours", "select", "rename", "sort", "slice", "unique", "group", "join"]


@given(rows=pairs.rows(), verbs=st.lists(st.sampled_from(VERBS), min_size=2, max_size=6), data=st.data())
@LIMITS
def test_chains(db, rows, verbs, data):
    global COUNT
    COUNT += 1
    db.write(f"t{COUNT}", pairs.frame_of(rows), symbol="sym", time="time")
    lazy = db[f"t{COUNT}"].drop("date")
    chain = Chain(lazy, lazy.pl().with_columns(pl.col(pl.Categorical).cast(pl.String)), data)
    for verb in verbs:
        try:
            getattr(chain, verb)()
        except splay.FrameError as refused:
            # A sort by columns that are gone is the one thing that a chain of these may not go on with.
            assert "sorted by" in str(refused)  # noqa: PT017
            return
        note(f"{verb}: {chain.lazy.sql()}")
    pairs.assert_same(chain.lazy.pl(), chain.eager, is_ordered=chain.is_sorted)
