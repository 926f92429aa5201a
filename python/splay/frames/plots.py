"""Plots of frames by Matplotlib. What is drawn is aggregated by the engine first, so that a plot of any number of rows reads them
once and draws as many points as can be seen.
"""

import datetime
import math
import zoneinfo
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from splay.errors import FrameError
from splay.frames.functions import col, count
from splay.frames.text import UNITS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from splay.frames.expr import Expr
    from splay.frames.frame import Frame

POINTS = 1_000
"""Buckets of a line."""
CANDLES = 150
"""Candles of a chart."""
SERIES = 12
"""Lines of a chart."""
THOUSANDS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
SIXTIES = (1, 2, 5, 10, 15, 30)
ROUND = {"us": THOUSANDS, "ms": THOUSANDS, "s": SIXTIES, "m": SIXTIES, "h": (1, 2, 4, 6, 12)}
"""Widths of buckets that people count in."""
UP, DOWN = "#2a9d6f", "#d1495b"


class Plots:
    """What ``frame.plot`` gives. Each method draws into `ax`, or a new figure, and returns its axes."""

    def __init__(self, frame: "Frame"):
        self._frame = frame

    def line(
        self,
        *columns: str,
        by: str | None = None,
        time: str | None = None,
        zone: str = "UTC",
        points: int = POINTS,
        ax: "Axes | None" = None,
    ) -> "Axes":
        """Columns over time: the mean of each bucket, and a band from its least to its greatest value.

        Parameters
        ----------
        by
            A column that tells series apart: a line for each of its values, at most 12.
        zone
            The zone of the axis.
        points
            Buckets that the time is cut into.
        """
        if not columns:
            raise FrameError("say which columns are drawn: frame.plot.line('price')")
        clock = self._frame._time(time)
        every = self._width(clock, points)
        keys = [] if by is None else [self._frame._query.spelled(by)]
        cells = {
            f"{what}{place}": getattr(col(name), how)()
            for place, name in enumerate(columns)
            for what, how in (("low", "min"), ("mean", "mean"), ("high", "max"))
        }
        rows = self._frame.bucket(every, keys, time=clock).agg(**cells).sort(*keys, clock).to_arrow()
        axes = _axes(ax)
        for label, part in _parts(rows, keys):
            times = _times(part.column(clock))
            for place, name in enumerate(columns):
                text = name if not keys else label if len(columns) == 1 else f"{label} {name}"
                line = axes.plot(times, _floats(part, f"mean{place}"), linewidth=1.2, label=text)[0]
                low, high = _floats(part, f"low{place}"), _floats(part, f"high{place}")
                axes.fill_between(times, low, high, alpha=0.2, linewidth=0, color=line.get_color())
        _time_axis(axes, zone)
        axes.set_ylabel(", ".join(columns))
        if keys or len(columns) > 1:
            axes.legend()
        axes.set_title(f"mean and range by {_spelled(every)}", fontsize="small", loc="left")
        return axes

    def candles(
        self, every: Any = None, *, price: str | None = None, size: str | None = None, zone: str = "UTC", ax: "Axes | None" = None
    ) -> "Axes":
        """Bars of trades of one symbol as candles.

        Parameters
        ----------
        every
            The width of a bar. Default: so wide that there are at most 150.
        """
        symbol = self._one_symbol()
        clock = self._frame._time(None)
        every = self._width(clock, CANDLES) if every is None else every
        bars = self._frame.bars(every, [], price=price, size=size, zone=zone).sort(clock).to_arrow()
        times = _times(bars.column(clock))
        open_, high, low, close = (_floats(bars, name) for name in ("open", "high", "low", "close"))
        axes = _axes(ax)
        colours = [UP if end >= begin else DOWN for begin, end in zip(open_, close)]
        width = min((times[1:] - times[:-1]).tolist(), default=1e-3) * 0.7
        axes.vlines(times, low, high, colors=colours, linewidth=1)
        bottoms = [min(pair) for pair in zip(open_, close)]
        heights = [abs(end - begin) for begin, end in zip(open_, close)]
        axes.bar(times, heights, width, bottoms, color=colours, edgecolor=colours, linewidth=0.6)
        _time_axis(axes, zone)
        axes.set_ylabel(price or "price")
        axes.set_title(f"{symbol or ''} {_spelled(every)}".strip(), fontsize="small", loc="left")
        return axes

    def histogram(self, column: str, bins: int = 100, *, ax: "Axes | None" = None) -> "Axes":
        """How many rows have which values of a column. Null, NaN and infinities are left out."""
        _positive(bins, "bins")
        frame = self._frame.select(x=self._axis(column))
        frame, (low, width) = _cut(frame, "x", bins)
        rows = frame.group_by(place=_place("x", low, width)).agg(count()).to_arrow()
        heights = _counted(rows, bins)
        axes = _axes(ax)
        shown = [place for place in range(bins) if heights[place]]
        axes.bar([low + width * place for place in shown], heights[shown], width, align="edge", color="#4477aa")
        axes.set_xlabel(column)
        axes.set_ylabel("rows")
        return axes

    def heatmap(
        self,
        x: str,
        y: str,
        *,
        bins: tuple[int, int] = (200, 100),
        zone: str = "UTC",
        logarithmic: bool = True,
        ax: "Axes | None" = None,
    ) -> "Axes":
        """How many rows have which pairs of values of two columns. Either may be a time."""
        import matplotlib.colors
        import numpy

        for many in bins:
            _positive(many, "bins")
        frame = self._frame.select(x=self._axis(x), y=self._axis(y))
        frame, (left, across) = _cut(frame, "x", bins[0])
        frame, (bottom, up) = _cut(frame, "y", bins[1])
        # One whole number for both places: groups of one key are found faster.
        place = _place("x", left, across) * (bins[1] + 1) + _place("y", bottom, up)
        rows = frame.group_by(place=place).agg(count()).to_arrow()
        cells = _counted(rows, bins[0], bins[1]).T
        edges = [left + across * numpy.arange(bins[0] + 1), bottom + up * numpy.arange(bins[1] + 1)]
        axes = _axes(ax)
        for at, name in enumerate((x, y)):
            if self._is_time(name):
                edges[at] = edges[at] / UNITS["d"][1]
        norm = matplotlib.colors.LogNorm(1, max(2, cells.max())) if logarithmic else None
        mesh = axes.pcolormesh(*edges, numpy.ma.masked_equal(cells, 0), norm=norm, cmap="viridis")
        axes.figure.colorbar(mesh, ax=axes, label="rows")
        axes.set_ylabel(y)
        axes.set_xlabel(x)
        if self._is_time(x):
            _time_axis(axes, zone)
        return axes

    def intraday_volume(
        self, every: Any = "5m", *, size: str | None = None, zone: str = "UTC", ax: "Axes | None" = None
    ) -> "Axes":
        """Volume by time of day on the clock of a zone, of all days together."""
        from splay.frames.times import SIZE_NAMES

        clock = self._frame._time(None)
        name = self._frame._one_of(size, SIZE_NAMES, "size")
        start = self._frame._clock(clock).dt.bucket(every, zone).dt.time(zone)
        rows = self._frame.group_by(start=start).agg(volume=col(name).sum()).sort("start").to_arrow()
        hours = [_hours(at) for at in rows.column("start").to_pylist()]
        axes = _axes(ax)
        axes.bar(hours, _floats(rows, "volume"), _hours_of(every), align="edge", color="#4477aa", edgecolor="white", linewidth=0.3)
        axes.set_xlabel(f"time of day ({zone})")
        axes.xaxis.set_major_formatter(lambda hour, _: f"{int(hour):02d}:{round(hour % 1 * 60):02d}")
        axes.set_ylabel(f"{name} by {_spelled(every)}")
        return axes

    def spread(
        self,
        bid: str = "bid",
        ask: str = "ask",
        *,
        by: str | None = None,
        zone: str = "UTC",
        points: int = 300,
        ax: "Axes | None" = None,
    ) -> "Axes":
        """The distance of ask and bid over time, as :meth:`line` draws it; crossed quotes are below zero."""
        frame = self._frame.with_columns(spread=col(ask) - col(bid))
        return Plots(frame).line("spread", by=by, zone=zone, points=points, ax=ax)

    # What plots ask first

    def _width(self, clock: str, buckets: int) -> datetime.timedelta:
        """A width of which about so many buckets cover the frame."""
        _positive(buckets, "points")
        ends = self._frame.select(first=col(clock).min().dt.epoch("ns"), last=col(clock).max().dt.epoch("ns")).fetchall()[0]
        if ends[0] is None:
            return datetime.timedelta(minutes=1)
        least = max(1, (ends[1] - ends[0]) // buckets)
        return datetime.timedelta(microseconds=_round_width(least) / 1_000)

    def _one_symbol(self) -> Any:
        symbol = self._frame.symbol_column
        if symbol is None:
            return None
        found = self._frame.select(symbol).unique().limit(2).fetchall()
        if len(found) > 1:
            raise FrameError(f"candles are of one symbol: filter the frame first, frame[frame.{symbol} == {found[0][0]!r}]")
        return found[0][0] if found else None

    def _is_time(self, name: str) -> bool:
        return self._frame.select(name).dtypes[self._frame._query.spelled(name)].lower().startswith("timestamp")

    def _axis(self, name: str) -> "Expr":
        """A column as a number; of times nanoseconds since 1970."""
        value = col(self._frame._query.spelled(name))
        kind = self._frame.select(name).dtypes[value.name].lower()
        if not kind.startswith("timestamp"):
            return value.cast(float)
        return value.cast("int64") if kind == "timestamp" else value.dt.epoch("ns")


def _cut(frame: "Frame", name: str, bins: int) -> "tuple[Frame, tuple[float, float]]":
    """Where the values of a column begin, and the width of so many bins of them; without rows whose value isn't finite."""
    value = col(name)
    low, high = frame.select(low=value.min(), high=value.max()).fetchall()[0]
    if low is not None and not (math.isfinite(low) and math.isfinite(high)):
        # NaN and infinities are the least and greatest values: where those are finite all are.
        frame = frame.filter(value.is_finite())
        low, high = frame.select(low=value.min(), high=value.max()).fetchall()[0]
    return frame, (0.0, 1.0 / bins) if low is None else (low, (high - low) / bins or 1.0)


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


def _axes(ax: "Axes | None") -> "Axes":
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plots need matplotlib, which splay doesn't install: pip install matplotlib") from error
    return pyplot.subplots(figsize=(9, 4.5), layout="constrained")[1]


def _time_axis(axes: "Axes", zone: str) -> None:
    import matplotlib.dates

    place = zoneinfo.ZoneInfo(zone)
    locator = matplotlib.dates.AutoDateLocator(tz=place)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(matplotlib.dates.ConciseDateFormatter(locator, tz=place))
    axes.set_xlabel(f"time ({zone})")


def _times(column: Any) -> Any:
    """Instants as days since 1970, which is what Matplotlib draws."""
    import pyarrow

    whole = column.cast(pyarrow.timestamp("ns")).cast(pyarrow.int64()) if pyarrow.types.is_timestamp(column.type) else column
    return whole.to_numpy() / UNITS["d"][1]


def _floats(rows: Any, name: str) -> Any:
    import pyarrow

    return rows.column(name).cast(pyarrow.float64()).to_numpy()


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
    from splay.frames.text import interval

    return interval(every).removeprefix("INTERVAL '").removesuffix("'")


def _hours(at: datetime.time) -> float:
    return at.hour + at.minute / 60 + at.second / 3600


def _hours_of(every: Any) -> float:
    from splay.frames.text import nanoseconds_of

    return nanoseconds_of(every) / UNITS["h"][1]


def _positive(given: int, what: str) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 < given <= 10_000:
        raise ValueError(f"{what} is a number from 1 to 10,000, not {given!r}")
