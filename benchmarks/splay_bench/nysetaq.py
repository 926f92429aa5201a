"""The 84 questions about a day of US equities, against DuckDB and Polars, beside what KX published for its own 84.

Questions, data and rules are those of the side-by-side benchmark (``engine.taq84``). KX's figures are quoted, not measured:
other queries of the same kinds, other data, another machine, older versions of the rivals.
"""

from engine import parameters, taq84
from engine.ask import ask
from engine.report import means, milliseconds

from . import inside

SOURCE = "https://github.com/KxSystems/NYSETAQBenchmarks"
PUBLISHED = {
    # Geometric means over the queries that both answered, of the best warm run, 1.283 billion quotes in memory, KDB-X with the
    # parted attribute; worked out from the repository's results of 2026.
    "4": {"DuckDB": 75.0, "Polars": 15.8},
    "16": {"DuckDB": 42.0, "Polars": 9.3},
    "64": {"DuckDB": 26.0, "Polars": 7.4},
}
"""Time of each rival over that of KDB-X, by threads."""


def run(settings) -> None:
    inside.run("nysetaq", settings)


def measure(given: inside.Inside) -> dict:
    run = given.engine_run()
    tables = given.data.taq()
    drawn = parameters.draw(tables, given.seed)
    systems = run.systems(tables)
    outcomes = [run.tell(ask(question, drawn, systems, given.rounds)) for question in taq84.questions(drawn)]
    return {
        "title": "nysetaq: 84 questions about a day of US equities",
        "note": f"Rows: {run.size(tables)}; warm medians, {given.threads} threads. SplayDB maps its files, the rivals hold "
        "their tables in memory. Every answer was compared before it was timed.",
        "tables": [groups(outcomes, run.names), published(outcomes, run.names), questions(outcomes, run.names)],
    }


def groups(outcomes, names) -> dict:
    rivals = [name for name in names if name != "SplayDB"]
    rows = []
    for row in means(outcomes, names):
        against = [row[f"SplayDB / {name}"] for name in rivals]
        rows.append(
            [row["group"], str(row["questions"])]
            + [f"{milliseconds(row[name])} ({row[f'{name} answered']})" for name in names]
            + ["" if value is None else f"{1 / value:.1f}" for value in against]
        )
    head = [
        "geometric means",
        "questions",
        *(f"{name}, ms" for name in names),
        *(f"{name} / SplayDB" for name in rivals),
    ]
    return {"title": "By group", "head": head, "rows": rows}


def published(outcomes, names) -> dict:
    """Our ratios over all questions beside the quoted ones."""
    (all_,) = [row for row in means(outcomes, names) if row["group"] == "all"]
    rows = []
    for rival in ("DuckDB", "Polars"):
        ratio = all_.get(f"SplayDB / {rival}")
        rows.append(
            [rival, f"{1 / ratio:.1f}" if ratio else "", *(f"{found[rival]:g}" for found in PUBLISHED.values())]
        )
    head = ["time of", "over SplayDB's, here", *(f"over KDB-X's, {count} threads, quoted" for count in PUBLISHED)]
    title = (
        f"KX's published ratios, quoted from {SOURCE}: its own queries, 1.28 billion quotes, another machine and older versions, "
        "so not to be set against ours one by one"
    )
    return {"title": title, "head": head, "rows": rows}


def questions(outcomes, names) -> dict:
    rows = []
    for outcome in outcomes:
        cells = [outcome.cells.get(name) for name in names]
        words = ["" if cell is None else cell.failure or milliseconds(cell.timing.median) for cell in cells]
        rows.append([outcome.id, outcome.asks, *words])
    return {"title": "Each question, ms", "head": ["question", "asks", *names], "rows": rows}
