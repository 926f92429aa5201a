"""Plots of results by Matplotlib: the Pareto front, levels of a codec, and sizes of blocks, as images or as one HTML page."""

import html
import io
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from splay.lab.results import Results

SWEPT = {"compFactor": ("compression factor", "#1f77b4"), "writeTime": ("write, ms", "#d1495b"), "readTime": ("read, ms", "#2a9d6f")}
"""What is drawn over levels and blocks: label and colour."""
FAMILIES = {
    "blocks": "#1f77b4",
    "encoding": "#d1495b",
    "pco": "#2a9d6f",
    "fsst": "#8d6cab",
    "parquet": "#e9a23b",
    "arrow": "#6b7280",
    "vortex": "#17becf",
}
"""Colours of families of schemes."""


class Plots:
    """What ``results.plot`` gives. Results of several columns are drawn as totals."""

    def __init__(self, results: "Results"):
        self._results = results if len(results.data) < 2 else results.totals()

    def front(self, cost: str = "read", *, ax: "Axes | None" = None) -> "Axes":
        """Factor against a time, a dot for each scheme, and the Pareto front of both.

        Parameters
        ----------
        cost
            ``write``, ``read``, ``block``, ``memory`` or ``query``.
        """
        column = {"write": "writeTime", "read": "readTime", "block": "blockTime", "query": "queryTime"}.get(cost, cost)
        axes = _axes(ax)
        rows = _rows(self._results.to_arrow(), column)
        for family, color in FAMILIES.items():
            of = [row for row in rows if row["family"] == family]
            if of:
                axes.scatter([row[column] for row in of], [row["compFactor"] for row in of], s=14, color=color, label=family, alpha=0.6)
        front = sorted(_rows(self._results.front("factor", cost), column), key=lambda row: row[column])
        axes.plot([row[column] for row in front], [row["compFactor"] for row in front], color="black", linewidth=1, label="front")
        axes.set_xscale("log")
        axes.set_xlabel(f"{cost}, {'µs' if cost == 'block' else 'bytes' if cost == 'memory' else 'ms'}")
        axes.set_ylabel("compression factor")
        axes.set_title(self._title(), fontsize="small", loc="left")
        axes.legend(fontsize="small")
        return axes

    def levels(self, codec: str = "zstd", lbs: int = 17, *, ax: "Axes | None" = None) -> "Axes":
        """Factor, write and read time by level of a codec, at one size of blocks."""
        rows = [row for row in self._blocks(codec) if row["lbs"] == lbs]
        axes = self._sweep(rows, "lvl", ax)
        axes.set_xlabel(f"level of {codec}, blocks of 2^{lbs} bytes")
        return axes

    def blocks(self, codec: str = "zstd", level: int = 18, *, ax: "Axes | None" = None) -> "Axes":
        """Factor, write and read time by size of blocks, at one level of a codec."""
        rows = [row for row in self._blocks(codec) if row["lvl"] == level]
        axes = self._sweep(rows, "lbs", ax)
        axes.set_xlabel(f"logarithm to 2 of a block's bytes, {codec} {level}")
        return axes

    def html(self, path: "str | os.PathLike[str]", *, codec: str = "zstd", lbs: int = 17, level: int = 18) -> None:
        """A page with the summary, the front as a table, and the plots, which needs no other file."""
        from matplotlib.figure import Figure

        parts = [f"<h1>{html.escape(self._title())}</h1>", _html_table(self._results.summary().to_pylist())]
        plots: list[tuple[str, Any]] = [("front of factor and read time", lambda ax: self.front("read", ax=ax))]
        plots.append(("front of factor and write time", lambda ax: self.front("write", ax=ax)))
        if any(row["lbs"] == lbs for row in self._blocks(codec)):
            plots.append((f"levels of {codec}", lambda ax: self.levels(codec, lbs, ax=ax)))
        if any(row["lvl"] == level for row in self._blocks(codec)):
            plots.append(("sizes of blocks", lambda ax: self.blocks(codec, level, ax=ax)))
        for title, draw in plots:
            figure = Figure(figsize=(8, 4.5), layout="constrained")
            draw(figure.add_subplot())
            parts += [f"<h2>{html.escape(title)}</h2>", _svg(figure)]
        shown = ("scheme", "compFactor", "writeTime", "readTime", "blockTime", "memory")
        front = [{name: row[name] for name in shown} for row in self._results.front().to_pylist()]
        parts += ["<h2>Pareto front of factor, write and read time</h2>", _html_table(front)]
        style = "body{font:14px sans-serif;margin:2em}td,th{padding:2px 10px;text-align:right}td:first-child{text-align:left}"
        page = f"<!doctype html><meta charset=utf-8><title>compression</title><style>{style}</style>" + "\n".join(parts)
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)

    def _title(self) -> str:
        rows = self._results.to_arrow()
        if rows.num_rows == 0:
            return "no results"
        return f"{rows['data'][0]}, {rows['dataCount'][0].as_py():,} values, {rows.num_rows} schemes"

    def _blocks(self, codec: str) -> list[dict[str, Any]]:
        return [row for row in self._results.to_arrow().to_pylist() if row["family"] == "blocks" and row["codec"] == codec]

    def _sweep(self, rows: list[dict[str, Any]], over: str, ax: "Axes | None") -> "Axes":
        if not rows:
            raise ValueError("there are no results of this codec with this level or size of blocks")
        rows.sort(key=lambda row: row[over])
        axes = _axes(ax)
        places = [row[over] for row in rows]
        lines = []
        for number, (column, (label, color)) in enumerate(SWEPT.items()):
            beside = axes if number == 0 else axes.twinx()
            if number == 2:
                beside.spines["right"].set_position(("axes", 1.12))
            lines += beside.plot(places, [row[column] for row in rows], color=color, marker=".", label=label)
            beside.set_ylabel(label, color=color)
            beside.tick_params(axis="y", labelcolor=color)
            beside.set_ylim(bottom=0)
        axes.set_title(self._title(), fontsize="small", loc="left")
        axes.legend(handles=lines, fontsize="small")
        return axes


def _rows(table: Any, column: str) -> list[dict[str, Any]]:
    return [row for row in table.to_pylist() if row[column] is not None]


def _axes(ax: "Axes | None") -> "Axes":
    if ax is not None:
        return ax
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    return axes


def _svg(figure: "Figure") -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg")
    return text.getvalue()[text.getvalue().index("<svg") :]


def _html_table(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "<p>none</p>"
    head = "".join(f"<th>{html.escape(name)}</th>" for name in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{html.escape(_shown(value))}</td>" for value in row.values()) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)
