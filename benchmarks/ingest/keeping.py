"""What live rows cost: memory, the roll that moves them to files, and the start after a crash."""

import pathlib
import shutil
import time

from .rates import batches, by_flight
from .servers import Splay

NEVER = 1 << 60
"""A limit that isn't reached."""
LIVE = {"automatic": False, "live_bytes_max": NEVER, "live_rows_max": NEVER}
"""Settings of capture by which all rows stay in memory."""
BATCH_ROWS = 250_000


def memory(command: str, folder: pathlib.Path, rows: int) -> float:
    """Bytes of memory that a row of the real-time table takes in a server, its order and its directory included."""
    server = Splay(command, folder, capture=LIVE)
    server.start()
    try:
        # The first rows make room that others use again.
        server.ask("select 1")
        before = server.resident_bytes()
        by_flight(server, rows)
        # Whoever asks first has the rows put in order.
        server.ask("select count(*) from by_flight where symbol = 'SYM007'")
        return (server.resident_bytes() - before) / server.count("by_flight")
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


def roll(folder: pathlib.Path, rows: int) -> tuple[float, int]:
    """Seconds of the roll of so many live rows, of one date that has ended, to files that are synced; and their bytes.

    Raises
    ------
    RuntimeError
        If rows aren't live before it, or are missing after it.
    """
    import splay

    database = splay.open(folder)
    capture = database.capture(default_ack="process", **LIVE)
    for part in batches(rows, BATCH_ROWS):
        capture.append("rolled", part, time="time", symbol="symbol")
    if capture.status()["live_rows"]["rolled"] != rows:
        raise RuntimeError("rows were written down before the roll")
    database.sql("select count(*) from rolled where symbol = 'SYM007'").to_arrow()
    begun = time.monotonic()
    capture.roll()
    seconds = time.monotonic() - begun
    live = capture.status()["live_rows"].get("rolled", 0)
    found = database.sql("select count(*) from rolled").to_arrow()[0][0].as_py()
    if live or found != rows:
        raise RuntimeError(f"after the roll {found:,} of {rows:,} rows are there, {live:,} of them live")
    capture.close()
    size = sum(path.stat().st_size for path in (folder / "rolled").rglob("*") if path.is_file())
    shutil.rmtree(folder, ignore_errors=True)
    return seconds, size


def recovery(server: Splay) -> tuple[float, float]:
    """Kills a server and starts it again: seconds of the start, and bytes of its journal."""
    journal = sum(file.stat().st_size for file in (server.folder / ".journal").iterdir())
    server.kill()
    return server.start(), journal
