"""Charts as SVG, without scripts: bars on a log scale, bars to both sides of 1, dots joined by lines on two log scales.

Colors of engines are readable on white and on black; all other colors come from the page's classes.
"""

import math
from html import escape

COLORS = {
    "splay": "#ea580c",
    "splay-fast": "#f97316",
    "splay-small": "#c2410c",
    "splay-memory": "#fb923c",
    "splay-http": "#dc2626",
    "splay-flight": "#ef4444",
    "splay-postgres": "#f87171",
    "duckdb": "#ca8a04",
    "clickhouse": "#65a30d",
    "clickhouse-zstd": "#4d7c0f",
    "clickhouse-server": "#84cc16",
    "questdb": "#db2777",
    "polars": "#3b82f6",
    "polars-parquet": "#60a5fa",
    "datafusion": "#0d9488",
    "postgresql": "#64748b",
    "influxdb": "#8b5cf6",
    "influxdb2": "#a855f7",
    "arcticdb": "#0891b2",
    "vaex": "#a16207",
    "pandas": "#9ca3af",
    "timescaledb": "#4d9a0f",
    "kdb": "#7c8798",
}
OTHER = "#7c8798"
LABEL_WIDTH, BAR_WIDTH, VALUE_WIDTH, LINE = 140, 290, 110, 18
LABEL_LINE = 13


ALONE = """<style>
text { fill: #1f2937 } text.faint { fill: #4b5563 } text.wrong, text.bad { fill: #b91c1c } text.ours { fill: #c2410c; font-weight: 700 }
text.good, rect.good { fill: #15803d } rect.bad { fill: #b91c1c } .grid { stroke: #d9dee5 } .axis { stroke: #4b5563 }
@media (prefers-color-scheme: dark) {
  text { fill: #e5e7eb } text.faint { fill: #a3adba } text.wrong, text.bad { fill: #f87171 } text.ours { fill: #fb923c }
  text.good, rect.good { fill: #4ade80 } rect.bad { fill: #f87171 } .grid { stroke: #374151 } .axis { stroke: #a3adba }
}
</style>"""


def alone(chart: str) -> str:
    """A chart as a file of its own, with the colors that the page gives otherwise."""
    head, rest = chart.split(">", 1)
    return f"{head}>{ALONE}{rest}\n"


def color(engine: str) -> str:
    return COLORS.get(engine, OTHER)


def decades(values: list[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def open_svg(width: float, height: float, about: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="system-ui, sans-serif" font-size="11" role="img" '
        f'aria-label="{escape(about, quote=True)}">'
    )


def text(x: float, y: float, words: str, anchor: str = "start", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(words)}</text>'


def ours(engine: str) -> str:
    return 'class="ours"' if engine == "splay" else ""


def bars(rows: list[tuple[str, str, list[float | None], str]], low: int, high: int, about: str = "") -> str:
    """One line for each ``(engine, label, values, words)``: the first value as a bar, a second as a paler one behind it.

    ``low`` and ``high`` are the powers of ten at the ends of the scale, the same for all charts that are to be compared. A row
    without values shows its words in their place.
    """
    height = len(rows) * LINE + 18
    parts = [open_svg(LABEL_WIDTH + BAR_WIDTH + VALUE_WIDTH, height, about)]

    def x(value: float) -> float:
        return LABEL_WIDTH + BAR_WIDTH * (math.log10(value) - low) / (high - low)

    for exponent in range(low, high + 1):
        at = x(10.0**exponent)
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{height - 16}" class="grid"/>')
        parts.append(text(at, height - 4, f"{10.0**exponent:,g}", "middle", 'class="faint"'))
    for place, (engine, label, values, words) in enumerate(rows):
        top = place * LINE + 3
        parts.append(text(LABEL_WIDTH - 6, top + 10, label, "end", ours(engine)))
        # The paler bar first: the other lies on it.
        for opacity, value in reversed(list(zip((1, 0.35), values, strict=False))):
            if value:
                end = max(x(value), LABEL_WIDTH + 1)
                parts.append(
                    f'<rect x="{LABEL_WIDTH}" y="{top}" width="{end - LABEL_WIDTH:.1f}" height="12" rx="2" '
                    f'fill="{color(engine)}" opacity="{opacity}"/>'
                )
        known = [value for value in values if value]
        at = max(map(x, known)) + 5 if known else LABEL_WIDTH + 5
        parts.append(text(at, top + 10, words, "start", 'class="faint"' if known else 'class="wrong"'))
    return "".join([*parts, "</svg>"])


def both_sides(rows: list[tuple[str, float, str]], about: str = "") -> str:
    """One line for each ``(label, factor, words)``: a bar to the right of 1 for factors above it, to the left for those below."""
    height = len(rows) * LINE + 18
    least, most = min(1.0, *(factor for _, factor, _ in rows)), max(1.0, *(factor for _, factor, _ in rows))
    low, high = math.log10(least), math.log10(most)
    label, width, value = 64, 250, 150
    span = max(high - low, 0.3)
    # Words stand to the left of bars that go left.
    left = label + (value if least < 1 else 8)
    parts = [open_svg(left + width + value, height, about)]

    def x(factor: float) -> float:
        return left + width * (math.log10(factor) - low) / span

    for exponent in range(math.ceil(low), math.floor(low + span) + 1):
        at, kind = x(10.0**exponent), "axis" if exponent == 0 else "grid"
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{height - 16}" class="{kind}"/>')
        parts.append(text(at, height - 4, f"{10.0**exponent:g}", "middle", 'class="faint"'))
    for place, (name, factor, words) in enumerate(rows):
        top = place * LINE + 3
        begin, end, kind = x(min(factor, 1)), x(max(factor, 1)), "good" if factor >= 1 else "bad"
        parts.append(text(0, top + 10, name))
        parts.append(
            f'<rect x="{begin:.1f}" y="{top}" width="{max(end - begin, 1):.1f}" height="12" rx="2" class="{kind}" '
            'opacity="0.75"/>'
        )
        at, anchor = (end + 5, "start") if factor >= 1 else (begin - 5, "end")
        parts.append(text(at, top + 10, words, anchor, 'class="faint"'))
    return "".join([*parts, "</svg>"])


def apart(wanted: list[float], least: float, greatest: float) -> list[float]:
    """Heights of labels near the wanted ones, ascending, that don't cover each other and stay between the bounds."""
    placed: list[float] = []
    for height in wanted:
        placed.append(max(height, placed[-1] + LABEL_LINE if placed else least))
    limit = greatest
    for place in reversed(range(len(placed))):
        placed[place] = min(placed[place], limit)
        limit = placed[place] - LABEL_LINE
    return placed


def lines(series: dict[str, tuple[str, list[tuple[float, float]]]], axis: str, unit: str) -> str:
    """``series``: by engine, its label and points; both axes logarithmic, labels at the right end."""
    points = [point for _, found in series.values() for point in found]
    if not points:
        return ""
    left, width, top, right = 52, 400, 14, 170
    height = max(260, LABEL_LINE * len(series))
    xs = sorted({x for x, _ in points})
    low, high = decades([y for _, y in points])
    first, last = math.log(xs[0]), math.log(xs[-1])

    def x(value: float) -> float:
        return left + 12 + (width - 24) * ((math.log(value) - first) / (last - first) if last > first else 0.5)

    def y(value: float) -> float:
        return top + height * (high - math.log10(value)) / (high - low)

    parts = [open_svg(left + width + right, top + height + 40, f"{unit} by {axis}")]
    for exponent in range(low, high + 1):
        at = y(10.0**exponent)
        parts.append(f'<line x1="{left}" x2="{left + width}" y1="{at:.1f}" y2="{at:.1f}" class="grid"/>')
        parts.append(text(left - 5, at + 4, f"{10.0**exponent:,g}", "end", 'class="faint"'))
    for value in xs:
        parts.append(text(x(value), top + height + 16, f"{value:g}", "middle", 'class="faint"'))
    parts.append(text(left + width / 2, top + height + 34, f"{axis}; {unit}", "middle", 'class="faint"'))
    for engine, (_, found) in series.items():
        path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in found)
        stroke = 3 if engine == "splay" else 1.6
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color(engine)}" stroke-width="{stroke}"/>')
        parts += [f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="3" fill="{color(engine)}"/>' for a, b in found]
    labels = sorted((y(found[-1][1]), engine, label) for engine, (label, found) in series.items() if found)
    heights = apart([at for at, _, _ in labels], top, top + height)
    for at, (wanted, engine, label) in zip(heights, labels, strict=True):
        end = left + width
        parts.append(
            f'<line x1="{end - 8}" y1="{wanted:.1f}" x2="{end + 4}" y2="{at:.1f}" stroke="{color(engine)}" stroke-width="0.8"/>'
        )
        parts.append(text(end + 8, at + 4, label, "start", ours(engine) or f'style="fill:{color(engine)}"'))
    return "".join([*parts, "</svg>"])
