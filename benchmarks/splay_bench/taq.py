"""Three queries on a day of trades and quotes, with time and peak memory, after "Comparing columnar data formats: Arrow, Vaex
and kdb+" (M. Doherty, AquaQ): a filter, volume bars, mean mids by hour.
"""

from engine import parameters
from engine.ask import KNOWN, ask
from engine.memory import peak
from engine.polars_words import BID, OFFER, between, bucket, column, symbol
from engine.question import Question
from engine.report import milliseconds

from . import inside


def run(settings) -> None:
    inside.run("taq", settings)


def questions() -> dict[str, Question]:
    busy_auction = """SELECT Symbol, Sequence_Number, Time, Exchange, Sale_Condition, Trade_Volume, Trade_Price FROM trade
    WHERE Symbol = $busy AND Sale_Condition LIKE '%O%' AND Time >= $t0930 AND Time < $t1600"""
    bars = """SELECT Symbol, time_bucket(INTERVAL '1 minute', Time) AS bucket, sum(Trade_Volume) AS volume FROM trade
    GROUP BY Symbol, bucket"""
    mids = """SELECT Symbol, time_bucket(INTERVAL '1 hour', Time) AS bucket, avg(0.5 * (Offer_Price + Bid_Price)) AS mid FROM quote
    GROUP BY Symbol, bucket"""
    columns = ["Symbol", "Sequence_Number", "Time", "Exchange", "Sale_Condition", "Trade_Volume", "Trade_Price"]
    keys = ("Symbol", "bucket")

    def condition(f, p):
        wanted = column.Sale_Condition.cast(str).str.contains("O", literal=True)
        return f.trade.filter(symbol(p.busy) & wanted & between(p, "0930", "1600")).select(columns)

    def volumes(f, p):
        return f.trade.group_by("Symbol", bucket("1m")).agg(column.Trade_Volume.sum().alias("volume"))

    def means(f, p):
        return f.quote.group_by("Symbol", bucket("1h")).agg((0.5 * (OFFER + BID)).mean().alias("mid"))

    return {
        question.id: question
        for question in (
            Question(
                "S0-Q1",
                "taq",
                "trades of a symbol, by condition and time",
                ("Symbol", "Sequence_Number"),
                busy_auction,
                condition,
            ),
            Question("S0-Q2", "taq", "volume by symbol and minute", keys, bars, volumes),
            Question("S0-Q3", "taq", "mean mid by symbol and hour, of all quotes", keys, mids, means),
        )
    }


def question_with(id: str, drawn):
    """What the memory's child takes: the question and its parameters."""
    return questions()[id], drawn


def measure(given: inside.Inside) -> dict:
    run = given.engine_run()
    tables = given.data.taq()
    drawn = parameters.draw(tables, given.seed)
    systems = run.systems(tables)
    outcomes = [run.tell(ask(question, drawn, systems, given.rounds)) for question in questions().values()]
    names = [system.name for system in systems]
    del systems
    memory = {
        outcome.id: {name: peak(name, tables, question_with, outcome.id, (drawn,)) for name in names}
        for outcome in outcomes
    }
    return {
        "title": "taq: three queries with time and memory",
        "note": f"Rows: {run.size(tables)}; warm medians, {given.threads} threads; memory is the most anonymous memory of a "
        "fresh process beyond what it held after opening. SplayDB maps its files, the rivals hold their tables in memory. "
        + KNOWN,
        "tables": [table(outcomes, names, memory)],
    }


def table(outcomes, names, memory) -> dict:
    rows = []
    for outcome in outcomes:
        row = [outcome.id, outcome.asks]
        for name in names:
            cell, used = outcome.cells[name], memory[outcome.id][name]
            row.append(cell.failure or milliseconds(cell.timing.median))
            row.append("error" if "error" in used else f"{used['peak_bytes'] / 1e6:,.0f}")
        rows.append(row)
    head = ["query", "asks"]
    for name in names:
        head += [f"{name}, ms", f"{name}, MB"]
    return {"title": "", "head": head, "rows": rows}
