"""Stand-ins for a server: a transport in memory, and an HTTP server of a few lines."""

import collections
import contextlib
import http.server
import json
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

import splay
from splay.writer import Ack, TickWriter


class Stored:
    """Rows by table, each batch of a producer once: what a server promises."""

    def __init__(self):
        self.batches: dict[str, list[pa.Table]] = collections.defaultdict(list)
        self.numbers: dict[str, list[int]] = collections.defaultdict(list)
        self.count = 0
        self.lock = threading.Lock()

    def add(self, table: str, rows: pa.Table, ack: str, producer: str | None, sequence: int | None) -> Ack:
        with self.lock:
            seen = self.numbers[producer] if producer else []
            duplicate = bool(seen) and sequence <= seen[-1]
            if not duplicate:
                if producer:
                    seen.append(sequence)
                self.batches[table].append(rows)
                self.count += 1
            return Ack(self.count, ack, rows.num_rows, duplicate, 0)

    def table(self, name: str) -> pa.Table:
        return pa.concat_tables(self.batches[name], promote_options="permissive")

    def rows(self, name: str) -> list[dict[str, Any]]:
        return self.table(name).to_pylist()

    def column(self, table: str, name: str) -> list[Any]:
        return [row.get(name) for row in self.rows(table)]


class MemoryTransport:
    """Stores batches, and fails as it is told: each of `script` is for one call, then all succeed.

    A script has exceptions to raise before the batch is stored, and pairs ``("stored", exception)`` for an ack that is lost.
    """

    def __init__(self, stored: Stored, script: tuple = ()):
        self.stored = stored
        self.script = collections.deque(script)
        self.calls: list[tuple[str, int, int]] = []
        self.may_go = threading.Event()
        self.may_go.set()
        self.has_called = threading.Event()
        self.is_closed = False

    def write_batch(self, table: str, rows: pa.Table, ack: str, producer: str, sequence: int) -> Ack:
        self.calls.append((producer, sequence, rows.num_rows))
        self.has_called.set()
        assert self.may_go.wait(60)
        step = self.script.popleft() if self.script else None
        if isinstance(step, Exception):
            raise step
        if callable(step):
            step(rows)
        answer = self.stored.add(table, rows, ack, producer, sequence)
        if isinstance(step, tuple):
            raise step[1]
        return answer

    def close(self) -> None:
        self.is_closed = True


class MemoryDatabase:
    """Has writers, as a client does."""

    def __init__(self):
        self.stored = Stored()
        self.writers: list[TickWriter] = []

    def tick(self, table: str, **settings: Any) -> TickWriter:
        self.writers.append(TickWriter(MemoryTransport(self.stored), table, **settings))
        return self.writers[-1]


class LocalTransport(MemoryTransport):
    """Stores batches in a database of this process, which takes one writer at a time."""

    def __init__(self, db: "splay.Database", stored: Stored, turn: threading.Lock):
        super().__init__(stored)
        self.db, self.turn = db, turn

    def write_batch(self, table: str, rows: pa.Table, ack: str, producer: str, sequence: int) -> Ack:
        answer = super().write_batch(table, rows, ack, producer, sequence)
        if not answer.duplicate:
            with self.turn:
                self.db.write(table, rows, time="ts_event", symbol="symbol")
        return answer


class LocalDatabase:
    """A database of this process that has writers."""

    def __init__(self, db: "splay.Database"):
        self.db = db
        self.stored, self.turn = Stored(), threading.Lock()

    def tick(self, table: str, **settings: Any) -> TickWriter:
        return TickWriter(LocalTransport(self.db, self.stored, self.turn), table, **settings)


Step = Callable[["Handler"], bool]


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers writes as the contract says, and queries with what the server was given."""

    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_POST(self) -> None:
        self.body = self.rfile.read(int(self.headers["Content-Length"]))
        url = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(url.query))
        self.server.requests.append((url.path, self.query, dict(self.headers), self.body))
        script = self.server.script
        if script and not script.popleft()(self):
            return
        if url.path.endswith("/query"):
            self.server.answer(self)
        else:
            self.json(200, self.store())

    def store(self) -> dict[str, Any]:
        rows = pa.ipc.open_stream(self.body).read_all()
        sequence = self.query.get("sequence")
        ack = self.server.stored.add(
            self.query["table"], rows, self.query["ack"], self.query.get("producer"), sequence and int(sequence)
        )
        return {
            "sequence": ack.sequence,
            "class": ack.ack_class,
            "rows": ack.rows,
            "duplicate": ack.duplicate,
            "quarantined": ack.quarantined,
            "duplicate_rows": ack.duplicate_rows,
        }

    def json(self, status: int, told: dict[str, Any]) -> None:
        self.plain(status, json.dumps(told).encode())

    def plain(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def chunks(self, *chunks: bytes, is_whole: bool = True) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in chunks:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        if is_whole:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


def fails(status: int, text: str = "no", **told: Any) -> Step:
    """A step: the request is refused."""

    def step(handler: Handler) -> bool:
        handler.json(status, {"error": text, **told})
        return False

    return step


def breaks(handler: Handler) -> bool:
    """A step: the connection is closed before anything is stored."""
    handler.close_connection = True
    return False


def stores_and_breaks(handler: Handler) -> bool:
    """A step: the rows are stored, and the ack is lost."""
    handler.store()
    handler.close_connection = True
    return False


class Server(http.server.ThreadingHTTPServer):
    """A server on a free port of the loopback address."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.stored = Stored()
        self.script: collections.deque[Step] = collections.deque()
        self.requests: list[tuple[str, dict[str, str], dict[str, str], bytes]] = []
        self.answer: Step = lambda handler: False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    """A server that runs."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
