"""The charts of the finance suite: means, ratios to the best rival, each query, scaling with clients and with data."""

from html import escape

from . import svg
from .finance import FinanceSet
from .words import QUERY_WORDS, against, milliseconds


def means_chart(one: FinanceSet) -> str:
    """Geometric means of all engines that answered, warm and cold; nothing if there are none."""
    rows = []
    for engine in one.ran:
        (warm, count), (cold, cold_count) = one.mean(engine, "warm"), one.mean(engine, "cold")
        if warm is None:
            continue
        # Cold times of a few queries are no mean to set beside that of all.
        cold = cold if cold_count == count else None
        words = milliseconds(warm) + (f" / {milliseconds(cold)}" if cold else "")
        missing = len(one.queries) - count
        words += f" ({count} of {len(one.queries)})" if missing else ""
        rows.append((engine, one.title(engine), [warm, cold], words))
    if not rows:
        return ""
    rows.sort(key=lambda row: row[2][0])
    low, high = svg.decades([value for row in rows for value in row[2] if value])
    return svg.bars(rows, low, high, "geometric means, milliseconds")


def means(one: FinanceSet) -> str:
    chart = means_chart(one)
    title = "<h3>Geometric mean of all queries, ms on a log scale: warm, and cold in the paler bar</h3>"
    return title + chart if chart else ""


def best_chart(one: FinanceSet, field: str, title: str, servers: bool) -> str:
    """The best rival's time over SplayDB's, query by query; nothing if there are none."""
    rows = []
    for query in one.queries:
        found = one.factor(query, field, servers)
        if found:
            shown = f"{found[1]:.1f}" if found[1] >= 1 else f"1/{1 / found[1]:.1f}"
            rows.append((query, found[1], f"{shown}  {one.title(found[0])}"))
    return svg.both_sides(rows, f"{title}: best rival over SplayDB") if rows else ""


def files(one: FinanceSet) -> dict[str, str]:
    """The charts that stand by themselves, by name of their file."""
    found = {
        "means": means_chart(one),
        "known": best_chart(one, "warm", "Known text, in process", False),
        "never-seen": best_chart(one, "unseen", "Text never seen, in process", False),
        "servers": best_chart(one, "warm", "Known text, servers", True),
    }
    return {f"benchmarks-{name}.svg": svg.alone(chart) for name, chart in found.items() if chart}


def against_best(one: FinanceSet) -> str:
    """The best rival's time over SplayDB's, query by query, warm and cold side by side."""
    parts = []
    chosen = (("warm", "Warm, in process", False), ("cold", "Cold start, in process", False), ("warm", "Warm, servers", True))
    for field, title, servers in chosen:
        chart = best_chart(one, field, title, servers)
        if chart:
            parts.append(f"<div><p><strong>{title}</strong></p>{chart}</div>")
    if not parts:
        return ""
    head = "<h3>The best rival's time over SplayDB's: to the right SplayDB is faster, to the left slower</h3>"
    return f'{head}<div class="charts">{"".join(parts)}</div>'


def queries(one: FinanceSet) -> str:
    """A chart for each query, all on one scale; warm in full, cold paler behind it."""
    values = [
        value
        for engine in one.ran
        for query in one.queries
        for value in (one.one(engine, query).warm, one.one(engine, query).cold)
        if value
    ]
    if not values:
        return ""
    low, high = svg.decades(values)
    parts = ["<h3>Each query, ms on a log scale: warm, and cold in the paler bar</h3>", '<div class="charts">']
    for query in one.queries:
        rows = []
        for engine in one.ran:
            cell = one.one(engine, query)
            words = milliseconds(cell.warm) + (f" / {milliseconds(cell.cold)}" if cell.cold else "")
            rows.append((engine, one.title(engine), [cell.warm, cell.cold], cell.text(words)))
        found = one.factor(query, "warm")
        said = f" SplayDB is {against(found[1], one.title(found[0]))}." if found else ""
        head = f"<strong>{query}</strong> {escape(QUERY_WORDS[query])}.{escape(said)}"
        parts.append(f"<div><p>{head}</p>{svg.bars(rows, low, high, query)}</div>")
    return "".join([*parts, "</div>"])


def clients(one: FinanceSet) -> str:
    """Queries a second against the count of clients."""
    series = {
        engine: (
            one.title(engine),
            [(count, found["per_second"]) for count, found in sorted(one.clients(engine).items())],
        )
        for engine in one.ran
        if one.clients(engine)
    }
    return svg.lines(series, "clients", "queries a second")


def scaling(sets: list[FinanceSet]) -> str:
    """Geometric means of the warm times against the scale, of engines that answered all at each scale."""
    series = {}
    for engine in sets[-1].ran:
        points = [(one.scale, one.mean(engine, "warm")) for one in sets if engine in one.ran]
        full = [(scale, mean) for scale, (mean, count) in points if mean and count == len(sets[-1].queries)]
        if len(full) > 1:
            series[engine] = (sets[-1].title(engine), full)
    return svg.lines(series, "scale", "ms, geometric mean of the fourteen queries, warm")
