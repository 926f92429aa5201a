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
    lines = ["# Your statements", "", *(f"- {fact}" for fact in facts), "", summary(results), ""]
    head = ["statement", "rows", "SplayDB, ms", "never seen, ms", "DuckDB, ms", "SplayDB is", "ran as"]
    lines += ["| " + " | ".join(head) + " |", "| --- | --: | --: | --: | --: | --- | --- |"]
    for one in results:
        rows = "" if one.rows is None else f"{one.rows:,}"
        said = verdict(one.ratio) if one.ratio else ("answers differ" if one.differs else "not compared")
        times = [cell(one.times.get(name)) for name in ("SplayDB", "never seen", "DuckDB")]
        lines.append("| " + " | ".join([one.statement.name, rows, *times, said, one.plan]) + " |")
    lines += ["", "Times are medians of the client's, with the first and third quartile, in one process; a text that was asked before,"]
    lines += ["one that SplayDB never saw where a text can be varied, and DuckDB's, in turns.", ""]
    for one in results:
        lines += [f"**{one.statement.name}**: `{short(one.statement.text)}`", ""]
        if one.problem:
            lines += [one.problem, ""]
        if one.plan:
            lines += [f"{one.plan}: {one.reason}", ""]
    return "\n".join(lines).rstrip() + "\n"


def summary(results: list[Result]) -> str:
    ratios = [one.ratio for one in results if one.ratio]
    if not ratios:
        return "No statement could be compared."
    faster, slower = sum(ratio >= LEVEL for ratio in ratios), sum(ratio <= 1 / LEVEL for ratio in ratios)
    said = (
        f"SplayDB is faster in {faster} of {len(ratios)} statements, level in {len(ratios) - faster - slower}, slower in {slower}; "
        f"the geometric mean of DuckDB's time over SplayDB's is {geometric_mean(ratios):.3g}."
    )
    differ, failed = sum(one.differs for one in results), sum(bool(one.problem) and not one.differs for one in results)
    said += f" Answers differ in {differ}." if differ else " All compared answers are equal."
    return said + (f" {failed} could not be compared." if failed else "")
