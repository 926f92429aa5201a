"""What a statement is drawn with: a seeded generator of random numbers, what it is to be, and the tables' profiles."""

import datetime
import random

from .columns import BY_NAME, COLUMNS, Column, of_type
from .expressions import (
    Expression,
    among,
    between,
    both,
    compared,
    either,
    half_open,
    is_null,
    like,
    negation,
    of_column,
)
from .profile import Profile
from .shares import Share
from .statement import SALT

WIDTHS = {"one": 1, "few": 3, "many": 8, "all": len(COLUMNS)}
PARTNERS = {"quote": "trade", "trade": "quote", "tick": "book", "book": "tick"}
"""What a table is joined with."""


class Draw:
    """A statement's own source of chance."""

    def __init__(self, seed: str, share: Share, profiles: dict[str, Profile]):
        self.rng = random.Random(seed)
        self.share = share
        self.profiles = profiles
        self.subject = self.rng.choice(of_type(share.type))
        """The column that the statement is about."""

    @property
    def table(self) -> str:
        return self.share.table

    @property
    def partner(self) -> str:
        return PARTNERS[self.table]

    @property
    def profile(self) -> Profile:
        return self.profiles[self.table]

    @property
    def width(self) -> int:
        return WIDTHS[self.share.width]

    def relation(self, name: str = "q", table: str | None = None) -> str:
        """A table with its alias, for FROM."""
        return f"{table or self.table} AS {name}{SALT}"

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def columns(self, count: int | None = None, first: Column | None = None) -> list[Column]:
        """So many columns as the statement is wide, the subject first."""
        first = first or self.subject
        others = [column for column in COLUMNS if column != first]
        return [first, *self.rng.sample(others, min(len(others), (count or self.width) - 1))]

    def number(self) -> Column:
        """The subject if it is a number, else any number."""
        return self.subject if self.subject.is_number else self.rng.choice([c for c in COLUMNS if c.is_number])

    def grouping(self) -> Column:
        """The subject if it has few values, else symbol or venue."""
        return self.subject if self.subject.few else BY_NAME[self.rng.choice(["symbol", "venue"])]

    # Which rows.

    def where(self, relation: str = "", table: str | None = None) -> Expression | None:
        """The condition that leaves as many rows as the statement's selectivity says; None for all."""
        profile = self.profiles[table or self.table]
        selectivity = self.share.selectivity
        if selectivity == "one symbol":
            return compared(of_column(BY_NAME["symbol"], relation), "=", self.rng.choice(profile.symbols))
        if selectivity == "few symbols":
            few = min(5, max(1, len(profile.symbols) - 1))
            return among(of_column(BY_NAME["symbol"], relation), self.rng.sample(profile.symbols, few))
        if selectivity == "short time":
            return self.span(profile, 0.005, relation)
        if selectivity == "tenth":
            return self.range(profile, 0.1, relation)
        if selectivity == "half":
            return self.span(profile, 0.5, relation) if self.chance(0.3) else self.range(profile, 0.5, relation)
        return None

    def span(self, profile: Profile, share: float, relation: str = "") -> Expression:
        """A stretch of time that holds such a share of the rows."""
        begin = self.rng.uniform(0, 1 - share)
        low = profile.quantile("time", begin)
        high = max(profile.quantile("time", begin + share), low + datetime.timedelta(seconds=1))
        return half_open(of_column(BY_NAME["time"], relation), low, high)

    def range(self, profile: Profile, share: float, relation: str = "") -> Expression:
        """A range of a column's values that holds about such a share: of the subject, or of a column with many values."""
        column = self.subject
        if column.few or column.name == "time":
            column = BY_NAME[self.rng.choice(["price", "size", "depth", "clock", "amount"])]
        begin = self.rng.uniform(0, 1 - share)
        low, high = profile.quantile(column.name, begin), profile.quantile(column.name, begin + share)
        return between(of_column(column, relation), low, high)

    def value(self, column: Column, table: str | None = None):
        """A value that occurs."""
        return self.rng.choice(self.profiles[table or self.table].values[column.name])

    def values(self, column: Column, most: int, table: str | None = None) -> list:
        """Some values that occur, each once."""
        distinct = self.profiles[table or self.table].distinct(column.name)
        return sorted(self.rng.sample(distinct, min(most, len(distinct))))

    # Conditions on a column.

    def condition(self, column: Column, relation: str = "") -> Expression:
        """Any condition that the column's type has; two of them, or the opposite of one, now and then."""
        simple = self.simple(column, relation)
        turn = self.rng.random()
        if turn < 0.15:
            return either(simple, self.simple(self.rng.choice(COLUMNS), relation))
        if turn < 0.3:
            return both(simple, self.simple(self.rng.choice(COLUMNS), relation))
        if turn < 0.37:
            return negation(simple)
        return simple

    def simple(self, column: Column, relation: str = "") -> Expression:
        """One comparison."""
        base = of_column(column, relation)
        if column.type == "bool":
            return self.rng.choice([base, compared(base, "=", False), negation(base)])
        kinds = ["compare", "compare", "between", "in"]
        if column.type in ("symbol", "text"):
            kinds += ["like", "like"]
        if column.nullable:
            kinds.append("null")
        kind = self.rng.choice(kinds)
        if kind == "compare":
            return compared(base, self.rng.choice(["=", "<>", "<", "<=", ">", ">="]), self.value(column))
        if kind == "between":
            low, high = sorted([self.value(column), self.value(column)])
            return between(base, low, high)
        if kind == "in":
            return among(base, self.values(column, self.rng.choice([2, 3, 8, 40])), negated=self.chance(0.2))
        if kind == "null":
            return is_null(base, negated=self.chance(0.5))
        return like(base, self.pattern(str(self.value(column))))

    def pattern(self, value: str) -> str:
        """A pattern that the value matches."""
        piece = value[: self.rng.randint(1, max(1, len(value) - 1))].replace("%", "").replace("_", "")
        return self.rng.choice([f"{piece}%", f"%{value[-2:]}", f"%{piece[-2:]}%"])


def where_clause(condition: Expression | None) -> str:
    """`` WHERE ...``, or nothing."""
    return f" WHERE {condition.sql}" if condition is not None else ""


def filtered(frame, condition: Expression | None):
    """Polars' rows that fulfil a condition."""
    return frame if condition is None else frame.filter(condition.polars)


def translated(*expressions: Expression | None) -> bool:
    """Whether Polars can say all of it."""
    return all(expression is None or expression.polars is not None for expression in expressions)
