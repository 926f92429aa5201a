"""Filters over 100,000 one-minute bars: what a filter costs or saves against reading all rows."""

import pyarrow.compute as pc

from ..ask import ask
from ..polars_words import column
from ..question import Question
from ..report import as_json, milliseconds, suite

TITLE = "filters: one-minute bars, filters that keep more or less"
GROUP = "filters"
COLUMNS = ["sym", "ts", "open", "high", "low", "close", "volume"]


def run(run) -> tuple[list[str], dict]:
    """Asks them all, and sets each against no filter."""
    tables = run.data.taq(only=("bar",))
    systems = run.systems(tables)
    limits = Limits(tables)
    asked = [question for question in questions() if run.wanted(question.id)]
    outcomes = [run.tell(ask(question, limits, systems, run.rounds)) for question in asked]
    lines = suite(f"{TITLE} ({run.size(tables)})", outcomes, run.names)
    read = {}
    for system in systems:
        if hasattr(system, "stats"):
            read = {question.id: cost(system, question, limits) for question in asked}
    return lines + against_all(outcomes, run.names, read), as_json(outcomes, run.names) | {"read": read}


class Limits:
    """Values that a share of the bars exceeds."""

    def __init__(self, tables):
        bars = tables.read("bar", ["close", "volume"])
        self.top, self.half, self.most = (pc.quantile(bars["close"], share)[0].as_py() for share in (0.9, 0.5, 0.1))
        self.busy = int(pc.quantile(bars["volume"], 0.5)[0].as_py())
        self.beyond = pc.max(bars["close"]).as_py() + 1


def questions() -> list[Question]:
    def question(id, asks, where, polars):
        sql = f"SELECT {', '.join(COLUMNS)} FROM bar {where}"
        return Question(id, GROUP, asks, ("sym", "ts"), sql, lambda f, p: polars(f.bar, p).select(COLUMNS))

    return [
        question("all", "no filter", "", lambda bar, p: bar),
        question(
            "keep-10", "a filter that keeps 10 %", "WHERE close > $top", lambda bar, p: bar.filter(column.close > p.top)
        ),
        question(
            "keep-50",
            "a filter that keeps 50 %",
            "WHERE close > $half",
            lambda bar, p: bar.filter(column.close > p.half),
        ),
        question(
            "keep-90",
            "a filter that keeps 90 %",
            "WHERE close > $most",
            lambda bar, p: bar.filter(column.close > p.most),
        ),
        question(
            "keep-0",
            "a filter that keeps nothing",
            "WHERE close > $beyond",
            lambda bar, p: bar.filter(column.close > p.beyond),
        ),
        question(
            "two",
            "two filters, which keep about 25 %",
            "WHERE close > $half AND volume > $busy",
            lambda bar, p: bar.filter((column.close > p.half) & (column.volume > p.busy)),
        ),
    ]


def cost(system, question, limits) -> dict:
    """What SplayDB says it read."""
    try:
        stats = system.stats(question, limits, {})
    except Exception as error:  # noqa: BLE001
        return {"error": str(error)}
    found = {"rows scanned": stats.rows_scanned, "blocks": f"{stats.blocks.kept} of {stats.blocks.total}"}
    return found | {"bytes": stats.bytes_scanned}


def against_all(outcomes, names, read) -> list[str]:
    """Each filter's median over that of no filter, and what SplayDB read."""
    base = next((outcome for outcome in outcomes if outcome.id == "all"), None)
    if base is None:
        return []
    head = ["question", *(f"{name} / its own without a filter" for name in names), "SplayDB read"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for outcome in outcomes:
        cells = []
        for name in names:
            one, all_ = (o.cells.get(name) and o.cells[name].timing for o in (outcome, base))
            cells.append(f"{one.median / all_.median:.2f} ({milliseconds(one.median)} ms)" if one and all_ else "")
        said = ", ".join(
            f"{key} {value:,}" if isinstance(value, int) else f"{key} {value}"
            for key, value in read.get(outcome.id, {}).items()
        )
        lines.append("| " + " | ".join([outcome.id, *cells, said]) + " |")
    return [*lines, ""]
