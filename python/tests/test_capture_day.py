"""A day of capture: rows of three tables by every way in, while others ask and follow; at the end the tables are the input, row for row.

SPLAY_DAY_ROWS says how many rows over all tables; `make capture-day` takes 50 million. The day goes so:

1. Rows come out of order in time, and by all ways at once. They are written down again and again. Somebody asks all the time, one
   subscriber doesn't read until the end, and one breaks its connection off and resumes, over and over.
2. The server is started anew, and the dates end, so it rolls them. Somebody asks still, one subscriber goes on where it was, others begin
   at the beginning. Then rows come that are late, and it rolls the dates once more.
"""

import json
import pathlib
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.flight as flight
import pytest
from day_rows import NAMES, PARTS, ROWS, SYMBOLS, TABLE_ROWS, TABLES, ids_of, in_order, is_late
from day_ways import HERE, way_of, write_here, write_there
from test_server import SPLAY, Server

import splay
import contextlib

IN_TIME = [part for part in range(PARTS) if not is_late(part)]
LATE = [part for part in range(PARTS) if is_late(part)]


def config(roll_delay_s: int) -> str:
    """Each table gets far more rows than may be in memory. Subscribers can come back to every row."""
    return (
        f"[capture]\nlive_rows_max = {ROWS // 40}\njournal_keep_bytes = {64 << 30}\nroll_delay_s = {roll_delay_s}\n"
        "[limits]\nsubscription_bytes_max = 1048576\n"
    )


BEFORE_THE_END = config(roll_delay_s=10 * 366 * 86_400)
"""The dates haven't ended."""

AFTER_THE_END = config(roll_delay_s=1)


def numbers_of(parts: list[int]) -> np.ndarray:
    return np.concatenate([ids_of(part) for part in parts])


class Follower(threading.Thread):
    """A subscriber that counts how often it got each row."""

    def __init__(self, server: Server, table: str, sequence: int, parts: list[int]):
        super().__init__(name=f"follow-{table}", daemon=True)
        self.client = flight.connect(server.flight)
        self.table, self.sequence = table, sequence
        self.wanted, self.seen = np.zeros((2, TABLE_ROWS), np.uint8)
        self.wanted[numbers_of([part for part in parts if is_late(part) or way_of(table, part) != HERE])] = 1
        self.expected = int(self.wanted.sum(dtype=np.int64))
        self.got = 0
        self.failure: BaseException | None = None
        self.connections = 0

    def run(self) -> None:
        try:
            while self.got < self.expected:
                self.follow()
        except BaseException as failure:
            self.failure = failure

    def follow(self, updates: int | None = None) -> None:
        """Read so many updates, and break off."""
        ask = {"table": self.table, "after": self.sequence, "columns": ["id"], "slow": "catch_up"}
        self.connections += 1
        writer, reader = self.client.do_exchange(flight.FlightDescriptor.for_command(json.dumps(ask)))
        self.on_begin()
        try:
            while self.got < self.expected and updates != 0:
                chunk = reader.read_chunk()
                self.sequence = json.loads(chunk.app_metadata.to_pybytes())["sequence"]
                ids = chunk.data.column("id").to_numpy()
                np.add.at(self.seen, ids, 1)
                self.got += len(ids)
                updates = None if updates is None else updates - 1
        finally:
            reader.cancel()
            with contextlib.suppress(pa.ArrowException):
                writer.close()

    def on_begin(self) -> None:
        pass

    def check(self) -> None:
        self.join(3_600)
        if self.failure:
            raise self.failure
        assert not self.is_alive()
        assert (self.seen == self.wanted).all(), "a row came twice, or another than was sent"


class Reconnecting(Follower):
    """Breaks off after a few updates and resumes."""

    def run(self) -> None:
        try:
            while self.got < self.expected:
                self.follow(updates=3 + self.connections % 50)
        except BaseException as failure:
            self.failure = failure


class Slow(Follower):
    """Subscribes at once, and doesn't read before it may."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.has_begun, self.may_go_on = threading.Event(), threading.Event()

    def on_begin(self) -> None:
        self.has_begun.set()
        self.may_go_on.wait(3_600)


class Asking(threading.Thread):
    """Asks all the time: rows never become fewer, and none is there twice."""

    def __init__(self, server: Server, least: int):
        super().__init__(name="asking", daemon=True)
        self.client = splay.connect(server.http)
        self.least = dict.fromkeys(TABLES, least)
        self.is_over = threading.Event()
        self.asked = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.is_over.is_set():
                for table in TABLES:
                    found = self.client.sql(f"select count(*) as n, min(id) as first, max(id) as last from {table}").to_arrow()
                    rows = found["n"][0].as_py()
                    assert rows >= self.least[table], f"{table} had {self.least[table]} rows, and has {rows}"
                    self.least[table] = rows
                    one = self.client.sql(f"select id from {table} where sym = $1", [str(SYMBOLS[self.asked % 40])])
                    ids = one.to_arrow()["id"].to_numpy()
                    assert len(np.unique(ids)) == len(ids)
                    self.asked += 1
        except BaseException as failure:
            self.failure = failure

    def check(self) -> None:
        self.is_over.set()
        self.join(600)
        if self.failure:
            raise self.failure
        assert self.asked > 0


def status(server: Server) -> dict:
    with urllib.request.urlopen(server.http + "/status", timeout=60) as answer:
        return json.load(answer)["capture"]


def counts(server: Server) -> dict[str, int]:
    return {table: server.query(f"select count(*) from {table}")[0][0] for table in TABLES}


def wait_until(happened: Callable[[], bool], told: Callable[[], object]) -> None:
    deadline = time.monotonic() + 600
    while not happened():
        assert time.monotonic() < deadline, told()
        time.sleep(0.05)


def wait_for_rows(server: Server, rows: int) -> None:
    """Line protocol over TCP has no answer."""
    wait_until(lambda: min(counts(server).values()) >= rows, lambda: f"{counts(server)} of {rows} rows each")
    assert counts(server) == dict.fromkeys(TABLES, rows)


def wait_until_rolled(server: Server, tables: tuple[str, ...] = ()) -> None:
    """Until these tables, and others that had rows in memory, have been rolled, and have none."""

    def is_done() -> bool:
        told = {table["table"]: table for table in status(server)["tables"]}
        return told.keys() >= set(tables) and all(table["rolled_at"] and not table["live_rows"] for table in told.values())

    wait_until(is_done, lambda: status(server)["tables"])


def check_tables(folder: pathlib.Path, parts: list[int]) -> None:
    """Rows on disk and their order, for who opens the folder."""
    db = splay.open(folder, threads=1)
    for table in TABLES:
        wanted, start = in_order(table, numbers_of(parts)), 0
        for batch in db.sql(f"select {', '.join(wanted)} from {table}"):
            batch = pa.record_batch(batch)
            for name, values in wanted.items():
                column, values = batch.column(name), values[start : start + batch.num_rows]
                if name in NAMES:
                    got, values = np.asarray(column.cast(pa.string())), NAMES[name][values]
                else:
                    got = column.cast(pa.int64()).to_numpy() if name == "time" else column.to_numpy()
                assert len(got) == len(values) and (got == values).all(), (table, name, start)
            start += batch.num_rows
        assert start == len(wanted["id"])
        assert len(db.table(table).partitions) == 2


def check_status(server: Server) -> None:
    """Nothing was refused. Rows are measured a moment after they are acknowledged."""

    def is_measured() -> bool:
        told = status(server)
        return sum(table["quality"]["rows"] for table in told["tables"]) == told["rows"]

    wait_until(is_measured, lambda: status(server))
    told = status(server)
    assert (told["quarantined"], told["rejected"], told["duplicates"], told["write_downs_failed"]) == (0, 0, 0, 0)


class Clock:
    """Tells what was done, and when."""

    def __init__(self):
        self.begun = time.monotonic()

    def done(self, what: str) -> None:
        print(f"{time.monotonic() - self.begun:7.1f} s  {what}", flush=True)


def send_in_time(server: Server, sequence: int, clock: Clock) -> Follower:
    """Sends all rows but late ones. Returns the subscriber that breaks off."""
    slow, reconnecting = Slow(server, "book", sequence, IN_TIME), Reconnecting(server, "quote", sequence, IN_TIME)
    asking = Asking(server, least=0)
    slow.start()
    assert slow.has_begun.wait(60)
    reconnecting.start()
    asking.start()
    write_there(server)
    clock.done("rows by all other ways")
    wait_for_rows(server, len(numbers_of(IN_TIME)))
    clock.done("they are seen")
    reconnecting.check()
    assert reconnecting.connections > 2
    clock.done(f"the subscriber that breaks off has all, by {reconnecting.connections} connections")
    slow.may_go_on.set()
    slow.check()
    clock.done("the slow subscriber has all")
    wait_until(lambda: all(table["written_at"] for table in status(server)["tables"]), lambda: status(server))
    asking.check()
    check_status(server)
    clock.done(f"{status(server)['write_downs']} write-downs; {asking.asked} times asked meanwhile")
    return reconnecting


def roll_and_send_late(server: Server, sequence: int, before: Follower, clock: Clock) -> None:
    """Waits for the roll of the dates, and sends the late rows. A subscriber goes on where it was, others begin at the beginning."""
    following = [Follower(server, table, sequence, IN_TIME + LATE) for table in ("trade", "book")]
    reconnecting = Reconnecting(server, before.table, before.sequence, LATE)
    asking = Asking(server, least=len(numbers_of(IN_TIME)))
    for thread in (*following, reconnecting, asking):
        thread.start()
    wait_until_rolled(server, TABLES)
    clock.done("the dates are rolled")
    check_tables(server.folder / "db", IN_TIME)
    clock.done("their rows are those of the input")
    write_there(server, late=True)
    wait_for_rows(server, TABLE_ROWS)
    clock.done("late rows are seen")
    for thread in (reconnecting, *following, asking):
        thread.check()
    check_status(server)
    clock.done(f"subscribers have all; {asking.asked} times asked meanwhile")


def test_a_day_of_capture_is_its_input_row_for_row(tmp_path):
    folder, clock = tmp_path / "db", Clock()
    write_here(folder)
    clock.done("rows of this process")
    with Server(folder, config=BEFORE_THE_END) as server:
        sequence = status(server)["sequence"]
        reconnecting = send_in_time(server, sequence, clock)
    with Server(folder, config=AFTER_THE_END) as server:
        clock.done("a start")
        roll_and_send_late(server, sequence, reconnecting, clock)
        wait_until_rolled(server)
        clock.done(f"late rows are rolled; {status(server)['journal_bytes'] / 1e9:.2f} GB of journal")
    rolled = subprocess.run([SPLAY, "roll", folder], capture_output=True, text=True, check=True).stdout
    assert "rolled 0 rows" in rolled
    clock.done("nothing is left to roll")
    check_tables(folder, IN_TIME + LATE)
    clock.done(f"{len(TABLES) * TABLE_ROWS:,} rows are those of the input")
    with Server(folder, config=AFTER_THE_END) as server:
        assert counts(server) == dict.fromkeys(TABLES, TABLE_ROWS)
    clock.done("and are there after a start")


if __name__ == "__main__":
    pytest.main([__file__, "-s"])
