"""Lazy frames: rows of a table, of files or of a server, that are read when a result is asked for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from splay._elsewhere import FRAME, missing
from splay.errors import FrameError
from splay.frames import display
from splay.frames.base import Ordering, condition_of, named, of, sort_keys
from splay.frames.books import BookVerbs
from splay.frames.checks import has_loose_column, is_constant, needs_order
from splay.frames.expr import Expr
from splay.frames.grouped import GroupBy, with_order
from splay.frames.joins import Joins
from splay.frames.nodes import Call, Column, Kind, Node, Over, SortKey
from splay.frames.plots import Plots
from splay.frames.query import Query
from splay.frames.relation import Item
from splay.frames.results import Results
from splay.frames.source import Source
from splay.frames.time_joins import TimeJoins
from splay.frames.times import TimeVerbs


class Frame(Joins, TimeJoins, TimeVerbs, BookVerbs, Results):
    """Rows that are not read yet. Made by ``db["trade"]`` and :func:`splay.scan`.

    Its verbs give new frames and read nothing; each frame is one SQL statement, which :meth:`sql` shows and
    :meth:`to_arrow`, :meth:`df`, :meth:`pl` and their kin run. A frame that is run again reads again.

    In the examples ``trade`` has the columns time, symbol, price, size and side, ``quote`` time, symbol, bid and ask, ``book`` levels of
    both sides, and ``col`` is :func:`splay.col`.

    >>> import splay
    >>> trade = splay.open("market")["trade"]                               # doctest: +SKIP
    >>> trade[trade.price > 10].group_by("symbol").agg(splay.col("size").sum()).df()   # doctest: +SKIP
    """

    __iter__ = None
    __hash__ = object.__hash__

    def __init__(self, source: Source, query: Query, roots: frozenset[tuple[int, str]] | None = None):
        self._source, self._query = source, query
        self._roots = frozenset({(id(source), query.relation.text)}) if roots is None else roots

    def _with(self, query: Query) -> "Frame":
        return Frame(self._source, query, self._roots)

    def _frame(self) -> "Frame":
        return self

    # What it is

    def sql(self) -> str:
        """The statement that it is.

        >>> print(trade.head(2).sql())
        SELECT *
        FROM trade
        LIMIT 2
        """
        return self._query.sql()

    @property
    def columns(self) -> list[str]:
        """Names of its columns.

        >>> trade.columns
        ['time', 'symbol', 'price', 'size', 'side', 'date']
        """
        return list(self._query.columns)

    @property
    def time_column(self) -> str | None:
        """The column that the verbs of time series take for the time, None if there is none.

        >>> trade.time_column
        'time'
        """
        return self._query.time

    @property
    def symbol_column(self) -> str | None:
        """The column by which the verbs of time series tell series apart, None if there is none.

        >>> trade.symbol_column
        'symbol'
        """
        return self._query.symbol

    def __repr__(self) -> str:
        return display.text_of(self)

    def _repr_html_(self) -> str:
        return display.html_of(self)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in (column.lower() for column in self.columns)

    def __bool__(self) -> bool:
        raise TypeError("a frame is neither true nor false; len(frame) counts its rows")

    # Columns by name, rows by condition

    def __getattr__(self, name: str) -> Expr:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return Expr(Column(self._query.spelled(name)), frame=self)
        except LookupError as error:
            raise missing(
                "a frame", name, FRAME, [*self.columns, *dir(type(self))], f"columns are {', '.join(self.columns)}"
            ) from error

    def __getitem__(self, key: Any) -> Any:
        """``t["price"]`` is a column, ``t[["a", "b"]]`` some columns, ``t[t.price > 10]`` some rows, ``t[:10]`` the first.

        >>> print(trade[trade.price > 100][["time", "price"]][:2].sql())
        SELECT time, price
        FROM trade
        WHERE price > 100
        LIMIT 2
        """
        if isinstance(key, str):
            return Expr(Column(self._query.spelled(key)), frame=self)
        if isinstance(key, Expr):
            return self.filter(key)
        if isinstance(key, slice):
            return self._sliced(key)
        if isinstance(key, (list, tuple)) and all(isinstance(name, str) for name in key):
            return self.select(*key)
        raise TypeError(f"a frame is indexed by a name, a list of names, a condition or a slice, not by {key!r}")

    def __setitem__(self, name: str, value: Any) -> None:
        """Add or replace a virtual column: ``t["mid"] = (t.bid + t.ask) / 2``. The frame itself changes; nothing is stored.

        >>> frame = trade.head(2)
        >>> frame["value"] = frame.price * frame["size"]
        >>> frame.columns[-1]
        'value'
        """
        if not isinstance(name, str):
            raise TypeError("a column is added under its name")
        changed = self.with_columns(of(value).alias(name))
        self._query, self._roots = changed._query, changed._roots

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            raise AttributeError(f"a column is added under its name, frame[{name!r}] = ...: an attribute would be no column of the rows")
        super().__setattr__(name, value)

    def __delitem__(self, name: str) -> None:
        self._query = self.drop(name)._query

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in self.columns if name.isidentifier())})

    def _ipython_key_completions_(self) -> list[str]:
        return self.columns

    def _sliced(self, rows: slice) -> "Frame":
        start, stop = rows.start or 0, rows.stop
        if rows.step not in (None, 1) or start < 0 or (stop is not None and stop < 0):
            raise FrameError("a slice of a frame counts from its begin, row by row: t[:10], t[10:20]")
        return self._with(self._query.sliced(start, None if stop is None else max(0, stop - start)))

    # Expressions of the caller

    def _item(self, operand: Any) -> Item:
        """A column of a select list: a name, an expression, a value."""
        expression = named(operand) if isinstance(operand, str) else of(operand)
        self._check_origin(expression)
        if isinstance(expression.node, Column) and not expression.node.is_left and expression.name == expression.node.name:
            name = self._query.spelled(expression.name)
            return Item(name, Column(name))
        return Item(expression.name, expression.node)

    def _items(self, columns: Sequence[Any], by_name: Mapping[str, Any]) -> list[Item]:
        items = [self._item(column) for column in flattened(columns)]
        return items + [Item(name, self._item(column).node) for name, column in by_name.items()]

    def _node(self, operand: Any) -> Node:
        return self._item(operand).node

    def _check_origin(self, expression: Expr) -> None:
        frame = expression._frame
        if frame is not None and not frame._roots <= self._roots:
            raise FrameError(f"{expression} is a column of another frame: name it by splay.col, or join the frames")

    # Verbs

    def filter(self, *conditions: Any, **values: Any) -> "Frame":
        """Rows of which all conditions hold. A null doesn't. Keywords are columns with the value that they have in those rows.

        A condition may be an aggregate over partitions: ``splay.col("price") == splay.col("price").max().over("symbol")``.

        >>> print(trade.filter(col("price") > 100, col("symbol").is_in(["A", "B"])).sql())
        SELECT *
        FROM trade
        WHERE (price > 100) AND (symbol IN ('A', 'B'))
        >>> print(trade.filter(symbol="A", side="buy").sql())
        SELECT *
        FROM trade
        WHERE (symbol = 'A') AND (side = 'buy')
        """
        query = self._query
        equal = [Expr(Column(query.spelled(name))) == value for name, value in values.items()]
        for condition in flattened([*conditions, *equal]):
            query = query.filtered(self._node(condition_of(condition)))
        return self._with(query)

    def select(self, *columns: Any, **named_columns: Any) -> "Frame":
        """These columns alone: names and expressions, with keywords under other names. Aggregates alone give one row.

        >>> print(trade.select("symbol", value=col("price") * col("size")).sql())
        SELECT symbol, price * size AS value
        FROM trade
        >>> trade.select(col("size").min(), rows=splay.count()).fetchall()
        [(1, 400)]
        """
        items = self._items(columns, named_columns)
        if not items:
            raise FrameError("a frame has a column or more")
        kinds = {item.node.kind for item in items}
        if Kind.AGGREGATE not in kinds:
            return self._with(self._query.projected(items))
        rows = [item.name for item in items if item.node.kind != Kind.AGGREGATE and not is_constant(item.node)]
        loose = [item.name for item in items if item.node.kind == Kind.AGGREGATE and has_loose_column(item.node)]
        if rows or loose:
            raise FrameError(
                f"{', '.join(rows + loose)} has a value for each row and stands beside aggregates: write .over() behind those, "
                "or group_by"
            )
        items = with_order(self._query, [], items, self._query.time)
        return self._with(self._query.grouped([], items, any(needs_order(item.node) for item in items)))

    def with_columns(self, *columns: Any, **named_columns: Any) -> "Frame":
        """All columns and further ones, which replace those of the same name. All are computed of the columns before.

        >>> print(trade.with_columns(value=col("price") * col("size")).sql())
        SELECT *, price * size AS value
        FROM trade
        """
        new = self._items(columns, named_columns)
        for item in new:
            if item.node.kind == Kind.AGGREGATE:
                raise FrameError(f"{item.name} is one value of many rows, no column: write .over() behind it")
        by_name = {item.name.lower(): item for item in new}
        if len(by_name) < len(new):
            raise FrameError("two new columns have one name: give one of them another by .alias()")
        items = [by_name.pop(name.lower(), Item(name, Column(name))) for name in self.columns]
        return self._with(self._query.projected([*items, *by_name.values()]))

    assign = with_columns

    def drop(self, *names: str, columns: str | Sequence[str] = ()) -> "Frame":
        """All columns but some, which may be named as `columns`, too.

        >>> trade.drop("side", "date").columns
        ['time', 'symbol', 'price', 'size']
        """
        also = [columns] if isinstance(columns, str) else list(columns)
        gone = {self._query.spelled(name) for name in flattened([*names, *also])}
        return self.select(*(name for name in self.columns if name not in gone))

    def drop_nulls(self, *columns: Any) -> "Frame":
        """Rows that have a value in some columns, in all without any named. NaN is a value.

        >>> print(trade.drop_nulls("price", "size").sql())
        SELECT *
        FROM trade
        WHERE (price IS NOT NULL) AND (size IS NOT NULL)
        """
        names = [self._query.spelled(name) for name in flattened(columns or self.columns)]
        return self.filter(*(Expr(Column(name)).is_not_null() for name in names))

    def rename(
        self, names: Mapping[str, str] | Callable[[str], str] | None = None, *, columns: Mapping[str, str] | Callable[[str], str] | None = None
    ) -> "Frame":
        """Other names for some columns: new ones by the old, or what a function makes of all names. They may be given as `columns`, too.

        >>> trade.rename({"size": "volume"}).columns
        ['time', 'symbol', 'price', 'volume', 'side', 'date']
        >>> trade.select("time", "price").rename(str.upper).columns
        ['TIME', 'PRICE']
        """
        if (names is None) == (columns is None):
            raise TypeError("rename takes the names once: rename({'old': 'new'})")
        names = names if names is not None else columns
        if callable(names):
            names = {name: names(name) for name in self.columns}
        spelled = {self._query.spelled(old): new for old, new in (names or {}).items()}
        return self._with(self._query.projected([Item(spelled.get(name, name), Column(name)) for name in self.columns]))

    def group_by(self, *keys: Any, **named_keys: Any) -> GroupBy:
        """Rows that are equal in some columns as one; say what is computed of them by ``agg``. Null is a group.

        >>> print(trade.group_by("symbol").agg(col("size").sum(), rows=splay.count()).sql())
        SELECT symbol, sum(size) AS size, count(*) AS "rows"
        FROM trade
        GROUP BY symbol
        """
        items = self._items(keys, named_keys)
        for item in items:
            if item.node.kind != Kind.ROW:
                raise FrameError(f"rows can't be grouped by {item.name}, which is computed over rows: name it first, by with_columns")
            if is_constant(item.node):
                hint = (
                    "a keyword is the name of a key, and groups come in any order until they are sorted"
                    if item.name in named_keys
                    else "select() without keys makes one group"
                )
                raise FrameError(f"rows can't be grouped by {item.name}, which is the same for all: {hint}")
        return GroupBy(self, items)

    groupby = group_by

    def sort(self, *by: Any, descending: bool | Sequence[bool] = False, nulls_last: bool | None = None) -> "Frame":
        """The rows in the order of columns.

        Parameters
        ----------
        *by
            Names, expressions, ``splay.col("time").desc()``.
        descending
            Whether the greatest come first; for each column, or for all.
        nulls_last
            Whether nulls come last. Default: nulls are greater than everything.

        >>> print(trade.sort("symbol", col("price").desc()).sql())
        SELECT *
        FROM trade
        ORDER BY symbol, price DESC
        """
        keys = [self._sort_key(key) for key in flattened(by)]
        # SQL takes a number for the place of a column.
        if not keys or any(is_constant(key.node) for key in keys):
            raise FrameError("a sort is by columns")
        turned = [descending] * len(keys) if isinstance(descending, bool) else list(descending)
        if len(turned) != len(keys):
            raise ValueError(f"descending is given for {len(turned)} columns of {len(keys)}")
        order = [
            SortKey(key.node, key.descending != turn, nulls_last if key.nulls_last is None else key.nulls_last)
            for key, turn in zip(keys, turned)
        ]
        return self._with(self._query.sorted(tuple(order)))

    def _sort_key(self, operand: Any) -> SortKey:
        if isinstance(operand, Ordering):
            return operand.key
        self._check_origin(named(operand))
        return sort_keys([operand])[0]

    def limit(self, rows: int) -> "Frame":
        """The first rows. Without a sort those of a table in its order; of files, joins and groups any.

        >>> len(trade.limit(3))
        3
        """
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 0:
            raise ValueError(f"a limit is a number of rows, not {rows!r}")
        return self._with(self._query.sliced(0, rows))

    def head(self, rows: int = 5) -> "Frame":
        """The first rows; see :meth:`limit`.

        >>> trade.head(2).select("symbol", "price").fetchall()
        [('A', 99.51), ('A', 99.31)]
        """
        return self.limit(rows)

    def tail(self, rows: int = 5) -> "Frame":
        """The last rows in the order of the sort, which the frame must have.

        >>> trade.sort("time").tail(2).select("symbol", "price").fetchall()
        [('A', 100.47), ('B', 99.88)]
        """
        query = self._query
        if not query.order or query.is_cut:
            raise FrameError("which rows are last is said by a sort: frame.sort('time').tail(5)")
        back = tuple(
            SortKey(key.node, not key.descending, None if key.nulls_last is None else not key.nulls_last) for key in query.order
        )
        last = self._with(query.sorted(back)).limit(rows)
        order = query._order_outside()
        return self._with(last._query.nested(keeps_order=False).sorted(order))

    def unique(self, subset: Any = None, *, keep: str = "any", order_by: Any = None) -> "Frame":
        """Each different row once; nulls are equal.

        Parameters
        ----------
        subset
            Columns that tell rows apart. Default: all.
        keep
            Which of the rows that are equal in `subset` stays: ``"any"``, or ``"first"`` or ``"last"`` in the order of `order_by`,
            of the frame's sort, or of its time.

        >>> trade.select("symbol", "side").unique().sort("symbol", "side").fetchall()
        [('A', 'buy'), ('A', 'sell'), ('B', 'buy'), ('B', 'sell')]
        >>> print(trade.unique("symbol", keep="last").sql())
        SELECT *
        FROM trade
        QUALIFY row_number() OVER (PARTITION BY symbol ORDER BY time DESC) = 1
        """
        if subset is None and keep == "any":
            return self._with(self._query.distinct())
        by = [self._query.spelled(name) for name in flattened([subset if subset is not None else self.columns])]
        if keep not in ("any", "first", "last"):
            raise ValueError(f"keep is 'any', 'first' or 'last', not {keep!r}")
        order = sort_keys(order_by)
        if keep == "any":
            order = tuple(SortKey(Column(name)) for name in by)
        elif not order:
            order = self._own_order("unique with keep")
        if keep == "last":
            order = tuple(
                SortKey(key.node, not key.descending, None if key.nulls_last is None else not key.nulls_last) for key in order
            )
        place = Over(Call("row_number()", (), is_aggregate=False), tuple(Column(name) for name in by), order)
        return self.filter(Expr(place) == 1)

    def _own_order(self, verb: str) -> tuple[SortKey, ...]:
        """The order of the frame: its sort, else its time."""
        if self._query.order:
            return self._query._order_outside()
        if self.time_column is None:
            raise FrameError(f"{verb} needs an order: sort the frame, or name it by order_by=")
        return (SortKey(Column(self.time_column)),)

    @property
    def plot(self) -> Plots:
        """Plots of rows that the engine aggregates first: ``t.plot.line("price", by="symbol")``, ``t.plot.interactive.candles("5m")``.

        >>> axes = trade.plot.line("price", by="symbol")
        >>> figure = trade.plot.interactive.histogram("size")
        """
        return Plots(self)

    def pipe(self, function: Any, *arguments: Any, **options: Any) -> Any:
        """What a function makes of the frame: ``t.pipe(f, 1)`` is ``f(t, 1)``.

        >>> def large(frame, least):
        ...     return frame.filter(col("size") >= least)
        >>> len(trade.pipe(large, 400))
        80
        """
        return function(self, *arguments, **options)


def flattened(items: Sequence[Any]) -> Iterator[Any]:
    """Arguments, and what lists among them hold."""
    for one in items:
        if isinstance(one, (list, tuple)):
            yield from flattened(one)
        else:
            yield one
