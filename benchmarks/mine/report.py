"""The report: a line for each statement, the means, each plan or the reason why there is none."""

from engine.report import geometric_mean, milliseconds

from .measure import Result, Times

LEVEL = 1.15
TEXT_MAX = 100


def verdict(ratio: float) -> str:
    """DuckDB's time over SplayDB's, in words."""
    if 1 / LEVEL < ratio < LEVEL:
        return "level"
    return f"{ratio:.3g} times faster" if ratio > 1 else f"{1 / ratio:.3g} times slower"


def cell(times: Times | None) -> str:
    if times is None:
        return ""
    low, high = times.quartiles
    return f"{milliseconds(times.median)} ({milliseconds(low)} to {milliseconds(high)})"


def short(text: str) -> str:
    text = " ".join(text.split()).replace("|", "\\|")
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"


def document(results: list[Result], facts: list[str]) -> str:
    """Markdown."""
    lines = ["# Your statements", "", *(f"- {fact}" for fact in facts), "", *summary(results), ""]
    head = ["statement", "rows", "SplayDB, ms", "never seen, ms", "DuckDB, ms", "prepared, ms", "SplayDB is", "never seen", "ran as"]
    lines += ["| " + " | ".join(head) + " |", "| --- | --: | --: | --: | --: | --: | --- | --- | --- |"]
    for one in results:
        rows = "" if one.rows is None else f"{one.rows:,}"
        known, unseen = one.ratio("SplayDB"), one.ratio("never seen")
        said = verdict(known) if known else ("answers differ" if one.differs else "not compared")
        times = [cell(one.times.get(name)) for name in ("SplayDB", "never seen", "DuckDB", "prepared")]
        cells = [one.statement.name, rows, *times, said, verdict(unseen) if unseen else "", one.plan]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "Times are medians of the client's, with the first and third quartile, in one process and in turns: of a text that SplayDB was asked"]
    lines += ["before, of one that it never saw where a text can be varied, and of DuckDB, which plans each text anew, as a text and prepared. Ratios"]
    lines += ["go by the less of DuckDB's two.", ""]
    for one in results:
        lines += [f"**{one.statement.name}**: `{short(one.statement.text)}`", ""]
        lines += [line for said in (one.problem, one.note) if said for line in (said, "")]
        if one.plan:
            lines += [f"{one.plan}: {one.reason}", ""]
        if one.rival_plan:
            lines += ["DuckDB:", "", "```text", one.rival_plan, "```", ""]
    if any(one.problem.startswith("DuckDB: ") for one in results):
        lines += ["A file NAME.duckdb.sql beside NAME.sql gives DuckDB a text of its own.", ""]
    return "\n".join(lines).rstrip() + "\n"


def summary(results: list[Result]) -> list[str]:
    """Sentences about known texts, about texts never seen, and about what wasn't compared."""
    lines = [
        counted(opening, [ratio for one in results if (ratio := one.ratio(name))])
        for opening, name in (("Asked again", "SplayDB"), ("As texts never seen", "never seen"))
    ]
    lines = [line for line in lines if line]
    if not lines:
        return ["No statement could be compared."]
    differ, failed = sum(one.differs for one in results), sum(bool(one.problem) and not one.differs for one in results)
    said = f"Answers differ in {differ}." if differ else "All compared answers are equal."
    return [*lines, said + (f" {failed} could not be compared." if failed else "")]


def counted(opening: str, ratios: list[float]) -> str:
    """How many of some statements are faster, and the mean."""
    if not ratios:
        return ""
    faster, slower = sum(ratio >= LEVEL for ratio in ratios), sum(ratio <= 1 / LEVEL for ratio in ratios)
    return (
        f"{opening}, SplayDB is faster in {faster} of {len(ratios)} statements, level in {len(ratios) - faster - slower}, slower in {slower}; "
        f"the geometric mean of DuckDB's time over SplayDB's is {geometric_mean(ratios):.3g}."
    )
