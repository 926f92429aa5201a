"""Filters over 100,000 bars, after an article on a query engine in Rust that replaced DuckDB: latency by selectivity, queries a
second, P50 and P99 of a mix of filters.

The table is the suite ``filters`` of the side-by-side benchmark. The mix is the article's: of ten queries, six keep less than
a fifth of the bars, three between 30 and 80 %, one more.
"""

import random

import pyarrow.compute as pc

from engine.ask import KNOWN, ask, message
from engine.latency import one_by_one, rate
from engine.measure import Rounds
from engine.polars_words import column
from engine.question import Question
from engine.report import milliseconds
from engine.suites import filters

from . import inside

STATEMENTS = {"smoke": 400, "full": 4_000}
MIX = [(0.02, 0.2)] * 6 + [(0.3, 0.8)] * 3 + [(0.8, 1.0)]
"""Shares of the bars that queries keep, each as likely as the others."""


def run(settings) -> None:
    inside.run("bars", settings)


def mixed(close, seed: int, count: int) -> list[dict]:
    """Least closes of a mix of queries."""
    draw = random.Random(seed)
    shares = [draw.uniform(*draw.choice(MIX)) for _ in range(count)]
    limits = pc.quantile(close, [1 - share for share in shares]).to_pylist()
    return [{"least": limit} for limit in limits]


def mix_question(values) -> Question:
    sql = f"SELECT {', '.join(filters.COLUMNS)} FROM bar WHERE close >= $least"
    return Question(
        "mix",
        "filters",
        "bars with a close of at least some price",
        ("sym", "ts"),
        sql,
        lambda f, p, least: f.bar.filter(column.close >= least).select(filters.COLUMNS),
        variants=tuple(values),
    )


def measure(given: inside.Inside) -> dict:
    run = given.engine_run()
    tables = given.data.taq(only=("bar",))
    systems = run.systems(tables)
    limits = filters.Limits(tables)
    outcomes = [run.tell(ask(question, limits, systems, given.rounds)) for question in filters.questions()]
    values = mixed(tables.read("bar", ["close"])["close"], given.seed, STATEMENTS[given.size])
    question = mix_question(values)
    checked = ask(question, limits, systems, Rounds(1, 0))
    latencies = [mix(question, limits, system, given.threads, checked) for system in systems]
    return {
        "title": "bars: filters over one-minute bars",
        "note": f"Rows: {run.size(tables)}; {given.threads} threads; all columns of the bars that pass, as Arrow table or data "
        "frame. " + KNOWN,
        "tables": [by_selectivity(outcomes, [system.name for system in systems]), latency_table(latencies)],
    }


def mix(question, limits, system, threads: int, checked) -> list[str]:
    """P50, P99 and queries a second of the mix, on one system."""
    if checked.cells[system.name].failure:
        return [system.name, checked.cells[system.name].failure, "", "", ""]

    def calls(asker) -> list:
        return [asker.prepare(question, limits, variant) for variant in question.variants]

    try:
        found = one_by_one(calls(system))
        rates = [rate(lambda place: calls(system.session()), count) for count in (1, threads)]
    except Exception as error:  # noqa: BLE001
        return [system.name, message(error), "", "", ""]
    return [system.name, f"{found['p50']:,.0f}", f"{found['p99']:,.0f}", *(f"{value:,.0f}" for value in rates)]


def by_selectivity(outcomes, names) -> dict:
    rows = []
    for outcome in outcomes:
        words = [outcome.cells[name].failure or milliseconds(outcome.cells[name].timing.median) for name in names]
        rows.append([outcome.asks, "" if outcome.rows is None else f"{outcome.rows:,}", *words])
    return {"title": "By selectivity", "head": ["filter", "bars", *(f"{name}, ms" for name in names)], "rows": rows}


def latency_table(latencies) -> dict:
    head = ["mix", "P50, µs", "P99, µs", "queries/s, one client", "queries/s, a client a core"]
    return {"title": "A mix of filters", "head": head, "rows": latencies}
