"""The report as one static page: CSS and SVG inline, no scripts, no network."""

import itertools
import pathlib
import re
from html import escape

from . import charts
from .finance import OURS, TIMES, FinanceSet
from .words import agreement, lead, mebibytes, milliseconds, rule_facts, rules, size

CSS = (pathlib.Path(__file__).parent / "style.css").read_text(encoding="utf-8")
LOSSES_SHOWN = 12
WORDS_FROM = 28


def anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def heading(title: str) -> str:
    return f'<h2 id="{anchor(title)}">{escape(title)}</h2>'


def document(sets: list[FinanceSet], others: list[dict]) -> str:
    titles, body = [], []
    for one in sets:
        titles.append(f"Finance, scale {one.scale:g}")
        body += [heading(titles[-1]), *finance(one)]
    if len(sets) > 1:
        titles.append("Scaling with data")
        body += [heading(titles[-1]), charts.scaling(sets)]
    for section in others:
        titles.append(section["title"].split(":")[0].capitalize())
        body += [heading(titles[-1]), f"<p>{escape(section['title'])}.</p><p>{escape(section['note'])}</p>"]
        for part in section["tables"]:
            body += [f"<h3>{escape(part['title'])}</h3>"] if part.get("title") else []
            body.append(
                table(part["head"], [[(str(word), kind_of(str(word))) for word in row] for row in part["rows"]])
            )
    links = "".join(f'<a href="#{anchor(title)}">{escape(title)}</a>' for title in titles)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>SplayDB's benchmark</title><style>{CSS}</style></head><body><h1>SplayDB's benchmark</h1><nav>{links}</nav>"
        + "\n".join(body)
        + "</body></html>\n"
    )


def table(head: list[str], rows: list[list[tuple[str, str]]], ours: str = "") -> str:
    """Cells are words and a class; the row that begins with ``ours`` stands out."""
    lefts = [kind == "words" for _, kind in rows[0]] if rows else []
    heads = (
        f'<th class="words">{escape(word)}</th>' if left else f"<th>{escape(word)}</th>"
        for word, left in itertools.zip_longest(head, lefts)
    )
    lines = ["<tr>" + "".join(heads) + "</tr>"]
    for row in rows:
        cells = (
            f'<td class="{kind}">{escape(words)}</td>' if kind else f"<td>{escape(words)}</td>" for words, kind in row
        )
        begin = '<tr class="ours">' if ours and row[0][0] == ours else "<tr>"
        lines.append(begin + "".join(cells) + "</tr>")
    return '<div class="scroll"><table>' + "".join(lines) + "</table></div>"


def kind_of(word: str) -> str:
    """Long texts of a suite's table stand to the left and may be broken."""
    return "words" if len(word) > WORDS_FROM else ""


def bullets(lines: list[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def folded(title: str, content: str) -> str:
    """Content that is shown on a click; nothing if there is none."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>" if content else ""


def finance(one: FinanceSet) -> list[str]:
    failures, stale = one.failures(), one.stale()
    parts = [f"<p>{escape(lead(one))}</p>"]
    if failures:
        parts += ["<h3>Wrong answers and errors</h3>", f'<div class="wrong">{bullets(failures)}</div>']
    parts += [charts.means(one), f"<p>{escape(agreement(one))}</p>", summary(one)]
    parts += [charts.against_best(one), losses(one), charts.queries(one)]
    parts += ["<h3>Clients, load, size</h3>", charts.clients(one), loads(one)]
    for field, title in (TIMES | {"engine_side": "the engines' own times, warm"}).items():
        for servers, who in ((False, "In process"), (True, "Servers")):
            parts.append(folded(f"{who}: {title}, ms", times(one, field, servers)))
    parts += [folded("Memory beyond the start, MiB", memory(one))]
    parts += [folded("Engines: versions, how they start, why this is their best", engines(one))]
    parts += [not_run(one)]
    parts += [folded("Older results, by another commit or other rules", bullets(stale))] if stale else []
    facts = (
        f'<p class="faint">{escape(rule_facts(one.run))}</p><p><code>{escape(one.run.get("command", ""))}</code></p>'
    )
    return [*parts, "<h3>Machine and rules</h3>", facts, bullets(rules(one.run))]


def summary(one: FinanceSet) -> str:
    """Every engine's times over SplayDB's, and its cold times over its own warm ones."""
    rows = []
    for engine in one.ran:
        ratios = [one.against(engine, "warm"), one.against(engine, "cold"), one.cold_over_warm(engine)]
        rows.append([(one.title(engine), ""), *(("" if ratio is None else f"{ratio:.2f}", "") for ratio in ratios)])
    head = ["geometric means of ratios", "warm over SplayDB's", "cold over SplayDB's", "its cold over its warm"]
    return table(head, rows, one.title(OURS) if OURS in one.ran else "")


def losses(one: FinanceSet) -> str:
    found = one.losses()
    if not found:
        return ""
    rows = [[(loss.what, ""), (loss.rival, "words"), (f"{loss.factor:.1f}", "")] for loss in found]
    head = ["at", "who", "times better"]
    shown = "<h3>What others are better at</h3>" + table(head, rows[:LOSSES_SHOWN])
    rest = rows[LOSSES_SHOWN:]
    return shown + (folded(f"{len(rest)} more", table(head, rest)) if rest else "")


def times(one: FinanceSet, field: str, servers: bool) -> str:
    engines = [engine for engine in one.side(servers) if one.has(engine, field)]
    if not engines:
        return ""
    rows = [[("on disk, share of CSV", ""), *((size(one, engine), "") for engine in engines)]]
    if servers:
        rows.append([("by", ""), *((one.about(engine).get("transport", ""), "") for engine in engines)])
    for query in one.queries:
        values = {engine: getattr(one.one(engine, query), field) for engine in engines}
        best = min((value for value in values.values() if value is not None), default=None)
        row = [(query, "")]
        for engine in engines:
            cell = one.one(engine, query)
            kind = "wrong" if cell.state in ("wrong", "error") else "best" if values[engine] == best else ""
            row.append((cell.text(milliseconds(values[engine]), field), kind if cell.state else ""))
        rows.append(row)
    means = [one.mean(engine, field) for engine in engines]
    rows.append(
        [("geometric mean (answered)", ""), *((f"{milliseconds(mean)} ({count})", "") for mean, count in means)]
    )
    return table(["", *map(one.title, engines)], rows)


def memory(one: FinanceSet) -> str:
    rows = [
        [(query, ""), *((mebibytes(one.one(engine, query).growth), "") for engine in one.ran)] for query in one.queries
    ]
    return table(["", *map(one.title, one.ran)], rows)


def loads(one: FinanceSet) -> str:
    """Rates by count of clients, the load of the write day, the size; a row for each engine."""
    counts = sorted({count for engine in one.ran for count in one.clients(engine)})
    rows = []
    for engine in one.ran:
        load, share, clients = one.load(engine), one.size_share(engine), one.clients(engine)
        rate = f"{load['mb_per_second']:.0f}" if "mb_per_second" in load else load.get("state", "")
        asked = [f"{clients[count]['per_second']:,.0f}" if count in clients else "" for count in counts]
        late = [f"{clients[count]['p99_ms']:,.1f}" if "p99_ms" in clients.get(count, {}) else "" for count in counts]
        size = "" if share is None else f"{share:.1%}"
        rows.append([(one.title(engine), ""), *((word, "") for word in (*asked, *late, rate, size))])
    head = [*(f"queries/s, {count} clients" for count in counts), *(f"P99 ms, {count} clients" for count in counts)]
    return table(["engine", *head, "W, MB/s", "SE"], rows, one.title(OURS) if OURS in one.ran else "")


def engines(one: FinanceSet) -> str:
    rows = []
    for engine in one.ran:
        about = one.about(engine)
        said = [about.get("starts", ""), about.get("answers", ""), about.get("best", "")]
        rows.append([(one.title(engine), ""), (about.get("version", ""), "words"), *((word, "words") for word in said)])
    return table(["engine", "version", "how it starts", "the client holds", "why this is its best"], rows)


def not_run(one: FinanceSet) -> str:
    absent = one.absent()
    return "<h3>Not run</h3>" + bullets([f"{name}: {reason}" for name, reason in absent]) if absent else ""
