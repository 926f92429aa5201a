"""Asks one question of all systems: first whether they agree, then how long they take."""

from .compare import Different, check_equal, check_unique, normal
from .measure import measure
from .outcome import Cell, Outcome

TIES_MAX = 0.01
"""Share of rows in which DuckDB's fast text may decide ties otherwise than the reference and still be timed."""


def message(error: BaseException) -> str:
    """The first lines of an error, as one."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def ask(question, parameters, systems, rounds: int) -> Outcome:
    """One question to all systems."""
    outcome = Outcome(question.id, question.group, question.asks)
    expected = reference(question, parameters, systems, outcome)
    for system in systems:
        cell = outcome.cells.setdefault(system.name, Cell())
        if cell.failure:
            continue
        if not compare(question, parameters, system, expected, cell):
            continue
        try:
            cell.timing = measure(lambda run: system.prepare(question, parameters, question.variant(run)), rounds)
        except Exception as error:  # noqa: BLE001  whatever a system raises is its result
            cell.failure, cell.detail = "error", message(error)
    for system in systems:
        if hasattr(system, "path") and not outcome.cells[system.name].failure:
            outcome.path = system.path(question, parameters, question.variant(0))
    return outcome


def reference(question, parameters, systems, outcome):
    """The answer that the others are compared with: DuckDB's, or without it that of the last system that has one."""
    order = [system for system in systems if hasattr(system, "reference")] or list(reversed(systems))
    for system in order:
        try:
            if hasattr(system, "reference"):
                expected = system.reference(question, parameters, question.variant(0))
            else:
                expected = system.arrow(system.prepare(question, parameters, question.variant(0))())
            if not question.bag:
                check_unique(normal(expected), question.keys)
        except Exception as error:  # noqa: BLE001
            outcome.cells[system.name] = Cell(failure="error", detail="reference: " + message(error))
            continue
        outcome.rows = expected.num_rows
        return expected
    return None


def compare(question, parameters, system, expected, cell) -> bool:
    """Whether a system's answer may be timed; says in ``cell`` why not."""
    try:
        found = system.arrow(system.prepare(question, parameters, question.variant(0))())
        if expected is None:
            cell.failure, cell.detail = "unchecked", "no reference to compare with"
            return False
        check_equal(expected, found, question.keys, question.ordered, question.bag)
    except Different as difference:
        ties = question.reference and hasattr(system, "reference") and difference.rows is not None
        if ties and difference.rows <= TIES_MAX * max(1, expected.num_rows):
            cell.detail = f"{difference.rows} ties decided otherwise"
            return True
        cell.failure, cell.detail = "differs", message(difference)
        return False
    except Exception as error:  # noqa: BLE001
        cell.failure, cell.detail = "error", message(error)
        return False
    return True
