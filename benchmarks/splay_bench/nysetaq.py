"""The 84 questions about a day of US equities, against DuckDB and Polars.

Questions, data and rules are those of the side-by-side benchmark (``engine.taq84``). They are our own, of the kinds of KX's NYSE TAQ
benchmark; its published figures are of other queries, data and machines, and aren't set beside ours.
"""

from engine import parameters, taq84
from engine.ask import KNOWN, ask
from engine.report import means, milliseconds

from . import inside


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
        "their tables in memory. Every answer was compared before it was timed. "
        "Polars filters all rows by symbol; a caller who kept where each symbol begins in the sorted frames would slice them. "
        + KNOWN,
        "tables": [groups(outcomes, run.names), questions(outcomes, run.names)],
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


def questions(outcomes, names) -> dict:
    rows = []
    for outcome in outcomes:
        cells = [outcome.cells.get(name) for name in names]
        words = ["" if cell is None else cell.failure or milliseconds(cell.timing.median) for cell in cells]
        rows.append([outcome.id, outcome.asks, *words])
    return {"title": "Each question, ms", "head": ["question", "asks", *names], "rows": rows}
