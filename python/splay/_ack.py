"""What is said of rows that were taken, by a server or by the journal of this process."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Ack:
    """What became of rows that were sent."""

    sequence: int
    """Number of the batch in the journal; that of the last batch for a repeat."""
    ack_class: str
    """How safe the rows are: ``memory``, ``process``, ``disk`` or ``replica``."""
    rows: int
    """Rows taken, those in quarantine included and duplicates left out; of a repeat, rows that came again."""
    duplicate: bool
    """Whether it was a repeat, whose rows had been taken before under the same producer and number."""
    quarantined: int
    """Rows too far ahead of the clock; they are in the table ``<table>_quarantine``."""
    duplicate_rows: int = 0
    """Rows that were left out as duplicates of others, where capture has the setting ``dedupe``."""
