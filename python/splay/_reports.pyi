"""What calls report: plain, frozen values."""

import datetime
from pathlib import Path
from typing import final

from splay.errors import Error

@final
class LoadReport:
    """What a load or a write did."""

    @property
    def table(self) -> str:
        """Name of the table as it was asked for."""

    @property
    def rows(self) -> int:
        """Rows that came in."""

    @property
    def removed(self) -> int:
        """Stored rows that went."""

    @property
    def duplicates(self) -> int:
        """New rows that were left out as duplicates."""

    @property
    def quarantined(self) -> int:
        """Rows that were put into quarantine."""

    @property
    def partitions(self) -> int:
        """Partitions that the rows went to."""

    @property
    def segments(self) -> int:
        """Segments written."""

    @property
    def bytes(self) -> int:
        """Bytes of those and their indexes."""

    @property
    def epoch(self) -> int:
        """The commit's number."""

    @property
    def files(self) -> list[FileReport]:
        """Each file, in order; empty for a write."""

@final
class FileReport:
    """What was read of one file."""

    @property
    def name(self) -> str:
        """``path``, or ``path:member`` for a member of a zip file."""

    @property
    def digest(self) -> str:
        """BLAKE3 of its bytes in hex, by which it is known again."""

    @property
    def rows(self) -> int:
        """Rows that were read."""

    @property
    def bytes(self) -> int:
        """Bytes on disk."""

@final
class Commit:
    """What a commit of a table did."""

    @property
    def commit(self) -> int:
        """Its number."""

    @property
    def at(self) -> int:
        """Nanoseconds since 1970-01-01 UTC, by the clock of the machine that wrote it."""

    @property
    def operation(self) -> str:
        """``load``, ``capture``, ``compact``, ``schema``, ``delete``, ``replace``, ``update``, ``expire``, ``drop``, ``undo`` or ``forget``."""

    @property
    def added(self) -> int:
        """Rows that it added."""

    @property
    def removed(self) -> int:
        """Rows that it removed."""

    @property
    def duplicates(self) -> int:
        """Rows that it left out as duplicates."""

    @property
    def dates(self) -> list[datetime.date]:
        """Dates whose rows it changed; empty for captures and compactions."""

    @property
    def sources(self) -> list[str]:
        """Names of the files that it loaded, unless their rows were taken back since."""

    @property
    def undoes(self) -> int | None:
        """The commit that it undid."""

    @property
    def cannot_undo(self) -> str | None:
        """Why it can't be undone; ``None`` if it can."""

@final
class PublishReport:
    """What a publication left the Delta table with."""

    @property
    def path(self) -> Path:
        """Folder of the Delta table."""

    @property
    def version(self) -> int:
        """The Delta table's last version."""

    @property
    def is_new(self) -> bool:
        """Whether this publication made it. It made none if nothing had changed."""

    @property
    def commit(self) -> int:
        """The commit of the table that was published."""

    @property
    def files(self) -> int:
        """Files that the version has."""

    @property
    def rows(self) -> int:
        """Rows of these."""

    @property
    def files_added(self) -> int:
        """Files that this publication added."""

    @property
    def files_removed(self) -> int:
        """Files that this publication removed."""

    @property
    def left_out(self) -> list[datetime.date]:
        """First dates of the partitions that the version hasn't, as they are in the tier ``mapped`` or ``object``."""

@final
class CompactReport:
    """What a compaction did."""

    @property
    def partitions(self) -> int:
        """Partitions that were rewritten; all else is about those."""

    @property
    def segments_before(self) -> int:
        """Segments before."""

    @property
    def segments_after(self) -> int:
        """Segments after."""

    @property
    def bytes_before(self) -> int:
        """Bytes before."""

    @property
    def bytes_after(self) -> int:
        """Bytes after."""

@final
class Partition:
    """Rows of one date."""

    @property
    def date(self) -> datetime.date:
        """The date, in the table's time zone."""

    @property
    def rows(self) -> int:
        """Its rows."""

    @property
    def segments(self) -> int:
        """Its segments."""

    @property
    def bytes(self) -> int:
        """Bytes of those and their indexes."""

@final
class Problem:
    """A file that is not as it was written."""

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def error(self) -> Error:
        """What is wrong with it, usually a :class:`splay.CorruptError`."""

@final
class Source:
    """A file that was loaded."""

    @property
    def name(self) -> str:
        """What it was called then."""

    @property
    def digest(self) -> str:
        """BLAKE3 of its bytes in hex."""

    @property
    def rows(self) -> int:
        """Rows that came from it."""

    @property
    def epoch(self) -> int:
        """The commit that loaded it."""
