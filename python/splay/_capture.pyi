"""Capture: rows into the journal and the real-time tables of a database."""

from typing import Any, Literal, final

from splay._ack import Ack
from splay._database import ArrowArray, ArrowStream

@final
class Capture:
    """Capture into a database. Threads may share it; a ``with`` statement closes it."""

    @property
    def recovered(self) -> str:
        """What was found in the journal, in words."""

    def append(
        self,
        table: str,
        frame: ArrowStream | ArrowArray,
        *,
        ack: Literal["memory", "process", "disk", "replica"] | None = None,
        producer: str | None = None,
        sequence: int | None = None,
        time: str | None = None,
        symbol: str | None = None,
        time_zone: str | None = None,
        day_start: str | None = None,
    ) -> Ack:
        """Take the rows of a frame, all or none, and wait until they are as safe as asked for.

        Parameters
        ----------
        table
            Name of the table. The first rows create it.
        frame
            Any object with the Arrow PyCapsule interface. Columns are matched and cast as by :meth:`Database.write`.
        ack
            ``disk``: the journal is synced. ``process``: it is written, and the rows are visible. ``None``: as set.
        producer, sequence
            Who sends, and the number of this frame, which rises from frame to frame. One at or below the last of that name is
            acknowledged and not taken again.
        time, symbol, time_zone, day_start
            For a new table: its time and symbol columns, the zone of its dates and when they begin, as in :meth:`Database.write`.

        Returns
        -------
        Ack
            From now on every query sees the rows.

        Raises
        ------
        FullError
            There is no room; send the rows again later.
        RejectedError, SchemaError
            The rows don't fit the table.
        """

    def last_number(self, producer: str) -> int | None:
        """The number of the last frame of a producer that was taken, which is on disk then; None if it is not known.

        What has higher numbers was not taken: a producer that starts again goes on behind it.
        """

    def write_down(self, table: str | None = None) -> int:
        """Move live rows, of one table or of all, to the tables' files. Gives their number; queries see no difference."""

    def roll(self) -> int:
        """Write down and join the dates that have ended. Gives the number of partitions joined."""

    def status(self) -> dict[str, Any]:
        """What was done since the start, and what is held: counts, ``live_rows`` by table, and of each of ``tables`` its live rows,
        latencies and the quality of its feed (docs/reference/metrics.md)."""

    def close(self) -> None:
        """Take nothing more, and write live rows to the tables' files.

        Rows that can't be written now, because another process is at work on the database, stay in the journal, and are back when
        capture begins again.
        """

    def __enter__(self) -> Capture: ...
    def __exit__(self, *error: object) -> None: ...
