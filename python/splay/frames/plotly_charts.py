"""Draws charts by Plotly, for notebooks: they are zoomed, moved and asked for values."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from splay.frames import charts
from splay.frames.matplotlib_charts import DOWN, NO_ROWS, PLAIN, UP

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf", "#4a4a8a", "#8a6d3b")
"""Of lines, one for each series of a chart."""


def draw(chart: Any) -> "Figure":
    """Draw a chart as a figure."""
    try:
        from plotly import graph_objects
    except ImportError as error:
        raise ImportError("interactive plots need plotly, which splay doesn't install: pip install plotly") from error
    figure = graph_objects.Figure()
    figure.update_layout(template="plotly_white", height=420, margin={"l": 60, "r": 20, "t": 40, "b": 50})
    DRAWN[type(chart)](figure, chart)
    if chart.is_empty:
        figure.add_annotation(text=NO_ROWS, x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False, font={"color": "gray"})
    return figure


def _lines(figure: "Figure", chart: charts.Lines) -> None:
    for place, series in enumerate(chart.series):
        colour, times = COLOURS[place % len(COLOURS)], _clock(series.times, chart.zone)
        shown = {"x": times, "legendgroup": series.label, "mode": "lines"}
        around = {**shown, "line": {"width": 0}, "showlegend": False, "hoverinfo": "skip"}
        figure.add_scatter(y=series.high, **around)
        figure.add_scatter(y=series.low, **around, fill="tonexty", fillcolor=_pale(colour))
        figure.add_scatter(y=series.mean, **shown, name=series.label, line={"width": 1.4, "color": colour}, showlegend=chart.has_legend)
    _titled(figure, chart.title, f"time ({chart.zone})", chart.y_label)


def _candles(figure: "Figure", chart: charts.Candles) -> None:
    figure.add_candlestick(
        x=_clock(chart.times, chart.zone),
        open=chart.open,
        high=chart.high,
        low=chart.low,
        close=chart.close,
        increasing_line_color=UP,
        decreasing_line_color=DOWN,
        showlegend=False,
    )
    figure.update_xaxes(rangeslider_visible=False)
    _titled(figure, chart.title, f"time ({chart.zone})", chart.y_label)


def _bars(figure: "Figure", chart: charts.Bars) -> None:
    middles = [left + chart.width / 2 for left in chart.lefts]
    texts = [_hour(left) for left in chart.lefts] if chart.is_clock else None
    figure.add_bar(x=middles, y=chart.heights, width=chart.width, marker_color=PLAIN, hovertext=texts)
    if chart.is_clock:
        ticks = [float(hour) for hour in range(25)]
        figure.update_xaxes(tickvals=ticks, ticktext=[_hour(hour) for hour in ticks])
        if chart.lefts:
            figure.update_xaxes(range=[min(chart.lefts), max(chart.lefts) + chart.width])
    _titled(figure, "", chart.x_label, chart.y_label)


def _cells(figure: "Figure", chart: charts.Cells) -> None:
    import numpy

    counts = numpy.where(chart.counts == 0, numpy.nan, chart.counts)
    across, up = (
        _clock(edges, chart.zone) if is_time else edges
        for edges, is_time in ((chart.x_edges, chart.x_is_time), (chart.y_edges, chart.y_is_time))
    )
    bar: dict[str, Any] = {"title": "rows"}
    shown = numpy.log10(counts) if chart.is_logarithmic else counts
    if chart.is_logarithmic:
        powers = list(range(int(numpy.log10(max(1, chart.counts.max()))) + 1))
        bar |= {"tickvals": powers, "ticktext": [f"{10**power:,}" for power in powers]}
    figure.add_heatmap(
        x=across, y=up, z=shown, customdata=counts, colorscale="Viridis", colorbar=bar, hovertemplate="%{x}<br>%{y}<br>%{customdata} rows<extra></extra>"
    )
    x_label, y_label = (
        f"time ({chart.zone})" if is_time else label for label, is_time in ((chart.x_label, chart.x_is_time), (chart.y_label, chart.y_is_time))
    )
    _titled(figure, "", x_label, y_label)


def _depth(figure: "Figure", chart: charts.Depth) -> None:
    for prices, sizes, colour, label in (
        (chart.bid_prices, chart.bid_sizes, UP, "bids"),
        (chart.ask_prices, chart.ask_sizes, DOWN, "asks"),
    ):
        line = {"shape": "hv", "color": colour, "width": 1.4}
        figure.add_scatter(x=prices, y=sizes, name=label, mode="lines", line=line, fill="tozeroy", fillcolor=_pale(colour))
    _titled(figure, chart.title, chart.x_label, chart.y_label)
    figure.update_yaxes(rangemode="tozero")


DRAWN: dict[type, Callable[["Figure", Any], None]] = {
    charts.Lines: _lines,
    charts.Candles: _candles,
    charts.Bars: _bars,
    charts.Cells: _cells,
    charts.Depth: _depth,
}


def _titled(figure: "Figure", title: str, x_label: str, y_label: str) -> None:
    figure.update_layout(title={"text": title, "font": {"size": 13}}, xaxis_title=x_label, yaxis_title=y_label)


def _clock(times: Any, zone: str) -> Any:
    """Instants as the clock of a zone shows them, since Plotly knows no zones. An hour that a clock shows twice is drawn twice."""
    import numpy
    import pyarrow
    import pyarrow.compute

    whole = pyarrow.array(numpy.asarray(times).astype("int64") // 1_000)
    instants = whole.cast(pyarrow.timestamp("us", zone))
    return pyarrow.compute.local_timestamp(instants).to_numpy(zero_copy_only=False)


def _pale(colour: str) -> str:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.2)"


def _hour(hour: float) -> str:
    return f"{int(hour):02d}:{round(hour % 1 * 60):02d}"
