"""Draws charts by Matplotlib, as images."""

import zoneinfo
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from splay.frames import charts
from splay.frames.text import UNITS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

UP, DOWN, PLAIN = "#2a9d6f", "#d1495b", "#4477aa"
NO_ROWS = "no rows"
LEAST_POINTS = 5.0
"""Width of a candle that can be seen."""


def draw(chart: Any, ax: "Axes | None" = None) -> "Axes":
    """Draw a chart into axes, new ones unless they are given."""
    axes = _axes(ax)
    DRAWN[type(chart)](axes, chart)
    if chart.is_empty:
        axes.text(0.5, 0.5, NO_ROWS, transform=axes.transAxes, ha="center", va="center", color="gray")
    return axes


def _lines(axes: "Axes", chart: charts.Lines) -> None:
    for series in chart.series:
        times = _days(series.times)
        line = axes.plot(times, series.mean, linewidth=1.2, label=series.label)[0]
        axes.fill_between(times, series.low, series.high, alpha=0.2, linewidth=0, color=line.get_color())
    _time_axis(axes, chart.zone)
    axes.set_ylabel(chart.y_label)
    if chart.has_legend and chart.series:
        axes.legend()
    _titled(axes, chart.title)


def _candles(axes: "Axes", chart: charts.Candles) -> None:
    times = _days(chart.times)
    colours = [UP if end >= begin else DOWN for begin, end in zip(chart.open, chart.close)]
    width = min((times[1:] - times[:-1]).tolist(), default=1e-3) * 0.7
    axes.vlines(times, chart.low, chart.high, colors=colours, linewidth=1)
    bottoms = [min(pair) for pair in zip(chart.open, chart.close)]
    heights = [abs(end - begin) for begin, end in zip(chart.open, chart.close)]
    drawn = axes.bar(times, heights, width, bottoms, color=colours, edgecolor=colours, linewidth=_edge(axes, times, width))
    for bar in drawn:
        # The lowest bar would lie on the frame of the axes.
        bar.sticky_edges.y.clear()
    _time_axis(axes, chart.zone)
    axes.set_ylabel(chart.y_label)
    _titled(axes, chart.title)


def _edge(axes: "Axes", times: Any, width: float) -> float:
    """Points of the line around bodies of candles: a narrow or flat one can be seen by it, as far as there is room for each."""
    across = axes.get_window_extent().width * 72 / axes.figure.dpi
    span = float(times[-1] - times[0]) + width if len(times) else width
    least = min(LEAST_POINTS, 0.7 * across / max(1, len(times)))
    return max(0.6, least / 3, least - across * width / span)


def _bars(axes: "Axes", chart: charts.Bars) -> None:
    axes.bar(chart.lefts, chart.heights, chart.width, align="edge", color=PLAIN, edgecolor="white", linewidth=0.3)
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    if chart.is_clock:
        axes.xaxis.set_major_formatter(lambda hour, _: f"{int(hour):02d}:{round(hour % 1 * 60):02d}")


def _cells(axes: "Axes", chart: charts.Cells) -> None:
    import matplotlib.colors
    import numpy

    across = _days(chart.x_edges) if chart.x_is_time else chart.x_edges
    up = _days(chart.y_edges) if chart.y_is_time else chart.y_edges
    norm = matplotlib.colors.LogNorm(1, max(2, chart.counts.max())) if chart.is_logarithmic else None
    mesh = axes.pcolormesh(across, up, numpy.ma.masked_equal(chart.counts, 0), norm=norm, cmap="viridis")
    axes.figure.colorbar(mesh, ax=axes, label="rows")
    axes.set_ylabel(chart.y_label)
    axes.set_xlabel(chart.x_label)
    if chart.x_is_time:
        _time_axis(axes, chart.zone)
    if chart.y_is_time:
        _time_axis(axes, chart.zone, "y")


def _depth(axes: "Axes", chart: charts.Depth) -> None:
    for prices, sizes, colour, label in (
        (chart.bid_prices, chart.bid_sizes, UP, "bids"),
        (chart.ask_prices, chart.ask_sizes, DOWN, "asks"),
    ):
        # Up to a level the size is that of the levels before it, so steps begin at a price.
        axes.step(prices, sizes, where="post", color=colour, label=label, linewidth=1.2)
        axes.fill_between(prices, sizes, step="post", alpha=0.2, color=colour, linewidth=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    axes.legend()
    _titled(axes, chart.title)


DRAWN: dict[type, Callable[["Axes", Any], None]] = {
    charts.Lines: _lines,
    charts.Candles: _candles,
    charts.Bars: _bars,
    charts.Cells: _cells,
    charts.Depth: _depth,
}


def _axes(ax: "Axes | None") -> "Axes":
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plots need matplotlib, which splay doesn't install: pip install matplotlib") from error
    return pyplot.subplots(figsize=(9, 4.5), layout="constrained")[1]


def _titled(axes: "Axes", title: str) -> None:
    axes.set_title(title, fontsize="small", loc="left")


def _time_axis(axes: "Axes", zone: str, which: str = "x") -> None:
    import matplotlib.dates

    place = zoneinfo.ZoneInfo(zone)
    locator = matplotlib.dates.AutoDateLocator(tz=place)
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(locator)
    axis.set_major_formatter(matplotlib.dates.ConciseDateFormatter(locator, tz=place))
    axis.set_label_text(f"time ({zone})")


def _days(times: Any) -> Any:
    """Instants as days since 1970, which is what Matplotlib draws."""
    return times / UNITS["d"][1]
