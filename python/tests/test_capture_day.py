"""A day of capture: rows of three tables by every way in, while others ask and follow; at the end the tables are the input, row for row.

SPLAY_DAY_ROWS says how many rows over all tables; `make capture-day` takes 50 million. Each row is a function of its number, so that
nothing has to be kept to compare with. Rows come out of order in time, and by six ways at once. Meanwhile rows are written down again
and again, somebody asks, one subscriber doesn't read until the end, and one breaks its connection off and resumes, over and over.
"""

import json
import os
import pathlib
import socket
import subprocess
import threading
import time
import urllib.request

import numpy as np
import pyarrow as pa
import pyarrow.flight as flight
import pytest
from test_server import SPLAY, Server

import splay

ROWS = int(os.environ.get("SPLAY_DAY_ROWS", 200_000))
TABLES = ("trade", "quote", "book")
PART_ROWS = 2_000 if ROWS < 10_000_000 else 20_000
"""Rows that go one way together."""

DAY_NS = 86_400_000_000_000
START_NS = 1_767_225_600_000_000_000
"""2026-01-01T00:00:00Z. The rows are those of two days."""

SYMBOLS = np.array([f"SYM{number:02}" for number in range(40)])
VENUES = np.array(["X", "Y", "Z"])


def rows_of(table: str) -> int:
    return ROWS // len(TABLES) // PART_ROWS * PART_ROWS


def mixed(numbers: np.ndarray, salt: int) -> np.ndarray:
    """Numbers without a pattern, the same each time."""
    with np.errstate(over="ignore"):
        found = (numbers.astype(np.uint64) + np.uint64(salt)) * np.uint64(0x9E3779B97F4A7C15)
        found ^= found >> np.uint64(29)
        found *= np.uint64(0xBF58476D1CE4E5B9)
    return (found >> np.uint64(33)).astype(np.int64)


def columns(table: str, ids: np.ndarray) -> dict[str, np.ndarray]:
    """Rows by their numbers. Times are all different; within each 64 rows they come in another order."""
    salt = TABLES.index(table) * 1_000
    places = ids ^ (mixed(ids >> 6, salt) & 63)
    step = 2 * DAY_NS // (rows_of(table) + 64)
    found = {"time": START_NS + places * step, "sym": mixed(ids, salt + 1) % len(SYMBOLS)}
    price = 100 + (mixed(ids, salt + 2) % 8_000) / 64
    if table == "trade":
        found |= {"venue": mixed(ids, salt + 3) % len(VENUES), "price": price, "size": mixed(ids, salt + 4) % 1_000}
    elif table == "quote":
        found |= {"bid": price, "ask": price + 1 / 64}
    else:
        found |= {f"bid{level}": price - level / 64 for level in range(3)}
        found |= {f"ask{level}": price + (level + 1) / 64 for level in range(3)}
    return found | {"id": ids}


NAMES = {"sym": SYMBOLS, "venue": VENUES}


def frame(table: str, ids: np.ndarray) -> pa.Table:
    def array(name: str, values: np.ndarray) -> pa.Array:
        if name == "time":
            return pa.array(values, pa.timestamp("ns", "UTC"))
        if name in NAMES:
            return pa.DictionaryArray.from_arrays(pa.array(values.astype(np.int32)), pa.array(NAMES[name]))
        return pa.array(values)

    return pa.table({name: array(name, values) for name, values in columns(table, ids).items()})


def texts(table: str, ids: np.ndarray) -> tuple[list[str], list[list]]:
    """Names of the columns, and their values as Python's."""
    found = columns(table, ids)
    return list(found), [(NAMES[name][values] if name in NAMES else values).tolist() for name, values in found.items()]


def line_protocol(table: str, ids: np.ndarray) -> bytes:
    names, values = texts(table, ids)
    tags = [name for name in names if name in NAMES]
    # A placeholder for each value, so that a line is one step of the interpreter.
    shape = table + "".join(f",{tag}={{{names.index(tag)}}}" for tag in tags) + " "
    fields = [name for name in names if name not in tags and name != "time"]
    shape += ",".join(f"{name}={{{names.index(name)}}}" + ("i" if name in ("id", "size") else "") for name in fields)
    shape += f" {{{names.index('time')}}}\n"
    return "".join(map(shape.format, *values)).encode()


def csv(table: str, ids: np.ndarray) -> bytes:
    names, values = texts(table, ids)
    return (",".join(names) + "\n" + "".join(",".join(map(str, row)) + "\n" for row in zip(*values))).encode()


def by_tcp(server: Server, parts) -> None:
    host, _, port = server.said["line"].removeprefix("tcp://").rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        for table, ids in parts:
            connection.sendall(line_protocol(table, ids))


def by_http(server: Server, parts) -> None:
    for table, ids in parts:
        status, body = server.send("/api/v2/write?ack=process", line_protocol(table, ids))
        assert status == 204, body


def by_csv(server: Server, parts) -> None:
    for table, ids in parts:
        status, body = server.send(f"/api/v1/write?table={table}&format=csv&ack=process", csv(table, ids))
        assert status == 200, body
        assert json.loads(body)["rows"] == len(ids), body


def by_arrow(server: Server, parts) -> None:
    client = splay.connect(server.http)
    writers = {table: client.tick(table, ack="process", batch_rows=PART_ROWS) for table in TABLES}
    for table, ids in parts:
        writers[table].append_frame(frame(table, ids))
    for writer in writers.values():
        writer.close()


def by_flight(server: Server, parts) -> None:
    client = flight.connect(server.flight)
    options = flight.FlightCallOptions(headers=[(b"splay-ack", b"process")])
    puts = {}
    for table, ids in parts:
        batch = frame(table, ids).combine_chunks().to_batches()[0]
        if table not in puts:
            puts[table] = client.do_put(flight.FlightDescriptor.for_path(table), batch.schema, options)
        writer, acks = puts[table]
        writer.write_batch(batch)
        assert json.loads(acks.read().to_pybytes())["rows"] == len(ids)
    for writer, _ in puts.values():
        writer.done_writing()
        writer.close()


WAYS = [by_tcp, by_http, by_csv, by_arrow, by_flight]


def parts_of(way: int):
    """Tables and row numbers that go one way, in order. The last way is that of this process."""
    for start in range(0, rows_of("trade"), PART_ROWS):
        for place, table in enumerate(TABLES):
            if (start // PART_ROWS + place) % (len(WAYS) + 1) == way:
                yield table, np.arange(start, start + PART_ROWS)


class Follower(threading.Thread):
    """A subscriber that counts how often it got each row."""

    def __init__(self, server: Server, table: str, sequence: int):
        super().__init__(name=f"follow-{table}", daemon=True)
        self.client = flight.connect(server.flight)
        self.table, self.sequence = table, sequence
        expected = [ids for way in range(len(WAYS)) for of, ids in parts_of(way) if of == table]
        self.expected = sum(map(len, expected))
        self.seen = np.zeros(rows_of(table), np.uint8)
        self.got = 0
        self.failure: BaseException | None = None
        self.may_read = threading.Event()
        self.connections = 0

    def run(self) -> None:
        try:
            self.may_read.wait(3_600)
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
            try:
                writer.close()
            except pa.ArrowException:
                pass

    def on_begin(self) -> None:
        pass

    def check(self) -> None:
        self.join(3_600)
        if self.failure:
            raise self.failure
        assert not self.is_alive()
        assert self.got == self.expected
        assert self.seen.max() == 1, "a row came twice"


class Reconnecting(Follower):
    """Breaks off after a few updates and resumes."""

    def run(self) -> None:
        try:
            self.may_read.wait(3_600)
            while self.got < self.expected:
                self.follow(updates=7 + self.connections % 50)
        except BaseException as failure:
            self.failure = failure


class Slow(Follower):
    """Subscribes at once, and doesn't read before it may."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.has_begun, self.may_go_on = threading.Event(), threading.Event()
        self.may_read.set()

    def on_begin(self) -> None:
        self.has_begun.set()
        self.may_go_on.wait(3_600)


class Asking(threading.Thread):
    """Asks all the time: rows never become fewer, and none is there twice."""

    def __init__(self, server: Server):
        super().__init__(name="asking", daemon=True)
        self.client = splay.connect(server.http)
        self.is_over = threading.Event()
        self.asked = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        least = dict.fromkeys(TABLES, 0)
        try:
            while not self.is_over.is_set():
                for table in TABLES:
                    found = self.client.sql(f"select count(*) as n, min(id) as first, max(id) as last from {table}").to_arrow()
                    rows = found["n"][0].as_py()
                    assert rows >= least[table], f"{table} had {least[table]} rows, and has {rows}"
                    least[table] = rows
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
        return json.load(answer)


def write_here(folder: pathlib.Path) -> None:
    """The share of this process, into the journal of a database that it has open."""
    db = splay.open(folder)
    writers = {table: db.tick(table, ack="process", batch_rows=PART_ROWS) for table in TABLES}
    for table, ids in parts_of(len(WAYS)):
        writers[table].append_frame(frame(table, ids))
    for writer in writers.values():
        writer.close()


def write_there(server: Server) -> None:
    """All other shares, at once."""
    failures = []

    def send(way: int) -> None:
        try:
            WAYS[way](server, parts_of(way))
        except BaseException as failure:
            failures.append((WAYS[way].__name__, failure))

    threads = [threading.Thread(target=send, args=(way,), name=WAYS[way].__name__) for way in range(len(WAYS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def check_table(db: "splay.Database", table: str) -> None:
    """Rows, and their order: by date, symbol and time."""
    ids = np.arange(rows_of(table))
    found = columns(table, ids)
    order = np.lexsort((found["time"], SYMBOLS[found["sym"]], (found["time"] - START_NS) // DAY_NS))
    start = 0
    for batch in db.sql(f"select {', '.join(found)} from {table}"):
        batch = pa.record_batch(batch)
        wanted = order[start : start + batch.num_rows]
        for name, values in found.items():
            column = batch.column(name)
            if name in NAMES:
                got = np.asarray(column.cast(pa.string()))
                assert (got == NAMES[name][values[wanted]]).all(), (table, name, start)
            else:
                got = column.cast(pa.int64()).to_numpy() if name == "time" else column.to_numpy()
                assert (got == values[wanted]).all(), (table, name, start)
        start += batch.num_rows
    assert start == rows_of(table)


def test_a_day_of_capture_is_its_input_row_for_row(tmp_path):
    folder, begun = tmp_path / "db", time.monotonic()

    def took(what: str) -> None:
        print(f"{time.monotonic() - begun:7.1f} s  {what}", flush=True)

    write_here(folder)
    took("rows of this process")
    config = (
        f"[capture]\nlive_rows_max = {ROWS // 40}\njournal_keep_bytes = {64 << 30}\n"
        "[limits]\nsubscription_bytes_max = 1048576\n"
    )
    with Server(folder, config=config) as server:
        sequence = status(server)["capture"]["sequence"]
        slow, reconnecting, asking = Slow(server, "book", sequence), Reconnecting(server, "quote", sequence), Asking(server)
        for thread in (slow, reconnecting, asking):
            thread.start()
        assert slow.has_begun.wait(60)
        reconnecting.may_read.set()
        write_there(server)
        took("rows by all other ways")
        # Line protocol over TCP has no answer.
        total = len(TABLES) * rows_of("trade")
        deadline = time.monotonic() + 600
        while (rows := sum(server.query(f"select count(*) from {table}")[0][0] for table in TABLES)) < total:
            assert time.monotonic() < deadline, f"{rows} of {total} rows"
            time.sleep(0.05)
        asking.check()
        took(f"all rows are seen; {asking.asked} times asked meanwhile")
        reconnecting.check()
        took(f"the subscriber that breaks off has all, by {reconnecting.connections} connections")
        slow.may_go_on.set()
        slow.check()
        took("the slow subscriber has all")
        # Each table has far more rows than may be in memory.
        deadline = time.monotonic() + 600
        while not all(table["written_at"] for table in status(server)["capture"]["tables"]):
            assert time.monotonic() < deadline, status(server)
            time.sleep(0.05)
        told = status(server)["capture"]
        assert reconnecting.connections > 2
        assert (told["quarantined"], told["rejected"], told["duplicates"], told["write_downs_failed"]) == (0, 0, 0, 0)
        measured = {table["table"]: table["quality"]["rows"] for table in told["tables"]}
        assert sum(measured.values()) == told["rows"]
        took(f"{told['write_downs']} write-downs, {told['journal_bytes'] / 1e9:.2f} GB of journal")
    rolled = subprocess.run([SPLAY, "roll", folder], capture_output=True, text=True, check=True)
    took(rolled.stdout.strip().replace("\n", "; "))
    db = splay.open(folder, threads=1)
    for table in TABLES:
        check_table(db, table)
        for partition in db.table(table).partitions:
            assert partition.segments >= 1
    took(f"{total:,} rows are those of the input")


if __name__ == "__main__":
    pytest.main([__file__, "-s"])
