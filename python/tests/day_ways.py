"""The ways in of a simulated day, and which part of the rows goes by which."""

import contextlib
import gzip
import json
import pathlib
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow.flight as flight
from day_rows import LATE_EVERY, PART_ROWS, PARTS, TABLES, csv, frame, header, ids_of, is_late, line_protocol, ndjson
from test_server import SPLAY, Server

import splay

Parts = Iterator[tuple[str, np.ndarray]]
"""Tables, and numbers of their rows."""

Way = Callable[[Server, Parts], None]


def by_tcp(server: Server, parts: Parts) -> None:
    host, _, port = server.said["line"].removeprefix("tcp://").rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        for table, ids in parts:
            connection.sendall(line_protocol(table, ids))


def by_influx_2(server: Server, parts: Parts) -> None:
    for table, ids in parts:
        status, body = server.send("/api/v2/write?ack=process", line_protocol(table, ids))
        assert status == 204, body


def by_influx_1_in_gzip(server: Server, parts: Parts) -> None:
    for table, ids in parts:
        packed = gzip.compress(line_protocol(table, ids), compresslevel=1)
        status, body = server.send("/write?db=day&precision=n&ack=process", packed, content_encoding="gzip")
        assert status == 204, body


def by_csv(server: Server, parts: Parts) -> None:
    for table, ids in parts:
        post_text(server, table, "csv", header(table) + csv(table, ids), len(ids))


def by_ndjson(server: Server, parts: Parts) -> None:
    for table, ids in parts:
        post_text(server, table, "ndjson", ndjson(table, ids), len(ids))


def post_text(server: Server, table: str, form: str, text: bytes, rows: int) -> None:
    status, body = server.send(f"/api/v1/write?table={table}&format={form}&ack=process", text)
    assert status == 200, body
    told = json.loads(body)
    assert (told["rows"], told["refused"]) == (rows, 0), body


def by_tick_write_of_csv(server: Server, parts: Parts) -> None:
    tick_write(server, "csv", header, ((table, csv(table, ids), len(ids)) for table, ids in parts))


def by_tick_write_of_ndjson(server: Server, parts: Parts) -> None:
    tick_write(server, "ndjson", lambda _: b"", ((table, ndjson(table, ids), len(ids)) for table, ids in parts))


def tick_write(server: Server, form: str, begin: Callable[[str], bytes], parts: Iterator[tuple[str, bytes, int]]) -> None:
    """Texts with the number of their rows on standard input of `splay tick write`, of which each table has one that runs all the time."""
    running: dict[str, subprocess.Popen] = {}
    rows = dict.fromkeys(TABLES, 0)
    with contextlib.ExitStack() as stack:
        for table, text, count in parts:
            if table not in running:
                command = [SPLAY, "tick", "write", server.http, table, "--format", form, "--ack", "process"]
                process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                running[table] = stack.enter_context(process)
                process.stdin.write(begin(table))
            running[table].stdin.write(text)
            rows[table] += count
        for table, process in running.items():
            said, _ = process.communicate()
            assert process.returncode == 0, said
            assert said.decode().strip() == f"stored {rows[table]:,} rows in {table} (process), refused 0 lines"


def by_arrow(server: Server, parts: Parts) -> None:
    append(splay.connect(server.http), parts)


def by_flight(server: Server, parts: Parts) -> None:
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


def append(place: "splay.Database | splay.remote.Client", parts: Parts) -> None:
    """Frames, to a server or into the journal of a database that this process has open."""
    writers = {table: place.tick(table, ack="process", batch_rows=PART_ROWS) for table in TABLES}
    for table, ids in parts:
        writers[table].append_frame(frame(table, ids))
    for writer in writers.values():
        writer.close()


HERE = None
"""The way of this process, before there is a server."""

# Half of the parts go as text, for which Python takes longest.
TURNS: list[Way | None] = [
    by_tcp,
    by_arrow,
    by_influx_2,
    by_flight,
    by_tick_write_of_csv,
    HERE,
    by_influx_1_in_gzip,
    by_arrow,
    by_csv,
    by_flight,
    by_tick_write_of_ndjson,
    HERE,
    by_ndjson,
    HERE,
]
WAYS: list[Way] = list(dict.fromkeys(way for way in TURNS if way))


def way_of(table: str, part: int) -> Way | None:
    """The way of a part. One that is late comes when there is a server."""
    place = TABLES.index(table)
    if is_late(part):
        return TURNS[(part // LATE_EVERY * len(TABLES) + place) % len(TURNS)] or by_flight
    return TURNS[(part + place) % len(TURNS)]


def parts_of(way: Way | None, late: bool) -> Parts:
    """What goes one way, in the order of its numbers: in time, or late."""
    for part in range(PARTS):
        for table in TABLES:
            if is_late(part) == late and way_of(table, part) == way:
                yield table, ids_of(part)


def write_here(folder: pathlib.Path) -> None:
    """The share of this process."""
    append(splay.open(folder), parts_of(HERE, late=False))


def write_there(server: Server, late: bool = False) -> None:
    """All other shares, at once."""
    failures = []

    def send(way: Way) -> None:
        try:
            way(server, parts_of(way, late))
        except BaseException as failure:
            failures.append((way.__name__, failure))

    threads = [threading.Thread(target=send, args=(way,), name=way.__name__) for way in WAYS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
