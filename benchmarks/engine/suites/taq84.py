"""The 84 questions about a day of US equities."""

from .. import parameters, taq84
from ..ask import ask
from ..report import as_json, suite

TITLE = "taq84: 84 questions about a day of US equities"


def run(run) -> tuple[list[str], dict]:
    """Asks them all."""
    tables = run.data.taq()
    drawn = parameters.draw(tables, run.seed)
    systems = run.systems(tables)
    asked = [question for question in taq84.questions(drawn) if run.wanted(question.id)]
    outcomes = [run.tell(ask(question, drawn, systems, run.rounds)) for question in asked]
    return suite(f"{TITLE} ({run.size(tables)})", outcomes, run.names), as_json(outcomes, run.names)
