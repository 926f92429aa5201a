"""`splay serve` is killed again and again under rows by all ways in: each acknowledged row is there, once, and nothing that nobody sent.

    python python/tests/kills.py --kills 1000 --seed 1 --folder target/long/kills

A cycle: the server starts and recovers, what became of batches without an answer is noted, every value of every row is compared with what was
sent, and all ways send on while rows are written down, dates rolled, segments joined and backups made, until SIGKILL after 5 to 500 ms, or 2 s once in ten times. Each
`--restore-every` cycles a backup under load, which may have been killed itself at a random moment before, is restored and compared: it has whole
batches, each once, among them all that were acknowledged before it began; and once nothing comes in any more a backup's rows have the
digest of the database's. `--database-kills` cycles are made of one database. A seed says when the kills come and what the rows are.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow as pa
from long_rows import COLUMNS, TABLES, Shape, digest
from long_server import SPLAY, LongServer, all_rows, compare, settle
from long_ways import TcpLine, Way, Wrong, all_ways

CONFIG = """[capture]
live_rows_max = 300
journal_segment_bytes = 40000
journal_keep_bytes = 0
late_s = 0
roll_delay_s = 0
disk_reserve_bytes = 0
"""


def command(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run([SPLAY, *map(str, arguments)], capture_output=True, text=True)


def folder_rows(database: pathlib.Path) -> dict[str, np.ndarray]:
    """All rows of a database that no server has, as a command gives them."""

    def ask(statement: str) -> pa.Table:
        # Symbols as texts: a file has one dictionary for each column.
        statement = statement.replace(", sym,", ", cast(sym as varchar) as sym,")
        told = subprocess.run([SPLAY, "sql", str(database), statement, "--format", "arrow"], capture_output=True)
        if told.returncode != 0:
            raise Wrong(f"{statement}: {told.stderr[-1000:]!r}")
        return pa.ipc.open_file(pa.py_buffer(told.stdout)).read_all()

    there = [table for table in TABLES if (database / table).exists()]
    return all_rows(ask, there)


class Meanwhile(threading.Thread):
    """Commands beside the server until it is killed, one after the other."""

    def __init__(self, cycle: Cycle):
        super().__init__(daemon=True)
        self.cycle, self.failure = cycle, None
        self.is_over = threading.Event()

    def run(self) -> None:
        try:
            while not self.is_over.is_set():
                self.cycle.beside()
        except BaseException as failure:
            self.failure = failure


class Cycle:
    """One database and its kills."""

    def __init__(self, folder: pathlib.Path, seed: int, arguments: argparse.Namespace):
        self.folder, self.arguments = folder, arguments
        self.random = random.Random(seed)
        self.shape = Shape(rows_max=6, batches_a_day=40, seed=seed)
        self.server = LongServer(folder, CONFIG)
        self.ways = all_ways(self.shape, self.server.addresses, arguments.batches_a_second)
        self.counts = dict.fromkeys(
            ("kills", "rows", "acknowledged", "unsure", "write_downs", "rolls", "backups", "backups_killed", "compactions", "restores"), 0
        )
        self.starts: list[float] = []
        self.promised: dict[int, int] | None = None

    def run(self, kills: int) -> None:
        for number in range(kills):
            self.start()
            self.live()
            self.server.kill()
            self.counts["kills"] += 1
            for way in self.ways:
                way.join()
            if (number + 1) % self.arguments.restore_every == 0:
                self.restore()
        self.start()
        self.server.stop()
        self.check_at_rest()

    def start(self) -> None:
        """The server's next life begins with a comparison of all rows."""
        self.server.start()
        self.starts.append(self.server.start_seconds)
        tables = self.server.tables()
        settle(self.server.query, self.ways, tables)
        rows = all_rows(self.server.query, tables)
        self.counts["rows"] = compare(self.ways, rows)
        health = json.loads(self.server.get("/ready"))
        if health["status"] != "ready":
            raise Wrong(f"{health}")

    def live(self) -> None:
        """Sends until the moment of the kill."""
        for way in self.ways:
            way.start()
        meanwhile = Meanwhile(self)
        meanwhile.start()
        is_long = self.random.random() < 0.1
        until = time.monotonic() + (2 if is_long else self.random.uniform(0.005, 0.5))
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))
            if left > 0.2:
                self.look()
        status = self.server.capture_status() if is_long or self.random.random() < 0.1 else None
        for way in self.ways:
            if way.failure:
                raise way.failure
        # What is sent may be anywhere: on its way, in the journal, acknowledged.
        self.server.process.kill()
        meanwhile.is_over.set()
        for way in self.ways:
            way.end()
        meanwhile.join()
        if meanwhile.failure:
            raise meanwhile.failure
        if status:
            self.counts["write_downs"] += status["write_downs"]
            self.counts["rolls"] += sum(1 for table in status["tables"] if table["rolled_at"])

    def look(self) -> None:
        """A statement sees lines that have no answer; what it saw has to be there after the kill."""
        way = next(way for way in self.ways if isinstance(way, TcpLine))
        if TABLES[0] in self.server.tables():
            found = self.server.query(f"select number, count(*) as n from {TABLES[0]} where way = {way.way} and number >= {way.acknowledged} group by number")
            way.seen(list(zip(found["number"].to_pylist(), found["n"].to_pylist())))

    def beside(self) -> None:
        """A backup, which is killed itself now and then, or a compaction."""
        what = self.random.random()
        if what < 0.4:
            told = command("compact", self.server.database)
            self.counts["compactions"] += told.returncode == 0
            # A write-down may be under way; nothing else may go wrong.
            is_right = told.returncode == 0 or "is locked by another writer" in told.stderr
        elif what < 0.7:
            before = {way.way: way.acknowledged for way in self.ways}
            told = command("backup", self.server.database, self.folder / "backup")
            self.counts["backups"] += told.returncode == 0
            self.promised = before
            is_right = told.returncode == 0
        else:
            backup = [SPLAY, "backup", str(self.server.database), str(self.folder / "backup")]
            process = subprocess.Popen(backup, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(self.random.uniform(0, 0.1))
            process.kill()
            process.wait()
            self.counts["backups_killed"] += 1
            is_right = True
        if not is_right:
            raise Wrong(f"{told.args}: {told.stderr[-1000:]}")

    def restore(self) -> None:
        """What is restored of the last backup has whole batches, each once, and all that was acknowledged before it."""
        if not (self.folder / "backup" / "backup.json").exists():
            return
        again = self.folder / "restored"
        shutil.rmtree(again, ignore_errors=True)
        told = command("restore", self.folder / "backup", again)
        if told.returncode != 0:
            raise Wrong(f"restore: {told.stderr[-1000:]}")
        rows = folder_rows(again)
        check_part(self.ways, rows, self.promised or {})
        self.counts["restores"] += 1

    def check_at_rest(self) -> None:
        """Nothing comes in: database and backup have the same rows, and no file is damaged."""
        rows = folder_rows(self.server.database)
        compare(self.ways, rows)
        for words in (("verify", self.server.database), ("backup", self.server.database, self.folder / "backup")):
            if (told := command(*words)).returncode != 0:
                raise Wrong(f"{words[0]}: {told.stdout[-500:]}{told.stderr[-500:]}")
        shutil.rmtree(self.folder / "restored", ignore_errors=True)
        if (told := command("restore", self.folder / "backup", self.folder / "restored")).returncode != 0:
            raise Wrong(f"restore: {told.stderr[-1000:]}")
        if digest(folder_rows(self.folder / "restored")) != digest(rows):
            raise Wrong("what is restored has other rows")
        self.counts["restores"] += 1
        self.counts["acknowledged"] = sum(way.acknowledged - len(way.unsure) for way in self.ways)
        self.counts["unsure"] = sum(len(way.unsure) for way in self.ways)


def check_part(ways: list[Way], rows: dict[str, np.ndarray], promised: dict[int, int]) -> None:
    """Rows at some moment under load."""
    for way in ways:
        mine = rows["way"] == way.way
        numbers, counts = np.unique(rows["number"][mine], return_counts=True)
        sizes = way.shape.sizes(way.way, numbers)
        whole = counts == sizes
        if isinstance(way, TcpLine):
            # A line is the unit: the last one may be there in part, and those that were left in part and gone on with are whole now.
            whole[-1:] = True
        if not whole.all() or (len(numbers) and numbers[-1] >= way.sent):
            raise Wrong(f"a backup has {dict(zip(numbers[~whole].tolist(), counts[~whole].tolist()))} of {way.name}")
        missing = np.setdiff1d(np.arange(promised.get(way.way, 0)), numbers)
        if lost := [number for number in missing.tolist() if number not in way.unsure]:
            raise Wrong(f"a backup lacks {lost[:10]} of {way.name}, acknowledged before it")
    wanted = [way.shape.of(way.way, rows["number"][rows["way"] == way.way], rows["place"][rows["way"] == way.way]) for way in ways]
    wanted = {name: np.concatenate([one[name] for one in wanted]) for name in COLUMNS}
    keys = (rows["way"] << 44) | (rows["number"] << 12) | rows["place"]
    if len(np.unique(keys)) != len(keys):
        raise Wrong("a backup has rows twice")
    if digest(wanted) != digest(rows):
        raise Wrong("a backup has other values")


def parsed(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--database-kills", type=int, default=25, help="kills of one database")
    parser.add_argument("--restore-every", type=int, default=10)
    parser.add_argument("--batches-a-second", type=float, default=0, help="of each way; 0: as many as are answered")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> dict:
    arguments = parsed(given)
    total: dict[str, float] = {}
    starts: list[float] = []
    for number in range(-(-arguments.kills // arguments.database_kills)):
        kills = min(arguments.database_kills, arguments.kills - number * arguments.database_kills)
        folder, seed = arguments.folder / f"{arguments.seed}-{number}", arguments.seed * 10_000 + number
        shutil.rmtree(folder, ignore_errors=True)
        cycle = Cycle(folder, seed, arguments)
        try:
            cycle.run(kills)
        except BaseException as error:
            print(f"seed {seed}, kill {cycle.counts['kills']}: {error!r}; its database is {folder}", file=sys.stderr)
            if cycle.server.process and cycle.server.process.poll() is None:
                cycle.server.kill()
            raise
        shutil.rmtree(folder)
        for name, count in cycle.counts.items():
            total[name] = total.get(name, 0) + count
        starts += cycle.starts
    total["start_seconds_p50"], total["start_seconds_max"] = round(float(np.median(starts)), 3), round(max(starts), 3)
    print(json.dumps(total), flush=True)
    return total


if __name__ == "__main__":
    main()
