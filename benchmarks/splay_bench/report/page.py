"""The report as one static page: CSS and SVG inline, no scripts, no network."""

from html import escape

from . import svg
from .finance import FinanceSet
from .words import QUERY_WORDS, factor, mebibytes, milliseconds, rule_facts, rules

CSS = """
:root { color-scheme: light dark; --ink: #1f2937; --faint: #6b7280; --line: #e5e7eb; --page: #ffffff; --wrong: #b91c1c; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e5e7eb; --faint: #9ca3af; --line: #374151; --page: #111827; --wrong: #f87171; }
}
body { margin: 0 auto; padding: 2rem 1.5rem 4rem; max-width: 1280px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.3rem; margin-top: 2.5rem; } h3 { font-size: 1.05rem; margin: 1.6rem 0 .5rem; }
svg { max-width: 100%; height: auto; } svg text { fill: var(--ink); } svg text.faint { fill: var(--faint); }
svg text.wrong { fill: var(--wrong); } svg .grid { stroke: var(--line); }
.grid-of-charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(560px, 1fr)); gap: 1.2rem 2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; margin: .5rem 0 1rem; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
th:first-child, td:first-child, td.words { text-align: left; }
td.best { font-weight: 700; } td.wrong, .wrong { color: var(--wrong); } .faint { color: var(--faint); }
ul { padding-left: 1.2rem; } code { font-size: .9em; }
"""


def document(sets: list[FinanceSet], others: list[dict]) -> str:
    body = ["<h1>SplayDB's benchmark</h1>"]
    for one in sets:
        body += finance(one)
    if len(sets) > 1:
        body += scaling(sets)
    for section in others:
        body += [f"<h2>{escape(section['title'])}</h2><p>{escape(section['note'])}</p>"]
        for part in section["tables"]:
            body += [f"<h3>{escape(part['title'])}</h3>"] if part.get("title") else []
            body.append(table(part["head"], [[(str(word), "") for word in row] for row in part["rows"]]))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>SplayDB's benchmark</title><style>{CSS}</style></head><body>" + "\n".join(body) + "</body></html>\n"
    )


def table(head: list[str], rows: list[list[tuple[str, str]]]) -> str:
    """Cells are words and a class."""
    lines = ["<tr>" + "".join(f"<th>{escape(word)}</th>" for word in head) + "</tr>"]
    for row in rows:
        cells = (
            f'<td class="{kind}">{escape(words)}</td>' if kind else f"<td>{escape(words)}</td>" for words, kind in row
        )
        lines.append("<tr>" + "".join(cells) + "</tr>")
    return '<div class="scroll"><table>' + "".join(lines) + "</table></div>"


def bullets(lines: list[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def finance(one: FinanceSet) -> list[str]:
    parts = [
        f"<h2>The finance suite at scale {one.scale:g}</h2>",
        f'<p class="faint">{escape(rule_facts(one.run))}</p>',
    ]
    parts += [f"<p><code>{escape(one.run.get('command', ''))}</code></p>"]
    parts += summary(one)
    parts += charts(one)
    parts += [times(one, "warm", "Warm, client's time, ms"), times(one, "cold", "Cold, client's time, ms")]
    parts += [times(one, "engine_side", "Warm, the engine's own time, ms"), memory(one)]
    parts += ["<h3>Load, size, clients</h3>", loads(one), clients(one), engines(one)]
    failures = one.failures()
    if failures:
        parts += ["<h3>Wrong answers and errors</h3>", f'<div class="wrong">{bullets(failures)}</div>']
    stale = one.stale()
    if stale:
        parts += ["<h3>Older results, by another commit or other rules</h3>", bullets(stale)]
    return [*parts, "<h3>Rules</h3>", bullets(rules(one.run))]


def summary(one: FinanceSet) -> list[str]:
    """Ratios first, then all that others do better."""
    rows = []
    for engine in one.ran:
        ratios = [one.against(engine, field) for field in ("warm", "cold")]
        if engine != "splay":
            words = [("" if ratio is None else f"{ratio:.2f}") for ratio in ratios]
            rows.append([(one.title(engine), ""), *((word, "") for word in words)])
    parts = ["<h3>Time over SplayDB's, geometric mean</h3>", table(["engine", "warm", "cold"], rows)]
    agree, all_, far = one.agreement()
    if all_:
        worst = f" Furthest apart: {', '.join(far)}." if far else ""
        parts.append(f"<p>Two runs' medians agree within 15 % in {agree} of {all_} cells.{escape(worst)}</p>")
    losses = one.losses()
    if losses:
        rows = [[(loss.what, ""), (loss.rival, "words"), (f"{loss.factor:.1f}", "")] for loss in losses]
        parts += ["<h3>What others are better at</h3>", table(["at", "who", "times better"], rows)]
    return parts


def charts(one: FinanceSet) -> list[str]:
    """A chart for each query, all on one scale; warm in full, cold paler behind it."""
    values = [
        value
        for engine in one.ran
        for query in one.queries
        for value in (one.one(engine, query).warm, one.one(engine, query).cold)
        if value
    ]
    if not values:
        return []
    low, high = svg.decades(values)
    parts = ["<h3>Each query, ms on a log scale: warm, and cold in the paler bar</h3>", '<div class="grid-of-charts">']
    for query in one.queries:
        rows = []
        for engine in one.ran:
            cell = one.one(engine, query)
            words = cell.text(milliseconds(cell.warm) + (f" / {milliseconds(cell.cold)}" if cell.cold else ""))
            rows.append((engine, one.title(engine), [cell.warm, cell.cold], words))
        against = one.factor(query, "warm")
        said = f" SplayDB is {factor(against[1])} than {one.title(against[0])}." if against else ""
        head = f"<strong>{query}</strong> {escape(QUERY_WORDS[query])}.{escape(said)}"
        parts.append(f"<div><p>{head}</p>{svg.bars(rows, low, high)}</div>")
    return [*parts, "</div>"]


def times(one: FinanceSet, field: str, title: str) -> str:
    engines = [engine for engine in one.ran if one.mean(engine, field)[0] is not None]
    if not engines:
        return ""
    rows = []
    for query in one.queries:
        values = {engine: getattr(one.one(engine, query), field) for engine in engines}
        best = min((value for value in values.values() if value is not None), default=None)
        row = [(query, "")]
        for engine in engines:
            cell = one.one(engine, query)
            kind = "wrong" if cell.state in ("wrong", "error") else "best" if values[engine] == best else ""
            row.append((cell.text(milliseconds(values[engine])), kind if cell.state else ""))
        rows.append(row)
    means = [one.mean(engine, field) for engine in engines]
    rows.append(
        [("geometric mean (answered)", ""), *((f"{milliseconds(mean)} ({count})", "") for mean, count in means)]
    )
    return f"<h3>{escape(title)}</h3>" + table(["", *map(one.title, engines)], rows)


def memory(one: FinanceSet) -> str:
    rows = [
        [(query, ""), *((mebibytes(one.one(engine, query).growth), "") for engine in one.ran)] for query in one.queries
    ]
    return "<h3>Memory beyond the start, MiB</h3>" + table(["", *map(one.title, one.ran)], rows)


def loads(one: FinanceSet) -> str:
    rows = []
    for engine in one.ran:
        load, share = one.load(engine), one.size_share(engine)
        rate = f"{load['mb_per_second']:.0f}" if "mb_per_second" in load else load.get("state", "")
        rows.append([(one.title(engine), ""), (rate, ""), ("" if share is None else f"{share:.1%}", "")])
    return table(["engine", "W, MB/s", "SE"], rows)


def clients(one: FinanceSet) -> str:
    series = {
        engine: (
            one.title(engine),
            [(count, found["per_second"]) for count, found in sorted(one.clients(engine).items())],
        )
        for engine in one.ran
        if one.clients(engine)
    }
    return svg.lines(series, "clients", "queries a second")


def scaling(sets: list[FinanceSet]) -> list[str]:
    """Geometric means of the warm times against the scale, of engines that answered all at each scale."""
    series = {}
    for engine in sets[-1].ran:
        points = [(one.scale, one.mean(engine, "warm")) for one in sets if engine in one.ran]
        full = [(scale, mean) for scale, (mean, count) in points if mean and count == len(sets[-1].queries)]
        if len(full) > 1:
            series[engine] = (sets[-1].title(engine), full)
    return [
        "<h2>Scaling with data</h2>",
        svg.lines(series, "scale", "ms, geometric mean of the fourteen queries, warm"),
    ]


def engines(one: FinanceSet) -> str:
    rows = []
    for engine in one.ran:
        about = one.about(engine)
        words = [about.get("version", ""), about.get("starts", ""), about.get("answers", ""), about.get("best", "")]
        rows.append([(one.title(engine), ""), *((word, "words") for word in words)])
    rows += [
        [(name, ""), ("", ""), (f"not run: {reason}", "words"), ("", ""), ("", "")] for name, reason in one.absent()
    ]
    return "<h3>Engines</h3>" + table(
        ["engine", "version", "how it starts", "the client holds", "why this is its best"], rows
    )
