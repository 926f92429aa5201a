"""The report as Markdown."""

from .finance import FinanceSet
from .words import agreement as agreement_words
from .words import against, lead, mebibytes, milliseconds, rule_facts, rules


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
    lines += times(one, "warm", "Warm, client's time, ms")
    if any(one.mean(engine, "cold")[0] for engine in one.ran):
        lines += times(one, "cold", "Cold, client's time, ms")
    lines += memory(one) + loads(one) + agreement(one) + losses(one)
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


def times(one: FinanceSet, field: str, title: str) -> list[str]:
    """A row for each query; the last column sets SplayDB against the best rival."""
    engines = [engine for engine in one.ran if one.mean(engine, field)[0] is not None or field == "warm"]
    rows = []
    for query in one.queries:
        cells = [one.one(engine, query) for engine in engines]
        found = one.factor(query, field)
        last = against(found[1], one.title(found[0])) if found else ""
        rows.append([query, *(cell.text(milliseconds(getattr(cell, field))) for cell in cells), last])
    means = [one.mean(engine, field) for engine in engines]
    rows.append(["geometric mean (answered)", *(f"{milliseconds(mean)} ({count})" for mean, count in means), ""])
    ratios = [one.against(engine, field) for engine in engines]
    rows.append(["mean ratio to SplayDB", *("" if ratio is None else f"{ratio:.2f}" for ratio in ratios), ""])
    return [f"**{title}**", ""] + table([field, *map(one.title, engines), "SplayDB is"], rows)


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
