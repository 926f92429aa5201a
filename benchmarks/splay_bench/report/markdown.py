"""The report as Markdown."""

from .finance import TIMES, FinanceSet, median
from .words import agreement as agreement_words
from .words import LEFT_OUT, against, lead, mebibytes, milliseconds, rule_facts, rules, size


def table(head: list[str], lines: list[list[str]]) -> list[str]:
    """A Markdown table; a bar in a text would end its cell."""
    rows = [head, ["---"] * len(head), *lines]
    return ["| " + " | ".join(str(word).replace("|", "\\|") for word in row) + " |" for row in rows] + [""]


def document(sets: list[FinanceSet], others: list[dict]) -> str:
    lines = ["# SplayDB's benchmark", ""]
    for one in sets:
        lines += finance(one)
    for section in others:
        lines += [f"## {section['title']}", "", section["note"], ""]
        for part in section["tables"]:
            lines += ([part["title"], ""] if part.get("title") else []) + table(part["head"], part["rows"])
    return "\n".join(lines).rstrip() + "\n"


def finance(one: FinanceSet) -> list[str]:
    lines = [
        f"## The finance suite at scale {one.scale:g}",
        "",
        rule_facts(one.run),
        "",
        f"`{one.run.get('command')}`",
        "",
        lead(one),
        "",
    ]
    lines += summary(one)
    for field, title in TIMES.items():
        for servers, who in ((False, "In process"), (True, "Servers")):
            lines += times(one, field, f"{who}: {title}; ms", servers)
    lines += spreads(one) + memory(one) + loads(one) + agreement(one) + losses(one)
    lines += ["Engines:", ""] + [f"- **{one.title(name)}** {version(one, name)}" for name in one.ran] + [""]
    absent = one.absent()
    lines += (["Not run:", ""] + [f"- {name}: {reason}" for name, reason in absent] + [""]) if absent else []
    failures = one.failures()
    lines += (["Wrong answers and errors:", ""] + [f"- {line}" for line in failures] + [""]) if failures else []
    stale = one.stale()
    lines += (
        (["Older results, by another commit or other rules:", ""] + [f"- {line}" for line in stale] + [""])
        if stale
        else []
    )
    return lines + ["Rules:", ""] + [f"- {line}" for line in rules(one.run)] + [""]


def version(one: FinanceSet, name: str) -> str:
    about = one.about(name)
    return f"{about.get('version', '')}, {about.get('starts', '')}. {about.get('best', '')}"


def summary(one: FinanceSet) -> list[str]:
    """What a reader wants first: each engine's times over SplayDB's however it is asked, its size and its memory."""
    fields = [field for field in TIMES if any(one.mean(engine, field)[0] for engine in one.ran)]
    rows = []
    for engine in sorted(one.ran, key=lambda engine: (one.is_server(engine), not engine.startswith("splay"))):
        ratios = [one.against(engine, field) for field in fields]
        memory = [cell.growth for query in one.queries if (cell := one.one(engine, query)).growth]
        where = one.about(engine).get("transport", "")
        said = ["" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        rows.append([one.title(engine), where, *said, size(one, engine), mebibytes(median(memory))])
    head = ["geometric mean of times over SplayDB's", "by", *(TIMES[field] for field in fields), "on disk, share of CSV"]
    return [
        "**In short.** Above 1 SplayDB is faster; servers are set beside `splay serve` over HTTP (prepared: over PostgreSQL's wire), the others beside SplayDB in process.",
        "",
    ] + table([*head, "memory of a query, median, MiB"], rows)


def times(one: FinanceSet, field: str, title: str, servers: bool) -> list[str]:
    """A row for each query; the last column sets SplayDB against the best rival. Nothing if no engine has such times."""
    engines = [engine for engine in one.side(servers) if one.has(engine, field) or field == "warm"]
    if not engines:
        return []
    rows = [["by", *(one.about(engine).get("transport", "") for engine in engines), ""]] if servers else []
    rows.append(["on disk, share of CSV", *(size(one, engine) for engine in engines), ""])
    for query in one.queries:
        cells = [one.one(engine, query) for engine in engines]
        if not any(getattr(cell, field) is not None or cell.text("", field) for cell in cells):
            # Some queries alone have cold runs.
            continue
        found = one.factor(query, field, servers)
        last = against(found[1], one.title(found[0])) if found else ""
        rows.append([query, *(cell.text(milliseconds(getattr(cell, field)), field) for cell in cells), last])
    means = [one.mean(engine, field) for engine in engines]
    rows.append(["geometric mean (answered)", *(f"{milliseconds(mean)} ({count})" for mean, count in means), ""])
    ratios = [one.against(engine, field) for engine in engines]
    rows.append(["mean ratio to SplayDB", *("" if ratio is None else f"{ratio:.2f}" for ratio in ratios), ""])
    if field == "warm":
        rows.append(["yardstick", *(milliseconds(one.yardstick(engine)) for engine in engines), ""])
    out = one.left_out(field, servers)
    if out:
        title += f". No part of the means: {', '.join(out)}, since {LEFT_OUT}"
    return [f"**{title}**", ""] + table([field, *map(one.title, engines), "SplayDB is"], rows)


def spreads(one: FinanceSet) -> list[str]:
    """First and third quartile of the warm times."""
    engines = [engine for engine in one.ran if any(one.one(engine, query).spread for query in one.queries)]
    if not engines:
        return []
    rows = []
    for query in one.queries:
        found = [one.one(engine, query).spread for engine in engines]
        rows.append([query, *("" if spread is None else " to ".join(map(milliseconds, spread)) for spread in found)])
    return ["**Known text, tight loop: first to third quartile, ms**", ""] + table(["quartiles", *map(one.title, engines)], rows)


def memory(one: FinanceSet) -> list[str]:
    rows = [
        [query, *(cell.text(mebibytes(cell.growth)) for cell in (one.one(engine, query) for engine in one.ran))]
        for query in one.queries
    ]
    return ["**Memory beyond the start, MiB**", ""] + table(["memory", *map(one.title, one.ran)], rows)


def loads(one: FinanceSet) -> list[str]:
    """W, SE and clients, a row for each engine."""
    counts = sorted({count for engine in one.ran for count in one.clients(engine)})
    rows = []
    for engine in one.ran:
        load, share, clients = one.load(engine), one.size_share(engine), one.clients(engine)
        rows.append(
            [
                one.title(engine),
                f"{load['mb_per_second']:.0f}" if "mb_per_second" in load else load.get("state", ""),
                "" if share is None else f"{share:.1%}",
                *(f"{clients[count]['per_second']:,.0f}" if count in clients else "" for count in counts),
            ]
        )
    head = ["engine", "W, MB/s", "SE", *(f"queries/s, {count} client{'s' * (count > 1)}" for count in counts)]
    return ["**Load, size, clients**", ""] + table(head, rows)


def agreement(one: FinanceSet) -> list[str]:
    said = agreement_words(one)
    return [said, ""] if said else []


def losses(one: FinanceSet) -> list[str]:
    found = one.losses()
    if not found:
        return []
    rows = [[loss.what, loss.rival, f"{loss.factor:.1f}"] for loss in found]
    return ["**What others are better at**", ""] + table(["at", "who", "times better"], rows)
