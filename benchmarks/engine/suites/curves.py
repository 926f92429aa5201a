"""Cost curves: time against rows, for one, four and sixteen times the data."""

from pathlib import Path

from .. import parameters, plot
from ..ask import ask
from ..polars_words import MID, between, bucket, symbol
from ..question import Question
from ..report import as_json, milliseconds
from . import asof

TITLE = "curves: time against rows"
STEPS = (16, 4, 1)
"""The data set's quotes are divided by these."""


def questions() -> list[Question]:
    return [
        Question(
            "point",
            "curve",
            "ten-minute mids of one rare symbol's hour",
            ("bucket",),
            """SELECT time_bucket(INTERVAL '10 minutes', Time) AS bucket, avg(0.5 * (Bid_Price + Offer_Price)) AS mid FROM quote
                 WHERE Symbol = $rare AND Time >= $t1000 AND Time < $t1100 GROUP BY bucket ORDER BY bucket""",
            lambda f, p: (
                f.quote.filter(symbol(p.rare) & between(p, "1000", "1100"))
                .group_by(bucket("10m"))
                .agg(MID.mean().alias("mid"))
                .sort("bucket")
            ),
            ordered=True,
        ),
        Question(
            "bucket",
            "curve",
            "ten-minute mids of all symbols",
            ("Symbol", "bucket"),
            """SELECT Symbol, time_bucket(INTERVAL '10 minutes', Time) AS bucket, avg(0.5 * (Bid_Price + Offer_Price)) AS mid
                 FROM quote GROUP BY Symbol, bucket ORDER BY Symbol, bucket""",
            lambda f, p: (
                f.quote.group_by("Symbol", bucket("10m")).agg(MID.mean().alias("mid")).sort("Symbol", "bucket")
            ),
            ordered=True,
        ),
        asof.question("whole")[0],
    ]


def run(run) -> tuple[list[str], dict]:
    """Asks the same questions of growing data."""
    outcomes, points = [], {question.id: {} for question in questions()}
    for step in STEPS:
        tables = run.data.taq(quotes=run.data.sizes.quotes // step)
        drawn = parameters.draw(tables, run.seed)
        systems = run.systems(tables)
        size = run.data.sizes.quotes // step
        for question in questions():
            if not run.wanted(question.id):
                continue
            outcome = run.tell(ask(question, drawn, systems, run.rounds))
            outcome.id = f"{question.id} {size:,}"
            outcomes.append(outcome)
            for name, cell in outcome.cells.items():
                if cell.timing:
                    points[question.id].setdefault(name, []).append((size, cell.timing.median))
    lines = [f"### {TITLE}", "", *table(points), ""]
    if run.arguments.plot:
        path = Path(run.arguments.docs) / "engine-curves.svg"
        titles = {question.id: question.asks for question in questions()}
        path.write_text(plot.svg(points, titles), encoding="utf-8")
        lines += [f"Plotted to {path.name}.", ""]
    failed = [
        f"- {o.id}, {name}: {cell.failure}: {cell.detail}"
        for o in outcomes
        for name, cell in o.cells.items()
        if cell.failure
    ]
    return lines + failed + ([""] if failed else []), as_json(outcomes, run.names) | {"points": points}


def table(points) -> list[str]:
    """A row for each question and system; the last column is the growth over sixteen times the rows."""
    sizes = sorted({size for found in points.values() for series in found.values() for size, _ in series})
    head = ["question", "system", *(f"{size:,} quotes, ms" for size in sizes), "growth"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for id, found in points.items():
        for name, series in found.items():
            at = dict(series)
            growth = f"{series[-1][1] / series[0][1]:.1f}" if len(series) > 1 else ""
            lines.append("| " + " | ".join([id, name, *(milliseconds(at.get(size)) for size in sizes), growth]) + " |")
    return lines
