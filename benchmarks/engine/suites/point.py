"""Point work on rare symbols: what one statement costs, as text of a known shape, prepared, and as text never seen."""

import random
import sys

from .. import parameters
from ..ask import compare, message, reference
from ..latency import one_by_one, rate
from ..outcome import Cell, Outcome
from ..polars_words import MID, bucket, column, instant
from ..question import Question, Raw

TITLE = "point: one rare symbol"
STATEMENTS = 400
"""Timed statements of each kind."""
STATEMENTS_NEW = 100
"""Timed statements of shapes that were never asked."""
CHECKED = 5
"""Statements of each kind that are compared before any is timed."""
PLACEHOLDERS = ["symbol", "start", "end"]
KNOWN, PREPARED, NEW = "known shape", "prepared", "never seen"


def run(run) -> tuple[list[str], dict]:
    """Checks, then times one statement at a time, then as many as go."""
    tables = run.data.taq()
    drawn = parameters.draw(tables, run.seed)
    systems = run.systems(tables)
    values = draw(drawn, run.seed)
    asked = [question for question in questions() if run.wanted(question.id)]
    latencies, rates, notes = {}, {}, []
    right = {system.name: [] for system in systems}
    for question in asked:
        failures = check(question, drawn, systems, values)
        notes += [f"- {question.id}, {name}: {failure}" for name, failure in failures.items()]
        found = latencies.setdefault(question.id, {name: {"failure": failure} for name, failure in failures.items()})
        for system in systems:
            if system.name not in failures:
                right[system.name].append(question)
                found[system.name] = latency(question, drawn, system, values, notes)
            print(f"{question.id}, {system.name}: {found[system.name]}", flush=True, file=sys.stderr)
    for system in systems:
        rates[system.name] = throughput(right[system.name], drawn, system, values, notes)
    lines = [
        f"### {TITLE} ({run.size(tables)})",
        "",
        *table(latencies, run.names),
        "",
        *rates_table(rates, run.names),
        "",
    ]
    lines += ["Failures:", "", *notes, ""] if notes else []
    return lines, {"latency_us": latencies, "statements_per_second": rates, "failures": notes}


def latency(question, drawn, system, values, notes) -> dict:
    """P50 and P99 of each way to ask; none for a way that the system doesn't have."""
    found = {}
    for mode in (KNOWN, PREPARED, NEW):
        try:
            calls = statements(mode, question, drawn, system, values)
            if mode != NEW:
                for call in calls[:CHECKED]:
                    call()
            found[mode] = one_by_one(calls)
        except NotImplementedError:
            found[mode] = None
        except Exception as error:  # noqa: BLE001
            found[mode] = None
            notes.append(f"- {question.id}, {system.name}, {mode}: error: {message(error)}")
    return found


def statements(mode, question, drawn, system, values) -> list:
    """Calls that ask the question once for each value."""
    if mode == PREPARED:
        if not hasattr(system, "statement"):
            raise NotImplementedError
        statement = system.statement(question, drawn, PLACEHOLDERS)
        return [lambda v=v: statement(*(v[name] for name in PLACEHOLDERS)) for v in values]
    if mode == NEW:
        new = enumerate(values[:STATEMENTS_NEW])
        return [system.prepare(question, drawn, v | {"shape": new_shape(question, number)}) for number, v in new]
    return [system.prepare(question, drawn, v) for v in values]


def throughput(kinds, drawn, system, values, notes) -> dict:
    """Statements in a second, all kinds that the system answers in turn, by one thread and by two."""
    found = {"kinds": [question.id for question in kinds]}

    def calls_of(mode, place: int, threads: int) -> list:
        session = system.session()
        of_kinds = [statements(mode, question, drawn, session, values[place::threads]) for question in kinds]
        return [call for calls in zip(*of_kinds, strict=True) for call in calls]

    for mode in (KNOWN, PREPARED):
        for threads in (1, 2):
            try:
                if kinds:
                    found[f"{mode}, {threads}"] = round(rate(lambda place: calls_of(mode, place, threads), threads))  # noqa: B023
            except Exception as error:  # noqa: BLE001
                if not isinstance(error.__cause__, NotImplementedError):
                    notes.append(f"- throughput, {system.name}, {mode}: {message(error)}")
    return found


def draw(drawn, seed: int) -> list[dict]:
    """Symbols and ranges of five minutes, as many as there are timed statements."""
    rng = random.Random(seed)
    found = []
    for _ in range(STATEMENTS):
        minute = rng.randrange(9 * 60 + 30, 15 * 60 + 50)
        start, end = (f"{at // 60:02}{at % 60:02}" for at in (minute, minute + 5))
        found.append(
            {"symbol": rng.choice(drawn.thousand), "start": drawn.time(start), "end": drawn.time(end), "shape": Raw("")}
        )
    return found


def within(start, end):
    return (column.Time >= instant(start)) & (column.Time < instant(end))


def questions() -> list[Question]:
    """Four kinds. ``$shape`` is empty, or a column that makes the text one never seen."""
    where = "WHERE Symbol = $symbol AND Time >= $start AND Time < $end"

    def rows(f, p, symbol, start, end, shape):
        return f.quote.filter((column.Symbol == symbol) & within(start, end)).select(
            "Sequence_Number", "Time", "Bid_Price", "Offer_Price"
        )

    def mid(f, p, symbol, start, end, shape):
        return f.quote.filter((column.Symbol == symbol) & within(start, end)).select(MID.mean().alias("mid"))

    def minutes(f, p, symbol, start, end, shape):
        return (
            f.quote.filter((column.Symbol == symbol) & within(start, end))
            .group_by(bucket("1m"))
            .agg(MID.mean().alias("mid"))
            .sort("bucket")
        )

    def asof(f, p, symbol, start, end, shape):
        trades = f.trade.filter((column.Symbol == symbol) & within(start, end)).select(
            "Sequence_Number", "Time", column.Trade_Price.alias("price")
        )
        quotes = f.quote.filter(column.Symbol == symbol).select(
            "Time", column.Sequence_Number.alias("quote_number"), column.Bid_Price.alias("bid")
        )
        return trades.set_sorted("Time").join_asof(quotes.set_sorted("Time"), on="Time")

    asof_columns = """t.Sequence_Number AS Sequence_Number, t.Time AS Time, t.Trade_Price AS price,
    q.Sequence_Number AS quote_number, q.Bid_Price AS bid"""
    chosen = f"(SELECT * FROM trade {where}) AS t"
    last_of_ties = """(SELECT * FROM quote WHERE Symbol = $symbol
    QUALIFY row_number() OVER (PARTITION BY Time ORDER BY Sequence_Number DESC) = 1)"""
    joined = f"SELECT {asof_columns} $shape FROM {chosen} ASOF LEFT JOIN {{}} AS q ON t.Time >= q.Time"
    return [
        Question(
            "rows",
            "point",
            "quotes of five minutes",
            ("Sequence_Number",),
            f"SELECT Sequence_Number, Time, Bid_Price, Offer_Price $shape FROM quote {where}",
            rows,
        ),
        Question(
            "mid",
            "point",
            "mean mid of five minutes",
            (),
            f"SELECT avg(0.5 * (Bid_Price + Offer_Price)) AS mid $shape FROM quote {where}",
            mid,
        ),
        Question(
            "minutes",
            "point",
            "mean mid of each of five minutes",
            ("bucket",),
            f"""SELECT time_bucket(INTERVAL '1 minute', Time) AS bucket, avg(0.5 * (Bid_Price + Offer_Price)) AS mid $shape
                 FROM quote {where} GROUP BY bucket ORDER BY bucket""",
            minutes,
            ordered=True,
        ),
        Question(
            "asof",
            "point",
            "trades of five minutes with their quotes",
            ("Sequence_Number",),
            f"""SELECT {asof_columns} $shape FROM {chosen}
                 ASOF JOIN quote AS q MATCH_CONDITION (t.Time >= q.Time) ON t.Symbol = q.Symbol""",
            asof,
            duckdb=joined.format("(SELECT * FROM quote WHERE Symbol = $symbol)"),
            reference=joined.format(last_of_ties),
        ),
    ]


def new_shape(question: Question, number: int) -> Raw:
    """A column that no statement had before."""
    value = {"rows": "Bid_Price", "asof": "t.Trade_Price"}.get(question.id, "max(Bid_Price)")
    return Raw(f", {value} + 0.0 AS extra_{number}")


def check(question, drawn, systems, values) -> dict[str, str]:
    """Failures by system, over the first statements."""
    outcome, variants = Outcome(question.id, question.group, question.asks), values[:CHECKED]
    expected = reference(question, drawn, systems, variants, outcome)
    failures = {}
    for system in systems:
        cell = outcome.cells.setdefault(system.name, Cell())
        if cell.failure or not compare(question, drawn, system, variants, expected, cell):
            failures[system.name] = f"{cell.failure}: {cell.detail}"
    return failures


def table(results, names) -> list[str]:
    head = ["question", "asks", "as", *(f"{name} P50 / P99 µs" for name in names)]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    asks = {question.id: question.asks for question in questions()}
    for id, found in results.items():
        for mode in (KNOWN, PREPARED, NEW):
            cells = []
            for name in names:
                one = found.get(name)
                if one is None:
                    cells.append("absent")
                elif "failure" in one:
                    cells.append(one["failure"].split(":")[0])
                else:
                    cells.append(f"{one[mode]['p50']:,.0f} / {one[mode]['p99']:,.0f}" if one[mode] else "none")
            lines.append("| " + " | ".join([id, asks[id], mode, *cells]) + " |")
    return lines


def rates_table(rates, names) -> list[str]:
    head = ["statements a second", *names]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for mode in (KNOWN, PREPARED):
        for threads in (1, 2):
            key = f"{mode}, {threads}"
            cells = [
                f"{rates[name][key]:,} ({len(rates[name]['kinds'])} kinds)" if key in rates.get(name, {}) else "none"
                for name in names
            ]
            lines.append("| " + " | ".join([f"{key} thread{'s' if threads > 1 else ''}", *cells]) + " |")
    return lines
