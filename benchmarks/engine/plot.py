"""Curves as SVG: a panel for each question, both axes logarithmic, one line for each system."""

import math
from html import escape

COLORS = {"SplayDB": "#c2410c", "DuckDB": "#6b7280", "Polars": "#2563eb"}
PANEL_WIDTH, PANEL_HEIGHT = 300, 220
LEFT, TOP, GAP, BOTTOM = 56, 44, 60, 40


def decades(values: list[float]) -> tuple[int, int]:
    """Powers of ten around all values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def count(rows: int) -> str:
    return f"{rows / 1e6:g} M" if rows >= 1_000_000 else f"{rows / 1e3:g} k"


def time(exponent: int) -> str:
    return f"{10.0**exponent:g} ms" if exponent >= 0 else f"{10 ** (exponent + 3):g} µs"


def svg(points: dict[str, dict[str, list[tuple[int, float]]]], titles: dict[str, str]) -> str:
    """``points``: by question and system, pairs of rows and milliseconds."""
    panels = {id: found for id, found in points.items() if found}
    if not panels:
        return '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"></svg>\n'
    everything = [pair for found in panels.values() for series in found.values() for pair in series]
    low, high = decades([milliseconds for _, milliseconds in everything])
    sizes = sorted({rows for rows, _ in everything})
    width = LEFT + len(panels) * (PANEL_WIDTH + GAP)
    height = TOP + PANEL_HEIGHT + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for place, (id, found) in enumerate(panels.items()):
        left = LEFT + place * (PANEL_WIDTH + GAP)
        parts += panel(left, id, titles[id], found, sizes, low, high)
    return "\n".join([*parts, "</svg>", ""])


def panel(left: int, id: str, title: str, found, sizes: list[int], low: int, high: int) -> list[str]:
    """One question's axes and lines."""
    first, last = math.log(sizes[0]), math.log(sizes[-1])

    def x(rows: int) -> float:
        share = (math.log(rows) - first) / (last - first) if last > first else 0.5
        return left + 20 + share * (PANEL_WIDTH - 40)

    def y(milliseconds: float) -> float:
        return TOP + PANEL_HEIGHT * (high - math.log10(milliseconds)) / (high - low)

    parts = [
        f'<text x="{left}" y="16" font-weight="bold">{escape(id)}</text>',
        f'<text x="{left}" y="32" fill="#374151">{escape(title)}</text>',
    ]
    for exponent in range(low, high + 1):
        height = y(10.0**exponent)
        parts.append(
            f'<line x1="{left}" x2="{left + PANEL_WIDTH}" y1="{height:.1f}" y2="{height:.1f}" stroke="#e5e7eb"/>'
        )
        parts.append(
            f'<text x="{left - 4}" y="{height + 4:.1f}" text-anchor="end" fill="#6b7280">{time(exponent)}</text>'
        )
    for rows in sizes:
        parts.append(
            f'<text x="{x(rows):.1f}" y="{TOP + PANEL_HEIGHT + 16}" text-anchor="middle" fill="#6b7280">{count(rows)}</text>'
        )
    parts.append(
        f'<text x="{left + PANEL_WIDTH / 2}" y="{TOP + PANEL_HEIGHT + 32}" text-anchor="middle" fill="#374151">quotes</text>'
    )
    for name, series in found.items():
        color = COLORS.get(name, "black")
        line = " ".join(f"{x(rows):.1f},{y(milliseconds):.1f}" for rows, milliseconds in series)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        for rows, milliseconds in series:
            parts.append(f'<circle cx="{x(rows):.1f}" cy="{y(milliseconds):.1f}" r="3" fill="{color}"/>')
        rows, milliseconds = series[-1]
        parts.append(
            f'<text x="{x(rows):.1f}" y="{y(milliseconds) - 7:.1f}" text-anchor="end" fill="{color}">{escape(name)}</text>'
        )
    return parts
