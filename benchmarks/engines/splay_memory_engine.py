"""SplayDB in memory: all rows come through capture and stay in its real-time tables; nothing is in the tables' files.

That is how today's rows are answered from before they are written down, here for a whole month of them. Rows are appended in
the order of time in batches of 65,536, as a feed handler that batches would, acknowledged as `process`: in the journal and
visible. Writing down by size and by age is off, since it would move the rows to files. The real-time table orders them by
symbol, time and arrival in layers, which the load waits for; statements are those of the tables on disk, and so are their plans.

What it doesn't do: compress, keep anything but the journal on disk, or load CSV faster than capture takes rows, so it has no cold
runs, no size and no load of the write day. Its memory is what all rows take, about that of the mapped tier.
"""

import shutil

from .rows import TEXTS, from_parquet
from .splay_engine import Engine as Disk

BATCH_ROWS = 65_536
NEVER = 1 << 60
"""A limit that isn't reached."""
SETTINGS = {
    "automatic": False,
    "default_ack": "process",
    "live_bytes_max": NEVER,
    "live_rows_max": NEVER,
    "batch_bytes_max": 256 << 20,
    "queue_bytes_max": 256 << 20,
}


class Engine(Disk):
    name = "splay-memory"
    title = "SplayDB in memory"
    stores = "memory"
    best = (
        "All rows through capture, in batches of 65,536 in the order of time, and kept in the real-time tables: nothing is "
        "written down. The same SQL as on disk; no result cache."
    )

    def load(self, tables) -> None:
        import splay

        shutil.rmtree(self.database, ignore_errors=True)
        self.opened = splay.open(self.database, threads=self.threads)
        self.capture = self.opened.capture(**SETTINGS)
        count = 0
        for table, paths in tables.items():
            for part in from_parquet(paths):
                count += self.append(table, part)
        live = self.capture.status()["live_rows"]
        if sum(live.values()) != count:
            raise RuntimeError(f"{sum(live.values()):,} of {count:,} rows are live")
        for table in tables:
            # The first statement puts what came last in order.
            self.opened.sql(f"SELECT count(*) FROM {table}").to_arrow()

    def append(self, table: str, part) -> int:
        """Appends rows; gives their number."""
        for name in TEXTS:
            if name in part.column_names:
                place = part.column_names.index(name)
                part = part.set_column(place, name, part[name].dictionary_encode())
        for start in range(0, part.num_rows, BATCH_ROWS):
            self.capture.append(table, part.slice(start, BATCH_ROWS), time="timestamp", symbol="symbol")
        return part.num_rows

    def open(self) -> None:
        from engine.systems.splaydb import System

        self.system = System()
        self.system.database = self.opened
        self.answer = None
        self.statements = {}

    def close(self) -> None:
        """Forgets all rows; a capture that is closed would write them down."""
        for name in ("system", "statements", "answer", "capture", "opened"):
            self.__dict__.pop(name, None)
        shutil.rmtree(self.database, ignore_errors=True)
