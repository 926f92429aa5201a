"""What plots draw, as numbers: the engine aggregates first, so that a plot of any number of rows reads them once and has as many
points as can be seen. :mod:`splay.frames.matplotlib_charts` and :mod:`splay.frames.plotly_charts` draw it.
"""

import dataclasses
import datetime
import math
import zoneinfo
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from splay.errors import FrameError
from splay.frames.books import SIDES, book_of
from splay.frames.checks import NUMBERS, check_numbers
from splay.frames.functions import col, count
from splay.frames.text import UNITS, interval, nanoseconds_of

if TYPE_CHECKING:
    from splay.frames.expr import Expr
    from splay.frames.frame import Frame

OHLC = ("open", "high", "low", "close")
"""Columns of a frame of bars."""
VENUE_NAMES = ("exchange", "venue", "mic")
"""Columns that are taken for where the book of a row is."""
MEASURED = rf"{NUMBERS}|bool|timestamp"
"""Types whose values have a place on an axis."""
CANDLES = 150
"""Candles of a chart."""
SERIES = 12
"""Lines of a chart."""
THOUSANDS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
SIXTIES = (1, 2, 5, 10, 15, 30)
ROUND = {"us": THOUSANDS, "ms": THOUSANDS, "s": SIXTIES, "m": SIXTIES, "h": (1, 2, 4, 6, 12)}
"""Widths of buckets that people count in."""


@dataclasses.dataclass(frozen=True)
class Series:
    """One line: means of buckets, and the range of each. Times are nanoseconds since 1970."""

    label: str
    times: Any
    mean: Any
    low: Any
    high: Any


@dataclasses.dataclass(frozen=True)
class Lines:
    """Lines over time."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return all(len(series.times) == 0 for series in self.series)

    series: list[Series]
    y_label: str
    title: str
    zone: str
    has_legend: bool


@dataclasses.dataclass(frozen=True)
class Candles:
    """Bars of prices. Times are nanoseconds since 1970."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return len(self.times) == 0

    times: Any
    open: Any
    high: Any
    low: Any
    close: Any
    y_label: str
    title: str
    zone: str


@dataclasses.dataclass(frozen=True)
class Bars:
    """Bars beside each other, of one width."""

    lefts: list[float]
    heights: Any
    width: float
    x_label: str
    y_label: str
    is_clock: bool
    """Whether places are hours of a day."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return len(self.lefts) == 0


@dataclasses.dataclass(frozen=True)
class Cells:
    """Counts of a grid, a row of cells for each place of the vertical axis. Edges of times are nanoseconds since 1970."""

    x_edges: Any
    y_edges: Any
    counts: Any
    x_label: str
    y_label: str
    x_is_time: bool
    y_is_time: bool
    zone: str
    is_logarithmic: bool

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not self.counts.any()


@dataclasses.dataclass(frozen=True)
class Depth:
    """The sides of a book: prices from the best on, and the sizes up to each added up."""

    bid_prices: Any
    bid_sizes: Any
    ask_prices: Any
    ask_sizes: Any
    x_label: str
    y_label: str
    title: str

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return len(self.bid_prices) + len(self.ask_prices) == 0


class Charts:
    """Makes charts of a frame."""

    def __init__(self, frame: "Frame"):
        self._frame = frame

    def lines(self, columns: Sequence[str], by: str | None, time: str | None, zone: str, points: int) -> Lines:
        """Columns over time."""
        if not columns:
            raise FrameError("say which columns are drawn: frame.plot.line('price')")
        for name in columns:
            check_numbers(self._frame, name, MEASURED, "a line is of numbers or times")
        clock = self._frame._time(time)
        every = self._width(clock, points)
        keys = [] if by is None else [self._frame._query.spelled(by)]
        cells = {
            f"{what}{place}": getattr(col(name), how)()
            for place, name in enumerate(columns)
            for what, how in (("low", "min"), ("mean", "mean"), ("high", "max"))
        }
        rows = self._frame.bucket(every, keys, time=clock).agg(**cells).sort(*keys, clock).to_arrow()
        series = []
        for label, part in _parts(rows, keys):
            for place, name in enumerate(columns):
                text = name if not keys else label if len(columns) == 1 else f"{label} {name}"
                values = (_floats(part, f"{what}{place}") for what in ("mean", "low", "high"))
                series.append(Series(text, _times(part.column(clock)), *values))
        return Lines(series, ", ".join(columns), f"mean and range by {_spelled(every)}", zone, bool(keys) or len(columns) > 1)

    def candles(self, every: Any, price: str | None, size: str | None, zone: str) -> Candles:
        """Bars of one symbol."""
        symbol = self._one_symbol("candles are")
        clock = self._frame._time(None)
        made = self._made_bars() if price is None else None
        if every is None and not (made is not None and len(made) <= CANDLES):
            every = self._width(clock, CANDLES)
        if made is None:
            made = self._frame.bars(every, [], price=price, size=size, zone=zone)
        elif every is not None:
            made = made.bucket(every, [], time=clock, zone=zone).agg(
                open=col("open").first(), high=col("high").max(), low=col("low").min(), close=col("close").last()
            )
        bars = made.sort(clock).to_arrow()
        values = {name: _floats(bars, name) for name in OHLC}
        title = " ".join(part for part in (symbol, None if every is None else _spelled(every)) if part)
        return Candles(times=_times(bars.column(clock)), **values, y_label=price or "price", title=title, zone=zone)

    def _made_bars(self) -> "Frame | None":
        """The frame's bars, if it has some: those with values."""
        names = {name.lower(): name for name in self._frame.columns}
        if not all(part in names for part in OHLC):
            return None
        clock = self._frame._time(None)
        return self._frame.drop_nulls(*(names[part] for part in OHLC)).select(clock, **{part: col(names[part]) for part in OHLC})

    def histogram(self, column: str, bins: int) -> Bars:
        """How many rows have which values of a column."""
        _positive(bins, "bins")
        frame = self._frame.select(x=self._axis(column, "a histogram is of"))
        frame, low, width, bins = _cut(frame, "x", bins, self._is_time(column))
        rows = frame.group_by(place=_place("x", low, width)).agg(count()).to_arrow()
        heights = _counted(rows, bins)
        shown = [place for place in range(bins) if heights[place]]
        return Bars([low + width * place for place in shown], heights[shown], width, column, "rows", False)

    def heatmap(self, x: str, y: str, bins: tuple[int, int], zone: str, logarithmic: bool) -> Cells:
        """How many rows have which pairs of values of two columns."""
        import numpy

        for many in bins:
            _positive(many, "bins")
        frame = self._frame.select(x=self._axis(x, "a heat map is of"), y=self._axis(y, "a heat map is of"))
        frame, left, across, columns = _cut(frame, "x", bins[0], self._is_time(x))
        frame, bottom, up, lines = _cut(frame, "y", bins[1], self._is_time(y))
        # One whole number for both places: groups of one key are found faster.
        place = _place("x", left, across) * (lines + 1) + _place("y", bottom, up)
        rows = frame.group_by(place=place).agg(count()).to_arrow()
        cells = _counted(rows, columns, lines).T
        edges = left + across * numpy.arange(columns + 1), bottom + up * numpy.arange(lines + 1)
        return Cells(*edges, cells, x, y, self._is_time(x), self._is_time(y), zone, logarithmic)

    def intraday_volume(self, every: Any, size: str | None, zone: str) -> Bars:
        """Volume by time of day."""
        from splay.frames.times import SIZE_NAMES

        clock = self._frame._time(None)
        name = self._frame._one_of(size, SIZE_NAMES, "size")
        start = self._frame._clock(clock).dt.bucket(every, zone).dt.time(zone)
        rows = self._frame.group_by(start=start).agg(volume=col(name).sum()).sort("start").to_arrow()
        hours = [_hours(at) for at in rows.column("start").to_pylist()]
        width = nanoseconds_of(every) / UNITS["h"][1]
        return Bars(hours, _floats(rows, "volume"), width, f"time of day ({zone})", f"{name} by {_spelled(every)}", True)

    def depth(self, at: Any, levels: int | None, zone: str) -> Depth:
        """The sides of the book that stood at a time."""
        import numpy

        frame, book = self._frame, book_of(self._frame)
        symbol, clock = self._one_symbol("a depth is"), frame._time(None)
        venue = self._one(next((name for name in frame.columns if name.lower() in VENUE_NAMES), None), "a depth is")
        shown = book.count if levels is None else levels
        columns = {
            f"{side}_{value}_{place}": level
            for side in SIDES
            for value in ("price", "size")
            for place, level in enumerate(book.side(side, value, shown))
        }
        before = frame if at is None else frame.filter(frame._clock(clock) <= at)
        rows = before.latest([]).select(at=frame._clock(clock).dt.epoch("ns"), **columns).to_arrow()
        stood = _time_text(rows.column("at")[0].as_py(), zone) if rows.num_rows else "no book"
        sides: dict[str, Any] = {}
        for side in SIDES:
            prices, sizes = (
                numpy.array([_number(rows, f"{side}_{value}_{place}") for place in range(shown)]) for value in ("price", "size")
            )
            there = numpy.isfinite(prices) & numpy.isfinite(sizes)
            sides |= {f"{side}_prices": prices[there], f"{side}_sizes": numpy.cumsum(sizes[there])}
        return Depth(
            **sides,
            x_label="price",
            y_label="size up to the price",
            title=" ".join(str(part) for part in (symbol, venue, stood) if part is not None),
        )

    # What charts ask first

    def _width(self, clock: str, buckets: int) -> datetime.timedelta:
        """A width of which about so many buckets cover the frame."""
        _positive(buckets, "points")
        ends = self._frame.select(first=col(clock).min().dt.epoch("ns"), last=col(clock).max().dt.epoch("ns")).fetchall()[0]
        if ends[0] is None:
            return datetime.timedelta(minutes=1)
        least = max(1, (ends[1] - ends[0]) // buckets)
        return datetime.timedelta(microseconds=_round_width(least) / 1_000)

    def _one_symbol(self, what: str) -> Any:
        return self._one(self._frame.symbol_column, what)

    def _one(self, column: str | None, what: str) -> Any:
        """The only value of a column that tells series apart, None without rows or such a column."""
        if column is None:
            return None
        found = self._frame.select(column).unique().sort(column).limit(2).fetchall()
        if len(found) > 1:
            raise FrameError(f"{what} of one {column.lower()}: filter the frame first, frame[frame[{column!r}] == {found[0][0]!r}]")
        return found[0][0] if found else None

    def _is_time(self, name: str) -> bool:
        return self._frame.select(name).dtypes[self._frame._query.spelled(name)].lower().startswith("timestamp")

    def _axis(self, name: str, what: str) -> "Expr":
        """A column as a number; of times nanoseconds since 1970."""
        check_numbers(self._frame, name, MEASURED, f"{what} numbers or times")
        value = col(self._frame._query.spelled(name))
        kind = self._frame.select(name).dtypes[value.name].lower()
        if not kind.startswith("timestamp"):
            return value.cast(float)
        return value.cast("int64") if kind == "timestamp" else value.dt.epoch("ns")


def _cut(frame: "Frame", name: str, bins: int, is_time: bool) -> "tuple[Frame, float, float, int]":
    """Rows whose value of a column is finite, where those values begin, and the width and number of bins of them.

    Values that are all the same have one bin around them, of a second or of 1.
    """
    value = col(name)
    low, high = frame.select(low=value.min(), high=value.max()).fetchall()[0]
    if low is not None and not (math.isfinite(low) and math.isfinite(high)):
        # NaN and infinities are the least and greatest values: where those are finite all are.
        frame = frame.filter(value.is_finite())
        low, high = frame.select(low=value.min(), high=value.max()).fetchall()[0]
    if low is None:
        return frame, 0.0, 1.0 / bins, bins
    if low == high:
        width = float(UNITS["s"][1]) if is_time else 1.0
        return frame, low - width / 2, width, 1
    return frame, low, (high - low) / bins, bins


def _place(name: str, low: float, width: float) -> "Expr":
    """In which bin a value falls; the greatest is in one of its own behind the last."""
    return ((col(name) - low) / width).cast("int32")


def _counted(rows: Any, *bins: int) -> Any:
    """Counts by places, those of greatest values put into the last bin. Rows without a value have no place."""
    import numpy

    rows = rows.filter(rows.column("place").is_valid())
    cells = numpy.zeros(bins)
    places = rows.column("place").to_numpy()
    across = places if len(bins) == 1 else places // (bins[1] + 1)
    up = () if len(bins) == 1 else (numpy.minimum(places % (bins[1] + 1), bins[1] - 1),)
    numpy.add.at(cells, (numpy.minimum(across, bins[0] - 1), *up), rows.column("count").to_numpy())
    return cells


def _times(column: Any) -> Any:
    """Instants as nanoseconds since 1970."""
    import pyarrow

    whole = column.cast(pyarrow.timestamp("ns")).cast(pyarrow.int64()) if pyarrow.types.is_timestamp(column.type) else column
    return whole.to_numpy()


def _floats(rows: Any, name: str) -> Any:
    import pyarrow

    return rows.column(name).cast(pyarrow.float64()).to_numpy()


def _number(rows: Any, name: str) -> float:
    """The value of the only row; NaN if it is null or there is none."""
    value = rows.column(name)[0].as_py() if rows.num_rows else None
    return math.nan if value is None else float(value)


def _parts(rows: Any, keys: Sequence[str]) -> list[tuple[str, Any]]:
    """Rows of each series."""
    import pyarrow.compute

    if not keys:
        return [("", rows)]
    series = rows.column(keys[0]).cast(pyarrow.string())
    names = sorted(name for name in series.unique().to_pylist() if name is not None)
    if len(names) > SERIES:
        raise FrameError(f"{len(names)} values of {keys[0]} are more lines than can be told apart: filter the frame to {SERIES}")
    return [(name, rows.filter(pyarrow.compute.equal(series, name))) for name in names]


def _round_width(nanoseconds: int) -> int:
    """A width that people count in, at or above one."""
    for unit, counts in ROUND.items():
        for many in counts:
            if many * UNITS[unit][1] >= nanoseconds:
                return many * UNITS[unit][1]
    day = UNITS["d"][1]
    return -(-nanoseconds // day) * day


def _spelled(every: Any) -> str:
    if not isinstance(every, datetime.timedelta):
        return str(every)
    return interval(every).removeprefix("INTERVAL '").removesuffix("'")


def _time_text(nanoseconds: int, zone: str) -> str:
    """An instant on the clock of a zone, with its microseconds."""
    at = datetime.datetime.fromtimestamp(nanoseconds // 1_000_000_000, zoneinfo.ZoneInfo(zone))
    return f"{at.replace(microsecond=nanoseconds // 1_000 % 1_000_000).isoformat(' ')} ({zone})"


def _hours(at: datetime.time) -> float:
    return at.hour + at.minute / 60 + at.second / 3600


def _positive(number: int, what: str) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= 10_000:
        raise ValueError(f"{what} is a number from 1 to 10,000, not {number!r}")
