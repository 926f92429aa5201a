"""The report: a Markdown table for each suite, geometric means, failures in full, and all of it as JSON."""

import math

from . import limits
from .outcome import Outcome


def milliseconds(value: float | None) -> str:
    if value is None:
        return ""
    return (
        f"{value:.3f}"
        if value < 1
        else f"{value:.2f}"
        if value < 10
        else f"{value:.1f}"
        if value < 1000
        else f"{value:,.0f}"
    )


def ratio(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def geometric_mean(values: list[float]) -> float | None:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def cell_text(cell) -> str:
    if cell is None:
        return "absent"
    if cell.failure:
        return cell.failure
    return milliseconds(cell.timing.median) + (" *" if cell.detail else "")


def table(outcomes: list[Outcome], names: list[str]) -> list[str]:
    """A row for each question. The ratio is SplayDB's median to that of the fastest of all systems."""
    head = ["question", "asks", *(f"{name} ms" for name in names), "SplayDB / fastest", "rows", "ran as"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for outcome in outcomes:
        ours = outcome.cells.get("SplayDB")
        fastest = outcome.fastest()
        against = ratio(ours.timing.median / fastest) if ours and ours.timing and fastest else ""
        rows = "" if outcome.rows is None else f"{outcome.rows:,}"
        cells = [cell_text(outcome.cells.get(name)) for name in names]
        lines.append("| " + " | ".join([outcome.id, outcome.asks, *cells, against, rows, outcome.path]) + " |")
    return lines


def means(outcomes: list[Outcome], names: list[str]) -> list[dict]:
    """Geometric means of the medians, over all questions and by group.

    A system's own mean is over what it answered; two systems are set against each other over what both did.
    """
    groups = {"all": outcomes}
    for outcome in outcomes:
        groups.setdefault(outcome.group, []).append(outcome)
    if len(groups) == 2:
        del groups[outcomes[0].group]
    result = []
    for group, members in groups.items():
        row = {"group": group, "questions": len(members)}
        for name in names:
            medians = [member.cells[name].timing.median for member in members if timed(member, name)]
            row[name] = geometric_mean(medians)
            row[f"{name} answered"] = len(medians)
            if name != "SplayDB":
                row[f"SplayDB / {name}"] = geometric_mean(
                    [
                        member.cells["SplayDB"].timing.median / member.cells[name].timing.median
                        for member in members
                        if timed(member, name) and timed(member, "SplayDB")
                    ]
                )
        others = [name for name in names if name != "SplayDB"]
        row["SplayDB / best other"] = geometric_mean(
            [
                member.cells["SplayDB"].timing.median
                / min(member.cells[name].timing.median for name in others if timed(member, name))
                for member in members
                if timed(member, "SplayDB") and any(timed(member, name) for name in others)
            ]
        )
        result.append(row)
    return result


def timed(outcome: Outcome, name: str) -> bool:
    return name in outcome.cells and outcome.cells[name].timing is not None


def means_table(rows: list[dict], names: list[str]) -> list[str]:
    others = [name for name in names if name != "SplayDB"]
    ratios = [f"SplayDB / {name}" for name in others] + ["SplayDB / best other"]
    head = ["geometric mean", "questions", *(f"{name} ms (answered)" for name in names), *ratios]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in rows:
        cells = [f"{milliseconds(row[name])} ({row[f'{name} answered']})" for name in names]
        against = ["" if row[name] is None else f"{row[name]:.3f}" for name in ratios]
        lines.append("| " + " | ".join([row["group"], str(row["questions"]), *cells, *against]) + " |")
    return lines


def failures(outcomes: list[Outcome]) -> list[str]:
    """Every error, difference and note, in full."""
    return [
        f"- {outcome.id}, {name}: {cell.failure or 'note'}: {cell.detail}"
        for outcome in outcomes
        for name, cell in outcome.cells.items()
        if cell.failure or cell.detail
    ]


def suite(title: str, outcomes: list[Outcome], names: list[str]) -> list[str]:
    """A suite's whole section."""
    rows = means(outcomes, names)
    lines = [f"### {title}", "", *table(outcomes, names), "", *means_table(rows, names), "", *limits.table(outcomes)]
    notes = failures(outcomes)
    return lines + (["Failures and notes:", "", *notes, ""] if notes else [])


def as_json(outcomes: list[Outcome], names: list[str]) -> dict:
    def one(cell):
        timing = cell.timing
        times = {"median_ms": timing.median, "best_ms": timing.best, "rounds": timing.rounds} if timing else {}
        return times | {key: value for key, value in (("failure", cell.failure), ("detail", cell.detail)) if value}

    questions = [
        {
            "id": outcome.id,
            "group": outcome.group,
            "asks": outcome.asks,
            "rows": outcome.rows,
            "ran_as": outcome.path,
            "moved_bytes": outcome.moved_bytes,
            "systems": {name: one(cell) for name, cell in outcome.cells.items()},
        }
        for outcome in outcomes
    ]
    return {"questions": questions, "means": means(outcomes, names)}
