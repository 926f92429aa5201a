"""Charts as SVG, without scripts: bars on a log scale, dots joined by lines on two log scales."""

import math
from html import escape

COLORS = {
    "splay": "#c2410c",
    "splay-memory": "#fb923c",
    "duckdb": "#ca8a04",
    "clickhouse": "#65a30d",
    "questdb": "#be185d",
    "polars": "#2563eb",
    "polars-parquet": "#60a5fa",
    "datafusion": "#0d9488",
    "postgresql": "#475569",
    "influxdb": "#7c3aed",
    "arcticdb": "#0891b2",
    "vaex": "#a16207",
    "pandas": "#9ca3af",
    "timescaledb": "#4d7c0f",
    "kdb": "#111827",
}
LABEL_WIDTH, BAR_WIDTH, VALUE_WIDTH, LINE = 150, 320, 90, 18


def decades(values: list[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def open_svg(width: float, height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="system-ui, sans-serif" font-size="11" role="img">'
    )


def text(x: float, y: float, words: str, anchor: str = "start", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(words)}</text>'


def bars(rows: list[tuple[str, str, list[float | None], str]], low: int, high: int) -> str:
    """One line for each ``(engine, label, values, words)``: the first value as a bar, a second as a paler one behind it.

    ``low`` and ``high`` are the powers of ten at the ends of the scale, the same for all charts that are to be compared. A row
    without values shows its words in their place.
    """
    height = len(rows) * LINE + 18
    parts = [open_svg(LABEL_WIDTH + BAR_WIDTH + VALUE_WIDTH, height)]

    def x(value: float) -> float:
        return LABEL_WIDTH + BAR_WIDTH * (math.log10(value) - low) / (high - low)

    for exponent in range(low, high + 1):
        at = x(10.0**exponent)
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{height - 16}" class="grid"/>')
        parts.append(text(at, height - 4, f"{10.0**exponent:g}", "middle", 'class="faint"'))
    for place, (engine, label, values, words) in enumerate(rows):
        top = place * LINE + 3
        color = COLORS.get(engine, "#6b7280")
        weight = 'font-weight="700"' if engine == "splay" else ""
        parts.append(text(LABEL_WIDTH - 6, top + 10, label, "end", weight))
        for opacity, value in zip((1, 0.35), values, strict=False):
            if value:
                end = max(x(value), LABEL_WIDTH + 1)
                parts.insert(
                    1 + high - low + 1,
                    f'<rect x="{LABEL_WIDTH}" y="{top}" width="{end - LABEL_WIDTH:.1f}" height="12" rx="2" fill="{color}" '
                    f'opacity="{opacity}"/>',
                )
        known = [value for value in values if value]
        at = max(map(x, known)) + 5 if known else LABEL_WIDTH + 5
        parts.append(text(at, top + 10, words, "start", 'class="faint"' if known else 'class="wrong"'))
    return "".join([*parts, "</svg>"])


def lines(series: dict[str, tuple[str, list[tuple[float, float]]]], axis: str, unit: str) -> str:
    """``series``: by engine, its label and points; both axes logarithmic, labels at the right end."""
    points = [point for _, found in series.values() for point in found]
    if not points:
        return ""
    left, width, top, height, right = 60, 420, 14, 300, 190
    xs = sorted({x for x, _ in points})
    low, high = decades([y for _, y in points])
    first, last = math.log(xs[0]), math.log(xs[-1])

    def x(value: float) -> float:
        return left + 12 + (width - 24) * ((math.log(value) - first) / (last - first) if last > first else 0.5)

    def y(value: float) -> float:
        return top + height * (high - math.log10(value)) / (high - low)

    parts = [open_svg(left + width + right, top + height + 40)]
    for exponent in range(low, high + 1):
        at = y(10.0**exponent)
        parts.append(f'<line x1="{left}" x2="{left + width}" y1="{at:.1f}" y2="{at:.1f}" class="grid"/>')
        parts.append(text(left - 5, at + 4, f"{10.0**exponent:g}", "end", 'class="faint"'))
    for value in xs:
        parts.append(text(x(value), top + height + 16, f"{value:g}", "middle", 'class="faint"'))
    parts.append(text(left + width / 2, top + height + 34, f"{axis}; {unit}", "middle"))
    labels = sorted((y(found[-1][1]), engine, label) for engine, (label, found) in series.items() if found)
    placed = -math.inf
    for engine, (_, found) in series.items():
        color = COLORS.get(engine, "#6b7280")
        path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in found)
        stroke = 3 if engine == "splay" else 1.6
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{stroke}"/>')
        parts += [f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="3" fill="{color}"/>' for a, b in found]
    for at, engine, label in labels:
        placed = max(at, placed + 13)
        parts.append(text(left + width + 4, placed + 4, label, "start", f'fill="{COLORS.get(engine, "#6b7280")}"'))
    return "".join([*parts, "</svg>"])
