"""The disk fails below `splay serve`: what it promises then, docs/guide/capture.md says.

A library of a few lines of C stands between the server's process and the system. It makes syncs and writes of the database's files
fail for as long as a file says so, so that what is tested is the process as it is: its answers, its end, and what the next start finds.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pyarrow as pa
import pyarrow.flight as flight
import pytest
from test_server import SPLAY, Server, batch, eventually, lines

# `FAULTS` is a folder. While it holds `sync`, syncs of files fail with EIO; while it holds `write`, half of what is written to a file
# finds room, and the rest is told ENOSPC. Either goes for files whose path has the control file's content in it.
LIBRARY = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int fails(const char *fault, int fd) {
    char control[PATH_MAX], link[64], path[PATH_MAX] = "", part[PATH_MAX] = "";
    int before = errno;
    snprintf(control, sizeof control, "%s/%s", getenv("FAULTS"), fault);
    int said = open(control, O_RDONLY | O_CLOEXEC);
    if (said >= 0) {
        if (read(said, part, sizeof part - 1) < 0) part[0] = 0;
        close(said);
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if (readlink(link, path, sizeof path - 1) < 0) path[0] = 0;
    }
    errno = before;
    return part[0] && strstr(path, part) != NULL;
}

static int synced(long call, int fd) {
    if (!fails("sync", fd)) return syscall(call, fd);
    errno = EIO;
    return -1;
}

int fsync(int fd) { return synced(SYS_fsync, fd); }
int fdatasync(int fd) { return synced(SYS_fdatasync, fd); }

static __thread int has_taken_half;

ssize_t write(int fd, const void *bytes, size_t count) {
    if (!fails("write", fd)) return syscall(SYS_write, fd, bytes, count);
    has_taken_half = !has_taken_half;
    if (has_taken_half && count > 1) return syscall(SYS_write, fd, bytes, count / 2);
    errno = ENOSPC;
    return -1;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (!fails("write", fd)) return syscall(SYS_writev, fd, parts, count);
    errno = ENOSPC;
    return -1;
}
"""

SECONDS_MAX = 60
"""What happens by itself is waited for at most so long."""


class Disk:
    """A database's folder on a disk that can be told to fail, and the servers over it."""

    def __init__(self, folder: pathlib.Path, library: pathlib.Path) -> None:
        self.database, self.faults = folder / "db", folder / "faults"
        self.faults.mkdir()
        self.environment = {"LD_PRELOAD": str(library), "FAULTS": str(self.faults)}
        self.servers: list[Server] = []

    def serve(self, config: str = "") -> Server:
        server = Server(self.database, config=config, environment=self.environment)
        self.servers.append(server)
        return server.__enter__()

    def fail(self, what: str, below: str = "") -> None:
        """From now on ``sync`` or ``write`` fails, of the files below a folder of the database."""
        # Not seen before it is whole.
        made = self.faults / "made"
        made.write_text(f"{self.database}/{below}")
        made.rename(self.faults / what)

    def heal(self, what: str) -> None:
        (self.faults / what).unlink()


@pytest.fixture
def disk(tmp_path: pathlib.Path):
    if sys.platform != "linux":
        pytest.skip("libraries are put before a process' own by LD_PRELOAD, which is Linux'")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler `cc` to make the library with that lets system calls fail")
    (tmp_path / "faults.c").write_text(LIBRARY)
    library = tmp_path / "faults.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(tmp_path / "faults.c")]
    subprocess.run(command, check=True)
    failing = Disk(tmp_path, library)
    yield failing
    for server in failing.servers:
        if server.process.poll() is None:
            kill(server)
        server.process.stdout.close()
        server.log.close()


def kill(server: Server) -> None:
    server.process.kill()
    server.process.wait(SECONDS_MAX)


def ended(server: Server) -> int:
    """The exit code of a server that ends by itself."""
    return server.process.wait(SECONDS_MAX)


def arrow(first: int, rows: int) -> bytes:
    stream = pa.BufferOutputStream()
    made = batch(first, rows)
    with pa.ipc.new_stream(stream, made.schema) as writer:
        writer.write_batch(made)
    return stream.getvalue().to_pybytes()


def path_of(number: int, ack: str, table: str = "trade") -> str:
    return f"/api/v1/write?table={table}&ack={ack}&producer=feed-{table}&sequence={number}"


def append(server: Server, number: int, ack: str, table: str = "trade") -> tuple[int, dict]:
    """Sends a producer's message, of ten rows that no other has; gives the answer."""
    status, body = server.send(path_of(number, ack, table), arrow(number * 10, 10))
    return status, json.loads(body)


def takes(server: Server, number: int, ack: str = "disk", table: str = "trade") -> None:
    status, told = append(server, number, ack, table)
    assert (status, told.get("class"), told.get("duplicate")) == (200, ack, False), told


def stored(server: Server, table: str = "trade") -> list[int]:
    """The numbers of all rows, as often as they are there."""
    return [row[0] for row in server.query(f"select size from {table} order by size")]


def of(*numbers: int) -> list[int]:
    """Rows of messages."""
    return [row for number in numbers for row in range(number * 10, number * 10 + 10)]


class Begun:
    """A message that is half sent: the server waits for the rest of it, also when it stops."""

    def __init__(self, server: Server, path: str, body: bytes) -> None:
        self._connection = http.client.HTTPConnection(server.http.removeprefix("http://"), timeout=SECONDS_MAX)
        self._connection.putrequest("POST", path)
        self._connection.putheader("Content-Length", str(len(body)))
        half = len(body) // 2
        self._connection.endheaders(body[:half])
        self._rest = body[half:]

    def end(self) -> tuple[int, dict]:
        self._connection.send(self._rest)
        with contextlib.closing(self._connection), self._connection.getresponse() as answer:
            return answer.status, json.loads(answer.read())


def reason(server: Server) -> str:
    """The line in which a command that failed says why."""
    return next(line for line in server.logged().splitlines() if line.startswith("splay: "))


def test_a_failed_sync_is_no_ack_and_ends_the_server(disk: Disk) -> None:
    server = disk.serve()
    takes(server, 1, "process")
    takes(server, 2, "disk")
    begun = Begun(server, path_of(4, "memory"), arrow(40, 10))
    disk.fail("sync")
    status, told = append(server, 3, "disk")
    assert (status, told["code"], told["retryable"]) == (500, "internal", False)
    # The server ends within a moment. Whatever it still says is no welcome and no ack.
    with contextlib.suppress(OSError, http.client.HTTPException):
        while server.process.poll() is None:
            assert server.send("/ready")[0] == 503
    status, told = begun.end()
    assert status in (500, 503), told
    assert ended(server) == 1
    assert "Input/output error" in reason(server)
    assert "start again" in reason(server)

    disk.heal("sync")
    again = disk.serve()
    there = stored(again)
    assert there in (of(1, 2), of(1, 2, 3))
    assert again.send("/ready")[0] == 200
    # Who got no ack sends again, and nothing is there twice.
    status, told = append(again, 3, "disk")
    assert (status, told["duplicate"]) == (200, there == of(1, 2, 3))
    takes(again, 4)
    assert stored(again) == of(1, 2, 3, 4)


def test_a_sync_that_fails_behind_the_acks_ends_the_server(disk: Disk) -> None:
    server = disk.serve()
    disk.fail("sync", ".journal")
    # Tables are made with syncs of their own, which are none of the journal's.
    takes(server, 1, "process")
    assert ended(server) == 1
    assert "Input/output error" in reason(server)
    disk.heal("sync")
    assert stored(disk.serve()) == of(1)


def failed_start(disk: Disk) -> str:
    """What a server says that fails before it listens."""
    command = [SPLAY, "serve", str(disk.database), "--http", "127.0.0.1:0", "--flight", "off", "--line", "off"]
    environment = os.environ | disk.environment
    started = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=SECONDS_MAX)
    assert started.returncode == 1, started
    return started.stderr


@pytest.mark.parametrize("part", ["", ".journal"])
def test_a_start_on_a_disk_that_does_not_sync_says_so(disk: Disk, part: str) -> None:
    server = disk.serve()
    takes(server, 1)
    kill(server)
    disk.fail("sync", part)
    assert "Input/output error" in failed_start(disk)
    disk.heal("sync")
    assert stored(disk.serve()) == of(1)


def capture_status(server: Server) -> dict:
    return json.loads(server.send("/status")[1])["capture"]


def test_a_sync_that_fails_in_a_write_down_ends_the_server(disk: Disk) -> None:
    config = "[capture]\nlive_rows_max = 30\n"
    server = disk.serve(config)
    takes(server, 1)
    takes(server, 2)
    disk.fail("sync", "trade")
    # The third message is one too many for memory. The journal it is in isn't what fails.
    takes(server, 3)
    assert ended(server) == 1
    assert "Input/output error" in reason(server)
    disk.heal("sync")
    again = disk.serve(config)
    assert stored(again) == of(1, 2, 3)
    # What the failed write-down left is in nobody's way.
    eventually(lambda: capture_status(again)["write_downs"] > 0)
    assert stored(again) == of(1, 2, 3)
    takes(again, 4)
    kill(again)
    assert stored(disk.serve(config)) == of(1, 2, 3, 4)


def refused_for_room(server: Server, path: str, body: bytes) -> dict:
    """What a message is told on a full disk; its status and its header say that it may be sent again."""
    request = urllib.request.Request(server.http + path, data=body)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=SECONDS_MAX)
    assert refused.value.code == 503
    assert refused.value.headers["Retry-After"] == "1"
    told = json.loads(refused.value.read())
    assert told["retryable"] is True
    return told


@pytest.mark.parametrize(
    ("segment_bytes", "torn"), [(64 << 20, 0), (1, 1)], ids=["within_a_journal_file", "at_the_begin_of_each"]
)
def test_a_full_disk_refuses_rows_until_there_is_room(disk: Disk, segment_bytes: int, torn: int) -> None:
    config = f"[capture]\njournal_segment_bytes = {segment_bytes}\n"
    server = disk.serve(config)
    takes(server, 1, "disk")
    takes(server, 2, "process")
    assert server.send("/write", lines(0, 100, "line"))[0] == 204
    disk.fail("write")
    for ack in ("memory", "process", "disk"):
        assert refused_for_room(server, path_of(3, ack), arrow(30, 10))["code"] == "full"
    # A table that there isn't, and line protocol, of several tables at once.
    assert refused_for_room(server, "/api/v1/write?table=quote&ack=disk", arrow(0, 10))["code"] == "full"
    both = lines(100, 10, "line") + lines(100, 10, "other")
    assert refused_for_room(server, "/write", both)["code"] == "unavailable"
    writer, acks = flight.connect(server.flight).do_put(flight.FlightDescriptor.for_path("trade"), batch(0, 1).schema)
    writer.write_batch(batch(40, 10))
    with pytest.raises(flight.FlightUnavailableError):
        writer.done_writing()
        while acks.read() is not None:
            pass
        writer.close()
    # Nobody else suffers: neither who asks nor who watches.
    assert stored(server) == of(1, 2)
    assert stored(server, "line") == list(range(100))
    assert server.send("/ready")[0] == 200
    assert server.process.poll() is None

    disk.heal("write")
    takes(server, 3)
    assert append(server, 3, "disk")[1]["duplicate"] is True
    takes(server, 1, table="quote")
    assert server.send("/write", both)[0] == 204
    expected = {"trade": of(1, 2, 3), "quote": of(1), "line": list(range(110)), "other": list(range(100, 110))}
    assert {table: stored(server, table) for table in expected} == expected
    # Once more, and the process is killed before there is room.
    disk.fail("write")
    assert append(server, 4, "disk")[0] == 503
    kill(server)
    disk.heal("write")
    again = disk.serve(config)
    assert {table: stored(again, table) for table in expected} == expected
    takes(again, 4)
    kill(again)
    assert stored(disk.serve(config)) == of(1, 2, 3, 4)
    # Rows without room were cut off at once. Half a file's header stays until the next attempt, or else the next start.
    assert len(list(disk.database.rglob("*.torn"))) == torn


@pytest.mark.parametrize("is_patient", [True, False])
def test_lines_by_tcp_wait_for_room_also_if_their_sender_has_gone(disk: Disk, is_patient: bool) -> None:
    server = disk.serve()
    assert server.send("/write", lines(0, 10))[0] == 204
    disk.fail("write")
    host, _, port = server.said["line"].removeprefix("tcp://").rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(lines(10, 10) + lines(10, 10, "quote"))
        if is_patient:
            eventually(lambda: "waits for room" in server.logged())
            disk.heal("write")
            eventually(lambda: stored(server) == list(range(20)))
            connection.sendall(lines(20, 10))
    if is_patient:
        eventually(lambda: stored(server) == list(range(30)))
    else:
        eventually(lambda: "waits for room" in server.logged())
        disk.heal("write")
        eventually(lambda: stored(server) == list(range(20)))
    eventually(lambda: server.query("select count(*) from quote") == [[10]])
    assert "lost" not in server.logged()


@pytest.mark.parametrize("change", ["table", "column"])
def test_a_sync_that_fails_while_a_table_is_changed_ends_the_server(disk: Disk, change: str) -> None:
    server = disk.serve()
    takes(server, 1)
    disk.fail("sync", "quote" if change == "table" else "trade")
    if change == "table":
        status, told = append(server, 1, "disk", "quote")
    else:
        status, told = server.send("/write", b"trade,sym=IBM more=1 1\n")
    assert status == 500, told
    assert ended(server) == 1
    assert "Input/output error" in reason(server)
    disk.heal("sync")
    again = disk.serve()
    assert stored(again) == of(1)
    if change == "table":
        takes(again, 1, table="quote")
    else:
        assert again.send("/write", b"trade,sym=IBM more=1 1\n")[0] == 204
        assert again.query("select count(*) from trade where more = 1") == [[1]]


def test_rows_stay_in_memory_while_a_full_disk_has_no_room_for_their_files(disk: Disk) -> None:
    config = "[capture]\nlive_rows_max = 30\n"
    server = disk.serve(config)
    takes(server, 1)
    takes(server, 2)
    disk.fail("write", "trade")
    takes(server, 3)
    eventually(lambda: capture_status(server)["write_downs_failed"] > 0)
    assert stored(server) == of(1, 2, 3)
    takes(server, 4)
    disk.heal("write")
    eventually(lambda: capture_status(server)["write_downs"] > 0)
    assert stored(server) == of(1, 2, 3, 4)
    kill(server)
    assert stored(disk.serve(config)) == of(1, 2, 3, 4)


def test_a_server_that_starts_on_a_full_disk_answers_and_takes_rows_once_there_is_room(disk: Disk) -> None:
    server = disk.serve()
    takes(server, 1)
    kill(server)
    disk.fail("write")
    again = disk.serve()
    assert stored(again) == of(1)
    status, told = append(again, 2, "disk", "trade")
    assert status == 503, told
    assert stored(again) == of(1)
    disk.heal("write")
    eventually(lambda: append(again, 2, "disk", "trade")[0] == 200)
    assert stored(again) == of(1, 2)
    kill(again)
    assert stored(disk.serve()) == of(1, 2)
