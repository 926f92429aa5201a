"""Plots of frames: what is asked for becomes a chart, which Matplotlib or Plotly draws."""

from typing import TYPE_CHECKING, Any

from splay._elsewhere import PLOTS, refusal
from splay.frames.books import best_price
from splay.frames.charts import Charts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from splay.frames.frame import Frame

POINTS = 1_000
"""Buckets of a line."""


class Plots:
    """What ``frame.plot`` gives.

    Each method draws into `ax`, or a new figure of Matplotlib, and returns its axes. ``frame.plot.interactive`` has the same methods,
    which return figures of Plotly. What is drawn is aggregated by the engine first.
    """

    def __init__(self, frame: "Frame", is_interactive: bool = False):
        self._frame, self._charts, self._is_interactive = frame, Charts(frame), is_interactive

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("a plot has a kind: frame.plot.line('price'), or for others the rows, frame.df().plot(...)")

    if not TYPE_CHECKING:
        __getattr__ = refusal("frame.plot", PLOTS, "frame.df().plot has those of pandas")

    @property
    def interactive(self) -> "Plots":
        """The same plots by Plotly, to be zoomed and asked for values in a notebook: ``t.plot.interactive.candles("5m")``.

        >>> figure = trade[trade.symbol == "A"].plot.interactive.candles("30m")
        """
        return Plots(self._frame, is_interactive=True)

    def line(
        self,
        *columns: str,
        by: str | None = None,
        time: str | None = None,
        zone: str = "UTC",
        points: int = POINTS,
        ax: "Axes | None" = None,
    ) -> Any:
        """Columns over time: the mean of each bucket, and a band from its least to its greatest value.

        Parameters
        ----------
        *columns
            Their names.
        by
            A column that tells series apart: a line for each of its values, at most 12.
        time
            The time. Default: the time column.
        zone
            The zone of the axis.
        points
            Buckets that the time is cut into.

        >>> axes = trade.plot.line("price", by="symbol", zone="America/New_York")
        """
        return self._draw(self._charts.lines(columns, by, time, zone, points), ax)

    def candles(
        self, every: Any = None, *, price: str | None = None, size: str | None = None, zone: str = "UTC", ax: "Axes | None" = None
    ) -> Any:
        """Bars of trades of one symbol as candles. A frame that has ``open``, ``high``, ``low`` and ``close`` has bars already; they are joined
        to wider ones.

        Parameters
        ----------
        every
            The width of a bar. Default: so wide that there are at most 150; at most as many bars are drawn as they are.
        price, size
            Their columns, as for :meth:`splay.Frame.bars`.
        zone
            The zone of the axis, on whose clock bars are cut.

        >>> axes = trade[trade.symbol == "A"].plot.candles("30m")
        """
        return self._draw(self._charts.candles(every, price, size, zone), ax)

    def histogram(self, column: str, bins: int = 100, *, ax: "Axes | None" = None) -> Any:
        """How many rows have which values of a column of numbers or times. Null, NaN and infinities are left out.

        >>> axes = trade.plot.histogram("size", bins=50)
        """
        return self._draw(self._charts.histogram(column, bins), ax)

    def heatmap(
        self,
        x: str,
        y: str,
        *,
        bins: tuple[int, int] = (200, 100),
        zone: str = "UTC",
        logarithmic: bool = True,
        ax: "Axes | None" = None,
    ) -> Any:
        """How many rows have which pairs of values of two columns. Either may be a time.

        >>> axes = trade.plot.heatmap("time", "price")
        """
        return self._draw(self._charts.heatmap(x, y, bins, zone, logarithmic), ax)

    def intraday_volume(self, every: Any = "5m", *, size: str | None = None, zone: str = "UTC", ax: "Axes | None" = None) -> Any:
        """Volume by time of day on the clock of a zone, of all days together.

        >>> axes = trade.plot.intraday_volume("30m", zone="America/New_York")
        """
        return self._draw(self._charts.intraday_volume(every, size, zone), ax)

    def spread(
        self,
        bid: str | None = None,
        ask: str | None = None,
        *,
        by: str | None = None,
        zone: str = "UTC",
        points: int = 300,
        ax: "Axes | None" = None,
    ) -> Any:
        """The distance of ask and bid over time, as :meth:`line` draws it; crossed quotes are below zero.

        Parameters
        ----------
        bid, ask
            Their columns. Default: the only ones with a name of the field, such as ``bid``, ``Bid_Price``, ``offer`` or ``ask_px``; of
            books those of the best level.

        >>> axes = quote.plot.spread(by="symbol")
        """
        frame = self._frame.with_columns(spread=best_price(self._frame, "ask", ask) - best_price(self._frame, "bid", bid))
        return Plots(frame, self._is_interactive).line("spread", by=by, zone=zone, points=points, ax=ax)

    def depth(self, at: Any = None, *, levels: int | None = None, zone: str = "UTC", ax: "Axes | None" = None) -> Any:
        """The book of one symbol as it stood at a time: for each price how much is bid or asked for up to it. If rows name their exchange or
        venue, it is the book of one of these.

        Parameters
        ----------
        at
            The time, as text in UTC or ``datetime``. Default: that of the last row.
        levels
            How many levels of each side. Default: all.
        zone
            The zone in which the title tells the time.

        >>> axes = book.plot.depth("2024-01-02 15:00")
        """
        return self._draw(self._charts.depth(at, levels, zone), ax)

    def _draw(self, chart: Any, ax: "Axes | None") -> Any:
        if not self._is_interactive:
            from splay.frames.matplotlib_charts import draw

            return draw(chart, ax)
        if ax is not None:
            raise TypeError("axes are Matplotlib's: frame.plot without .interactive draws into them")
        from splay.frames import plotly_charts

        return plotly_charts.draw(chart)
