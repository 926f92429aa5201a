"""Point work on rare symbols: what one statement costs, as text of a known shape, prepared, and as text never seen."""

import dataclasses
import random
import sys
import threading
import time

from .. import parameters
from ..ask import compare, message
from ..measure import percentile
from ..outcome import Cell
from ..polars_words import MID, bucket, column, instant
from ..question import Question, Raw

TITLE = "point: one rare symbol"
STATEMENTS = 400
"""Timed statements of each kind."""
STATEMENTS_NEW = 100
"""Timed statements of shapes that were never asked."""
CHECKED = 5
"""Statements of each kind that are compared before any is timed."""
THROUGHPUT_SECONDS = 2.0
PLACEHOLDERS = ["symbol", "start", "end"]
MODES = ("known shape", "prepared", "never seen")


def run(run) -> tuple[list[str], dict]:
    """Checks, then times one statement at a time, then as many as go."""
    tables = run.data.taq()
    drawn = parameters.draw(tables, run.seed)
    systems = run.systems(tables)
    values = draw(drawn, run.seed)
    results, notes = {}, []
    for question in questions():
        if not run.wanted(question.id):
            continue
        failures = check(question, drawn, systems, values)
        for system in systems:
            one = results.setdefault(question.id, {}).setdefault(system.name, {})
            if system.name in failures:
                notes.append(f"- {question.id}, {system.name}: {failures[system.name]}")
                one["failure"] = failures[system.name]
                continue
            for mode in MODES:
                try:
                    one[mode] = latencies(mode, question, drawn, system, values)
                except NotImplementedError:
                    one[mode] = None
                except Exception as error:  # noqa: BLE001
                    one[mode] = None
                    notes.append(f"- {question.id}, {system.name}, {mode}: error: {message(error)}")
            print(f"{question.id}, {system.name}: {one}", flush=True, file=sys.stderr)
    rates = throughput(results, drawn, systems, values)
    lines = [f"### {TITLE} ({run.size(tables)})", "", *table(results, run.names), "", *rates_table(rates, run.names), ""]
    return lines + (["Failures:", "", *notes, ""] if notes else []), {"latency_us": results, "statements_per_second": rates}


def draw(drawn, seed: int) -> list[dict]:
    """Symbols and ranges of five minutes, as many as there are timed statements."""
    rng = random.Random(seed)
    found = []
    for _ in range(STATEMENTS):
        minute = rng.randrange(9 * 60 + 30, 15 * 60 + 50)
        start, end = (f"{at // 60:02}{at % 60:02}" for at in (minute, minute + 5))
        found.append({"symbol": rng.choice(drawn.thousand), "start": drawn.time(start), "end": drawn.time(end), "shape": Raw("")})
    return found


def within(start, end):
    return (column.Time >= instant(start)) & (column.Time < instant(end))


def questions() -> list[Question]:
    """Four kinds. ``$shape`` is empty, or a column that makes the text one never seen."""
    where = "WHERE Symbol = $symbol AND Time >= $start AND Time < $end"

    def rows(f, p, symbol, start, end, shape):
        return f.quote.filter((column.Symbol == symbol) & within(start, end)).select("Sequence_Number", "Time", "Bid_Price", "Offer_Price")

    def mid(f, p, symbol, start, end, shape):
        return f.quote.filter((column.Symbol == symbol) & within(start, end)).select(MID.mean().alias("mid"))

    def minutes(f, p, symbol, start, end, shape):
        return f.quote.filter((column.Symbol == symbol) & within(start, end)).group_by(bucket("1m")).agg(
            MID.mean().alias("mid")).sort("bucket")

    def asof(f, p, symbol, start, end, shape):
        trades = f.trade.filter((column.Symbol == symbol) & within(start, end)).select(
            "Sequence_Number", "Time", column.Trade_Price.alias("price"))
        quotes = f.quote.filter(column.Symbol == symbol).select(
            "Time", column.Sequence_Number.alias("quote_number"), column.Bid_Price.alias("bid"))
        return trades.set_sorted("Time").join_asof(quotes.set_sorted("Time"), on="Time")

    asof_columns = """t.Sequence_Number AS Sequence_Number, t.Time AS Time, t.Trade_Price AS price,
    q.Sequence_Number AS quote_number, q.Bid_Price AS bid"""
    chosen = f"(SELECT * FROM trade {where}) AS t"
    last_of_ties = """(SELECT * FROM quote WHERE Symbol = $symbol
    QUALIFY row_number() OVER (PARTITION BY Time ORDER BY Sequence_Number DESC) = 1)"""
    joined = f"SELECT {asof_columns} $shape FROM {chosen} ASOF LEFT JOIN {{}} AS q ON t.Time >= q.Time"
    return [
        Question("rows", "point", "quotes of five minutes", ("Sequence_Number",),
                 f"SELECT Sequence_Number, Time, Bid_Price, Offer_Price $shape FROM quote {where}", rows),
        Question("mid", "point", "mean mid of five minutes", (),
                 f"SELECT avg(0.5 * (Bid_Price + Offer_Price)) AS mid $shape FROM quote {where}", mid),
        Question("minutes", "point", "mean mid of each of five minutes", ("bucket",),
                 f"""SELECT time_bucket(INTERVAL '1 minute', Time) AS bucket, avg(0.5 * (Bid_Price + Offer_Price)) AS mid $shape
                 FROM quote {where} GROUP BY bucket ORDER BY bucket""", minutes, ordered=True),
        Question("asof", "point", "trades of five minutes with their quotes", ("Sequence_Number",),
                 f"""SELECT {asof_columns} $shape FROM {chosen}
                 ASOF JOIN quote AS q MATCH_CONDITION (t.Time >= q.Time) ON t.Symbol = q.Symbol""", asof,
                 duckdb=joined.format("(SELECT * FROM quote WHERE Symbol = $symbol)"), reference=joined.format(last_of_ties)),
    ]


def new_shape(question: Question, number: int) -> Raw:
    """A column that no statement had before."""
    value = {"rows": "Bid_Price", "asof": "t.Trade_Price"}.get(question.id, "max(Bid_Price)")
    return Raw(f", {value} + 0.0 AS extra_{number}")


def check(question, drawn, systems, values) -> dict[str, str]:
    """Failures by system, over the first statements."""
    failures = {}
    for variant in values[:CHECKED]:
        expected = None
        for system in systems:
            if hasattr(system, "reference"):
                expected = system.reference(question, drawn, variant)
        for system in systems:
            cell = Cell()
            if not compare(with_variant(question, variant), drawn, system, expected, cell):
                failures.setdefault(system.name, f"{cell.failure}: {cell.detail}")
    return failures


def with_variant(question, variant) -> Question:
    return dataclasses.replace(question, variants=(variant,))


def latencies(mode, question, drawn, system, values) -> dict:
    """P50 and P99 in microseconds."""
    if mode == "prepared":
        if not hasattr(system, "statement"):
            raise NotImplementedError
        statement = system.statement(question, drawn, PLACEHOLDERS)
        calls = [lambda v=v: statement(*(v[name] for name in PLACEHOLDERS)) for v in values]
    elif mode == "never seen":
        calls = [system.prepare(question, drawn, v | {"shape": new_shape(question, number)})
                 for number, v in enumerate(values[:STATEMENTS_NEW])]
    else:
        calls = [system.prepare(question, drawn, v) for v in values]
        for call in calls[:CHECKED]:
            call()
    micros = []
    for call in calls:
        start = time.perf_counter()
        call()
        micros.append((time.perf_counter() - start) * 1e6)
    return {"p50": round(percentile(micros, 0.5), 1), "p99": round(percentile(micros, 0.99), 1)}


def throughput(results, drawn, systems, values) -> dict:
    """Statements of a known shape in a second, all kinds that the system answers in turn, by one thread and by two."""
    rates = {}
    for system in systems:
        kinds = [question for question in questions() if "failure" not in results.get(question.id, {}).get(system.name, {"failure": ""})]
        if not kinds:
            continue
        rates[system.name] = {"kinds": [question.id for question in kinds]}
        for threads in (1, 2):
            rates[system.name][str(threads)] = round(rate(system, kinds, drawn, values, threads))
    return rates


def rate(system, kinds, drawn, values, threads: int) -> float:
    """Statements in a second by some threads, each with a session of its own."""
    counts = [0] * threads
    barrier = threading.Barrier(threads + 1)
    stop = threading.Event()

    def work(place: int) -> None:
        session = system.session()
        calls = [session.prepare(question, drawn, variant) for variant in values[place::threads] for question in kinds]
        for call in calls[: len(kinds)]:
            call()
        barrier.wait()
        done = 0
        while not stop.is_set():
            calls[done % len(calls)]()
            done += 1
        counts[place] = done

    workers = [threading.Thread(target=work, args=(place,)) for place in range(threads)]
    for worker in workers:
        worker.start()
    barrier.wait()
    start = time.perf_counter()
    time.sleep(THROUGHPUT_SECONDS)
    stop.set()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - start)


def table(results, names) -> list[str]:
    head = ["question", "asks", "as", *(f"{name} P50 / P99 µs" for name in names)]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    asks = {question.id: question.asks for question in questions()}
    for id, found in results.items():
        for mode in MODES:
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
    for threads in ("1", "2"):
        cells = [f"{rates[name][threads]:,} ({len(rates[name]['kinds'])} kinds)" if name in rates else "" for name in names]
        lines.append("| " + " | ".join([f"{threads} thread{'s' if threads == '2' else ''}", *cells]) + " |")
    return lines
