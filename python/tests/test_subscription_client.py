"""The WebSocket client of `Client.subscribe` against a server of canned bytes: whatever comes, in whatever pieces, ends well."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

import splay
from splay import errors

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def frame(kind: int, payload: bytes, is_last: bool = True) -> bytes:
    first = kind | (0x80 if is_last else 0)
    length = len(payload)
    if length < 126:
        return struct.pack("!BB", first, length) + payload
    if length < 1 << 16:
        return struct.pack("!BBH", first, 126, length) + payload
    return struct.pack("!BBQ", first, 127, length) + payload


def update(sequence: int, kind: str = "delta", rows: int = 1, table: str = "trade") -> bytes:
    metadata = {"splay.table": table, "splay.sequence": str(sequence), "splay.kind": kind, "splay.more": "false"}
    schema = pa.schema([("price", pa.float64())], metadata=metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(pa.record_batch([pa.array([float(sequence)] * rows)], schema=schema))
    return sink.getvalue().to_pybytes()


def read_frame(connection: socket.socket) -> tuple[int, bytes]:
    def exactly(size: int) -> bytes:
        data = b""
        while len(data) < size:
            came = connection.recv(size - len(data))
            assert came, "the client left"
            data += came
        return data

    head = exactly(2)
    assert head[1] & 0x80, "clients mask"
    length = head[1] & 0x7F
    if length == 126:
        (length,) = struct.unpack("!H", exactly(2))
    elif length == 127:
        (length,) = struct.unpack("!Q", exactly(8))
    mask = exactly(4)
    return head[0] & 0x0F, bytes(byte ^ mask[at % 4] for at, byte in enumerate(exactly(length)))


@contextlib.contextmanager
def serving(step: Callable[[socket.socket], None], status: bytes | None = None) -> Iterator[str]:
    """A server whose only connection is upgraded, asked, told that it subscribed, and then given to `step`."""
    listener = socket.create_server(("127.0.0.1", 0))
    failed: list[BaseException] = []

    def serve() -> None:
        try:
            connection, _ = listener.accept()
            with connection:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += connection.recv(1000)
                if status is not None:
                    connection.sendall(status)
                    return
                key = next(line.split(b": ")[1] for line in head.split(b"\r\n") if line.startswith(b"Sec-WebSocket-Key"))
                accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
                connection.sendall(b"HTTP/1.1 101 x\r\nsec-websocket-accept: " + accept + b"\r\n\r\n")
                step(connection)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        thread.join(20)
        listener.close()
        if failed:
            raise failed[0]


def subscribed(connection: socket.socket) -> dict:
    kind, payload = read_frame(connection)
    assert kind == TEXT
    connection.sendall(frame(TEXT, b'{"subscribed": "trade"}'))
    return json.loads(payload)


def test_updates_come_in_any_pieces_and_credit_goes_back() -> None:
    asked: list[dict] = []

    def step(connection: socket.socket) -> None:
        asked.append(subscribed(connection))
        large = update(2, rows=20_000)
        parts = [
            frame(BINARY, update(1)),
            frame(PING, b"there?"),
            # Of three fragments, a ping between them.
            frame(BINARY, large[:10], is_last=False),
            frame(PING, b"still?"),
            frame(0, large[10:100_000], is_last=False),
            frame(0, large[100_000:]),
            frame(BINARY, update(2, "end", 0)),
        ]
        data = b"".join(parts)
        for start in range(0, len(data), 7_001):
            connection.sendall(data[start : start + 7_001])
        seen = [read_frame(connection) for _ in range(4)]
        assert [payload for kind, payload in seen if kind == PONG] == [b"there?", b"still?"]
        assert [json.loads(payload) for kind, payload in seen if kind == TEXT] == [{"credit": 1}] * 2

    with serving(step) as url, splay.connect(url).subscribe("trade", symbols=["A"], credit=3) as updates:
        given = [(one.sequence, one.kind, one.rows.num_rows) for one in updates]
        assert given == [(1, "delta", 1), (2, "delta", 20_000)]
        assert updates.next() is None, "it is over"
    assert asked == [{"table": "trade", "from": "snapshot", "slow": "snapshot", "symbols": ["A"], "credit": 3}]


def test_waiting_ends_in_the_middle_of_a_message_and_nothing_is_lost() -> None:
    go_on = threading.Event()

    def step(connection: socket.socket) -> None:
        subscribed(connection)
        whole = frame(BINARY, update(1))
        connection.sendall(whole[:1])
        assert go_on.wait(20)
        connection.sendall(whole[1:] + frame(BINARY, update(2, "end", 0)))
        with contextlib.suppress(AssertionError):
            read_frame(connection)

    with serving(step) as url, splay.connect(url).subscribe("trade") as updates:
        assert updates.next(timeout_seconds=0.01) is None
        go_on.set()
        assert [one.sequence for one in updates] == [1]


def test_what_ends_a_subscription_is_told() -> None:
    def refused(code: str) -> Callable[[socket.socket], None]:
        def step(connection: socket.socket) -> None:
            subscribed(connection)
            told = {"error": f"table: {code}", "code": code, "retryable": code == "too_slow"}
            connection.sendall(frame(TEXT, json.dumps(told).encode()) + frame(CLOSE, struct.pack("!H", 1008)))

        return step

    for code, kind in (("too_slow", errors.BusyError), ("closed", errors.BusyError), ("gone", errors.ServerError)):
        with serving(refused(code)) as url, splay.connect(url).subscribe("trade") as updates, pytest.raises(kind):
            updates.next()
    for bytes_sent in (b"", b"\x82", frame(BINARY, b"no arrow"), frame(CLOSE, b""), frame(TEXT, b"{}"), frame(BINARY, b"")):

        def step(connection: socket.socket, bytes_sent: bytes = bytes_sent) -> None:
            subscribed(connection)
            connection.sendall(bytes_sent)

        with (
            serving(step) as url,
            splay.connect(url).subscribe("trade", credit=None) as updates,
            pytest.raises(errors.UnreachableError),
        ):
            updates.next()


def test_what_is_no_websocket_is_told() -> None:
    body = json.dumps({"error": "no token", "code": "unauthorized", "retryable": False}).encode()
    head = f"HTTP/1.1 401 x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    cases = (
        (head + body, errors.AccessError),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", errors.Error),
        (b"HTTP/1.1 101 x\r\nsec-websocket-accept: wrong\r\n\r\n", errors.UnreachableError),
        (b"SSH-2.0-OpenSSH\r\n\r\n", errors.UnreachableError),
        (b"", errors.UnreachableError),
    )
    for status, kind in cases:
        with serving(lambda connection: None, status) as url, pytest.raises(kind):
            splay.connect(url).subscribe("trade")
