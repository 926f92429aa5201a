"""Hours of ingest by all ways, statements, write-downs, rolls, compactions, backups and restarts: is anything growing, is any row wrong?

    python python/tests/soak.py --seconds 7200 --restart-seconds 1200 --seed 1 --folder target/long/soak-1

Each minute it writes a line to `samples.tsv` in the folder: memory while rows come in and no statement runs, the most memory since the line
before, descriptors, threads, journal, rows against what was sent. Each restart, in turn by SIGTERM and by SIGKILL, ends with a comparison of
every row's batch; at the end every value of every row is compared, before and after a start, and `splay verify` reads every byte. The last
line of its output is a summary in JSON.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import threading
import time
import urllib.error

import numpy as np
from long_rows import COLUMNS, TABLES, Shape, of_answer
from long_server import SPLAY, LongServer, batches_from, compare, over_tables, settle
from long_ways import TcpLine, Way, Wrong, all_ways
import contextlib

CONFIG = """[capture]
live_rows_max = {live_rows}
journal_segment_bytes = 4194304
journal_keep_bytes = 16777216
late_s = 1
roll_delay_s = 2

[limits]
statement_seconds_max = 300
"""

QUESTIONS = (
    "select count(*) from {table}",
    "select sym, last(price), max(number) from {table} where date >= '{date}' group by sym",
    "select time_bucket('1 hour', time) as bar, first(price), max(price), count(*) from {table} where date = '{date}' group by bar",
    "select t.sym, count(*), avg(q.price) from trade t asof join quote q on t.sym = q.sym and t.time >= q.time "
    "where t.date = '{date}' group by t.sym",
    "select * from {table} where sym = 'SYM03' and date >= '{date}' order by time desc limit 100",
    "select way, count(*), sum(price) from (select way, price, row_number() over (partition by sym order by time) as n "
    "from {table} where date = '{date}') as t where n % 2 = 0 group by way",
)
WARM_SECONDS = 300
"""A life of the server counts from here on."""
QUIET_SECONDS = 3
"""So long no statement runs before memory is looked at: the allocator gives freed memory back after one second."""


class Questions(threading.Thread):
    """Asks one statement after the other while there is a server."""

    def __init__(self, server: LongServer, ways: list[Way], a_second: float):
        super().__init__(daemon=True)
        self.server, self.ways, self.a_second = server, ways, a_second
        self.is_over, self.is_up = threading.Event(), threading.Event()
        self.asked, self.failed = 0, 0
        self.failures: list[str] = []

    def run(self) -> None:
        while not self.is_over.is_set():
            if not self.is_up.wait(1):
                continue
            date = date_of(self.ways)
            question = QUESTIONS[self.asked % len(QUESTIONS)].format(table=TABLES[self.asked // 7 % 2], date=date)
            begun = time.monotonic()
            try:
                self.server.query(question)
                self.asked += 1
            except urllib.error.HTTPError as error:
                told = error.read()
                if error.code != 503:
                    self.failures.append(f"{question}: {error.code} {told[:300]!r}")
                    self.is_over.wait(1)
            except OSError:
                self.failed += 1
                self.is_over.wait(0.2)
            self.is_over.wait(max(0, 1 / self.a_second - (time.monotonic() - begun)))


def date_of(ways: list[Way]) -> str:
    shape = ways[0].shape
    newest = shape.columns(0, max(0, ways[0].acknowledged - 1))["time"].max()
    return str(np.datetime64(int(newest), "ns").astype("datetime64[D]"))


def memory(process: int) -> dict[str, int]:
    """What the system says of a process: KiB, descriptors, threads, mapped ranges."""
    status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines() if ":" in line)
    told = {name: int(status[name].split()[0]) for name in ("VmRSS", "RssAnon", "RssFile", "Threads")}
    told["descriptors"] = len(list(pathlib.Path(f"/proc/{process}/fd").iterdir()))
    told["maps"] = len(pathlib.Path(f"/proc/{process}/maps").read_text().splitlines())
    return told


def folder_bytes(folder: pathlib.Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size if path.is_file() else 0
    return total


class Soak:
    def __init__(self, arguments: argparse.Namespace):
        self.arguments, self.folder = arguments, arguments.folder
        a_second = arguments.batches_a_second
        shape = Shape(arguments.rows_max, max(1, int(a_second * arguments.date_seconds)), arguments.seed)
        config = CONFIG.format(live_rows=arguments.live_rows)
        self.server = LongServer(self.folder, config)
        self.ways = all_ways(shape, self.server.addresses, a_second)
        self.questions = Questions(self.server, self.ways, arguments.questions_a_second)
        self.samples: list[dict] = []
        self.most_memory = 0
        self.life, self.life_begun = 0, 0.0
        self.counts = dict.fromkeys(("kills", "stops", "backups", "compactions", "write_downs"), 0)
        self.problems: list[str] = []
        self.begun = time.monotonic()

    def start(self) -> None:
        self.server.start()
        self.life, self.life_begun = self.life + 1, time.monotonic()
        if self.life > 1:
            settle(self.server.query, self.ways, list(TABLES))
            print(f"{self.at():7.0f} s  life {self.life}: {self.check_batches():,} rows as sent", flush=True)
        for way in self.ways:
            way.start()
        self.questions.is_up.set()

    def at(self) -> float:
        return time.monotonic() - self.begun

    def check_batches(self) -> int:
        """Whether each way's rows are as many as were sent, and their numbers add up. Nothing comes in meanwhile."""
        inner = over_tables("way, number, place", "true", list(TABLES))
        found = self.server.query(
            f"select way, count(*) as rows, sum(number) as numbers, sum(place) as places from ({inner}) as t group by way"
        )
        there = {row["way"]: (row["rows"], row["numbers"], row["places"]) for row in found.to_pylist()}
        for way in self.ways:
            numbers = np.arange(way.acknowledged)
            sizes = way.shape.sizes(way.way, numbers)
            held = dict(way.partial)
            if way.has_producer:
                held |= batches_from(self.server.query, way.way, way.acknowledged, list(TABLES))
                for number, rows in held.items():
                    if rows != way.shape.size(way.way, number) or number >= way.sent:
                        raise Wrong(f"{way.name} {number}: {rows} rows")
            plain = np.ones(len(numbers), bool)
            plain[[number for number in held if number < len(numbers)]] = False
            numbers, sizes = numbers[plain], sizes[plain]
            extra = np.array(sorted(held.items()), np.int64).reshape(-1, 2)
            numbers, sizes = np.concatenate([numbers, extra[:, 0]]), np.concatenate([sizes, extra[:, 1]])
            wanted = int(sizes.sum()), int((sizes * numbers).sum()), int((sizes * (sizes - 1) // 2).sum())
            if there.get(way.way, (0, 0, 0)) != wanted:
                raise Wrong(f"{way.name}: {there.get(way.way)} are there, not {wanted}")
        return sum(rows for rows, _, _ in there.values())

    def pause(self, how: str) -> None:
        """Ends the server under load, and waits for the senders to have noticed."""
        self.questions.is_up.clear()
        self.counts["write_downs"] += self.server.capture_status()["write_downs"]
        if how == "kill":
            self.server.kill()
            for way in self.ways:
                way.end()
        else:
            for way in self.ways:
                way.end()
            self.server.stop()
        self.counts[how + "s"] += 1
        for way in self.ways:
            way.join()

    def follow_tcp(self) -> None:
        """Tells the sender that has no answers what a statement sees."""
        for way in self.ways:
            if isinstance(way, TcpLine) and way.sent > way.acknowledged:
                way.seen(list(batches_from(self.server.query, way.way, way.acknowledged, [TABLES[0]]).items()))

    def sample(self) -> None:
        self.questions.is_up.clear()
        time.sleep(QUIET_SECONDS)
        used = memory(self.server.process.pid)
        self.questions.is_up.set()
        before = {way.way: int(way.shape.sizes(way.way, np.arange(way.acknowledged)).sum()) - unsure_rows(way) for way in self.ways}
        rows = sum(self.server.query(f"select count(*) as n from {table}")["n"][0].as_py() for table in TABLES)
        sent = sum(int(way.shape.sizes(way.way, np.arange(way.sent + 1)).sum()) for way in self.ways)
        least = sum(before.values())
        told = {"second": round(self.at()), "life": self.life, "life_second": round(time.monotonic() - self.life_begun)}
        told |= used | {"RssAnon_most": self.most_memory}
        self.most_memory = 0
        told["journal_bytes"] = folder_bytes(self.server.database / ".journal")
        told["database_bytes"] = folder_bytes(self.server.database)
        told |= {"rows_acknowledged": least, "rows_seen": rows, "rows_sent": sent}
        told |= {"asked": self.questions.asked, "refused": sum(way.refused for way in self.ways)}
        self.samples.append(told)
        with open(self.folder / "samples.tsv", "a") as file:
            if len(self.samples) == 1:
                file.write("\t".join(told) + "\n")
            file.write("\t".join(map(str, told.values())) + "\n")
        if not least <= rows <= sent:
            raise Wrong(f"{rows} rows are seen, {least} are acknowledged, {sent} sent")

    def run_command(self, *arguments: str) -> None:
        told = subprocess.run([SPLAY, *arguments], capture_output=True, text=True)
        # A writer that finds another one at work is refused, as is promised.
        if told.returncode != 0 and "is locked by another writer" not in told.stderr:
            self.problems.append(f"{self.at():.0f} s: splay {' '.join(arguments)}: {told.stderr[-500:]}")

    def run(self) -> dict:
        arguments = self.arguments
        self.start()
        # Tables are there once rows are.
        while set(self.server.tables()) < set(TABLES):
            time.sleep(0.1)
        self.questions.start()
        due = {"restart": arguments.restart_seconds, "sample": 0.0, "backup": arguments.backup_seconds}
        due["compact"] = 1.3 * arguments.backup_seconds
        while self.at() < arguments.seconds:
            self.look()
            if self.at() >= due["sample"]:
                self.sample()
                due["sample"] += arguments.sample_seconds
            if self.at() >= due["backup"]:
                self.run_command("backup", str(self.server.database), str(self.folder / "backup"))
                self.counts["backups"] += 1
                due["backup"] += arguments.backup_seconds
            if self.at() >= due["compact"]:
                self.run_command("compact", str(self.server.database))
                self.counts["compactions"] += 1
                due["compact"] += 1.3 * arguments.backup_seconds
            if self.at() >= due["restart"]:
                self.pause("kill" if self.life % 2 else "stop")
                self.start()
                due["restart"] += arguments.restart_seconds
            time.sleep(0.2)
        self.sample()
        return self.finish()

    def look(self) -> None:
        self.follow_tcp()
        if self.server.process.poll() is not None:
            raise Wrong(f"the server ended by itself: {self.server.logged()[-3000:]}")
        self.most_memory = max(self.most_memory, memory(self.server.process.pid)["RssAnon"])
        for way in self.ways:
            if way.failure:
                raise way.failure
        if self.questions.failures:
            self.problems += self.questions.failures
            self.questions.failures = []

    def finish(self) -> dict:
        self.pause("stop")
        self.questions.is_over.set()
        self.questions.join()
        self.server.start()
        settle(self.server.query, self.ways, list(TABLES))
        rows = self.check_batches()
        self.compare_by_way()
        self.server.stop()
        self.run_command("backup", str(self.server.database), str(self.folder / "backup"))
        self.run_command("restore", str(self.folder / "backup"), str(self.folder / "restored"))
        self.run_command("verify", str(self.server.database))
        return self.summary(rows)

    def compare_by_way(self) -> None:
        """Every value of every row, a way at a time."""
        for way in self.ways:
            columns = over_tables(", ".join(COLUMNS), f"way = {way.way}", list(TABLES))
            compare([way], of_answer(self.server.query(columns)))

    def summary(self, rows: int) -> dict:
        told = {"seconds": round(self.at()), "rows": rows, "seed": self.arguments.seed, "lives": self.life + 1, **self.counts}
        told |= {"asked": self.questions.asked, "refused": sum(way.refused for way in self.ways)}
        told["growth"] = [growth(self.samples, life) for life in range(1, self.life + 1)]
        told["problems"] = self.problems
        return told


def unsure_rows(way: Way) -> int:
    lost = [way.shape.size(way.way, number) - way.partial.get(number, 0) for number in list(way.unsure)]
    return sum(lost)


def growth(samples: list[dict], life: int) -> dict:
    """Of a life, once it is warm: memory by the hour, and the least and most of what else is counted."""
    warm = [sample for sample in samples if sample["life"] == life and sample["life_second"] >= WARM_SECONDS]
    told: dict = {"life": life, "samples": len(warm)}
    if len(warm) >= 3:
        at = np.array([sample["second"] for sample in warm]) / 3_600
        for name in ("RssAnon", "RssAnon_most", "RssFile"):
            mib = np.array([sample[name] for sample in warm]) / 1_024
            told[name + "_mib"] = [round(float(mib.min()), 1), round(float(mib.max()), 1)]
            told[name + "_mib_an_hour"] = round(float(np.polyfit(at, mib, 1)[0]), 1)
        for name in ("descriptors", "Threads", "maps", "journal_bytes"):
            told[name] = [min(sample[name] for sample in warm), max(sample[name] for sample in warm)]
    return told


def parsed(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=7_200)
    parser.add_argument("--restart-seconds", type=float, default=1_200)
    parser.add_argument("--backup-seconds", type=float, default=300)
    parser.add_argument("--sample-seconds", type=float, default=60)
    parser.add_argument("--date-seconds", type=float, default=60, help="how long a date of the rows' time takes")
    parser.add_argument("--batches-a-second", type=float, default=4, help="of each way")
    parser.add_argument("--rows-max", type=int, default=200, help="rows of a batch")
    parser.add_argument("--questions-a-second", type=float, default=10)
    parser.add_argument("--live-rows", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="must be new")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> dict:
    arguments = parsed(given)
    soak = Soak(arguments)
    try:
        told = soak.run()
    finally:
        if soak.server.process and soak.server.process.poll() is None:
            soak.server.kill()
    print(json.dumps(told), flush=True)
    return told


if __name__ == "__main__":
    sys.exit(1 if main()["problems"] else 0)
