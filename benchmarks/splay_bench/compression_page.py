"""The results of the suite ``compression`` as a page of Markdown and a picture.

    python -m splay_bench.compression_page RESULTS FOLDER

Writes ``compression.md`` and ``compression.svg`` of the newest results of any size in RESULTS.
"""

import json
import math
import pathlib
import sys
from html import escape

SIZE, SPEED = "to brotli 9", "doubles, GB/s"
OURS, OTHERS = "#c2410c", "#6b7280"
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 640, 400, 56, 40, 48
LABEL = 118
"""Pixels of a dot's name: those that would leave the picture stand before their dot."""


def main() -> None:
    results, folder = map(pathlib.Path, sys.argv[1:3])
    found = sorted((results / "compression").glob("*/**/*.json"), key=lambda path: path.stat().st_mtime)
    sections = [read["section"] for read in map(json.loads, (path.read_text() for path in found)) if "section" in read]
    if not sections or not sections[-1]["tables"]:
        sys.exit(f"{results} has no results of the suite compression")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "compression.md").write_text(markdown(sections[-1]))
    (folder / "compression.svg").write_text(svg(means(sections[-1])))
    print(folder / "compression.md", folder / "compression.svg")


def cells(section: dict, title: str) -> dict[str, list[float]]:
    """By format, the numbers of a column in all tables that have one."""
    found: dict[str, list[float]] = {}
    for part in section["tables"]:
        place = part["head"].index(title)
        for row in part["rows"]:
            number = 0.0 if row[place] in ("", "wrong") else float(row[place].replace(",", ""))
            # What rounds to nothing tells nothing.
            if number > 0:
                found.setdefault(row[0], []).append(number)
    return found


def geometric(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def means(section: dict) -> dict[str, tuple[float, float | None]]:
    """By format, geometric means of size and of speed over all tables; formats that miss a size are left out."""
    sizes, speeds, tables = cells(section, SIZE), cells(section, SPEED), len(section["tables"])
    return {
        name: (geometric(values), geometric(speeds[name]) if len(speeds.get(name, [])) == tables else None)
        for name, values in sizes.items()
        if len(values) == tables
    }


def markdown(section: dict) -> str:
    parts = [f"# {section['title']}", section["note"], "## All tables", "Geometric means.", "![sizes and speeds](compression.svg)"]
    rows = [
        [name, f"{size:.2f}", "" if speed is None else f"{speed:.2f}"]
        for name, (size, speed) in sorted(means(section).items(), key=lambda one: one[1][0])
    ]
    parts.append(table(["format", SIZE, SPEED], rows))
    for part in section["tables"]:
        parts += [f"## {part['title']}", table(part["head"], part["rows"])]
    return "\n\n".join(parts) + "\n"


def table(head: list[str], rows: list[list[str]]) -> str:
    align = ["---", *["--:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, align, *rows])


def svg(found: dict[str, tuple[float, float | None]]) -> str:
    """A dot for each format: the smaller the further left, the faster the higher."""
    points = {name: (size, speed) for name, (size, speed) in found.items() if speed}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-weight="bold">Bytes to Parquet brotli 9, and GB/s of doubles read by a core: geometric means</text>',
    ]
    if not points:
        return "\n".join([*parts, "</svg>", ""])
    across, up = axis([size for size, _ in points.values()]), axis([speed for _, speed in points.values()])

    def x(size: float) -> float:
        return LEFT + (WIDTH - LEFT - 24) * share(size, across)

    def y(speed: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share(speed, up)

    for tick in ticks(across):
        parts.append(f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#e5e7eb"/>')
        parts.append(f'<text x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{tick:g}</text>')
    for tick in ticks(up):
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 24}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#e5e7eb"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    parts.append(f'<text x="{WIDTH - 24}" y="{HEIGHT - 12}" text-anchor="end">bytes to brotli 9 (smaller is left)</text>')
    parts.append(f'<text x="8" y="{TOP - 6}">GB/s</text>')
    for name, (size, speed) in points.items():
        color = OURS if name.startswith("SplayDB") else OTHERS
        before = x(size) + LABEL > WIDTH
        place = f'x="{x(size) - 7:.1f}" text-anchor="end"' if before else f'x="{x(size) + 7:.1f}"'
        parts.append(f'<circle cx="{x(size):.1f}" cy="{y(speed):.1f}" r="4" fill="{color}"/>')
        parts.append(f'<text {place} y="{y(speed) + 4:.1f}" fill="{color}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


STEPS = (1, 2, 5)


def axis(values: list[float]) -> tuple[float, float]:
    """The steps around all values, on a logarithmic scale."""
    steps = [step * 10.0**power for power in range(-4, 5) for step in STEPS]
    low = max(step for step in steps if step <= min(values))
    high = min(step for step in steps if step >= max(values))
    return low, high if high > low else low * 2


def ticks(ends: tuple[float, float]) -> list[float]:
    steps = [step * 10.0**power for power in range(-4, 5) for step in STEPS]
    return [step for step in steps if ends[0] * 0.999 <= step <= ends[1] * 1.001]


def share(value: float, ends: tuple[float, float]) -> float:
    return math.log(value / ends[0]) / math.log(ends[1] / ends[0])


if __name__ == "__main__":
    main()
