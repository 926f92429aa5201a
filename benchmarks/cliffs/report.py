"""The report: how SplayDB's times compare by share, the worst statements with the reason, and those that fail or differ."""

import re
import statistics

WORST = 30
"""Statements that are listed."""

DIMENSIONS = ("form", "selectivity", "width", "type", "table")
RIVALS = ("DuckDB", "Polars")
HEAD = ["statements", "median", "p1", "worst", "at least level", "slower than 2x", "unseen: median", "unseen: p1"]


def rival(record: dict) -> tuple[str, float]:
    """The fastest of the others, with its milliseconds."""
    return min(((name, record["times"][name]) for name in RIVALS if name in record["times"]), key=lambda one: one[1])


def ratio(record: dict, ours: str = "SplayDB") -> float:
    """The best rival's time by ours: below one, SplayDB is slower."""
    return rival(record)[1] / record["times"][ours]


def measured(records: list[dict]) -> list[dict]:
    """Records with times of SplayDB and of a rival."""
    return [one for one in records if "SplayDB" in one.get("times", {}) and set(RIVALS) & set(one["times"])]


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def distribution(records: list[dict]) -> dict:
    """The ratios of some records."""
    found = measured(records)
    if not found:
        return {"statements": 0}
    known, unseen = [ratio(one) for one in found], [ratio(one, "unseen") for one in found]
    return {
        "statements": len(known),
        "median": statistics.median(known),
        "p1": percentile(known, 0.01),
        "worst": min(known),
        "at least level": sum(value >= 1 for value in known) / len(known),
        "slower than 2x": sum(value < 0.5 for value in known),
        "unseen: median": statistics.median(unseen),
        "unseen: p1": percentile(unseen, 0.01),
    }


def distributions(records: list[dict]) -> dict[str, dict[str, dict]]:
    """Distributions of all records, and of each value of each dimension."""
    found = {"all": {"all": distribution(records)}}
    for dimension in (*DIMENSIONS, "kind"):
        names = dict.fromkeys(label(one, dimension) for one in records)
        found[dimension] = {
            name: distribution([one for one in records if label(one, dimension) == name]) for name in sorted(names)
        }
    return found


def label(record: dict, dimension: str) -> str:
    return f"{record['form']}: {record['kind']}" if dimension == "kind" else record[dimension]


def figure(name: str, value) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.0%}" if name == "at least level" else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def distribution_table(title: str, found: dict[str, dict]) -> list[str]:
    # A pipe within a name would end its cell.
    found = {name.replace("|", "\\|"): one for name, one in found.items()}
    lines = ["| " + " | ".join([title, *HEAD]) + " |", "|" + " --- |" * (len(HEAD) + 1)]
    for name, one in found.items():
        lines.append("| " + " | ".join([name, *(figure(head, one.get(head)) for head in HEAD)]) + " |")
    return [*lines, ""]


def reason(record: dict) -> str:
    """How SplayDB runs the statement, as its EXPLAIN says."""
    plan = " ".join(record.get("tick_plan", "").split())
    if plan and not plan.startswith("none"):
        return f"tick plan: {plan}"
    return f"tick plan: {plan or 'no word of one'}; operators: {', '.join(record.get('operators', []))}"


def cause(record: dict) -> str:
    """A short name of the reason, the same for statements that differ in columns and constants alone."""
    plan = " ".join(record.get("tick_plan", "").split())
    if not plan.startswith("none"):
        steps = re.findall(r"(\w+): ", plan)
        return "tick plan of " + ", ".join(dict.fromkeys(steps)) if steps else "no word of a tick plan"
    text = plan.removeprefix("none, because of ")
    text = re.sub(r"\w+\(\"[^\"]*\"\)|'[^']*'|\b\w+\([-\d.]+\)", "constant", text)
    text = re.sub(r"\b[a-z]\w*\.\w+", "column", text)
    return re.sub(r"\d+", "n", text)[:80]


def causes(records: list[dict]) -> dict[str, dict]:
    """Distributions by cause: those with most statements that are slower than twofold come first, then those with most below level."""
    groups = {}
    for one in measured(records):
        groups.setdefault(cause(one), []).append(one)
    found = {name: distribution(group) for name, group in groups.items()}
    order = sorted(found, key=lambda name: (-found[name]["slower than 2x"], -behind(found[name]), name))
    return {name: found[name] for name in order if behind(found[name]) > 0}


def behind(one: dict) -> float:
    """How many statements are below level."""
    return one["statements"] * (1 - one["at least level"])


def worst(records: list[dict]) -> list[dict]:
    return sorted(measured(records), key=ratio)[:WORST]


def worst_section(records: list[dict]) -> list[str]:
    """The statements in which SplayDB falls behind most."""
    lines = [f"## The worst {WORST}", ""]
    for place, one in enumerate(worst(records), 1):
        times = ", ".join(f"{name} {value:.2f} ms" for name, value in one["times"].items())
        shares = ", ".join(one[dimension] for dimension in DIMENSIONS)
        lines += [
            f"{place}. **{ratio(one):.2f}** ({rival(one)[0]}): {times}; {one.get('rows', 0):,} rows; {shares}; "
            f"number {one['number']}, {one['kind']}",
            "",
            "   ```sql",
            f"   {one['sql']}",
            "   ```",
            "",
            f"   {reason(one)[:600]}",
            "",
        ]
    return lines


def failures(records: list[dict], systems: tuple[str, ...]) -> list[tuple[dict, str, dict]]:
    """Records, systems and what failed."""
    return [
        (record, name, failure) for record in records for name, failure in record["failures"].items() if name in systems
    ]


def failure_section(title: str, found: list[tuple[dict, str, dict]]) -> list[str]:
    if not found:
        return [f"## {title}", "", "None.", ""]
    lines = [f"## {title}", ""]
    for record, name, failure in found:
        third = f" (Polars {failure['polars']})" if "polars" in failure else ""
        lines += [
            f"- number {record['number']}, {name}, {failure['failure']}: {failure['detail']}{third}",
            "",
            "  ```sql",
            f"  {record['sql']}",
            "  ```",
            "",
        ]
    return lines


def markdown(records: list[dict], about: dict) -> str:
    """The whole report."""
    found = distributions(records)
    counts = {}
    for _, name, failure in failures(records, ("SplayDB", *RIVALS, "times", "EXPLAIN")):
        key = f"{name}: {failure['failure']}"
        counts[key] = counts.get(key, 0) + 1
    lines = [
        "# Where SplayDB is slower",
        "",
        ", ".join(f"{name}: {value}" for name, value in about.items()),
        "",
        "Ratios are the time of the faster of DuckDB and Polars by that of SplayDB: below 1, SplayDB is slower. `unseen` is SplayDB "
        "with a text that it never saw. A statement counts if its answers are equal.",
        "",
        f"{len(records):,} statements, {len(measured(records)):,} with times; not timed or alone: "
        + (", ".join(f"{key} {count}" for key, count in sorted(counts.items())) or "none")
        + ".",
        "",
    ]
    for title, part in found.items():
        lines += distribution_table(title, part)
    lines += ["## By SplayDB's reason, where some are slower", "", *distribution_table("reason", causes(records))]
    lines += worst_section(records)
    lines += failure_section("SplayDB fails or differs", failures(records, ("SplayDB", "times", "EXPLAIN")))
    lines += failure_section("The others fail or differ", failures(records, RIVALS))
    return "\n".join(lines)


def as_json(records: list[dict], about: dict) -> dict:
    return {
        "about": about,
        "distributions": distributions(records),
        "causes": causes(records),
        "worst": [one | {"ratio": ratio(one)} for one in worst(records)],
        "failures": [
            {"number": record["number"], "sql": record["sql"], "system": name, **failure}
            for record, name, failure in failures(records, ("SplayDB", *RIVALS, "times", "EXPLAIN"))
        ],
    }
