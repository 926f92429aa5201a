"""Asks one question of all systems: first whether they agree, then how long they take."""

from functools import partial

from .compare import Different, check_equal, check_unique, normal
from .measure import Rounds, measure
from .outcome import Cell, Outcome

TIES_MAX = 0.01
"""Share of rows in which DuckDB's fast text may decide ties otherwise than the reference and still be timed."""

CHECKED = 8
"""Variants of a question that are compared; most have one."""


KNOWN = (
    "Texts are known ones, asked again and again: SplayDB answers them from a cache of plans by their shape, and the rivals plan each time. "
    "What a text costs that was never seen stands in the finance suite."
)
"""Said beside the times that are measured here."""


def message(error: BaseException) -> str:
    """The first lines of an error, as one."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def ask(question, parameters, systems, rounds: Rounds) -> Outcome:
    """One question to all systems."""
    outcome = Outcome(question.id, question.group, question.asks)
    variants = question.variants[:CHECKED]
    expected = reference(question, parameters, systems, variants, outcome)
    for system in systems:
        cell = outcome.cells.setdefault(system.name, Cell())
        if cell.failure or not compare(question, parameters, system, variants, expected, cell):
            continue
        try:
            cell.timing = measure(partial(prepared, question, parameters, system), rounds)
        except Exception as error:  # noqa: BLE001  whatever a system raises is its result
            cell.failure, cell.detail = "error", message(error)
    for system in systems:
        if hasattr(system, "path") and not outcome.cells[system.name].failure:
            outcome.path = system.path(question, parameters, variants[0])
            try:
                outcome.moved_bytes = system.moved(question, parameters, variants[0])
            except Exception as error:  # noqa: BLE001  its time counts nevertheless
                outcome.cells[system.name].detail = "bytes: " + message(error)
    return outcome


def prepared(question, parameters, system, run: int):
    return system.prepare(question, parameters, question.variant(run))


def reference(question, parameters, systems, variants, outcome) -> list | None:
    """The answers that the others are compared with: DuckDB's, or without it those of the last system that has them."""
    order = [system for system in systems if hasattr(system, "reference")] or list(reversed(systems))
    for system in order:
        try:
            expected = [definition(question, parameters, system, variant) for variant in variants]
        except Exception as error:  # noqa: BLE001
            outcome.cells[system.name] = Cell(failure="error", detail="reference: " + message(error))
            continue
        outcome.rows = expected[0].num_rows
        return expected
    return None


def definition(question, parameters, system, variant):
    """One system's answer, as far as it can be a reference."""
    if hasattr(system, "reference"):
        expected = system.reference(question, parameters, variant)
    else:
        expected = system.arrow(system.prepare(question, parameters, variant)())
    if not question.bag:
        check_unique(normal(expected), question.keys)
    return expected


def compare(question, parameters, system, variants, expected, cell) -> bool:
    """Whether a system's answers may be timed; says in ``cell`` why not."""
    if expected is None:
        cell.failure, cell.detail = "unchecked", "no reference to compare with"
        return False
    for variant, right in zip(variants, expected, strict=True):
        try:
            found = system.arrow(system.prepare(question, parameters, variant)())
            check_equal(right, found, question.keys, question.ordered, question.bag)
        except Different as difference:
            ties = question.reference and hasattr(system, "reference") and difference.rows is not None
            if ties and difference.rows <= TIES_MAX * max(1, right.num_rows):
                cell.detail = f"{difference.rows} ties decided otherwise"
                continue
            cell.failure, cell.detail = "differs", message(difference)
            return False
        except Exception as error:  # noqa: BLE001
            cell.failure, cell.detail = "error", message(error)
            return False
    return True
