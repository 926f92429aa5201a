"""What came of a question: an answer with times, or a failure in words, for each system."""

from dataclasses import dataclass, field

from .measure import Timing


@dataclass
class Cell:
    """One system's part: ``timing``, unless ``failure`` says why there is none."""

    timing: Timing | None = None
    failure: str = ""
    """``error``, ``differs`` or ``absent``; empty when the answer is right."""
    detail: str = ""
    """The error, or the first difference, or how many rows of ties were decided otherwise."""


@dataclass
class Outcome:
    """A question with what each system did."""

    id: str
    group: str
    asks: str
    rows: int | None = None
    path: str = ""
    """Which way SplayDB ran it."""
    moved_bytes: tuple[int, int] | None = None
    """What SplayDB read of columns for it, and the size of its answer."""
    cells: dict[str, Cell] = field(default_factory=dict)

    def fastest(self) -> float | None:
        """The best median of all systems."""
        medians = [cell.timing.median for cell in self.cells.values() if cell.timing]
        return min(medians, default=None)
