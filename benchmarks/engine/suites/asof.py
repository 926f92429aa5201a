"""As-of joins of all symbols: plain, dense, sparse and illiquid, with the memory that each needs."""

from .. import parameters
from ..ask import ask
from ..memory import peak
from ..polars_words import column
from ..question import Question
from ..report import as_json, suite

TITLE = "asof: trades with the quotes that stood"
GROUP = "as-of joins of all symbols"
SHAPES = {
    "whole": ("all trades with all quotes", "trade", "quote"),
    "dense": ("one trade in 100 with all quotes: many quotes for a trade", "trade_few", "quote"),
    "sparse": ("all trades with one quote in 100: many trades for a quote", "trade", "quote_few"),
    "illiquid": (
        "all trades with the quotes of five minutes: the quote is long ago, or there is none",
        "trade",
        "quote_early",
    ),
}


def run(run) -> tuple[list[str], dict]:
    """Times all shapes together, then measures the memory of each alone."""
    tables = run.data.taq(only=("trade", "quote", "trade_few", "quote_few", "quote_early"))
    drawn = parameters.draw(tables, run.seed)
    systems = run.systems(tables)
    ids = [id for id in SHAPES if run.wanted(id)]
    outcomes = [run.tell(ask(question(id)[0], drawn, systems, run.rounds)) for id in ids]
    present = [system.name for system in systems]
    del systems
    memory = {id: {name: peak(name, tables, question, id, ()) for name in present} for id in ids}
    lines = suite(f"{TITLE} ({run.size(tables)})", outcomes, run.names)
    return lines + memory_table(memory, present), as_json(outcomes, run.names) | {"memory": memory}


def question(id: str) -> tuple[Question, None]:
    """The question of a shape; its parameters are none."""
    asks, left, right = SHAPES[id]
    columns = """t.Symbol AS Symbol, t.Sequence_Number AS Sequence_Number, t.Time AS Time, t.Trade_Price AS price,
    q.Sequence_Number AS quote_number, q.Bid_Price AS bid, q.Offer_Price AS offer"""
    sql = f"SELECT {columns} FROM {left} AS t ASOF JOIN {right} AS q MATCH_CONDITION (t.Time >= q.Time) ON t.Symbol = q.Symbol"
    duckdb = f"SELECT {columns} FROM {left} AS t ASOF LEFT JOIN {{}} AS q ON t.Symbol = q.Symbol AND t.Time >= q.Time"
    last_of_ties = f"""(SELECT * FROM {right}
    QUALIFY row_number() OVER (PARTITION BY Symbol, Time ORDER BY Sequence_Number DESC) = 1)"""

    def ask_polars(f, p):
        trades = getattr(f, left).select("Symbol", "Sequence_Number", "Time", column.Trade_Price.alias("price"))
        quotes = getattr(f, right).select(
            "Symbol",
            "Time",
            column.Sequence_Number.alias("quote_number"),
            column.Bid_Price.alias("bid"),
            column.Offer_Price.alias("offer"),
        )
        return trades.join_asof(quotes, on="Time", by="Symbol", check_sortedness=False)

    return Question(
        id,
        GROUP,
        asks,
        ("Symbol", "Sequence_Number"),
        sql,
        ask_polars,
        duckdb=duckdb.format(right),
        reference=duckdb.format(last_of_ties),
    ), None


def memory_table(memory, names) -> list[str]:
    head = ["shape", "MB of the answer", *(f"{name} peak MB (beyond the answer)" for name in names)]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for id, found in memory.items():
        sizes = [one["answer_bytes"] for one in found.values() if "answer_bytes" in one]
        cells = []
        for name in names:
            one = found[name]
            cells.append(
                "error"
                if "error" in one
                else f"{one['peak_bytes'] / 1e6:,.0f} ({max(0, one['peak_bytes'] - one['answer_bytes']) / 1e6:,.0f})"
            )
        lines.append("| " + " | ".join([id, f"{min(sizes) / 1e6:,.0f}" if sizes else "", *cells]) + " |")
    return [*lines, ""]
