"""The parts of a query's warm times: how it is asked, and at which pace."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """``name`` is the part's in the results; ``kind`` is ``known``, ``prepared`` or ``unseen``."""

    name: str
    kind: str
    is_paced: bool
    words: str


WARM = Part("warm", "known", False, "known text")
AGAIN = Part("again", "known", False, "known text, measured again")
PARTS = [
    WARM,
    Part("prepared", "prepared", False, "prepared"),
    Part("unseen", "unseen", False, "text never seen"),
    Part("paced", "known", True, "known text, every 50 ms"),
    Part("prepared_paced", "prepared", True, "prepared, every 50 ms"),
    Part("unseen_paced", "unseen", True, "text never seen, every 50 ms"),
]
"""Those of one sitting. The second warm run is known texts alone: it says how far figures can be repeated."""
NAMES = [part.name for part in [*PARTS, AGAIN]]


def wanted(kinds: list[str], paced_rounds: int) -> list[Part]:
    """The parts of a run with these settings."""
    return [part for part in PARTS if part.kind in ("known", *kinds) and (paced_rounds or not part.is_paced)]
